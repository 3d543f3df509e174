"""Single nodes moved to where their pairs and their neighbours want them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import mustlink as ml
from cases import planted_graph
from every import OF_GRAPHS
from mustlink.constraints import Constraints
from mustlink.discretize.satisfaction import moved_by_pairs, rows_moved_by_pairs, satisfaction

N, K = 90, 3


def case(seed, wrong=0.0):
    rng = np.random.default_rng(seed)
    W, y = planted_graph(rng, N, K, inside=0.4, across=0.08)
    ends = rng.choice(N, (60, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    belief = np.where(y[ends[:, 0]] == y[ends[:, 1]], 1.0, -1.0) * rng.uniform(0.5, 1, len(ends))
    known = Constraints.from_pairs(ends, belief=belief, n_nodes=N)
    start = np.where(rng.random(N) < 0.3, rng.integers(0, K, N), y)
    return ml.Graph.from_affinity(W), y, known, start


def votes(graph, known, labels, pull):
    """(n, K) of every node, from dense matrices."""
    W, Q = graph.affinity.toarray().astype(float), known.to_dense()
    np.fill_diagonal(W, 0)
    inside = (labels[:, None] == np.arange(K)).astype(float)
    W[:, labels < 0] = 0
    return W @ inside / np.maximum(W.sum(axis=1, keepdims=True), 1e-300) + pull * (Q @ inside)


def one_by_one(graph, known, labels, pull, still):
    labels, order = labels.copy(), np.random.default_rng(0).permutation(np.flatnonzero(~still))
    for _ in range(30):
        before = labels.copy()
        for i in order:
            mine = votes(graph, known, labels, pull)[i]
            if mine.max() > mine[labels[i]] + 1e-9:
                labels[i] = int(np.argmax(mine))
        if np.array_equal(before, labels):
            break
    return labels


@pytest.mark.parametrize("pull", [0.3, 1.0])
def test_moves_are_those_of_the_slow_twin_and_end_where_none_helps(pull):
    graph, _, known, start = case(0)
    found, moved = moved_by_pairs(graph, start, known, pull, K)
    assert np.array_equal(found, one_by_one(graph, known, start, pull, start < 0))
    assert moved == np.count_nonzero(found != start) > 0
    mine = votes(graph, known, found, pull)
    assert (mine.max(axis=1) <= mine[np.arange(N), found] + 1e-9).all()


def test_more_pairs_are_kept():
    graph, y, known, start = case(1)
    found, _ = moved_by_pairs(graph, start, known, 1.0, K)
    assert satisfaction(found, known)["kept"] > satisfaction(start, known)["kept"]
    assert np.mean(found == y) > np.mean(start == y)


def test_labels_and_nodes_in_no_cluster_stay_and_no_cluster_is_lost():
    graph, _, known, start = case(3)
    start[:5] = -1
    labels = np.full(N, -1)
    labels[10:20] = start[10:20]
    found, _ = moved_by_pairs(graph, start, known + Constraints.from_labels(labels), 1.0, K)
    assert np.array_equal(found[:20][labels[:20] >= 0], start[10:20])
    assert (found[:5] == -1).all()
    for known_, pull in ((Constraints.none(N), 1.0), (known, 0.0)):
        assert moved_by_pairs(graph, start, known_, pull, K)[1] == 0
    alone = np.zeros(N, dtype=np.int64)
    alone[40] = 1  # whose neighbours are all in the other cluster
    must = Constraints.from_pairs([[40, 41]], n_nodes=N)
    assert moved_by_pairs(graph, alone, must, 1.0, 2)[1] == 0


def test_where_clusters_would_run_together_only_nodes_with_a_pair_move():
    """One large clique of many clusters: neighbours alone put every node into the largest."""
    k = 10
    graph = ml.Graph.from_affinity(np.ones((N, N)) - np.eye(N))
    start = np.arange(N) % k
    start[: N // 5] = 0
    labels = np.full(N, -1)
    labels[-k:] = start[-k:]
    pair = np.array([[1, int(np.flatnonzero(start == 3)[0])]])
    known = Constraints.from_labels(labels) + Constraints.from_pairs(pair, n_nodes=N)
    found, moved = moved_by_pairs(graph, start, known, 1.0, k)
    assert moved >= 1
    assert set(np.flatnonzero(found != start)) <= set(pair.ravel())


def test_equal_rows_move_together():
    graph, _, known, start = case(0)
    rows = np.repeat(np.arange(N), 2)
    twice = replace(graph, rows=rows)
    nodes, moved = moved_by_pairs(graph, start, known, 1.0, K)
    found, count = rows_moved_by_pairs(twice, start[rows], known, 1.0, K)
    assert count == moved > 0
    assert np.array_equal(found, nodes[rows])


@pytest.mark.parametrize("method", ["CSP", "SRCP", "SSKK"])
def test_fits_refits_twins_and_models_end_with_moves(method, tmp_path):
    graph, _, known, _ = case(4)
    est = getattr(ml, method)(affinity="precomputed", random_state=0, **OF_GRAPHS[method])
    plain = est.fit(graph, constraints=known).labels_
    est._pull = 1.0
    est.fit(graph, constraints=known)
    wanted = moved_by_pairs(graph, plain, known, 1.0, K)[0]
    assert np.array_equal(est.labels_, wanted)
    again = est.labels_.copy()
    assert np.array_equal(est.refit(constraints=known).labels_, again)
    assert est._twin()._pull == 1.0
    est.save(tmp_path / "model.h5")
    loaded = ml.load(tmp_path / "model.h5")
    assert np.array_equal(loaded.refit(constraints=known).labels_, again)


def test_points_that_are_equal_move_together():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(30, 2)), 3, axis=0)
    known = Constraints.from_pairs([[0, 3], [1, 60], [2, 80]], belief=[1, -1, 1], n_nodes=90)
    est = ml.FastGE(2, random_state=0)
    est._pull = 1.0
    labels = est.fit(X, constraints=known).labels_
    assert (labels.reshape(30, 3) == labels[::3, None]).all()
    assert sp.issparse(est.graph_.affinity)
