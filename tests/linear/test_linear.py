"""Multigrid cycle and block CG against dense algebra."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from cases import random_graph
from mustlink.graph import Graph
from mustlink.linear.cg import block_cg
from mustlink.linear.laplacian_solve import solve_laplacian
from mustlink.linear.multigrid import hierarchy as amg
from mustlink.linear.multigrid.hierarchy import build_hierarchy
from mustlink.operators.laplacian import GroundedLaplacian, normalized_laplacian

seeds = st.integers(0, 2**31)


def grid(side):
    line = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(side, side))
    eye = sp.eye_array(side)
    return sp.csr_matrix(sp.kron(line, eye) + sp.kron(eye, line))


def deep(monkeypatch, W, coarsest=10):
    """Laplacian and hierarchy with several levels even for a small graph."""
    monkeypatch.setattr(amg, "_COARSEST", coarsest)
    laplacian = normalized_laplacian(Graph.from_affinity(W))
    return laplacian, build_hierarchy(laplacian)


@pytest.mark.parametrize("components", [1, 3])
def test_hierarchy_carries_the_null_space_down(components, monkeypatch):
    W = sp.block_diag([grid(12 + c) for c in range(components)], format="csr")
    laplacian, grids = deep(monkeypatch, W)
    assert len(grids.levels) >= 3
    assert grids.sizes == sorted(grids.sizes, reverse=True)
    A, vector = laplacian.to_dense(), laplacian.root_degree
    for level in range(len(grids.levels) - 1):
        P = grids.levels[level].way.exact
        np.testing.assert_allclose((P.T @ P).toarray(), np.eye(P.shape[1]), atol=1e-13)
        A = P.T @ A @ P
        np.testing.assert_allclose(grids.coarse_operator(level + 1).to_dense(), A, atol=1e-13)
        np.testing.assert_allclose(P @ (P.T @ vector), vector, atol=1e-12)
        vector = P.T @ vector
        np.testing.assert_allclose(A @ vector, 0, atol=1e-12)
        assert (np.linalg.eigvalsh(A) < 1e-10).sum() == components


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("graph", ["grid", "random", "parts", "path", "star"])
@pytest.mark.parametrize("coarsest", [10, 10_000])
def test_cycle_is_symmetric_positive_on_the_complement(graph, coarsest, monkeypatch):
    rng = np.random.default_rng(7)
    star = np.zeros((80, 80))
    star[0, 1:] = star[1:, 0] = 1.0
    W = {
        "grid": grid(15),
        "random": random_graph(rng, 150, 1, density=0.03),
        "parts": random_graph(rng, 150, 4, isolated=3, density=0.03),
        "path": sp.csr_matrix(sp.diags([1.0, 1.0], [-1, 1], shape=(120, 120))),
        "star": sp.csr_matrix(star),
    }[graph]
    laplacian, grids = deep(monkeypatch, W, coarsest)
    cycle, project = grids.cycle(), laplacian.null.project
    m = laplacian.size
    # Columns one by one: a fixed linear map must not depend on what else is in the block.
    B = np.column_stack([project(cycle(project(e[:, None]))) for e in np.eye(m)])
    X, Y = rng.standard_normal((2, m, 4))
    # The cycle runs in single precision: 1e-7 per operation, a few hundred of them.
    scale = np.linalg.norm(B, 2)
    np.testing.assert_allclose(project(cycle(project(X))), B @ X, atol=1e-4 * scale)
    np.testing.assert_allclose(B, B.T, atol=1e-5 * scale)
    dot = np.vdot(project(cycle(project(X))), Y) - np.vdot(X, project(cycle(project(Y))))
    assert abs(dot) < 1e-4 * scale * np.linalg.norm(X) * np.linalg.norm(Y)
    values = np.linalg.eigvalsh((B + B.T) / 2)
    c = laplacian.null.n_components
    np.testing.assert_allclose(values[:c], 0, atol=1e-5 * scale)
    # A coarse correction only adds to what the smoother alone makes of L̄, and takes no mode
    # beyond its inverse.
    L = laplacian.to_dense()
    if len(grids.levels) == 1:
        np.testing.assert_allclose(B, np.linalg.pinv(L, rcond=1e-10), atol=1e-5 * scale)
    else:
        smoothed = oracles.smoother_alone(L, cycle.degree)
        assert np.linalg.eigvalsh((B + B.T) / 2 - smoothed)[0] > -1e-5 * scale
    # What it is for: the preconditioned operator is well conditioned.
    nonzero = np.sort(np.linalg.eigvals(B @ L).real)[c:]
    # Plain aggregation loses something with every level, most on a path: measured, not proved.
    assert nonzero[0] > (0.03 if graph == "path" else 0.1)
    assert nonzero[-1] < 1 + 2e-5 * scale  # ‖L̄‖ <= 2 times the rounding of B


def test_cycle_of_nothing_is_nothing():
    laplacian = normalized_laplacian(Graph.from_affinity(grid(5)))
    cycle = build_hierarchy(laplacian).cycle()
    assert not cycle(np.zeros((25, 2))).any()


def test_graphs_that_will_not_coarsen_still_have_a_cycle(monkeypatch):
    """Pairs of nodes cannot be aggregated further than to singletons without any edge."""
    W = sp.block_diag([np.array([[0, 1.0], [1.0, 0]])] * 40, format="csr")
    laplacian, grids = deep(monkeypatch, W)
    project = laplacian.null.project
    B = project(np.random.default_rng(0).standard_normal((80, 3)))
    X, convergence = block_cg(
        laplacian.apply, B, tol=1e-10, precondition=grids.cycle(), project=project
    )
    assert convergence.converged.all()
    np.testing.assert_allclose(X, B / 2, atol=1e-9)  # tol·‖B‖


@given(st.integers(2, 40), st.integers(1, 5), seeds, st.booleans())
@settings(max_examples=40, deadline=None)
def test_block_cg_solves_dense_systems(n, b, seed, scaled):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    A = (U * np.geomspace(1, 100, n)) @ U.T
    A = (A + A.T) / 2
    B = rng.standard_normal((n, b)) * np.geomspace(1e-6, 1e6, b)
    B[:, 0] = 0.0
    before = B.copy()
    pre = (lambda V: V / np.diag(A)[:, None]) if scaled else None
    X, convergence = block_cg(lambda V: A @ V, B, tol=1e-10, precondition=pre, max_iter=1000)
    assert convergence.reason == "tolerance"
    assert convergence.converged.all()
    size = np.maximum(np.linalg.norm(B, axis=0), 1e-300)
    # The recurrence of the residual drifts from the true one by rounding times the condition.
    assert (np.linalg.norm(A @ X - B, axis=0) <= 2e-10 * size).all()
    assert np.array_equal(B, before)
    assert not X[:, 0].any()
    expected = np.linalg.solve(A, B)
    # tol·cond(A)
    np.testing.assert_allclose(X / size, expected / size, atol=1e-8)


@pytest.mark.parametrize("components", [1, 3])
def test_block_cg_inverts_a_singular_laplacian_on_its_range(components):
    rng = np.random.default_rng(3)
    W = random_graph(rng, 90, components, isolated=2)
    laplacian = normalized_laplacian(Graph.from_affinity(W))
    cycle = build_hierarchy(laplacian).cycle()
    B = rng.standard_normal((laplacian.size, 5))
    X, convergence = block_cg(
        laplacian.apply, B, tol=1e-11, precondition=cycle, project=laplacian.null.project
    )
    assert convergence.converged.all()
    expected = np.linalg.pinv(laplacian.to_dense(), rcond=1e-12) @ B
    np.testing.assert_allclose(laplacian.null.project(X), expected, atol=1e-8)
    np.testing.assert_allclose(laplacian.null.coefficients(X), 0, atol=1e-8)


def test_block_cg_reports_what_it_did_not_reach():
    A = np.diag(np.geomspace(1, 1e8, 50))
    rng = np.random.default_rng(0)
    _, convergence = block_cg(lambda V: A @ V, rng.standard_normal((50, 2)), tol=1e-12, max_iter=5)
    assert convergence.reason == "max_iter"
    assert convergence.iterations == 5
    assert not convergence.converged.any()
    assert "raise max_iter" in convergence.status


def test_the_cycle_makes_iterations_few_on_a_grid(monkeypatch):
    laplacian, grids = deep(monkeypatch, grid(40), 50)
    B = np.random.default_rng(0).standard_normal((1600, 2))
    project = laplacian.null.project
    _, plain = block_cg(laplacian.apply, B, tol=1e-8, project=project)
    _, fast = block_cg(laplacian.apply, B, tol=1e-8, project=project, precondition=grids.cycle())
    assert fast.iterations < plain.iterations / 3


def test_a_system_without_a_preconditioner_may_take_its_steps():
    """A ring with a little of the identity, condition 2000: some 150 steps, no elimination."""
    n = 400
    ring = sp.csr_matrix((np.full(n, 0.5), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
    operator = GroundedLaplacian(sp.csr_matrix(0.999 * (ring + ring.T)), np.ones(n))
    B = np.random.default_rng(0).standard_normal((n, 2))
    X, found = solve_laplacian(operator, B, tol=1e-10, max_iter=1000)
    assert found.solver == "block CG"
    assert found.iterations > 60
    assert np.allclose(operator.to_dense() @ X, B, rtol=0, atol=1e-8)
