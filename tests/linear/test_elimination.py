"""Elimination and solves with Laplacians of weights of any range."""

import numpy as np
import pytest
import scipy.sparse as sp

from degenerate import GRAPHS, random_graph, spread
from mustlink.core import dense_algebra
from mustlink.core.resources import Budget, parse_size
from mustlink.errors import NumericalError, OutOfMemoryError
from mustlink.graph import Graph
from mustlink.kernels.graph_walk import eliminate
from mustlink.linear import laplacian_solve
from mustlink.linear.laplacian_solve import by_elimination, solve_laplacian
from mustlink.operators.laplacian import normalized_laplacian
from oracles.elimination import harmonic_by_elimination

WIDE = ["floor", "blocks 1e-12", "blocks 1e-30", "heavy 1e12", "star", "chain", "wide"]


def laplacian(W, dtype=np.float64):
    return normalized_laplacian(Graph.from_affinity(W), dtype)


def without(L, held):
    """L̄ on the other nodes, by the edges to those that are held a definite one."""
    return L.grounded(np.zeros(L.size), ~np.isin(np.arange(L.size), held))


@pytest.mark.parametrize("name", WIDE)
def test_harmonic_values_are_those_of_exact_elimination(name):
    """Right to 1e-6 of themselves where the Laplacian is singular in doubles, too."""
    W = GRAPHS[name]()
    L = laplacian(W)
    held = np.array([0, L.size // 2, L.size - 1])
    Y = np.zeros((L.size, 3))
    Y[held, [0, 1, 2]] = 1.0
    free = np.setdiff1d(np.arange(L.size), held)
    system, root = without(L, held), L.root_degree[:, None]
    scale = 1.0 / system.root_degree[free]
    B = -(root * L.apply(root * Y))[free]
    whole = np.zeros((L.size, 3))
    whole[free] = scale[:, None] * B
    X = by_elimination(system, whole)
    true = harmonic_by_elimination(W.toarray()[np.ix_(L.nodes, L.nodes)], held, Y)[free]
    np.testing.assert_allclose(scale[:, None] * X[free], true, rtol=1e-6, atol=1e-12)


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("width", [1, 3, 8])
@pytest.mark.parametrize("small", [0.0, 1e-14])
def test_answers_are_the_same_however_many_columns_are_solved_at_a_time(width, small):
    """By conjugate gradients, and where these are given up for one column or for all."""
    L = laplacian(spread(random_graph(1500), small) if small else random_graph(1500))
    B = L.null.project(np.random.default_rng(4).standard_normal((L.size, 11)))
    how = {"tol": 1e-8, "max_iter": 1000, "project": L.null.project, "precondition": lambda R: R}
    X, told = solve_laplacian(L, B, **how)
    Y, also = solve_laplacian(L, B, **how, together=width)
    np.testing.assert_allclose(Y, X, rtol=0, atol=1e-13 * np.abs(X).max())
    np.testing.assert_array_equal(also.converged, told.converged)
    assert ("elimination" in also.solver) == ("elimination" in told.solver) == (small > 0)


def test_a_bad_preconditioner_is_given_up():
    """Sixty steps are enough to see that it does not contract; one that does is kept."""
    L = laplacian(spread(random_graph(1500), 1e-14))
    B = L.null.project(np.random.default_rng(3).standard_normal((L.size, 2)))
    _, told = solve_laplacian(L, B, tol=1e-8, max_iter=1000, project=L.null.project)
    assert "elimination" in told.solver
    assert told.converged.all()
    good = laplacian(random_graph(1500))
    B = good.null.project(B)
    _, told = solve_laplacian(
        good, B, tol=1e-8, max_iter=1000, project=good.null.project, precondition=lambda R: R
    )
    assert told.solver == "block CG"


def test_single_precision_keeps_the_laplacian_positive():
    """Rounded weights are those of another graph, with the same null space."""
    L = laplacian(GRAPHS["floor"](), np.float32)
    inside = L.apply(np.eye(L.size))
    values = np.linalg.eigvalsh((inside + inside.T) / 2)
    assert values[0] > -1e-14
    assert np.abs(L.apply(L.null.columns([0]))).max() < 1e-14


def test_small_dense_problems():
    rng = np.random.default_rng(4)
    A = rng.standard_normal((9, 9))
    A = A @ A.T
    for size in (1e-200, 1.0, 1e200):
        values, X = dense_algebra.eigh(size * A)
        np.testing.assert_allclose(A @ X * size, X * values, atol=1e-12 * abs(values[-1]))
        np.testing.assert_allclose(dense_algebra.eigvalsh(size * A), values, rtol=1e-9)
        theta, Y = dense_algebra.eigh(size * A, 1e150 * (A + np.eye(9)), subset=(0, 2))
        np.testing.assert_allclose(Y.T @ (A + np.eye(9)) @ Y * 1e150, np.eye(3), atol=1e-10)
        assert theta.shape == (3,)
        U, sigma, Vt = dense_algebra.svd(size * A)
        np.testing.assert_allclose((U * sigma) @ Vt, size * A, atol=1e-12 * sigma[0])
    B = rng.standard_normal((9, 2))
    scale = 10.0 ** rng.uniform(-100, 100, 9)
    hard = A * scale[:, None] * scale
    found = dense_algebra.Definite(hard).solve(B)
    np.testing.assert_allclose(found * scale[:, None], np.linalg.solve(A, B / scale[:, None]), 1e-8)
    np.testing.assert_allclose(dense_algebra.solve(A, B), np.linalg.solve(A, B), rtol=1e-8)
    flat = np.ones((3, 3))
    np.testing.assert_allclose(dense_algebra.solve(flat, np.ones(3)), np.ones(3) / 3)
    np.testing.assert_allclose(dense_algebra.lstsq(flat, np.ones(3), 1e-10), np.ones(3) / 3)


@pytest.mark.parametrize(
    "call",
    [
        dense_algebra.eigh,
        dense_algebra.eigvalsh,
        dense_algebra.svd,
        dense_algebra.Definite,
        lambda A: dense_algebra.solve(A, A),
        lambda A: dense_algebra.general_pairs(A, A),
    ],
)
def test_nan_is_one_line_with_a_cause(call):
    with pytest.raises(NumericalError, match=r"NaN or Inf in it.*raise the smallest") as caught:
        call(np.full((3, 3), np.nan))
    assert "\n" not in str(caught.value)


def test_indefinite_is_no_answer():
    with pytest.raises(NumericalError, match="singular"):
        dense_algebra.Definite(np.diag([1.0, -1.0, 1.0]))


def test_elimination_of_nothing():
    """Nodes without edges have their ground alone, and are 0 without one."""
    F = np.ones((4, 2))
    eliminate(np.zeros((4, 4)), np.array([0.0, 2.0, 0.0, 1.0]), F)
    np.testing.assert_array_equal(F, np.array([0, 0.5, 0, 1])[:, None] * np.ones(2))


@pytest.mark.parametrize("parts", [1, 3])
def test_a_component_without_ground_is_held_at_its_first_node(parts):
    rng = np.random.default_rng(parts)
    L = laplacian(sp.block_diag([random_graph(30, seed=i) for i in range(parts)], format="csr"))
    X = by_elimination(L, (B := rng.standard_normal((L.size, 3))), L.null.project)
    expected = np.linalg.pinv(L.to_dense(), rcond=1e-12) @ B
    np.testing.assert_allclose(X, expected, atol=1e-9)


def test_a_larger_graph_goes_on_with_conjugate_gradients(monkeypatch):
    """Where elimination would take too long, and where the budget refuses it."""
    L = laplacian(spread(random_graph(1500), 1e-14))
    B = L.null.project(np.random.default_rng(3).standard_normal((L.size, 2)))
    how = {"tol": 1e-8, "max_iter": 100, "project": L.null.project, "precondition": lambda R: R}
    budget = Budget(parse_size("1GB"))

    def refuse(n_bytes, what):
        raise OutOfMemoryError(f"{what}: {n_bytes} bytes")

    monkeypatch.setattr(budget, "ask", refuse)
    _, told = solve_laplacian(L, B, **how, budget=budget)
    assert (told.solver, told.iterations) == ("block CG", 100)
    monkeypatch.setattr(laplacian_solve, "ELIMINATED", 1000)
    _, told = solve_laplacian(L, B, **how)
    assert (told.solver, told.iterations) == ("block CG", 100)
    assert not told.converged.all()
