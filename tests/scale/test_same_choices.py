"""Ranks: the choices of the same call in memory."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import mustlink as ml
from homes import (
    CONSTRAINED_ON_RANKS,
    CUT_ON_RANKS,
    METHODS,
    SPREAD_ON_RANKS,
    SPREADING,
    alike,
    choices,
    graph,
    told,
)
from mustlink_io.jobs.on_ranks import environment, launcher

pytest.importorskip("petsc4py", reason="PETSc for Python is not installed: make test-scale")
pytestmark = pytest.mark.usefixtures("few_runs")
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Labels and reports of one and of two ranks."""
    folder, found = tmp_path_factory.mktemp("homes"), []
    for ranks in (1, 2):
        out = folder / f"{ranks}.pickle"
        command = [*launcher(ranks), sys.executable, str(HERE / "homes_worker.py"), str(out)]
        subprocess.run(command, env=environment(ranks), check=True, timeout=300)
        found.append(pickle.loads(out.read_bytes()))
    return found


@pytest.mark.parametrize(("name", "variant"), CUT_ON_RANKS)
def test_ncut_decides_alike_in_memory_and_on_ranks(runs, name, variant):
    W, _, k = graph(name)
    home = ml.NCut(k, affinity="precomputed", random_state=0, variant=variant).fit(W)
    (labels, report), (others, other) = (one[name, variant] for one in runs)
    assert choices(report) == choices(home.report_)
    assert alike(W, home.labels_, labels) > 0.95
    np.testing.assert_array_equal(labels, others)
    assert choices(report) == choices(other)


@pytest.mark.parametrize(("name", "method", "how"), CONSTRAINED_ON_RANKS)
def test_constrained_methods_decide_alike_in_memory_and_on_ranks(runs, name, method, how):
    W, y, k = graph(name)
    home = METHODS[method](k, affinity="precomputed", random_state=0)
    home.fit(W, constraints=told(y, k, how))
    (labels, report), (others, other) = (one[name, method, how] for one in runs)
    np.testing.assert_array_equal(labels, others)
    assert choices(report) == choices(other)
    left = [note for note in report.notes if note.startswith("not tried on ranks")]
    assert len(left) <= 1
    mine, there = choices(report), choices(home.report_)
    assert mine["regularization"] == there["regularization"]
    if not left and how != "nothing":
        assert {**mine, "notes": 0, "warnings": 0} == {**there, "notes": 0, "warnings": 0}
    if mine["subspace"] == there["subspace"]:
        assert alike(W, home.labels_, labels) > 0.9


@pytest.mark.parametrize(("name", "method"), SPREAD_ON_RANKS)
def test_propagators_decide_alike_in_memory_and_on_ranks(runs, name, method):
    W, y, k = graph(name)
    home = clone(SPREADING[method]).set_params(affinity="precomputed", random_state=0)
    home.fit(W, told(y, k, "labels").labels)
    (labels, report), (others, other) = (one[name, method] for one in runs)
    np.testing.assert_array_equal(labels, others)
    assert choices(report) == choices(other) == choices(home.report_)
    assert np.mean(home.labels_ == labels) > 0.99
