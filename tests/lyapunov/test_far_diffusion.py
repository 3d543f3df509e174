"""Constraints that reach most nodes: filters, parts and kernels, against dense twins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg as la
import scipy.sparse as sp

from cases import random_graph
from mustlink.errors import InputError
from mustlink.graph.graph import Graph
from mustlink.kernels.spmm import next_term, sampled_product
from mustlink.lyapunov.diffusion import FarDiffusion
from mustlink.lyapunov.equation import ExhaustiveProblem, LyapunovProblem, residual
from mustlink.lyapunov.fields import LowRankField
from mustlink.lyapunov.filters import far_filter, quadrature
from mustlink.lyapunov.sources import Sources, source_parts
from mustlink.operators.laplacian import normalized_laplacian


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def problem_of(W, parameter, B, C, kind=LyapunovProblem):
    laplacian = normalized_laplacian(Graph(W))
    B, C = sp.csc_matrix(B), sp.csr_matrix(C)
    return kind(laplacian, parameter, Sources(B, C))


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


def spread(problem, tol, **options):
    """F of all parts in one, and how it was found."""
    found = FarDiffusion(problem, tol, **options)
    terms = tuple(term for field in found.fields() for term in field.terms)
    return LowRankField(terms, problem.size), found


def solution(problem):
    """F by dense algebra, and Y."""
    Y = problem.sources.B.toarray() @ problem.sources.C.toarray() @ problem.sources.B.T.toarray()
    if isinstance(problem, LyapunovProblem):
        M = problem.laplacian.to_dense() + problem.mu * np.eye(problem.size)
        return la.solve_continuous_lyapunov(M, 2 * problem.mu * Y), Y
    P = la.inv(np.eye(problem.size) - problem.alpha * problem.laplacian.S.toarray())
    return (1 - problem.alpha) ** 2 * P @ Y @ P, Y


@pytest.mark.parametrize("mu", [1.0, 0.2, 0.01, 0.001])
@pytest.mark.parametrize(("components", "rank"), [(1, 1), (2, 7), (3, 25), (4, 60)])
def test_agrees_with_scipy(rng, mu, components, rank):
    W = random_graph(rng, 90, components, isolated=3, density=0.05, dtype=np.float32)
    problem = problem_of(W, mu, *random_sources(rng, 87, rank))
    F, _ = solution(problem)
    for tol in (1e-2, 1e-4, 1e-7):
        field, found = spread(problem, tol)
        apart = la.norm(field.dot(np.eye(87)) - F)
        # Rounding: of terms, and of the dense solution, whose condition is 1/μ.
        assert apart <= found.error * la.norm(F) + 1e-14 / mu * la.norm(F)
        assert found.error <= 0.11 * tol
        assert residual(problem, field) <= found.error * (2 + mu) / mu


@pytest.mark.parametrize("alpha", [0.3, 0.8, 0.99, 0.99999])
def test_agrees_with_explicit_inverses(rng, alpha):
    W = random_graph(rng, 90, 2, density=0.05)
    B, C = random_sources(rng, 90, 20)
    problem = problem_of(W, alpha, B, C, ExhaustiveProblem)
    F, _ = solution(problem)
    for tol in (1e-2, 1e-6):
        field, found = spread(problem, tol)
        assert found.error <= 0.11 * tol
        apart = la.norm(field.dot(np.eye(90)) - F)
        assert apart <= (found.error + 1e-14 / (1 - alpha)) * la.norm(F)


def test_steps_are_some_roots_of_what_powers_take():
    """K grows as ln(1/μ)/μ^½, where powers of S are 1/μ and more."""
    laplacian = normalized_laplacian(Graph(sp.csr_matrix(np.ones((3, 3)) - np.eye(3))))
    nothing = Sources(sp.csc_matrix((3, 0)), sp.csr_matrix((0, 0)))
    steps = [
        len(far_filter(LyapunovProblem(laplacian, mu, nothing), 1e-4).coefficients)
        for mu in (1e-2, 1e-3, 1e-4, 1e-5)
    ]
    assert all(3.1 < b / a < 3.8 for a, b in pairwise(steps))  # √10 is 3.16
    assert steps[-1] < 5000


@pytest.mark.parametrize("mu", [1.0, 1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-7, 1e-11])
def test_quadrature_of_the_inverse(mu, tol):
    found = quadrature(2 * mu, 2 * mu + 4, tol)
    x = np.exp(np.linspace(np.log(2 * mu), np.log(2 * mu + 4), 3001))
    apart = np.abs(x * (np.exp(-x[:, None] * found.times) @ found.weights) - 1).max()
    assert apart <= 1.001 * found.error + 1e-14 <= tol
    assert found.times.size < 110


@pytest.mark.parametrize(("kind", "value", "word"), [
    (LyapunovProblem, 1e-10, "mu: 1e-10 .* give more"),
    (ExhaustiveProblem, 1 - 1e-10, "alpha: .* give less"),
])  # fmt: skip
def test_pairs_that_reach_everything_alike_are_refused(rng, kind, value, word):
    problem = problem_of(random_graph(rng, 80), value, *pairs(rng, 80, 5), kind)
    with pytest.raises(InputError, match=word):
        FarDiffusion(problem, 1e-3)


def test_tiny_mu(rng):
    problem = problem_of(random_graph(rng, 60), 1e-5, *pairs(rng, 60, 5))
    F, _ = solution(problem)
    field, found = spread(problem, 1e-2)
    # 1e-16/μ: of the dense solution.
    assert la.norm(field.dot(np.eye(60)) - F) <= (found.error + 1e-10) * la.norm(F)


@pytest.mark.parametrize("columns", [2, 3, 8, 50])
def test_parts_add_up(rng, columns):
    W = random_graph(rng, 130, 2, density=0.05)
    problem = problem_of(W, 0.01, *pairs(rng, 130, 30))
    F, _ = solution(problem)
    whole = FarDiffusion(problem, 1e-4)
    memory = columns * 8 * 130 * (whole.filter.weights.size + 3)
    tight = FarDiffusion(problem, 1e-4, memory=memory)
    parts = list(tight.fields())
    assert len(parts) >= 60 // columns - 10
    assert max(Z.shape[1] for part in parts for Z, _ in part.terms) <= columns
    eye = np.eye(130)
    total = sum(part.dot(eye) for part in parts)
    np.testing.assert_allclose(total, spread(problem, 1e-4)[0].dot(eye), atol=1e-12)
    assert la.norm(total - F) <= tight.error * la.norm(F)


@pytest.mark.parametrize("columns", [2, 5, 16, 1000])
def test_parts_sum_to_Y(rng, columns):
    B, C = random_sources(rng, 80, 30)
    parts = list(source_parts(Sources(sp.csc_matrix(B), sp.csr_matrix(C)), columns))
    assert all(np.linalg.matrix_rank(part.C.toarray()) <= max(columns, 2) for part in parts)
    total = sum((part.B @ part.C @ part.B.T).toarray() for part in parts)
    assert np.allclose(total, B @ C @ B.T, atol=1e-10)
    assert (len(parts) == 1) == (columns == 1000)


def test_a_hub_is_a_part_of_rank_two(rng):
    m = 300
    C = np.zeros((m, m))
    C[7, :] = C[:, 7] = rng.choice([-1.0, 1.0], m)
    C[7, 7] = 0.0
    W = random_graph(rng, m, 1, density=0.02)
    problem = problem_of(W, 0.01, np.eye(m), C)
    (only,) = source_parts(problem.sources, 10)
    assert np.linalg.matrix_rank(only.C.toarray()) == 2
    field, found = spread(problem, 1e-6)
    F, _ = solution(problem)
    assert la.norm(field.dot(np.eye(m)) - F) <= found.error * la.norm(F)
    assert {theta.size for _, theta in field.terms} == {2}


def test_dependent_and_cancelling_sources(rng):
    B = np.zeros((60, 5))
    B[[3, 9, 20], [0, 1, 2]] = 1.0
    B[:, 3] = B[:, 0] + B[:, 1]
    B[:, 4] = B[:, 2]
    C = rng.standard_normal((5, 5))
    problem = problem_of(random_graph(rng, 60), 0.01, B, C + C.T)
    field, found = spread(problem, 1e-7)
    F, _ = solution(problem)
    assert la.norm(field.dot(np.eye(60)) - F) <= found.error * la.norm(F)
    nothing = problem_of(random_graph(rng, 60), 0.01, B[:, [2, 4]], np.diag([1.0, -1.0]))
    field, _ = spread(nothing, 1e-3)
    np.testing.assert_allclose(field.dot(np.ones((60, 2))), 0, atol=1e-15)


class Ending:
    """A deadline that is over after so many looks."""

    def __init__(self, looks):
        self.left = looks

    @property
    def is_over(self):
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("looks", [0, 1, 2, 7, 30])
def test_a_deadline_ends_the_sums(rng, looks):
    problem = problem_of(random_graph(rng, 80), 0.01, *pairs(rng, 80, 5))
    F, _ = solution(problem)
    heard = []
    field, found = spread(problem, 1e-4, deadline=Ending(looks), advance=heard.append)
    assert found.degree == looks
    assert len(heard) == looks + 1
    assert heard == sorted(heard)
    apart = la.norm(field.dot(np.eye(80)) - F)
    assert apart <= found.error * la.norm(F)
    assert found.error > 0.11e-4


def test_too_little_memory(rng):
    problem = problem_of(random_graph(rng, 80), 0.01, *pairs(rng, 80, 5))
    with pytest.raises(InputError, match=r"memory: 1,000 bytes .* give at least"):
        list(FarDiffusion(problem, 1e-3, memory=1000).fields())


def test_low_rank_field_is_its_matrix(rng):
    terms = [(rng.standard_normal((50, k)), rng.standard_normal(k)) for k in (3, 8)]
    field = LowRankField(tuple(terms), 50)
    dense = sum((Z * theta) @ Z.T for Z, theta in terms)
    X = rng.standard_normal((50, 4))
    assert np.allclose(field.dot(X), dense @ X)
    pattern = random_graph(rng, 50)
    row = np.repeat(np.arange(50), np.diff(pattern.indptr))
    assert np.allclose(field.on_pattern(pattern), dense[row, pattern.indices])


def test_sampled_product(rng):
    left, right = rng.standard_normal((40, 6)), rng.standard_normal((30, 6))
    weights = rng.standard_normal(6)
    pattern = sp.random(40, 30, 0.2, "csr", random_state=1)
    row, col = pattern.tocoo().row, pattern.tocoo().col
    assert np.allclose(sampled_product(pattern, left, right), (left @ right.T)[row, col])
    found = np.ones(pattern.nnz)
    sampled_product(pattern, left, right, weights, found)
    assert np.allclose(found, 1 + ((left * weights) @ right.T)[row, col])


def test_next_term(rng):
    S = random_graph(rng, 30)
    V, old, out = rng.standard_normal((3, 30, 5))
    wanted = 2.0 * (S @ V) - 0.5 * V + 3.0 * old
    assert next_term(S, V, old, (2.0, -0.5, 3.0), out) is out
    assert np.allclose(out, wanted)
    assert np.allclose(next_term(S, V, old, (2.0, -0.5, 3.0)), wanted)
