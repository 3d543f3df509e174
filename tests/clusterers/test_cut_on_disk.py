"""NCut of a graph that stays on disk, beside the same fit in memory."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from cases import planted_graph, random_graph
from mustlink.context.method_cost import FitInput
from mustlink.core.resources import Budget
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink.graph import Graph
from mustlink.graph.disk_graph import block_of_rows
from mustlink.linear.multigrid import disk_grids
from mustlink.space.disk import DiskSpace
from on_disk import stored


@pytest.fixture
def rng():
    return np.random.default_rng(2)


def fitted(graph, k, **how):
    return ml.NCut(k, affinity="precomputed", random_state=0, **how).fit(graph)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("variant", ["auto", "luxburg", "ng"])
@pytest.mark.parametrize("tau", [0, 0.3])
def test_the_same_clusters_as_in_memory(rng, on_disk, variant, tau):
    W, _ = planted_graph(rng, 400, 4, inside=0.2, across=0.01)
    W = sp.csr_matrix(W)
    how = {"variant": variant, "regularization": tau, "tol": 1e-5}
    home, there = fitted(W, 4, **how), fitted(stored(W, 500), 4, **how)
    np.testing.assert_allclose(there.eigenvalues_, home.eigenvalues_, atol=1e-5)
    assert adjusted_rand_score(home.labels_, there.labels_) == 1.0
    assert there.report_.method.endswith("on disk")
    rows = there.embedding_[10:20]
    assert rows.shape == (10, 4)
    for asked in ("confidence_", "membership_"):
        with pytest.raises(InputError, match="confidence: the graph of this fit is on disk"):
            getattr(there, asked)
    with pytest.raises(InputError, match="save: the graph of this fit is on disk"):
        there.save("m.h5")
    if tau or variant == "ng":
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    mine, inside = there.labels_, there._cut_on_disk.links
    E = np.eye(4)[mine]
    np.testing.assert_allclose(inside, E.T @ W.toarray() @ E, rtol=1e-5)


def test_without_grids_filters_find_the_same(rng, on_disk, monkeypatch):
    W, _ = planted_graph(rng, 400, 4, inside=0.2, across=0.02)
    graph = stored(W)
    with_grids = fitted(graph, 4, regularization=0)
    monkeypatch.setattr(disk_grids, "_WIDE", 0.0)
    monkeypatch.setattr(disk_grids, "_FEW", 0)
    without = fitted(graph, 4, regularization=0)
    assert without.report_.convergence.solver == "chebyshev"
    assert any("filters" in note for note in without.report_.notes)
    np.testing.assert_allclose(without.eigenvalues_, with_grids.eigenvalues_, atol=1e-6)
    assert adjusted_rand_score(without.labels_, with_grids.labels_) == 1.0


def test_components_and_isolated_nodes(rng, on_disk):
    W = random_graph(rng, 300, 3, isolated=20)
    with pytest.warns(DoubtfulResultWarning, match="whole components"):
        found = fitted(stored(W), 3)
    home = Graph.from_affinity(W)
    alone = home.degrees == 0
    assert (found.labels_[alone] == -1).all()
    assert adjusted_rand_score(home.components[~alone], found.labels_[~alone]) == 1.0
    assert any("20 nodes have no edge" in note for note in found.report_.notes)
    assert found.report_.extra["n_components"] == home.n_components
    np.testing.assert_array_equal(found.eigenvalues_, 0)
    assert found.report_.convergence.iterations == 0
    assert any("3 connected components" in note for note in found.report_.notes)
    assert any("whole components" in told for told in found.report_.warnings)
    with pytest.raises(InputError, match="only 280 of 300 nodes"):
        fitted(stored(W), 290)


@pytest.mark.thorough
def test_regularisation_is_decided_as_in_memory(rng, on_disk):
    """Two dense groups with long chains that hang on them by one edge each."""
    W, _ = planted_graph(rng, 300, 2, inside=0.2, across=0.02)
    W = sp.lil_matrix(sp.block_diag([W, sp.csr_matrix((120, 120))]))
    for first in range(300, 420, 30):
        host = rng.integers(300)
        for at in range(first, first + 30):
            W[at, host] = W[host, at] = 1.0
            host = at
    W = sp.csr_matrix(W)
    home, there = fitted(W, 2), fitted(stored(W), 2)
    (mine, why), (other, _) = (one.report_.choices["regularization"] for one in (there, home))
    assert mine == other > 0
    assert "nats" in why
    assert len(there.report_.extra["regularizations_tried"]) == 4
    assert adjusted_rand_score(home.labels_[:300], there.labels_[:300]) > 0.95


def test_a_graph_that_fits_is_read_whole(rng):
    W = random_graph(rng, 80, 2)
    found = fitted(stored(W, types=(np.int64, np.int32, np.float64)), 2, memory="2GB")
    assert isinstance(found.graph_, Graph)
    assert np.array_equal(found.labels_, fitted(W, 2, memory="2GB").labels_)
    known = np.where(np.arange(80) < 8, found.labels_, -1)
    lp = ml.LLGC(affinity="precomputed").fit(stored(W), known)
    assert adjusted_rand_score(found.labels_, lp.transduction_) == 1.0


@pytest.mark.thorough
def test_labels_do_not_depend_on_the_memory(rng, on_disk, monkeypatch):
    W, _ = planted_graph(rng, 400, 4, inside=0.2, across=0.02)
    found = [fitted(stored(W, entries), 4, memory=memory) for entries, memory in
             ((300, None), (10**6, "1GB"))]  # fmt: skip
    assert adjusted_rand_score(*(one.labels_ for one in found)) == 1.0
    np.testing.assert_allclose(*(one.eigenvalues_ for one in found), atol=1e-6)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("method", ["NCut", "SRCP"])
def test_labels_do_not_depend_on_what_memory_is_left(rng, on_disk, monkeypatch, method):
    """What the process holds differs where kernels were compiled: grids follow from the limit."""
    W, group = planted_graph(rng, 200, 2, inside=0.2, across=0.02)
    ends = rng.permutation(200)[:40].reshape(20, 2)
    belief = np.where(group[ends[:, 0]] == group[ends[:, 1]], 1.0, -1.0)
    known = ml.Constraints.from_pairs(ends, belief, n_nodes=200)
    how = {"constraints": known} if method == "SRCP" else {}
    found = []
    for left in (10**4, 10**8, 10**10):
        monkeypatch.setattr(Budget, "left", lambda _, left=left: left)
        made = getattr(ml, method)(2, affinity="precomputed", random_state=0, memory="1GB")
        found.append(made.fit(stored(W, 500), **how))
    assert found[0].report_.convergence.solver == "lobpcg"
    for other in found[1:]:
        assert np.array_equal(found[0].labels_, other.labels_)
        assert np.array_equal(found[0].embedding_[:], other.embedding_[:])


def test_when_a_graph_stays_on_disk(rng):
    graph = stored(random_graph(rng, 80))
    made = ml.NCut(2, affinity="precomputed")
    least = FitInput(80, graph.n_entries).at_home(made.cost())
    assert not made._stays_on_disk(graph)
    assert not made.set_params(memory=least)._stays_on_disk(graph)
    assert made.set_params(memory=least - 1)._stays_on_disk(graph)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("tau", [0, 0.3])
@pytest.mark.parametrize("variant", ["auto", "luxburg", "ng"])
def test_nodes_that_stand_for_several(rng, on_disk, tau, variant):
    """Equal rows are one node: the cut is that of the graph in memory, for every row."""
    W, _ = planted_graph(rng, 300, 3, inside=0.2, across=0.02)
    copies = rng.integers(0, 4, 300).astype(float)
    rows = rng.permutation(np.r_[np.arange(300), rng.integers(0, 300, 200)])
    home = replace(Graph.from_affinity(W).weighing(copies), rows=rows)
    there = stored(home.affinity, copies=copies, rows=rows)
    how = {"variant": variant, "regularization": tau, "tol": 1e-5}
    wanted, found = fitted(home, 3, **how), fitted(there, 3, **how)
    np.testing.assert_allclose(found.eigenvalues_, wanted.eigenvalues_, atol=1e-5)
    assert found.labels_.shape == (500,)
    assert adjusted_rand_score(wanted.labels_, found.labels_) == 1.0
    assert found.report_.n_nodes == wanted.report_.n_nodes == 500
    assert found.embedding_.shape == (500, 3)
    sizes = np.bincount(found._cut_on_disk.clusters[copies > 0], copies[copies > 0], 3)
    np.testing.assert_allclose(found._cut_on_disk.sums.sizes, sizes)
    np.testing.assert_array_equal(found.labels_[copies[rows] == 0], -1)
    grams = [E @ E.T for E in (found.embedding_[:], wanted.embedding_)]  # however vectors turn
    np.testing.assert_allclose(*grams, atol=1e-3 * grams[0].max())


@pytest.mark.parametrize("room", [1, 5000, 10**9])
def test_rows_come_back_in_the_order_of_the_caller(rng, room):
    rows = rng.permutation(700)
    graph = stored(sp.eye(700, format="csr"), rows=rows)
    X = DiskSpace(700).place(rng.standard_normal((700, 5)).astype(np.float32))
    np.testing.assert_array_equal(block_of_rows(graph, X, None, room)[:], X[:][rows])
    np.testing.assert_array_equal(graph.labels_of_rows(np.arange(700)), rows)
