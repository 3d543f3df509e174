"""Graphs of 10⁵ to 10⁶ nodes by `--ranks`, against each other and against one process.

`pytest -m slow tests/scale` in the environment of `make test-scale`: some hours.
"""

import subprocess
import sys

import h5py
import numpy as np
import pytest
from large_graphs import CLUSTERS, made
from sklearn.metrics import adjusted_rand_score

from mustlink_io.formats.matrices import graph_content
from mustlink_io.hdf5 import writing

pytest.importorskip("petsc4py", reason="PETSc for Python is not installed: make test-scale")
pytestmark = pytest.mark.slow
RANKS = (1, 2, 3)
USUAL = "--regularization 0 --max-iter 1000 --seed 3 --quiet"
# The subspace may end where eigenvalues are close: what is projected on it is less sharp than it.
SMOOTH = "--tol 1e-10 --labels few.npy --subspace {subspace} --init k-means++"
SPREAD = "--labels few.npy --solver diffusion --power 1 --variant luxburg"
SPREAD += " --eigen-tol 1e-8 --max-iter 1000 --seed 3 --quiet"
# What is said both here and there; a method that runs on ranks needs a line.
METHODS = {
    "ncut": "--tol 1e-8",
    "csp": f"{SMOOTH} --beta {{beta}} --assign kmeans",
    "sssc": f"{SMOOTH} --gamma 0.2 --balanced --assign sphere",
    "ap": f"{SMOOTH} --noise 0.5 --assign kmeans",
    "fast-ge": f"{SMOOTH} --assign kmeans",
    "srcp": SPREAD,
    "e2cp": SPREAD,
}
LABELS = {"poisson": "", "gfhf": "", "llgc": "--alpha 0.99 --no-refine", "tik-reg": ""}
SUBSPACE = {"partition": 10}  # beyond it eigenvalues are as near each other as in random graphs
BETA = {"many_parts": -1.0}  # labels of few components allow no positive one
# One process leaves small products out of its search for new edges, of which there are many here;
# parts leave out smaller ones, and find a few edges more.
SEARCHED = {("partition", "srcp"): 5e-6, ("partition", "e2cp"): 5e-6}
# Of a thousand equal null vectors a subspace of 24 has some, and which is nobody's choice.
LEFT_OUT = {("many_parts", name) for name in ("csp", "sssc", "ap", "fast-ge")}


@pytest.fixture(scope="module", params=CLUSTERS)
def graph(request, tmp_path_factory):
    """Name of a graph, and a folder with it and labels of 300 nodes."""
    folder = tmp_path_factory.mktemp(request.param)
    W, group = made(request.param)
    writing.write(folder / "graph.h5", graph_content(W))
    rng, few = np.random.default_rng(5), np.full(group.size, -1)
    known = rng.choice(np.flatnonzero(group >= 0), 300, replace=False)
    few[known] = group[known]
    np.save(folder / "few.npy", few)
    return request.param, folder, group


def found(folder, line, output, what="eigenvalues"):
    """Labels and something else of a run."""
    command = [sys.executable, "-m", "mustlink_io", *line.split()]
    pipes = {"capture_output": True, "text": True, "timeout": 1200}
    said = subprocess.run([*command, "-o", output], cwd=folder, check=False, **pipes)
    assert said.returncode == 0, said.stderr
    with h5py.File(folder / output) as file:
        result = file["labels"][:], file[what][:]
    (folder / output).unlink()
    return result


@pytest.mark.parametrize("method", METHODS)
def test_ranks_and_one_process_agree(graph, method):
    name, folder, group = graph
    if (name, method) in LEFT_OUT:
        pytest.skip("vectors of the same eigenvalue")
    how = METHODS[method].format(beta=BETA.get(name, 0.3), subspace=SUBSPACE.get(name, 24))
    how = how if how == SPREAD else f"{how} {USUAL}"
    line = f"cluster graph.h5 -k {CLUSTERS[name]} -m {method} {how}"
    labels, values = found(folder, line, "home.h5")
    there = [found(folder, f"{line} --ranks {ranks}", "there.h5") for ranks in RANKS]
    for other, its in there[1:]:
        assert np.array_equal(other, there[0][0])
        assert np.array_equal(its, there[0][1])
    near = SEARCHED.get((name, method), 1e-8)
    np.testing.assert_allclose(there[0][1], values, rtol=1e-8, atol=near)
    assert np.array_equal(labels < 0, there[0][0] < 0)
    assert adjusted_rand_score(labels, there[0][0]) >= 0.9999
    if method == "ncut" and name != "many_parts":
        assert adjusted_rand_score(group, labels) > 0.9


@pytest.mark.parametrize("method", LABELS)
def test_labels_are_spread_alike(graph, method):
    _, folder, _ = graph
    line = f"propagate graph.h5 --labels few.npy -m {method} {LABELS[method]} --quiet"
    line += " --tol 1e-8 --max-iter 2000"
    labels, shares = found(folder, line, "home.h5", "label_distributions")
    there = [
        found(folder, f"{line} --ranks {ranks}", "there.h5", "label_distributions")
        for ranks in RANKS
    ]
    for other, its in there[1:]:
        assert np.array_equal(other, there[0][0])
        assert np.array_equal(its, there[0][1])
    np.testing.assert_allclose(there[0][1], shares, rtol=0, atol=1e-6)
    assert np.array_equal(labels < 0, there[0][0] < 0)
    assert adjusted_rand_score(labels, there[0][0]) >= 0.9999
