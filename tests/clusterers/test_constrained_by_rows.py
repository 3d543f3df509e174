"""CSP, SSSC, FastGE and constrained AP of a graph that stays on disk, beside the fits in memory."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
import oracles
from cases import planted_graph, random_graph
from mustlink.constraints import Constraints
from mustlink.eigen.smooth_subspace import BasisKey
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink.graph.disk_graph import DiskGraph
from on_disk import stored

pytestmark = pytest.mark.usefixtures("on_disk")

GIVEN = {
    ml.CSP: {"beta": 0.3, "assign": "kmeans"},
    ml.SSSC: {"gamma": 0.2, "balanced": True},
    ml.FastGE: {"assign": "sphere"},
    ml.ConstrainedAP: {"noise": 0.3},
}
each_method = pytest.mark.parametrize("method", GIVEN, ids=lambda one: one.__name__)


@pytest.fixture
def rng():
    return np.random.default_rng(2)


def made(method, k, **how):
    usual = {"affinity": "precomputed", "random_state": 0, "regularization": 0}
    return method(k, **{**usual, **GIVEN[method], **how})


def graphs(rng):
    """Matrices with classes of their nodes: one piece, components and isolated nodes."""
    yield planted_graph(rng, 400, 3, inside=0.2, across=0.02)
    W, groups = planted_graph(rng, 300, 3, inside=0.2, across=0.03)
    parts = [W, random_graph(rng, 120, 1), sp.csr_matrix((9, 9))]
    order = rng.permutation(429)
    y = np.concatenate([groups, np.full(120, 2), np.zeros(9, dtype=int)])
    yield sp.block_diag(parts, format="csr")[order][:, order], y[order]


@pytest.mark.thorough
@each_method
@pytest.mark.parametrize("which", [0, 1])
def test_the_same_as_in_memory_with_the_same_subspace(rng, method, which):
    W, groups = list(graphs(rng))[which]
    y = np.where(rng.random(groups.size) < 0.1, groups, -1)
    how = {"subspace": 9, "tol": 1e-5}
    if which and method is ml.CSP:
        how["beta"] = -1.0
    here = made(method, 3, **how).fit(sp.csr_matrix(W), y)
    there = made(method, 3, **how).fit(stored(W, 500), y)
    assert isinstance(there.graph_, DiskGraph)
    np.testing.assert_allclose(there.eigenvalues_, here.eigenvalues_, rtol=1e-4, atol=1e-6)
    rows = there.embedding_[:]
    assert oracles.angle(here.embedding_, rows) < 1e-3
    assert np.array_equal(here.labels_ < 0, there.labels_ < 0)
    assert adjusted_rand_score(here.labels_, there.labels_) >= 0.9999
    mine, other = there.report_.choices, here.report_.choices
    for name in ("subspace", "assign", method._parameter or "unit"):
        assert mine[name] == pytest.approx(other[name]), name
    assert there.report_.satisfaction == here.report_.satisfaction
    assert there.report_.extra["n_components"] == here.report_.extra["n_components"]


@pytest.mark.thorough
@each_method
def test_two_clusters_are_cut_at_zero(rng, method):
    W, groups = planted_graph(rng, 300, 2, inside=0.2, across=0.03)
    W = sp.block_diag([W, sp.csr_matrix((4, 4))], format="csr")
    y = np.append(np.where(rng.random(300) < 0.1, groups, -1), np.full(4, -1))
    way = {"assign": "sign"} if method is not ml.ConstrainedAP else {}
    there = made(method, 2, **{"subspace": 6, **way}).fit(stored(W), y)
    here = made(method, 2, **{"subspace": 6, **way}).fit(sp.csr_matrix(W), y)
    assert np.array_equal(there.labels_[300:], [-1] * 4)
    assert adjusted_rand_score(here.labels_, there.labels_) == 1.0


@pytest.mark.thorough
@each_method
def test_refit_keeps_the_vectors_and_moves_few(rng, method, monkeypatch):
    W, groups = planted_graph(rng, 400, 3, inside=0.2, across=0.03)
    y = np.where(rng.random(400) < 0.1, groups, -1)
    found = made(method, 3, subspace=9).fit(stored(W), y)
    work, before = found._home, found.labels_
    ((_, vectors),) = work.derived.of(BasisKey)
    monkeypatch.setattr(type(work), "smallest_pairs", None)  # is not asked again
    again = np.where(rng.random(400) < 0.12, groups, -1)
    found.refit(again)
    ((_, kept),) = found._home.derived.of(BasisKey)
    assert kept is vectors
    assert adjusted_rand_score(before, found.labels_) > 0.9
    assert found.report_.extra["changed"] == np.mean(before != found.labels_)
    fresh = made(method, 3, subspace=9).fit(sp.csr_matrix(W), again)
    assert adjusted_rand_score(fresh.labels_, found.labels_) >= 0.9999
    assert not any(stage.name == "eigenvectors" for stage in found.report_.stages)
    assert found.refit(y).report_.satisfaction is not None


@pytest.mark.thorough
@each_method
def test_hardly_anything_known(rng, method):
    """Nothing, one node, or what contradicts itself: as in memory, with the same doubts."""
    W, _ = planted_graph(rng, 300, 3, inside=0.25, across=0.02)
    pairs = np.array([[0, 1], [0, 1], [2, 3], [4, 5], [4, 6], [5, 6]])
    both = Constraints.from_pairs(pairs, [1, -1, 1, 1, 1, -1], n_nodes=300)
    one = Constraints.from_labels(np.where(np.arange(300) == 7, 1, -1))
    nothing = Constraints.none(300)
    for known in (both, one, nothing):
        beta = {"beta": -1.0} if method is ml.CSP else {}
        here, there = (made(method, 3, subspace=8, tol=1e-6, **beta) for _ in range(2))
        with pytest.warns(DoubtfulResultWarning):
            here.fit(sp.csr_matrix(W), constraints=known)
        with pytest.warns(DoubtfulResultWarning):
            there.fit(stored(W), constraints=known)
        mine, other = (one.report_.warnings for one in (there, here))
        assert {text[:40] for text in mine} == {text[:40] for text in other}
        assert adjusted_rand_score(here.labels_, there.labels_) >= 0.9999, known
    found = made(method, 3).fit(stored(W), constraints=Constraints.none(300))
    assert found.report_.choices["why"] == "no constraints"


@pytest.mark.thorough
def test_constraints_on_nodes_without_an_edge_cannot_act(rng):
    W = sp.block_diag([random_graph(rng, 100, 1), sp.csr_matrix((5, 5))], format="csr")
    y = np.full(105, -1)
    y[[3, 40, 60]], y[[100, 101]] = [0, 1, 1], [0, 1]
    with pytest.warns(DoubtfulResultWarning, match="2 constrained nodes have no edge"):
        found = made(ml.CSP, 2, subspace=6, beta=-1.0).fit(stored(W), y)
    assert np.array_equal(found.labels_[100:], [-1] * 5)


@pytest.mark.thorough
def test_the_number_of_clusters_is_that_of_the_classes(rng):
    W, groups = planted_graph(rng, 300, 3, inside=0.2, across=0.02)
    y = np.where(rng.random(300) < 0.2, groups, -1)
    found = made(ml.CSP, None, subspace=9).fit(stored(W), y)
    assert found.report_.n_clusters == 3
    with pytest.raises(InputError, match="counts on a graph in memory"):
        made(ml.CSP, "auto", subspace=9).fit(stored(W), constraints=Constraints.none(300))
