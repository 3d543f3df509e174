"""Ranks: the choices of the same call in memory."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mustlink as ml
from homes import GRAPHS, alike, choices, graph
from mustlink_io.jobs.mpi_launch import environment, launcher

pytest.importorskip("petsc4py", reason="PETSc for Python is not installed: make test-scale")
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


@pytest.mark.parametrize("variant", ["luxburg", "ng"])
@pytest.mark.parametrize("name", GRAPHS)
def test_ncut_decides_alike_in_memory_and_on_ranks(runs, name, variant):
    W, _, k = graph(name)
    home = ml.NCut(k, affinity="precomputed", random_state=0, variant=variant).fit(W)
    (labels, report), (others, other) = (one[name, variant] for one in runs)
    assert choices(report) == choices(home.report_)
    assert alike(W, home.labels_, labels) > 0.95
    np.testing.assert_array_equal(labels, others)
    assert choices(report) == choices(other)
