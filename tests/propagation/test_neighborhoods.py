"""Local fits (neighbour lists, weights, tangent spaces) against slow twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from mustlink.kernels import threads
from mustlink.kernels.local_fits import (
    convex_weights,
    nearest_listed,
    reconstruction_weights,
    tangent_frames,
)
from mustlink.neighbors.knn import knn_graph

seeds = st.integers(0, 2**31)


def neighbourhoods(rng, n, k, d, dtype=np.float64, missing=True):
    """Points far from the origin and random lists, some shorter, some with copies of the point."""
    X = (rng.standard_normal((n, d)) * rng.choice([0.1, 1.0, 30.0], d) + 5.0).astype(dtype)
    lists = np.array([rng.choice(np.delete(np.arange(n), i), k, replace=False) for i in range(n)])
    lists = lists.astype(np.int32)
    if missing:
        for i in range(0, n, 3):
            lists[i, rng.integers(1, k + 1) :] = -1
    return X, lists


def as_csr(lists):
    """Row pointers and sorted indices of ragged lists."""
    indptr = np.append(0, np.cumsum([len(row) for row in lists])).astype(np.int32)
    return indptr, np.array([j for row in lists for j in sorted(row)], dtype=np.int32)


@pytest.mark.thorough
@given(st.integers(2, 40), st.integers(1, 12), st.integers(1, 4), st.booleans(), seeds)
@settings(max_examples=60, deadline=None)
def test_nearest_listed_sorts_by_distance_then_index(n, k, d, coarse, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32)
    if coarse:  # many ties and duplicates
        X = np.round(X)
    lists = [rng.choice(n, rng.integers(0, n + 1), replace=False) for _ in range(n)]
    found = nearest_listed(X, *as_csr(lists), k)
    assert found.dtype == np.int32
    assert np.array_equal(found, oracles.listed_nearest(X, lists, k))


def test_nearest_listed_recovers_the_directed_lists_of_a_symmetric_graph():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 5)).astype(np.float32)
    W = knn_graph(X, 7, random_state=0).affinity
    found = nearest_listed(X, W.indptr, W.indices, 7)
    assert np.array_equal(found, oracles.knn_lists(X, 7)[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "k", "d"), [(12, 1, 3), (40, 6, 2), (60, 5, 40), (30, 15, 600)])
def test_weights_are_those_of_the_dense_twins(n, k, d, dtype):
    rng = np.random.default_rng(n + d)
    X, lists = neighbourhoods(rng, n, k, d, dtype)
    before = X.copy(), lists.copy()
    for reg in (1e-3, 1e-1):
        free, convex = reconstruction_weights(X, lists, reg), convex_weights(X, lists, reg)
        np.testing.assert_allclose(free, oracles.affine_weights(X, lists, reg), atol=1e-8)
        np.testing.assert_allclose(convex, oracles.simplex_weights(X, lists, reg), atol=1e-8)
    for w in (free, convex):
        np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-12)
        assert (w[lists < 0] == 0).all()
    assert np.array_equal(X, before[0])
    assert np.array_equal(lists, before[1])


def test_reconstruction_weights_are_scikit_learns():
    from sklearn.manifold._locally_linear import barycenter_weights

    rng = np.random.default_rng(3)
    X, lists = neighbourhoods(rng, 80, 8, 5, missing=False)
    X[lists[4]] = X[4]
    expected = barycenter_weights(X, X, lists, reg=1e-3)
    np.testing.assert_allclose(reconstruction_weights(X, lists, 1e-3), expected, atol=1e-9)


@pytest.mark.thorough
@given(st.integers(1, 20), st.integers(1, 25), st.sampled_from([1e-10, 1e-3, 1.0]), seeds)
@settings(max_examples=80, deadline=None)
def test_convex_weights_satisfy_the_conditions_of_a_minimum(k, d, reg, seed):
    """(Cw)_j >= wᵀCw for all j, with equality where w_j > 0: sufficient, C being convex."""
    rng = np.random.default_rng(seed)
    X, lists = neighbourhoods(rng, k + 5, k, d)
    X[rng.integers(0, k + 5, 3)] = X[rng.integers(0, k + 5)]  # duplicates
    w = convex_weights(X, lists, reg)
    assert (w >= 0).all()
    np.testing.assert_allclose(w.sum(axis=1), 1, atol=1e-12)
    for i, row in enumerate(lists):
        there = row >= 0
        C = oracles.local_gram(X, i, row[there], reg)
        slope, value = C @ w[i, there], w[i, there] @ C @ w[i, there]
        scale = np.abs(C).max()
        assert (slope >= value - 1e-12 * scale).all()
        np.testing.assert_allclose(slope[w[i, there] > 0], value, atol=1e-11 * scale)


def test_copies_of_a_point_get_equal_weights_and_no_tangent():
    X = np.ones((6, 3), dtype=np.float32)
    lists = np.array([[1, 2, 3, -1]] * 6, dtype=np.int32)
    for weights in (reconstruction_weights, convex_weights):
        np.testing.assert_allclose(weights(X, lists, 1e-3), [[1 / 3, 1 / 3, 1 / 3, 0]] * 6)
    G = tangent_frames(X, lists, 2)
    np.testing.assert_allclose(G[:, :4, 0], 0.5)
    assert (G[:, 4] == 0).all()
    assert (G[:, :, 1:] == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("k", "D", "d"), [(1, 3, 2), (6, 1, 2), (6, 2, 2), (8, 5, 3), (10, 700, 2)]
)
def test_tangent_frames_span_the_leading_singular_vectors(k, D, d, dtype):
    rng = np.random.default_rng(k + D)
    X, lists = neighbourhoods(rng, 30, k, D, dtype)
    X[lists[3][:2]] = X[3]
    G = tangent_frames(X, lists, d)
    assert G.shape == (30, k + 1, d + 1)
    np.testing.assert_allclose(
        G @ G.transpose(0, 2, 1), oracles.tangent_projectors(X, lists, d), atol=1e-8
    )
    inner = G.transpose(0, 2, 1) @ G
    there = np.abs(np.diagonal(inner, axis1=1, axis2=2)) > 0
    np.testing.assert_allclose(inner, np.eye(d + 1) * there[:, None, :], atol=1e-12)


def test_a_node_without_neighbours_is_left_alone():
    X, lists = np.arange(6.0).reshape(3, 2), np.full((3, 2), -1, dtype=np.int32)
    assert (reconstruction_weights(X, lists, 1e-3) == 0).all()
    assert (convex_weights(X, lists, 1e-3) == 0).all()
    G = tangent_frames(X, lists, 1)
    assert (G[:, 0, 0] == 1).all()
    assert np.count_nonzero(G) == 3


@pytest.mark.thorough
def test_one_thread_and_many_fit_bitwise_the_same(monkeypatch):
    rng = np.random.default_rng(4)
    X, lists = neighbourhoods(rng, 700, 9, 20, np.float32)
    W = knn_graph(X, 9, random_state=0).affinity

    def all_fits():
        return (
            nearest_listed(X, W.indptr, W.indices, 9),
            reconstruction_weights(X, lists, 1e-3),
            convex_weights(X, lists, 1e-3),
            tangent_frames(X, lists, 2),
        )

    monkeypatch.setattr(threads, "SMALL", 1 << 60)
    serial = all_fits()
    monkeypatch.setattr(threads, "SMALL", 0)
    for one, many in zip(serial, all_fits(), strict=True):
        assert np.array_equal(one, many)
