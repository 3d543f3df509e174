"""Points of few coordinates: a k-d tree finds what comparing all pairs does."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mustlink.context.neighbor_cost import knn_plan
from mustlink.core.observe import Recorder
from mustlink.neighbors import knn_graph
from mustlink.neighbors.knn import neighbour_lists
from mustlink.neighbors.points_by_rows import scaled_points


def towns(rng, n, d):
    """Points of unequal density, a quarter of them copies of one."""
    X = rng.random((40, d))[rng.integers(40, size=n)] + 0.1 * rng.standard_normal((n, d)) ** 3
    X[: n // 4] = X[0]
    return X[rng.permutation(n)]


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_graph_is_that_of_all_pairs(monkeypatch, d):
    X = 3 + towns(np.random.default_rng(d), 1500, d)
    X[:, 0] += 0.01 * np.random.default_rng(9).random(1500)  # no ties, of which any may be named
    exact = knn_graph(X, 8, random_state=0)
    monkeypatch.setattr("mustlink.context.neighbor_cost.compares_all", lambda *_, **__: False)
    for jobs in (1, 3):
        found = knn_graph(X, 8, random_state=0, n_jobs=jobs)
        assert (exact.info["method"], found.info["method"]) == ("brute", "tree")
        assert found.info["recall"] == 1.0
        gap = abs(found.affinity - exact.affinity)
        assert gap.sum() <= 1e-4 * exact.affinity.sum()


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_lengths_are_those_of_all_pairs(metric):
    X = scaled_points(3 + towns(np.random.default_rng(4), 900, 3), metric)[0]
    plan = replace(knn_plan(900, 3, 7, None), method="tree")
    indices, lengths, _ = neighbour_lists(X, 7, plan, 0, Recorder(), n_jobs=2)
    gaps = np.linalg.norm(X[:, None].astype(float) - X, axis=2)
    assert_allclose(lengths, gaps[np.arange(900)[:, None], indices], rtol=1e-5)
    assert not np.any(indices == np.arange(900)[:, None])
    np.fill_diagonal(gaps, np.inf)
    assert_allclose(lengths, np.sort(gaps, axis=1)[:, :7], rtol=1e-5)


def test_copies_are_each_others_neighbours(monkeypatch):
    monkeypatch.setattr("mustlink.context.neighbor_cost.compares_all", lambda *_, **__: False)
    X = towns(np.random.default_rng(0), 3000, 2).astype(np.float32)
    W = knn_graph(X, 6, random_state=0, connect=False).affinity
    _, kind, many = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    copies = np.flatnonzero(kind.ravel() == many.argmax())
    assert copies.size > 700
    assert np.diff(W[copies][:, copies].tocsr().indptr).min() >= 6


def test_a_budget_that_holds_no_tree_is_kept(tmp_path):
    n, k = 10**6, 15
    least = knn_plan(n, 2, k, 1 << 62).least
    tight, ample = knn_plan(n, 2, k, least), knn_plan(n, 2, k, 4 * 10**9)
    assert (tight.method, ample.method) == ("cells", "tree")
    assert tight.peak_bytes <= least
    assert ample.layout is None
    assert knn_plan(n, 6, k, None).method == "cells"
