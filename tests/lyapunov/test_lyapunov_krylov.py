"""The Krylov solver of MF + FM = 2μY, its parts, batches and kernels, against dense twins."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as la
import scipy.sparse as sp

from cases import random_graph, solve_krylov
from mustlink.errors import InputError
from mustlink.graph.graph import Graph
from mustlink.kernels.blocks import mix, next_term
from mustlink.kernels.spmm import sampled_product
from mustlink.lyapunov.fields import LowRankField, LyapunovProblem, residual
from mustlink.lyapunov.krylov import convergence, solve_batches
from mustlink.lyapunov.sources import Sources, parts
from mustlink.operators.laplacian import normalized_laplacian


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def columns_of(field):
    return sum(theta.size for _, theta in field.terms)


def problem_of(W, mu, B, C):
    laplacian = normalized_laplacian(Graph(W))
    B, C = sp.csc_matrix(B), sp.csr_matrix(C)
    return LyapunovProblem(laplacian, mu, Sources(B, C))


def random_sources(rng, m, rank):
    """Unit and overlapping columns; C of full rank with eigenvalues of both signs."""
    B = np.zeros((m, rank))
    B[rng.permutation(m)[:rank], np.arange(rank)] = 1.0
    wide = rng.random(rank) < 0.2
    B[:, wide] += rng.random((m, wide.sum())) < 0.1
    C = rng.standard_normal((rank, rank)) * (rng.random((rank, rank)) < 0.3)
    C = C + C.T + np.diag(rng.choice([-1.0, 1.0], rank))
    return B, C


def pairs(rng, m, count):
    """C of random pairs on the nodes they name, ±1, and B that places them."""
    Y = np.zeros((m, m))
    for _ in range(count):
        i, j = rng.choice(m, 2, replace=False)
        Y[i, j] = Y[j, i] = rng.choice([-1.0, 1.0])
    used = np.flatnonzero(Y.any(axis=1))
    return np.eye(m)[:, used], Y[np.ix_(used, used)]


def scipy_solution(problem):
    """FLI11 eq. 5 by Bartels and Stewart."""
    M = problem.laplacian.to_dense() + problem.mu * np.eye(problem.size)
    B, C = problem.sources.B.toarray(), problem.sources.C.toarray()
    return la.solve_continuous_lyapunov(M, 2 * problem.mu * B @ C @ B.T), M, B @ C @ B.T


def relative_residual(problem, F):
    _, M, Y = scipy_solution(problem)
    return la.norm(M @ F + F @ M - 2 * problem.mu * Y) / la.norm(2 * problem.mu * Y)


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("mu", [1.0, 0.2, 0.01, 0.001])
@pytest.mark.parametrize(("components", "rank"), [(1, 1), (2, 7), (3, 25), (4, 60)])
def test_agrees_with_scipy(rng, mu, components, rank):
    W = random_graph(rng, 90, components, isolated=3, density=0.05, dtype=np.float32)
    problem = problem_of(W, mu, *random_sources(rng, 87, rank))
    wanted, _, Y = scipy_solution(problem)
    for tol in (1e-3, 1e-6, 1e-10):
        field, conv = solve_krylov(problem, tol=tol)
        F = field.dot(np.eye(87))
        assert conv.reason == "tolerance"
        assert conv.converged.all()
        found = relative_residual(problem, F)
        assert found <= conv.residuals.max() * (1 + 1e-6) + 1e-13 <= tol * (1 + 1e-6) + 1e-13
        # The operator's smallest eigenvalue is 2μ: ‖F − F*‖ <= ‖R‖/2μ <= tol·‖Y‖.
        assert la.norm(F - wanted) <= tol * la.norm(Y) + 1e-12
        assert residual(problem, field) == pytest.approx(found, rel=1e-6, abs=1e-13)


def test_residual_is_sharp_for_one_batch(rng):
    W = random_graph(rng, 120, 2, density=0.05)
    problem = problem_of(W, 0.05, *pairs(rng, 120, 15))
    field, conv = solve_krylov(problem, tol=1e-5)
    found = relative_residual(problem, field.dot(np.eye(120)))
    assert 0.7 * conv.residuals[0] <= found <= conv.residuals[0]


def test_second_pass_gives_the_same(rng):
    W = random_graph(rng, 150, 1, density=0.03, weak=None)
    problem = problem_of(W, 0.2, *pairs(rng, 150, 10))
    ample, first = solve_krylov(problem, tol=1e-6)
    # As little memory as one batch of all columns can have: every block is computed twice.
    tight, second = solve_krylov(problem, tol=1e-6, memory=8 * 150 * 20 * 13)
    assert first.residuals.size == second.residuals.size == 1
    assert first.iterations == second.iterations > 6
    eye = np.eye(150)
    assert np.allclose(ample.dot(eye), tight.dot(eye), rtol=0, atol=1e-12)


@pytest.mark.parametrize("columns", [2, 3, 8, 50])
def test_batches_sum_to_the_tolerance(rng, columns):
    W = random_graph(rng, 130, 2, density=0.05)
    problem = problem_of(W, 0.1, *pairs(rng, 130, 30))
    field, conv = solve_krylov(problem, tol=1e-4, max_columns=columns)
    assert relative_residual(problem, field.dot(np.eye(130))) <= 1e-4
    assert len(field.terms) >= conv.residuals.size >= 60 // columns - 10
    batches = list(solve_batches(problem, tol=1e-4, max_columns=columns))
    assert np.array_equal(convergence(problem, batches, 1e-4).residuals, conv.residuals)
    assert min(b.norm for b in batches) > 0


@pytest.mark.parametrize("columns", [2, 5, 16, 1000])
def test_parts_sum_to_Y(rng, columns):
    B, C = random_sources(rng, 80, 30)
    pieces = list(parts(Sources(sp.csc_matrix(B), sp.csr_matrix(C)), columns))
    total = np.zeros((80, 80))
    for part in pieces:
        assert part.values.size <= max(columns, 2)
        assert np.allclose(part.vectors.T @ part.vectors, np.eye(part.values.size), atol=1e-12)
        X = np.zeros((80, part.values.size))
        X[part.nodes] = part.vectors
        total += (X * part.values) @ X.T
    assert np.allclose(total, B @ C @ B.T, atol=1e-10)
    assert (len(pieces) == 1) == (columns == 1000)


def test_a_hub_is_a_part_of_rank_two(rng):
    m = 300
    C = np.zeros((m, m))
    C[7, :] = C[:, 7] = rng.choice([-1.0, 1.0], m)
    C[7, 7] = 0.0
    W = random_graph(rng, m, 1, density=0.02)
    problem = problem_of(W, 0.2, np.eye(m), C)
    (only,) = parts(problem.sources, 10)
    assert only.values.size == 2
    assert only.values.prod() < 0
    field, _ = solve_krylov(problem, tol=1e-7, max_columns=10)
    assert relative_residual(problem, field.dot(np.eye(m))) <= 1e-7
    assert columns_of(field) <= 20


def test_dependent_and_cancelling_sources(rng):
    B = np.zeros((60, 5))
    B[[3, 9, 20], [0, 1, 2]] = 1.0
    B[:, 3] = B[:, 0] + B[:, 1]
    B[:, 4] = B[:, 2]
    C = rng.standard_normal((5, 5))
    problem = problem_of(random_graph(rng, 60), 0.2, B, C + C.T)
    (part,) = parts(problem.sources, 100)
    assert part.values.size == 3
    field, _ = solve_krylov(problem, tol=1e-9)
    assert relative_residual(problem, field.dot(np.eye(60))) <= 1e-9
    nothing = problem_of(random_graph(rng, 60), 0.2, B[:, [2, 4]], np.diag([1.0, -1.0]))
    field, conv = solve_krylov(nothing)
    assert columns_of(field) == 0
    assert conv.converged.all()
    assert conv.reason == "tolerance"
    assert not field.dot(np.ones((60, 2))).any()


def test_invariant_subspace_ends_early(rng):
    """A complete graph: L̄ has two eigenvalues, so that two steps are exact."""
    W = sp.csr_matrix(np.ones((40, 40)) - np.eye(40))
    problem = problem_of(W, 0.01, *pairs(rng, 40, 4))
    field, conv = solve_krylov(problem, tol=1e-12)
    assert conv.iterations <= 3
    assert conv.reason == "tolerance"
    assert relative_residual(problem, field.dot(np.eye(40))) <= 1e-12


def test_columns_of_unlike_spectrum(rng):
    """The estimate assumes like columns: a long path beside a complete graph misleads it."""
    path = sp.diags([np.ones(199), np.ones(199)], [-1, 1])
    clique = sp.csr_matrix(np.ones((30, 30)) - np.eye(30))
    W = sp.csr_matrix(sp.block_diag([path, clique]))
    order = normalized_laplacian(Graph(W)).nodes
    Y = np.zeros((230, 230))
    for i in range(200, 228, 2):
        Y[i, i + 1] = Y[i + 1, i] = 1.0
    Y[100, 101] = Y[101, 100] = -1e-2
    problem = problem_of(W, 0.001, np.eye(230), Y[np.ix_(order, order)])
    for tol in (1e-3, 1e-8):
        field, conv = solve_krylov(problem, tol=tol)
        assert conv.converged.all()
        assert relative_residual(problem, field.dot(np.eye(230))) <= tol


def test_too_few_steps_are_told(rng):
    problem = problem_of(random_graph(rng, 80), 0.01, *pairs(rng, 80, 5))
    heard = []
    field, conv = solve_krylov(problem, tol=1e-8, max_iter=5, on_step=heard.append)
    assert conv.reason == "max_iter"
    assert not conv.converged.any()
    assert conv.iterations == 5
    found = relative_residual(problem, field.dot(np.eye(80)))
    assert found == pytest.approx(conv.residuals[0], rel=0.05)
    assert found > 1e-8
    assert len(heard) == 5
    assert heard[0] > heard[-1]


def test_bad_input(rng):
    B, C = pairs(rng, 80, 5)
    W = random_graph(rng, 80)
    with pytest.raises(InputError, match=r"memory: 1,000 bytes .* give at least"):
        solve_krylov(problem_of(W, 0.2, B, C), memory=1000)
    with pytest.raises(InputError, match="mu: 0"):
        solve_krylov(problem_of(W, 0.0, B, C))
    with pytest.raises(InputError, match="tol: -1"):
        solve_krylov(problem_of(W, 0.2, B, C), tol=-1)


def test_low_rank_field_is_its_matrix(rng):
    terms = [(rng.standard_normal((50, k)), rng.standard_normal(k)) for k in (3, 8)]
    field = LowRankField(tuple(terms), 50)
    dense = sum((Z * theta) @ Z.T for Z, theta in terms)
    X = rng.standard_normal((50, 4))
    assert np.allclose(field.dot(X), dense @ X)
    pattern = random_graph(rng, 50)
    row = np.repeat(np.arange(50), np.diff(pattern.indptr))
    assert np.allclose(field.on_pattern(pattern), dense[row, pattern.indices])
    assert columns_of(field) == 11


def test_sampled_product(rng):
    left, right = rng.standard_normal((40, 6)), rng.standard_normal((30, 6))
    weights = rng.standard_normal(6)
    pattern = sp.random(40, 30, 0.2, "csr", random_state=1)
    row, col = pattern.tocoo().row, pattern.tocoo().col
    assert np.allclose(sampled_product(pattern, left, right), (left @ right.T)[row, col])
    found = np.ones(pattern.nnz)
    sampled_product(pattern, left, right, weights, found)
    assert np.allclose(found, 1 + ((left * weights) @ right.T)[row, col])


def test_recurrence_kernels(rng):
    S = random_graph(rng, 30)
    V, old, out = rng.standard_normal((3, 30, 5))
    wanted = 2.0 * (S @ V) - 0.5 * V + 3.0 * old
    inner, square = next_term(S, V, old, (2.0, -0.5, 3.0), out)
    assert np.allclose(out, wanted)
    assert np.allclose([inner, square], [np.vdot(wanted, V), np.vdot(wanted, wanted)])
    terms, C = rng.standard_normal((4, 30, 5)), rng.standard_normal((2, 3))
    total = np.ones((3, 30, 5))
    mix(terms, np.array([3, 1]), C, total)
    assert np.allclose(total, 1 + np.einsum("tnk,tq->qnk", terms[[3, 1]], C))
