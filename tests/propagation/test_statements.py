"""Repeated labels: a group that was drawn round counts as few, labels here and there all count."""

from __future__ import annotations

import numpy as np
import pytest

import mustlink as ml
from cases import blobs, labelled
from mustlink.propagation.prior import statements

N, K = 300, 3
X, Y = blobs(np.random.default_rng(0), N, K, d=3)
GRAPH = ml.knn_graph(X, random_state=0)


def drawn_round(m):
    """Three labels a class, and the m rows of class 0 that are nearest to one of them."""
    known = labelled(Y, 3)
    first = np.flatnonzero(known == 0)[0]
    own = np.flatnonzero(Y == 0)
    known[own[np.argsort(np.square(X[own] - X[first]).sum(axis=1))[:m]]] = 0
    return known


@pytest.mark.parametrize("copies", [1, 3])
def test_a_group_counts_as_few_that_are_no_neighbours(copies):
    known, points = np.tile(drawn_round(60), copies), np.tile(X, (copies, 1))
    graph = ml.knn_graph(points, random_state=0, duplicates="merge")
    before = known.copy()
    found = statements(graph, known)
    np.testing.assert_array_equal(known, before)
    left = np.flatnonzero(found == 0)
    assert 1 <= left.size <= 3 * copies
    assert set(found[known == 0]) == {0, -1}
    np.testing.assert_array_equal(found[known != 0], known[known != 0])
    nodes = left if graph.rows is None else graph.rows[left]
    assert np.unique(nodes).size == nodes.size
    assert graph.affinity[nodes][:, nodes].nnz == 0


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
    found = statements(graph, known)
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
    assert statements(GRAPH, known) is known


def test_labels_here_and_there_stay():
    grid = np.stack(np.meshgrid(np.arange(30.0), np.arange(30.0)), -1).reshape(-1, 2)
    graph = ml.knn_graph(grid, 4, random_state=0)
    known = np.full(900, -1)
    known[[870, 899]] = 1
    known[np.flatnonzero((grid % 3 == 1).all(axis=1))] = 0
    assert statements(graph, known) is known
    group = np.where((grid < 10).all(axis=1), 0, np.where(known == 1, 1, -1))
    assert (statements(graph, group) >= 0).sum() == 4


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_a_large_share_of_a_class_is_no_group(share):
    """Drawn at random; nearly all have a neighbour among the others, and small classes have few."""
    rng = np.random.default_rng(0)
    known = labelled(Y, 3)
    own = np.flatnonzero(Y == 0)
    known[rng.choice(own, round(share * own.size), replace=False)] = 0
    assert statements(GRAPH, known) is known


def test_drawing_round_a_class_leaves_the_others():
    few, many = labelled(Y, 3), drawn_round(80)
    est = ml.Auto(random_state=0).fit(X, few)
    before = est.labels_
    est.refit(many)
    np.testing.assert_array_equal(est.labels_[many == 0], 0)
    np.testing.assert_array_equal(est.labels_, before)
