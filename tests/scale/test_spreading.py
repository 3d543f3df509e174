"""Labels spread on 1 and 3 ranks against each other, bit by bit, and against one process."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from graphs import CLUSTERS, graphs
from spreading import BELIEVED, ROUND, WAYS, drawn_round, labels, prior, spread_by

from mustlink_io.jobs.on_ranks import environment, launcher

pytest.importorskip("petsc4py", reason="PETSc for Python is not installed: make test-scale")
HERE = Path(__file__).parent
WEIGHTS = dict(graphs())
RANKS = (1, 3)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What the worker found, by number of ranks."""
    folder, found = tmp_path_factory.mktemp("spread"), {}
    for ranks in RANKS:
        out = folder / f"{ranks}.npz"
        command = [*launcher(ranks), sys.executable, str(HERE / "spread_worker.py"), out]
        subprocess.run(command, env=environment(ranks), check=True, timeout=300)
        found[ranks] = dict(np.load(out))
    return found


def test_the_same_bits_on_any_number_of_ranks(runs):
    for ranks in RANKS[1:]:
        assert runs[ranks].keys() == runs[1].keys()
        for key, value in runs[1].items():
            assert np.array_equal(runs[ranks][key], value), (ranks, key)


@pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning")
@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("way", WAYS)
def test_the_same_answers_as_in_one_process(runs, name, way):
    W, y = WEIGHTS[name], labels(WEIGHTS[name], name)
    for believed in ("", " believed") if way in BELIEVED else ("",):
        given = dict(zip(("prior", "belief"), prior(W), strict=True)) if believed else {}
        home = spread_by(way).fit(W, y, **given)
        key = f"{name} {way}{believed}"
        assert runs[3][f"{key} reached"]
        assert runs[3][f"{key} alpha"] == home.report_.choices.get("alpha", 0.0)
        np.testing.assert_allclose(runs[3][f"{key} P"], home.label_distributions_, atol=1e-6)
        assert np.array_equal(runs[3][f"{key} labels"], home.labels_)


@pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning")
@pytest.mark.parametrize("way", sorted(ROUND))
def test_the_same_labels_are_spread_where_a_class_was_drawn_round(runs, way):
    left_out = 0
    for name in CLUSTERS:
        home = spread_by(way).fit(WEIGHTS[name], drawn_round(WEIGHTS[name], name))
        left_out += any("not spread" in note for note in home.report_.notes)
        assert np.array_equal(runs[3][f"{name} {way} round"], home.labels_)
    assert left_out
