"""Nearest neighbours by a k-d tree, against all pairs compared."""

import numba
import numpy as np
import pytest

import oracles
from mustlink.kernels.k_d_tree import nearest_in_tree


def clouds():
    rng = np.random.default_rng(0)
    yield "two", rng.random((2, 1)), 1
    yield "one leaf", rng.random((16, 3)), 5
    yield "two leaves, all others", rng.random((17, 2)), 16
    yield "even", rng.random((1000, 3)), 8
    yield "nine coordinates", rng.standard_normal((700, 9)) * 0.5 ** np.arange(9), 8
    yield "on a line", np.outer(rng.standard_normal(500), rng.standard_normal(4)), 3
    yield "far apart", rng.standard_normal((300, 2)) * 10.0 ** rng.integers(-9, 9, (300, 1)), 4
    yield "one coordinate constant", np.c_[rng.random(200), np.ones(200)], 6


CLOUDS = {name: (X, k) for name, X, k in clouds()}


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("name", CLOUDS)
def test_equals_all_pairs_compared(name):
    X, k = CLOUDS[name]
    indices, lengths = nearest_in_tree(X, k)
    wanted, distances = oracles.knn_lists(X, k)
    np.testing.assert_allclose(lengths, distances, rtol=1e-12)
    assert np.array_equal(indices, wanted)


def test_copies_are_neighbours_and_nobody_is_its_own():
    rng = np.random.default_rng(1)
    X = np.repeat(rng.integers(0, 3, (50, 2)).astype(float), 20, axis=0)
    indices, lengths = nearest_in_tree(X, 5)
    assert not lengths.any()
    assert (X[indices] == X[:, None]).all()
    assert (indices != np.arange(len(X))[:, None]).all()
    assert all(len(set(row)) == 5 for row in indices.tolist())


def test_same_lists_for_any_number_of_threads():
    X = np.round(np.random.default_rng(2).random((5000, 3)), 1)  # many equally near
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one = nearest_in_tree(X, 4)
    finally:
        numba.set_num_threads(before)
    assert all(np.array_equal(a, b) for a, b in zip(one, nearest_in_tree(X, 4), strict=True))
