"""Iterations that miss their tolerance end, as stagnated or by the time, with their best."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mustlink.core.observe import Deadline
from mustlink.core.result import Stagnation
from mustlink.eigen.lobpcg import Lobpcg, lobpcg
from mustlink.linear.cg import LEAST, WINDOW, block_cg, towards


def ticking(steps):
    """A deadline that is over after so many looks at it."""
    looks = iter(range(10**6))
    return Deadline(steps + 0.5, 0.0, lambda: float(next(looks)))


def stagnated_by_definition(residuals, window, factor):
    """Step by step: how long ago the least residual last fell to `factor` of its last such fall."""
    mark, fell, told, least = np.inf, 0, [], np.inf
    for step, residual in enumerate(residuals):
        least = min(least, residual)
        if least <= mark:
            mark, fell = factor * least, step
        told.append(step - fell >= window)
    return told


@given(
    st.lists(st.floats(1e-12, 1e3), min_size=1, max_size=60),
    st.integers(1, 10),
    st.floats(0.1, 0.99),
)
def test_stagnation_is_no_fall_within_a_window(residuals, window, factor):
    watch = Stagnation(2, window, factor)
    told = [watch.update(np.array([one, 1.0]))[0] for one in residuals]
    assert told == stagnated_by_definition(residuals, window, factor)
    assert watch.best[0] == min(residuals)
    assert residuals[watch.best_step[0]] == min(residuals)
    assert watch.worst == max(1.0, min(residuals))


def test_a_residual_that_is_not_a_number_is_no_progress():
    watch = Stagnation(1, 2)
    told = [watch.update(np.array([one]))[0] for one in (1.0, np.nan, np.nan, np.nan)]
    assert told == [False, False, True, True]
    assert watch.best[0] == 1.0


@pytest.fixture
def singular():
    """A singular matrix (60, 60), 0 on its first vector, and right sides: outside, inside."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    A = (Q * np.append(0.0, np.geomspace(0.01, 1, 59))) @ Q.T
    inside = A @ rng.standard_normal(60)
    return A, np.column_stack([inside + 1e-4 * np.linalg.norm(inside) * Q[:, 0], inside])


def test_an_inconsistent_system_gives_its_best_and_leaves_the_others_alone(singular):
    A, B = singular
    X, found = block_cg(lambda V: A @ V, B, tol=1e-10, max_iter=2000)
    assert found.reason == "stagnated"
    assert found.iterations < 2000
    assert 0.99e-4 <= found.residuals[0] < 1e-3  # 1e-4 is outside the range
    true = np.linalg.norm(B - A @ X, axis=0) / np.linalg.norm(B, axis=0)
    np.testing.assert_allclose(true, found.residuals, atol=1e-8)
    alone, _ = block_cg(lambda V: A @ V, B[:, 1:], tol=1e-10)
    np.testing.assert_allclose(X[:, 1:], alone, atol=1e-6)
    assert found.converged.tolist() == [False, True]
    assert "no longer lower the residual" in found.status


def test_where_the_matrix_is_not_positive_no_step_is_taken():
    A = np.diag(np.append(-5.0, np.linspace(1, 2, 20)))
    X, found = block_cg(lambda V: A @ V, np.ones((21, 1)), tol=1e-12)
    assert found.reason == "stagnated"
    assert found.iterations < WINDOW
    assert np.isfinite(X).all()
    assert found.residuals[0] <= 1.1  # nearly that of X = 0, with which it began


def test_what_conjugate_gradients_tell_of_their_residual_never_grows():
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.standard_normal((80, 80)))[0]
    A = (Q * np.geomspace(1e-5, 1, 80)) @ Q.T
    heard = []
    _, found = block_cg(lambda V: A @ V, Q @ np.ones((80, 1)), tol=1e-6, on_step=heard.append)
    assert found.converged.all()
    assert heard == sorted(heard, reverse=True)


def test_the_deadline_ends_conjugate_gradients_where_they_are(singular):
    A, B = singular
    B = B[:, 1:]
    X, found = block_cg(lambda V: A @ V, B, tol=1e-12, deadline=ticking(7))
    assert found.reason == "time limit"
    assert "time was up" in found.status
    same, until = block_cg(lambda V: A @ V, B, tol=1e-12, max_iter=found.iterations)
    np.testing.assert_array_equal(X, same)
    assert until.reason == "max_iter"
    assert LEAST < found.iterations <= LEAST + 8


@pytest.fixture
def line():
    """A path's Laplacian, its eigenvalues known."""
    n = 200
    L = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    return L, 2 - 2 * np.cos(np.pi * np.arange(1, n + 1) / (n + 1))


def test_eigenvectors_end_at_the_floor_of_their_precision(line):
    L, values = line
    single = L.astype(np.float32)
    inverse = np.linalg.inv(L).astype(np.float32)
    X = np.random.default_rng(0).standard_normal((200, 6)).astype(np.float32)
    rule = Lobpcg(4, 1e-12, 1000)
    found = lobpcg(lambda V: single @ V, X, rule, precondition=lambda V: inverse @ V)
    assert found.convergence.reason == "stagnated"
    assert found.convergence.iterations < 500
    np.testing.assert_allclose(found.values, values[:4], atol=1e-6)


def test_the_deadline_ends_eigenvectors_with_the_last_ritz_pairs(line):
    L, _ = line
    X = np.random.default_rng(0).standard_normal((200, 6))
    found = lobpcg(lambda V: L @ V, X, Lobpcg(4, 1e-12, 100, deadline=ticking(3)))
    assert found.convergence.reason == "time limit"
    assert found.convergence.iterations == 4
    V = found.vectors
    np.testing.assert_allclose(V.T @ L @ V, np.diag(found.values), atol=1e-10)


def test_residuals_tell_the_share_of_the_way_that_they_have_fallen():
    heard = []
    hear = towards(1e-6, heard.append)
    for residual in (1e-2, 1e-4, 1e-1, 1e-6, 0.0):
        hear(residual)
    np.testing.assert_allclose(heard, [0, 0.5, 0, 1, 1])
    towards(1e-6, heard.append)(1e-7)
    assert len(heard) == 5
