"""scikit-learn below the estimators: imported with the first instance, and then all of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mustlink.core.names import ESTIMATORS

PATHS = os.pathsep.join(str(Path(__file__).parents[2] / home) for home in ("engine", "io"))
DESCRIBE = """
import inspect, json, sys
import mustlink
from mustlink.core.names import ESTIMATORS
kinds = [getattr(mustlink, name) for name in [*ESTIMATORS, "Auto", "RegionCut"]]
if "late" in sys.argv:
    class Own(mustlink.CSP):
        def predict(self, X, more=None):
            pass
    assert "sklearn" not in sys.modules
    kinds[0]()
    assert hasattr(Own, "set_predict_request")
def described(kind):
    own = {name: inspect.unwrap(one).__qualname__ for name, one in vars(kind).items()
           if inspect.isfunction(one)}
    tags = kind().__sklearn_tags__()
    names = [n for n in dir(kind) if hasattr(kind, n)]
    return [base.__name__ for base in kind.__mro__], names, own, repr(tags), repr(kind())
print(json.dumps({kind.__name__: described(kind) for kind in kinds}))
"""


def python(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.thorough
def test_estimators_are_the_same_whenever_scikit_learn_was_imported():
    late = json.loads(python(DESCRIBE, "late"))
    early = json.loads(python("import sklearn.base\n" + DESCRIBE))
    assert set(late) == {*ESTIMATORS, "Auto", "RegionCut"}
    for name, one in late.items():
        assert one == early[name], name
        assert one[0].count("BaseEstimator") == 2  # that of the classes, and scikit-learn's below


@pytest.mark.thorough
def test_two_threads_make_the_first_instances():
    python("""
import threading
from mustlink import CSP, NCut
made, ready = [], threading.Barrier(8)
def make(kind):
    ready.wait()
    made.append(kind(n_clusters=3))
threads = [threading.Thread(target=make, args=(kind,)) for kind in (CSP, NCut) * 4]
for one in threads: one.start()
for one in threads: one.join()
from sklearn.base import BaseEstimator, clone
assert len(made) == 8 and all(isinstance(one, BaseEstimator) for one in made)
assert all(clone(one).get_params() == one.get_params() for one in made)
assert made[0].set_output(transform="pandas") is made[0]
""")


@pytest.mark.thorough
def test_unpickling_makes_first_instances_too():
    made = python("import mustlink, pickle; print(pickle.dumps(mustlink.CSP(n_clusters=5)).hex())")
    code = """
import pickle, sys
made = pickle.loads(bytes.fromhex(sys.argv[1]))
from sklearn.base import BaseEstimator
assert isinstance(made, BaseEstimator) and made.get_params()["n_clusters"] == 5
"""
    python(code, made.strip())


HEAVY = ("numpy", "numba", "scipy", "sklearn", "h5py", "pandas", "matplotlib", "rich")
UNUSED = ("sklearn", "pandas", "pyarrow", "scipy.optimize", "scipy.stats", "scipy.special", "h5py")
RUN = "from mustlink_io.commands.cli import run; run({})"


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import mustlink, mustlink_io.commands.cli", HEAVY),
        (RUN.format("['--help']"), HEAVY),
        (RUN.format("['graph', '--help']"), HEAVY),
        (RUN.format("['--version']"), HEAVY),
        (RUN.format("['plan', '--help']"), UNUSED),
        ("from mustlink import CSP, Poisson, knn_graph", (*UNUSED, "pyamg", "mustlink.lyapunov")),
        ("from mustlink import *", ("h5py", "pyamg", "pynndescent")),
    ],
)
def test_modules_that_are_not_loaded(code, absent):
    asked = f"\nimport sys; print([name for name in {absent!r} if name in sys.modules])"
    assert python(code + asked).splitlines()[-1] == "[]"


_WITHOUT = """
import sys
from mustlink.core.state import unbound
import mustlink as ml
from copy import copy
made = unbound(ml.CSP, n_clusters=3, beta=0.1)
other = copy(made)
found = other.get_params()
assert "sklearn" not in sys.modules
assert type(other) is ml.CSP and other is not made
assert made.set_params(n_clusters=4) is made
assert "sklearn" not in sys.modules
try:
    made.set_params(n_cluster=5)
except ValueError as error:
    assert "Invalid parameter 'n_cluster'" in str(error)
assert "sklearn" in sys.modules
assert (made.n_clusters, other.n_clusters) == (4, 3)
assert found == ml.CSP(n_clusters=3, beta=0.1).get_params() == other.get_params()
assert copy(other).get_params() == found
"""


@pytest.mark.thorough
def test_what_is_read_from_a_file_needs_no_scikit_learn_also_when_it_is_set():
    python(_WITHOUT)
