"""Equal rows as one node: who is equal, and the graph in which a node stands for several."""

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import cases
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.graph.graph import as_sample_weight, fold
from mustlink.neighbors import knn_graph
from mustlink.neighbors.points_by_rows import group_equal_rows, prepare

seeds = st.integers(0, 10**6)


class Stored:
    """Points of which only blocks of rows can be had."""

    def __init__(self, X):
        self.X, self.shape = X, X.shape

    def __getitem__(self, rows):
        return self.X[rows]


def numbered(X):
    """Number of every row by first appearance, by a dictionary."""
    seen = {}
    return np.array([seen.setdefault(tuple(row.tolist()), len(seen)) for row in X])


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(2, 60), st.integers(1, 5), st.integers(1, 4))
def test_rows_are_numbered_by_first_appearance(seed, n, d, kinds):
    X = np.random.default_rng(seed).integers(-1, kinds, (n, d)).astype(np.float32)
    found = group_equal_rows(np.where(X == 0, np.float32(-0.0), X))
    expected = numbered(X)
    assert_array_equal(found.nodes, expected)
    assert_array_equal(found.first, np.unique(expected, return_index=True)[1])
    assert_array_equal(found.counts, np.bincount(expected))


def test_rows_read_by_blocks_are_numbered_alike(monkeypatch):
    X = np.random.default_rng(3).integers(0, 3, (500, 4)).astype(np.float64)
    whole = group_equal_rows(X.astype(np.float32))
    monkeypatch.setattr("mustlink.neighbors.points_by_rows.BLOCK_BYTES", 1 << 10)
    read = group_equal_rows(prepare(Stored(X), "euclidean"))
    assert_array_equal(read.nodes, whole.nodes)


def test_zeros_of_either_sign_and_rows_equal_in_single_precision_are_equal():
    near = 1.0 + 2.0**-40
    X = np.array([[0.0, 1.0], [-0.0, near], [0.0, 2.5], [3.0, 0.0]])
    graph = knn_graph(X, 1, duplicates="merge")
    assert_array_equal(graph.rows, [0, 0, 1, 2])
    assert_array_equal(graph.weights, [2, 1, 1])
    assert_array_equal(graph.first_rows, [0, 2, 3])


def test_the_merged_graph_is_the_graph_of_distinct_rows_folded(tmp_path):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(400, 2)), 1).astype(np.float32)
    recorder = Recorder()
    graph = knn_graph(X, 5, duplicates="merge", random_state=1, observer=recorder)
    first = graph.first_rows
    assert graph.n_nodes == first.size < graph.n_rows == 400
    assert_array_equal(X, X[first][graph.rows])
    plain = knn_graph(X[first], 5, random_state=1)
    C = sp.diags_array(np.bincount(graph.rows).astype(float))
    assert_allclose(graph.affinity.toarray(), (C @ plain.affinity @ C).toarray(), rtol=1e-14)
    assert any("400 rows" in note and "distinct" in note for note in recorder.notes)
    with h5py.File(tmp_path / "points.h5", "w") as file:
        file["points"] = X
        read = knn_graph(file["points"], 5, duplicates="merge", random_state=1, memory="8GB")
    assert_array_equal(read.rows, graph.rows)
    assert abs(read.affinity - graph.affinity).max() == 0


def test_rows_are_merged_before_they_are_searched_by_cells(monkeypatch):
    X = np.round(np.random.default_rng(5).normal(size=(3000, 6)) / 3).astype(np.float32)
    monkeypatch.setattr("mustlink.context.neighbor_cost.compares_all", lambda *_, **__: False)
    graph = knn_graph(Stored(X), 5, duplicates="merge", random_state=1, memory="8GB")
    assert graph.info["method"] == "cells"
    assert_array_equal(graph.rows, numbered(X))


def test_a_table_without_equal_rows_is_as_it_was():
    X = np.random.default_rng(0).normal(size=(200, 3))
    kept, merged = (knn_graph(X, 5, random_state=0, duplicates=d) for d in ("keep", "merge"))
    assert merged.weights is None
    assert merged.rows is None
    assert abs(kept.affinity - merged.affinity).max() == 0


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(4, 20))
def test_folding_is_the_repeated_graph_summed(seed, m):
    rng = np.random.default_rng(seed)
    W = cases.random_graph(rng, m, density=0.4)
    c = rng.integers(0, 4, m)
    P = np.repeat(np.eye(m), c, axis=0)
    repeated = P @ W.toarray() @ P.T
    assert_allclose(fold(W, c.astype(float)).toarray(), P.T @ repeated @ P, atol=1e-12)


def test_weighing_replaces_what_rows_count():
    rng = np.random.default_rng(0)
    W = cases.random_graph(rng, 6, density=0.5)
    rows = np.array([0, 1, 2, 3, 4, 5, 1, 1])
    counts = np.bincount(rows).astype(float)
    graph = Graph(fold(W, counts), weights=counts, rows=rows)
    assert_allclose(graph.row_weights(), np.ones(8))
    w = rng.random(8)
    new = graph.weighing(w)
    by = np.bincount(rows, weights=w)
    assert_allclose(new.weights, by)
    assert_allclose(new.affinity.toarray(), fold(W, by).toarray(), rtol=1e-13)
    assert new.count == pytest.approx(w.sum())


@pytest.mark.parametrize("weights", [[1.0, -1.0, 1.0], [1.0, np.nan, 1.0], [1.0, 1.0], [0, 0, 0]])
def test_weights_that_make_no_sense_are_refused(weights):
    with pytest.raises(InputError, match="sample_weight"):
        as_sample_weight(weights, 3)


def test_weights_of_one_are_none():
    assert as_sample_weight(np.ones(4), 4) is None
    assert as_sample_weight(None, 4) is None
