"""Tables as people have them, through the command that `suggest` prints: they end, with an answer.

Rows repeated 10 to 1,000 times, columns of three scales, integer codes, one dominating column: the
kinds of `bench/hard_kinds.py`, small.
"""

import importlib.util
import json
import shlex
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier

from mustlink_io.commands.cli import run

KINDS = Path(__file__).parents[2] / "bench" / "hard_kinds.py"
TABLES = (
    "rows repeated 10 times",
    "rows repeated 1,000 times",
    "pixels",
    "connections",
    "three scales",
    "one dominating column",
    "integer codes",
)
# An answer may be a little behind 1-NN, which needs no graph: five labels a class decide little.
_BEHIND = 0.1


@pytest.fixture(scope="module")
def kinds():
    spec = importlib.util.spec_from_file_location("hard_kinds", KINDS)
    module = importlib.util.module_from_spec(spec)
    sys.modules["hard_kinds"] = module
    spec.loader.exec_module(module)
    return module


def told(capsys, *words):
    assert run([*map(str, words), "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


@pytest.mark.thorough
@pytest.mark.parametrize("name", TABLES)
def test_what_is_suggested_ends_with_an_answer(name, kinds, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = kinds.KINDS[name](np.random.default_rng(1), 2500)
    with h5py.File("table.h5", "w") as file:
        file["points"], file["labels"] = made.data, made.labels
    asked = ("table.h5:/points", "-k", made.k, "--labels", "table.h5:/labels")
    command = shlex.split(told(capsys, "suggest", *asked)["command"])
    told(capsys, *command[1:], "--quiet")
    with h5py.File("out.h5") as file:
        labels = file["labels"][()]
        assert all(np.isfinite(file[name][()]).all() for name in file if "embedding" in name)
    _, kind = np.unique(made.data, axis=0, return_inverse=True)
    for k in np.flatnonzero(np.bincount(kind) > 1)[:50]:
        assert np.unique(labels[kind == k]).size == 1  # equal rows are answered alike
    given = made.labels >= 0
    nearest = KNeighborsClassifier(1).fit(made.data[given], made.labels[given])
    theirs = adjusted_rand_score(made.truth, nearest.predict(made.data))
    assert adjusted_rand_score(made.truth, labels) > theirs - _BEHIND
