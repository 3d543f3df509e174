"""Conjugate gradients for one vector against a dense solution."""

import numpy as np
import pytest

from cases import random_graph
from mustlink.kernels.vector_cg import vector_cg


def system(seed, n=60, **kinds):
    """A graph, a diagonal of degrees and beliefs, free nodes, a right side that is 0 elsewhere."""
    rng = np.random.default_rng(seed)
    W = random_graph(rng, n, **kinds)
    free = rng.random(n) < 0.7
    diagonal = np.asarray(W.sum(axis=1)).ravel() + rng.random(n) * 10.0 ** rng.uniform(-4, 2)
    return W, diagonal, free, np.where(free, rng.standard_normal(n), 0.0)


@pytest.mark.parametrize(
    "kinds", [{}, {"components": 4, "isolated": 5}, {"components": 3, "weak": 1e-6}]
)
def test_the_solution_is_the_dense_one(kinds):
    for seed in range(15):
        W, diagonal, free, right = system(seed, **kinds)
        before = right.copy()
        x, steps = vector_cg(W, diagonal, free, right, tol=1e-12, max_iter=500)
        A = (np.diag(diagonal) - W.toarray())[np.ix_(free, free)]
        exact = np.linalg.solve(A, right[free])
        np.testing.assert_allclose(x[free], exact, rtol=1e-7, atol=1e-7 * np.abs(exact).max())
        assert not x[~free].any()
        assert 0 < steps <= 500
        assert np.array_equal(right, before)


@pytest.mark.parametrize("tol", [0.1, 5e-3])
def test_it_ends_where_the_residual_is_small_enough(tol):
    for seed in range(15):
        W, diagonal, free, right = system(seed)
        x, steps = vector_cg(W, diagonal, free, right, tol=tol, max_iter=500)
        residual = np.where(free, right - diagonal * x + W @ x, 0.0)
        assert np.linalg.norm(residual) <= (tol + 1e-12) * np.linalg.norm(right)
        fewer, taken = vector_cg(W, diagonal, free, right, tol=tol, max_iter=steps - 1)
        assert taken == steps - 1
        residual = np.where(free, right - diagonal * fewer + W @ fewer, 0.0)
        assert np.linalg.norm(residual) > tol * np.linalg.norm(right)


def test_nothing_to_solve_is_zero():
    W, diagonal, free, right = system(0)
    nothing = np.zeros_like(free)
    for known, asked in ((free, 0.0 * right), (nothing, 0.0 * right)):
        x, steps = vector_cg(W, diagonal, known, asked, tol=1e-9, max_iter=9)
        assert not x.any()
        assert steps == 0
    lone = np.zeros(W.shape[0])  # nodes without edges or beliefs
    x, _ = vector_cg(0.0 * W, lone, free, 0.0 * right, tol=1e-9, max_iter=9)
    assert not x.any()
