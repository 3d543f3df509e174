"""Repeated labels: a group that was drawn round counts as few, labels here and there all count."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
from cases import blobs, labelled, random_graph
from mustlink.context.stage_cache import Workspace
from mustlink.eigen.memory_work import MemoryWork
from mustlink.propagation.prior import statements, statements_of_rows
from on_disk import stored
from oracles.propagate import statements_dense

N, K = 300, 3
X, Y = blobs(np.random.default_rng(0), N, K, d=3)
GRAPH = ml.knn_graph(X, random_state=0)


def said(graph, known):
    return statements_of_rows(MemoryWork(Workspace(graph)), known, graph.rows)


def drawn_round(m):
    """Three labels a class, and the m rows of class 0 that are nearest to one of them."""
    known = labelled(Y, 3)
    first = np.flatnonzero(known == 0)[0]
    own = np.flatnonzero(Y == 0)
    known[own[np.argsort(np.square(X[own] - X[first]).sum(axis=1))[:m]]] = 0
    return known


@pytest.mark.parametrize("copies", [1, 3])
def test_a_group_counts_as_few(copies):
    known, points = np.tile(drawn_round(60), copies), np.tile(X, (copies, 1))
    graph = ml.knn_graph(points, random_state=0, duplicates="merge")
    before = known.copy()
    found = said(graph, known)
    np.testing.assert_array_equal(known, before)
    left = np.flatnonzero(found == 0)
    nodes = left if graph.rows is None else graph.rows[left]
    assert np.unique(nodes).size == 3
    assert set(found[known == 0]) == {0, -1}
    np.testing.assert_array_equal(found[known != 0], known[known != 0])


@pytest.mark.parametrize("seed", range(6))
def test_the_rule_by_dense_sums(seed):
    """Weighted graphs of several parts, with lone nodes and loops; classes drawn round."""
    rng = np.random.default_rng(seed)
    W = random_graph(rng, 120, 3, isolated=5).toarray() + np.diag(rng.random(120))
    known = np.where(rng.random(120) < 0.1, rng.integers(0, 4, 120), -1)
    known[:4] = range(4)
    known[np.linalg.matrix_power(W > 0.3, 2)[rng.integers(120)] > 0] = seed % 3
    found = statements(MemoryWork(Workspace(ml.Graph.from_affinity(W))), known)
    np.testing.assert_array_equal(found, statements_dense(W, known))


def test_labels_that_were_not_drawn_round_are_taken_first():
    rng = np.random.default_rng(1)
    points = np.concatenate([rng.normal(size=(60, 2)), 50 + rng.normal(size=(60, 2))])
    graph = ml.knn_graph(points, 5, random_state=0)
    known = np.full(120, -1)
    known[[3, 70, 90]] = 1
    group = np.argsort(np.abs(points[60:]).sum(axis=1))[:15] + 60
    known[group], known[20] = 0, 0
    known[[70, 90]] = -1
    known[[5, 9]] = 1
    found = said(graph, known)
    assert found[20] == 0
    assert np.count_nonzero(found == 0) <= 3


@pytest.mark.parametrize(
    "known",
    [
        labelled(Y, [6, 3, 3]),  # not far more than the others
        np.where(Y == 0, 0, -1),  # one class alone
        np.full(N, -1),
    ],
)
def test_all_other_labels_stay(known):
    assert said(GRAPH, known) is known


def test_labels_here_and_there_stay():
    grid = np.stack(np.meshgrid(np.arange(30.0), np.arange(30.0)), -1).reshape(-1, 2)
    graph = ml.knn_graph(grid, 4, random_state=0)
    known = np.full(900, -1)
    known[[870, 899]] = 1
    known[np.flatnonzero((grid % 3 == 1).all(axis=1))] = 0
    assert said(graph, known) is known
    group = np.where((grid < 10).all(axis=1), 0, np.where(known == 1, 1, -1))
    assert (said(graph, group) >= 0).sum() == 4


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_a_large_share_of_a_class_is_no_group(share):
    """Drawn at random; nearly all have a neighbour among the others, and small classes have few."""
    rng = np.random.default_rng(0)
    known = labelled(Y, 3)
    own = np.flatnonzero(Y == 0)
    known[rng.choice(own, round(share * own.size), replace=False)] = 0
    assert said(GRAPH, known) is known


def test_drawing_round_a_class_leaves_the_others():
    few, many = labelled(Y, 3), drawn_round(80)
    est = ml.Auto(random_state=0).fit(X, few)
    before = est.labels_
    est.refit(many)
    np.testing.assert_array_equal(est.labels_[many == 0], 0)
    np.testing.assert_array_equal(est.labels_, before)


SPREADING = [
    "GFHF", "LLGC", "Poisson", "TikReg", "NCutPropagation", "GreenFunction", "LELP", "GWEM",
    "ClusterKernel", "LNP", "LLELP", "LTSALP",
]  # fmt: skip
UNHURT = {"Poisson"}  # also by all labels
OVERLAPPING, CLASSES = blobs(np.random.default_rng(9), 600, K, d=3, separation=0.9)
NEAR = ml.knn_graph(OVERLAPPING, random_state=0)


def group_of(y, m):
    """Two labels a class, and the m rows of class 0 nearest to one of them."""
    known = labelled(y, 2)
    first, own = np.flatnonzero(known == 0)[0], np.flatnonzero(y == 0)
    far = np.square(OVERLAPPING[own] - OVERLAPPING[first]).sum(axis=1)
    known[own[np.argsort(far)[:m]]] = 0
    return known


@pytest.mark.thorough(but=8)
@pytest.mark.usefixtures("on_disk")
@pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning")
@pytest.mark.parametrize("home", ["memory", "disk"])
@pytest.mark.parametrize("name", SPREADING)
def test_a_group_harms_no_other_class(name, home):
    method = getattr(ml, name)
    if home not in method.homes:
        pytest.skip("it runs in memory alone")
    given = {"affinity": "precomputed"} if home == "disk" else {}
    given |= {"alpha": 0.9} if (name, home) == ("LLGC", "disk") else {}  # its choice: ten fits each

    def spread(known, **how):
        est = method(random_state=0, **given, **how)
        if home == "disk":
            return est.fit(stored(NEAR.affinity), known)
        return est.fit(OVERLAPPING, known, graph=NEAR)

    def right(labels, known):
        return adjusted_rand_score(CLASSES[known < 0], labels[known < 0])

    few, many = labelled(CLASSES, 2), group_of(CLASSES, 120)
    here_and_there = labelled(CLASSES, [40, 10, 5])
    found = spread(many)
    of_few = spread(few)
    few_ = of_few.labels_
    assert right(found.labels_, many) >= right(few_, many) - 0.05
    np.testing.assert_array_equal(found.labels_[many == 0], 0)
    assert any("not spread" in note for note in found.report_.notes)
    for one, known in ((of_few, few), (spread(here_and_there), here_and_there)):
        other = spread(known, every_label=True)
        np.testing.assert_array_equal(one.label_distributions_[:], other.label_distributions_[:])
    if home == "memory" and name not in UNHURT:
        assert right(spread(many, every_label=True).labels_, many) < right(few_, many) - 0.05


@pytest.mark.thorough(but=4)
@pytest.mark.usefixtures("on_disk")
@pytest.mark.filterwarnings("ignore::mustlink.errors.DoubtfulResultWarning")
@pytest.mark.parametrize("home", ["memory", "disk"])
@pytest.mark.parametrize("name", ["CSP", "SSSC", "FastGE", "SpectralLearning", "ConstrainedAP"])
def test_constraints_of_a_group_are_those_of_the_few(name, home):
    graph = ml.Graph.from_affinity(NEAR.affinity.astype(np.float32)) if home == "memory" else None
    data = stored(NEAR.affinity) if graph is None else graph
    if home not in getattr(ml, name).homes:
        pytest.skip("it runs in memory alone")

    def fit(known, **how):
        how = {"subspace": 8, "regularization": 0, **how}
        est = getattr(ml, name)(K, affinity="precomputed", random_state=0, **how)
        return est.fit(data, known)

    many = group_of(CLASSES, 120)
    few = said(NEAR, many)
    assert np.count_nonzero(few >= 0) == 6
    found = fit(many)
    np.testing.assert_array_equal(found.labels_, fit(few).labels_)
    assert any("made without them" in note for note in found.report_.notes)
    assert not any("without them" in note for note in fit(many, every_label=True).report_.notes)


def test_a_group_in_a_part_of_its_own_is_answered():
    """The labels of a component are all in the group, of which few are spread."""
    W = np.kron(np.eye(3), np.ones((20, 20))) - np.eye(60)
    known = np.full(60, -1)
    known[:15], known[[20, 40]] = 0, (0, 1)
    known[[21, 22, 23]] = [0, 1, 1]
    found = ml.GFHF(affinity="precomputed").fit(W, known)
    np.testing.assert_array_equal(found.labels_[:20], 0)
    assert (found.labels_ >= 0).all()
