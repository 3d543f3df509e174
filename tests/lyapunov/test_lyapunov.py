"""Constraint propagation: sources, solvers, their parts and kernels, against dense twins."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mustlink as ml
import oracles
from cases import KINDS, random_constraints, random_graph, solve_krylov
from mustlink.clusterers.propagated_constraints import Adjustment
from mustlink.core.observe import Recorder
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink.kernels import diffused_columns as diffused_kernels
from mustlink.kernels.diffused_columns import adjust, diffused_columns, workspace
from mustlink.lyapunov import fields, filters, sources
from mustlink.lyapunov import fields as local
from mustlink.lyapunov import pair_propagation as solve
from mustlink.lyapunov.fields import (
    DenseField,
    ExhaustiveProblem,
    LyapunovProblem,
    NewEdges,
    residual,
    solve_dense,
    strongest,
)
from mustlink.lyapunov.filters import Diffusion, exponential_sum, filter_of
from mustlink.lyapunov.pair_propagation import solve_pairs
from mustlink.lyapunov.regions import MemoryRows
from mustlink.lyapunov.sources import Sources, source_pairs, sources_at
from mustlink.operators.laplacian import normalized_laplacian
from mustlink.operators.protocol import Edges

seeds = st.integers(0, 2**31)
MU = [1.0, 0.2, 0.01, 0.001]
SHAPES = (
    "pairs",
    "one",
    "hub",
    "labels",
    "both",
    "contradictory",
    "soft",
    "strong",
    "between",
    "float32",
)


@pytest.fixture(scope="module", autouse=True)
def _fitted_once():
    """The fit of exponentials is the same for every graph."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filters, "exponential_sum", lru_cache(exponential_sum))
        yield


def solve_diffusion(problem, tol=1e-4, **how):
    return Diffusion.prepare(problem, tol).spread(problem.sources, **how)


def on_edges(pattern, values):
    return sp.csr_matrix((values, pattern.indices, pattern.indptr), shape=pattern.shape)


def pairs_of(rng, n, count):
    return np.array([rng.choice(n, 2, replace=False) for _ in range(count)])


def case(shape, seed=0, n=70):
    """A graph (n, n) and what is known, of a named shape; isolated nodes are constrained too."""
    rng = np.random.default_rng([seed, SHAPES.index(shape)])
    components = {"between": 4, "hub": 1, "soft": 3}.get(shape, int(rng.integers(1, 5)))
    dtype = np.float32 if shape == "float32" else np.float64
    W = random_graph(rng, n, components, isolated=3, density=0.08, dtype=dtype)
    rows = pairs_of(rng, n, 30)
    belief = rng.choice([-1.0, 1.0], 30)
    labels = np.full(n, -1)
    labels[rng.permutation(n)[:25]] = rng.integers(0, 4, 25)
    from_pairs, from_labels = ml.Constraints.from_pairs, ml.Constraints.from_labels
    if shape == "one":
        part = oracles.components(W.toarray())
        known = from_pairs([np.flatnonzero(part == 0)[:2]], -1.0, n_nodes=n)
    elif shape == "hub":
        ring = rng.permutation(n)[:41]
        star = np.column_stack([np.full(40, ring[0]), ring[1:]])
        known = from_pairs(
            np.vstack([star, rows[:5]]), np.append(rng.uniform(-1, 1, 40), belief[:5]), n_nodes=n
        )
    elif shape == "labels":
        known = from_labels(labels)
    elif shape == "both":
        known = from_labels(labels) + from_pairs(rows, belief * rng.random(30), n_nodes=n)
    elif shape == "contradictory":
        twice = np.vstack([rows, rows[:9, ::-1], rows[:4]])
        said = np.concatenate([belief, -belief[:9], belief[:4]])
        known = from_pairs(twice, said, n_nodes=n)
    elif shape == "soft":
        known = random_constraints(rng, n, "soft")
    elif shape == "strong":
        known = from_pairs(rows, 5.0 * belief, n_nodes=n)
    elif shape == "between":
        part = oracles.components(W.toarray())
        ends = [rng.choice(np.flatnonzero(part == c), 8) for c in range(4)]
        known = from_pairs(
            np.vstack([np.column_stack([ends[0], ends[1]]), np.column_stack([ends[2], ends[3]])]),
            belief[:16],
            n_nodes=n,
        )
    else:
        known = from_pairs(rows, belief, n_nodes=n)
    return W, known


def problem_of(W, known, mu=0.2, alpha=None):
    laplacian = normalized_laplacian(ml.Graph.from_affinity(W))
    Y = sources_at(known, laplacian.nodes, laplacian.weights)
    if alpha is not None:
        return ExhaustiveProblem(laplacian, alpha, Y)
    return LyapunovProblem(laplacian, mu, Y)


def places(problem):
    """Working number of every node with an edge, in the graph's order."""
    found = problem.laplacian.positions
    return found[found >= 0]


def working(problem, M):
    """A matrix in the graph's order, in working order."""
    inverse = np.argsort(places(problem))
    return M[np.ix_(inverse, inverse)]


def wanted_of(W, known, problem):
    """F and Y by the oracles, in working order."""
    A = W.toarray().astype(np.float64)
    Y = oracles.known_pairs(known, A)
    if isinstance(problem, ExhaustiveProblem):
        F = oracles.exhaustive(A, Y, problem.alpha)
    else:
        F = oracles.bartels_stewart(A, Y, problem.mu)
    return working(problem, F), working(problem, Y)


def in_full(field, m):
    return field.dot(np.eye(m))


def hubs(rng, n):
    """Three hubs and degrees over four orders of magnitude."""
    A = random_graph(rng, n, density=0.03).toarray()
    for hub in range(3):
        met = rng.random(n) < 0.5
        A[hub, met] = 3 * rng.random(met.sum())
        A[:, hub] = A[hub]
    size = 10.0 ** rng.uniform(-1, 1, n)
    A = np.maximum(A, A.T) * np.sqrt(np.outer(size, size))
    np.fill_diagonal(A, 0)
    return sp.csr_matrix(A)


# --- sources


@pytest.mark.parametrize("shape", SHAPES)
def test_sources_are_the_pairs(shape):
    for seed in range(3):
        W, known = case(shape, seed)
        problem = problem_of(W, known)
        Y = problem.sources
        dense = (Y.B @ Y.C @ Y.B.T).toarray()
        wanted = working(problem, oracles.known_pairs(known, W.toarray()))
        np.testing.assert_allclose(dense, wanted, atol=1e-14)
        assert not dense.diagonal().any()
        X = np.random.default_rng(seed).standard_normal((problem.size, 3))
        np.testing.assert_allclose(Y.dot(X), wanted @ X, atol=1e-12)
        assert Y.norm == pytest.approx(np.linalg.norm(wanted))
        assert (abs(Y.C - Y.C.T)).nnz == 0
        assert np.diff(Y.C.indptr).all()
        assert Y.largest >= np.abs(wanted).max() - 1e-14
        pattern, beliefs = source_pairs(Y)
        pairs = on_edges(pattern, beliefs)
        np.testing.assert_allclose(pairs.toarray(), wanted, atol=1e-14)
        assert pairs.has_sorted_indices


def test_a_hub_is_two_sources():
    W, known = case("hub")
    Y = problem_of(W, known).sources
    nodes = np.unique(Y.B[:, np.diff(Y.B.indptr) == 1].indices).size
    assert Y.count < 20 < known.nodes.size
    assert np.diff(Y.B.indptr).max() >= 30
    assert nodes == (np.diff(Y.B.indptr) == 1).sum()


def test_hubs_that_are_partners():
    n = 60
    rng = np.random.default_rng(0)
    rows = [[h, j] for h in (0, 1, 2) for j in range(h + 1, 45)]
    known = ml.Constraints.from_pairs(rows, rng.uniform(-1, 1, len(rows)), n_nodes=n)
    problem = problem_of(random_graph(rng, n), known)
    Y = problem.sources
    wanted = working(problem, known.to_dense())
    np.testing.assert_allclose((Y.B @ Y.C @ Y.B.T).toarray(), wanted, atol=1e-15)


def test_more_than_512_classes():
    n = 700
    rng = np.random.default_rng(0)
    y = np.append(np.arange(600), rng.integers(0, 600, 100))
    problem = problem_of(random_graph(rng, n, density=0.01), ml.Constraints.from_labels(y))
    Y = problem.sources
    wanted = working(problem, oracles.labels_dense(y) - np.eye(n))
    np.testing.assert_allclose((Y.B @ Y.C @ Y.B.T).toarray(), wanted, atol=1e-12)


def test_nothing_known_is_no_source():
    W, _ = case("pairs")
    cancelled = ml.Constraints.from_pairs([[0, 1], [1, 0]], [1, -1], n_nodes=70)
    alone = np.flatnonzero(np.diff(W.indptr) == 0)[:2]
    isolated = ml.Constraints.from_pairs([alone], n_nodes=70)
    for known in (ml.Constraints.none(70), cancelled, isolated):
        problem = problem_of(W, known)
        assert problem.sources.count == 0
        recorder = Recorder(None)
        found = solve_pairs(problem, recorder)
        assert not found.beliefs.any()
        assert found.new.count == 0
        assert any("nothing to spread" in note for note in recorder.notes)


@pytest.mark.parametrize("shape", ["labels", "both", "hub", "pairs"])
def test_a_selection_of_pairs_says_what_they_say(monkeypatch, shape):
    """Of too many pairs some are looked at: none of them may be made up."""
    W, known = case(shape)
    problem = problem_of(W, known)
    wanted = working(problem, oracles.known_pairs(known, W.toarray()))
    B = problem.sources.B
    before = B.toarray()
    monkeypatch.setattr(sources, "_GIVEN", 40)
    pattern, beliefs = source_pairs(problem.sources)
    found = on_edges(pattern, beliefs).toarray()
    B.check_format(full_check=True)
    np.testing.assert_array_equal(B.toarray(), before)
    assert found.any()
    chosen = found != 0
    np.testing.assert_allclose(found[chosen], wanted[chosen], atol=1e-14)


@pytest.mark.parametrize("solver", ["dense", "diffusion", "krylov"])
def test_a_selection_of_pairs_leaves_the_problem_alone(monkeypatch, solver):
    W, known = case("labels")
    wanted = solve_pairs(problem_of(W, known), Recorder(None), solver=solver, tol=1e-6)
    monkeypatch.setattr(sources, "_GIVEN", 40)
    found = solve_pairs(problem_of(W, known), Recorder(None), solver=solver, tol=1e-6)
    np.testing.assert_array_equal(found.beliefs, wanted.beliefs)
    assert found.about == wanted.about


# --- the solvers


@pytest.mark.parametrize("mu", MU)
@pytest.mark.parametrize("shape", SHAPES)
def test_dense_is_scipy(shape, mu):
    W, known = case(shape)
    problem = problem_of(W, known, mu)
    F, _ = wanted_of(W, known, problem)
    found = solve_dense(problem)
    np.testing.assert_allclose(found.matrix, F, atol=1e-11 * np.abs(F).max())
    assert np.array_equal(found.matrix, found.matrix.T)
    S = problem.laplacian.S
    rows, columns = S.nonzero()
    np.testing.assert_array_equal(
        found.on_pattern(problem.laplacian.pattern), found.matrix[rows, columns]
    )


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("mu", MU[:3])
@pytest.mark.parametrize("shape", SHAPES)
def test_diffusion_is_scipy(shape, mu):
    W, known = case(shape, seed=1)
    problem = problem_of(W, known, mu)
    F, Y = wanted_of(W, known, problem)
    for tol in (1e-2, 1e-5):
        field = solve_diffusion(problem, tol=tol)
        assert field.bound <= tol * np.abs(Y).max() * (1 + 1e-9) or field.unit > np.abs(Y).max()
        assert field.quadrature <= 0.1 * tol
        error = np.abs(in_full(field, problem.size) - F).max()
        assert error <= field.bound + field.quadrature * np.linalg.norm(F)


@pytest.mark.thorough
def test_diffusion_of_small_mu():
    W, known = case("both", n=40)
    problem = problem_of(W, known, 0.001)
    F, _ = wanted_of(W, known, problem)
    field = solve_diffusion(problem, tol=1e-3)
    error = np.abs(in_full(field, problem.size) - F).max()
    assert error <= field.bound + field.quadrature * np.linalg.norm(F)
    with pytest.raises(InputError, match=r'mu: 1e-06 spreads .* solver="krylov"'):
        solve_diffusion(problem_of(W, known, 1e-6), tol=1e-2)


@pytest.mark.thorough(but=6)
@pytest.mark.parametrize("mu", MU)
@pytest.mark.parametrize("shape", SHAPES)
def test_krylov_is_scipy(shape, mu):
    W, known = case(shape, seed=2)
    problem = problem_of(W, known, mu)
    F, Y = wanted_of(W, known, problem)
    found = solve_pairs(problem, Recorder(None), solver="krylov", tol=1e-7, new_edges=5)
    S = problem.laplacian.S
    wanted = F[S.nonzero()]
    # ‖F − F*‖ <= ‖R‖/2μ <= tol·‖Y‖
    assert np.linalg.norm(found.beliefs - wanted) <= 1e-7 * np.linalg.norm(Y)
    new = found.new
    np.testing.assert_allclose(new.beliefs, F[new.first, new.second], atol=1e-7 * np.linalg.norm(Y))
    assert found.convergence.residuals.max() <= 1e-7
    assert found.quality["residual"] <= 1e-7


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("rank", [1, 2, 17, 60])
@pytest.mark.parametrize("mu", [1.0, 0.05])
def test_indefinite_sources_of_any_rank(rank, mu):
    """Overlapping sources of both signs, as no list of pairs makes them."""
    rng = np.random.default_rng(rank)
    W = random_graph(rng, 80, 1 + rank % 4, density=0.06)
    B = np.zeros((80, rank))
    B[rng.permutation(80)[:rank], np.arange(rank)] = 1.0
    B += (rng.random((80, rank)) < 0.05) * rng.standard_normal((80, rank))
    C = np.diag(np.where(np.arange(rank) % 2, 1.0, -1.0))
    C += np.triu(rng.standard_normal((rank, rank)) * (rng.random((rank, rank)) < 0.1), 1)
    C = np.triu(C) + np.triu(C, 1).T
    Y = B @ C @ B.T
    laplacian = normalized_laplacian(ml.Graph.from_affinity(W))
    problem = LyapunovProblem(laplacian, mu, Sources(sp.csc_matrix(B), sp.csr_matrix(C)))
    A = laplacian.to_dense()
    F = oracles.bartels_stewart(W.toarray()[np.ix_(laplacian.nodes, laplacian.nodes)], Y, mu)
    np.testing.assert_allclose(solve_dense(problem).matrix, F, atol=1e-11)
    field = solve_diffusion(problem, tol=1e-4)
    error = np.abs(in_full(field, 80) - F).max()
    assert error <= field.bound + field.quadrature * np.linalg.norm(F)
    low, _ = solve_krylov(problem, tol=1e-8)
    assert np.linalg.norm(in_full(low, 80) - F) <= 1e-8 * np.linalg.norm(Y)
    R = A @ F + F @ A + 2 * mu * (F - Y)
    assert np.abs(R).max() < 1e-11


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("shape", ["pairs", "hub", "both", "between"])
def test_e2cp_is_explicit_inverses(shape, alpha):
    W, known = case(shape, seed=3)
    problem = problem_of(W, known, alpha=alpha)
    F, _ = wanted_of(W, known, problem)
    np.testing.assert_allclose(solve_dense(problem).matrix, F, atol=1e-11)
    for tol in (1e-2, 1e-5, 1e-8):
        field = solve_diffusion(problem, tol=tol)
        error = np.abs(in_full(field, problem.size) - F).max()
        assert error <= field.bound + field.quadrature * np.linalg.norm(F)
    assert residual(problem, solve_dense(problem)) < 1e-11
    with pytest.raises(InputError, match="krylov"):
        solve_pairs(problem, Recorder(None), solver="krylov")


@settings(max_examples=15)
@given(seeds, st.sampled_from(KINDS), st.floats(0.02, 3.0))
def test_the_limit_of_information_spreading(seed, kind, mu):
    rng = np.random.default_rng(seed)
    W = random_graph(rng, 40, int(rng.integers(1, 4)), isolated=2)
    problem = problem_of(W, random_constraints(rng, 40, kind), mu)
    A, known = W.toarray(), problem.sources
    F = solve_dense(problem).matrix
    Y = (known.B @ known.C @ known.B.T).toarray()
    order = problem.laplacian.nodes
    spread = oracles.information_spreading(A[np.ix_(order, order)], Y, 1 / (1 + mu))
    np.testing.assert_allclose(F, spread, atol=1e-11 * max(1, np.abs(Y).max(initial=0)))


@pytest.mark.parametrize("solver", ["dense", "diffusion", "krylov"])
def test_large_mu_leaves_the_pairs_alone(solver):
    W, known = case("pairs")
    problem = problem_of(W, known, 1e6)
    Y = working(problem, oracles.known_pairs(known, W.toarray()))
    found = solve_pairs(problem, Recorder(None), solver=solver, tol=1e-5)
    on_edges = Y[problem.laplacian.S.nonzero()]
    # F* − Y = −(L̄F* + F*L̄)/2μ with ‖L̄‖ <= 2 and ‖F*‖ <= ‖Y‖, and ‖F − F*‖ <= ‖R‖/2μ.
    allowed = 2e-6 * np.linalg.norm(Y, 2) + found.quality["residual"] * np.linalg.norm(Y)
    assert allowed < 1e-5
    np.testing.assert_allclose(found.beliefs, on_edges, rtol=0, atol=allowed)
    assert found.agreement == 1.0
    assert found.largest == pytest.approx(1, rel=0, abs=allowed)


# --- the residual


@pytest.mark.parametrize("alpha", [None, 0.7])
@pytest.mark.parametrize("shape", ["pairs", "both", "between"])
def test_residual_of_any_field(shape, alpha):
    W, known = case(shape)
    problem = problem_of(W, known, 0.3, alpha)
    m, L = problem.size, problem.laplacian.to_dense()
    Y = working(problem, oracles.known_pairs(known, W.toarray()))
    rng = np.random.default_rng(0)
    G = rng.standard_normal((m, m))
    for F in (G + G.T, np.zeros((m, m)), Y, solve_dense(problem).matrix):
        if alpha is None:
            M = L + 0.3 * np.eye(m)
            R, size = M @ F + F @ M - 0.6 * Y, np.linalg.norm(0.6 * Y)
        else:
            M = np.eye(m) - alpha * (np.eye(m) - L)
            R, size = M @ F @ M - (1 - alpha) ** 2 * Y, np.linalg.norm((1 - alpha) ** 2 * Y)
        found = residual(problem, DenseField(F))
        assert found == pytest.approx(np.linalg.norm(R) / size, rel=1e-9, abs=1e-12)


def test_residual_by_probes(monkeypatch):
    W, known = case("both", n=120)
    problem = problem_of(W, known)
    rng = np.random.default_rng(0)
    G = rng.standard_normal((problem.size, 3))
    field = DenseField(G @ G.T)
    exact = residual(problem, field)
    monkeypatch.setattr(fields, "_EXACT_BELOW", 10)
    squares = []
    for seed in range(40):
        found = residual(problem, field, seed=seed)
        squares.append((found / exact) ** 2)
    # 40 draws: the mean is off by at most 4 standard errors, single ones by 5.
    error = (2 / 64) ** 0.5
    assert np.mean(squares) == pytest.approx(1, abs=4 * error / 40**0.5)
    assert np.abs(np.array(squares) - 1).max() < 5 * error
    assert residual(problem, field, seed=3) == residual(problem, field, seed=3)
    many = residual(problem, field, probes=6000)
    assert (many / exact) ** 2 == pytest.approx(1, abs=5 * (2 / 6000) ** 0.5)


def test_residual_of_nothing_known():
    W, _ = case("pairs")
    problem = problem_of(W, ml.Constraints.none(70))
    assert residual(problem, DenseField(np.zeros((problem.size,) * 2))) == 0


# --- diffusion


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("alpha", [None, 0.8])
@pytest.mark.parametrize("seed", range(4))
def test_diffusion_keeps_its_bound(seed, alpha):
    """Hubs in the graph, a hub among the pairs, labels: every entry is within the bound."""
    rng = np.random.default_rng(seed)
    n = 150
    W = hubs(rng, n) if seed % 2 else random_graph(rng, n, 2, density=0.02)
    rows = np.vstack([[[5, j] for j in range(60, 100)], pairs_of(rng, n, 30)])
    known = ml.Constraints.from_pairs(rows, rng.choice([-1, 1, 0.3, -0.5, 2], 70), n_nodes=n)
    if seed > 1:
        known += ml.Constraints.from_labels(
            np.where(rng.random(n) < 0.1, rng.integers(0, 3, n), -1)
        )
    problem = problem_of(W, known, 0.2, alpha)
    F, _ = wanted_of(W, known, problem)
    S = problem.laplacian.S
    full = sp.csr_matrix(np.ones((n, n)))
    for tol in (1e-2, 1e-4, 1e-6):
        field = solve_diffusion(problem, tol=tol)
        assert field.bound / field.unit <= tol * (1 + 1e-9)
        dense = in_full(field, n)
        allowed = field.bound + field.quadrature * np.linalg.norm(F)
        assert np.abs(dense - F).max() <= allowed
        rounding = 1e-13 if tol < 1e-6 else 1e-5 * tol
        np.testing.assert_allclose(field.on_pattern(S), dense[S.nonzero()], atol=rounding)
        np.testing.assert_allclose(field.on_pattern(full).reshape(n, n), dense, atol=rounding)


@pytest.mark.parametrize("alpha", [None, 0.8])
def test_very_wide_degrees(alpha):
    """Weights over six orders of magnitude: the tolerance asked for still holds."""
    rng = np.random.default_rng(0)
    n = 300
    A = np.zeros((n, n))
    A[0, 1:150] = 1.0
    A[0, 150:] = 1e-6
    A[np.arange(1, n - 1), np.arange(2, n)] = 1e-6
    known = ml.Constraints.from_pairs(pairs_of(rng, n, 60), rng.choice([-1, 1], 60), n_nodes=n)
    W = sp.csr_matrix(A + A.T)
    problem = problem_of(W, known, 0.2, alpha)
    F, _ = wanted_of(W, known, problem)
    field = solve_diffusion(problem, tol=1e-2)
    assert np.abs(in_full(field, n) - F).max() <= 1e-2 * (1 + 0.1 * np.linalg.norm(F))
    assert field.bound / field.unit <= 1e-2 * (1 + 1e-9)


def test_diffusion_is_local():
    """On a long path a pair says nothing beyond its tolerance's reach."""
    n = 600
    W = sp.diags([np.ones(n - 1), np.ones(n - 1)], [-1, 1], format="csr")
    known = ml.Constraints.from_pairs([[100, 102], [400, 401]], [1, -1], n_nodes=n)
    problem = problem_of(W, known)
    field = solve_diffusion(problem, tol=1e-4)
    assert field.source_support < 80
    F = solve_dense(problem).matrix
    assert np.abs(field.on_pattern(W) - F[W.nonzero()]).max() <= field.bound / field.unit
    assert 24 <= Diffusion.prepare(problem, 1e-4).bytes_per_source() < 80 * 200


@pytest.mark.parametrize("shape", ["pairs", "hub", "both", "soft"])
@pytest.mark.parametrize("count", [1, 4, 70])
def test_strongest_new_edges(shape, count):
    W, known = case(shape, seed=4)
    problem = problem_of(W, known)
    m, S = problem.size, problem.laplacian.S
    dense = S.toarray()
    field = solve_diffusion(problem, tol=1e-6)
    F = in_full(field, m)
    new = field.strongest(S, count)
    assert (new.first < new.second).all()
    assert not dense[new.first, new.second].any()
    floor = local.FLOOR * field.bound
    assert (new.beliefs > floor).all()
    np.testing.assert_allclose(new.beliefs, F[new.first, new.second], atol=1e-12)
    found = dict(zip(zip(new.first, new.second, strict=True), new.beliefs, strict=True))
    assert len(found) == new.count
    # Products below floor/16 are left out of the search: F is off by as much for every source.
    unclear = floor * (1 + problem.sources.count)
    for i in range(m):
        row = np.where((dense[i] == 0) & (np.arange(m) != i), F[i], 0.0)
        least = max(np.sort(row)[-count - 1] if count < m else 0.0, floor)
        for j in np.flatnonzero(row > least + 2 * unclear):
            assert (min(i, j), max(i, j)) in found
    wanted = oracles.strongest_outside(dense, F, count, floor)
    assert len(wanted.keys() & found.keys()) >= 0.98 * len(wanted)
    assert field.strongest(S, 0).count == 0


def test_strongest_with_a_loose_search(monkeypatch):
    """However much is skipped, what stands out clearly is found, with its F in full."""
    W, known = case("hub", seed=5)
    problem = problem_of(W, known)
    S, m = problem.laplacian.S, problem.size
    field = solve_diffusion(problem, tol=1e-3)
    F = in_full(field, m)
    monkeypatch.setattr(local, "_MISSED", 1.0)
    new = field.strongest(S, 3)
    found = set(zip(new.first.tolist(), new.second.tolist(), strict=True))
    np.testing.assert_allclose(new.beliefs, F[new.first, new.second], atol=1e-7)
    floor = local.FLOOR * field.bound
    missed = floor * problem.sources.count
    for (i, j), f in oracles.strongest_outside(S.toarray(), F, 3, floor).items():
        for a, b in ((i, j), (j, i)):
            others = np.where(S[a].toarray().ravel() == 0, F[a], 0.0)
            others[[a, b]] = 0.0
            if f > floor + missed and (others > f - 2 * missed).sum() < 3:
                assert (i, j) in found
    assert found <= oracles.strongest_outside(S.toarray(), F, m, floor).keys()


@pytest.mark.parametrize("shape", ["pairs", "hub", "both", "soft"])
def test_what_may_be_above_a_share(monkeypatch, shape):
    """Where one of several F is above its share of a floor, row by row, against F written out."""
    monkeypatch.setattr(local, "_MISSED", 0.0)
    rng = np.random.default_rng(2)
    W, known = case(shape, seed=4)
    problem = problem_of(W, known)
    m, S = problem.size, problem.laplacian.S
    field = solve_diffusion(problem, tol=1e-6)
    parts = rng.integers(0, 5, m).astype(np.int16)
    floors = np.where(rng.random(m) < 0.3, 0.0, 0.05 * field.unit * rng.random(m))
    found = field.may_be_above(Edges.of_matrix(S), floors, parts)
    F = np.where((S.toarray() == 0) & ~np.eye(m, dtype=bool), in_full(field, m), 0.0)
    above = F * np.minimum(parts, parts[:, None]) > floors[:, None] + 1e-12
    above &= (parts >= 2)[:, None] & (parts >= 1)
    ours = np.zeros((m, m), dtype=bool)
    ours[found] = True
    assert above.any()
    assert ours[above].all()
    assert (F[ours] > 0).all()
    assert not field.may_be_above(Edges.of_matrix(S), floors, np.minimum(parts, 1))[0].size


@pytest.mark.thorough
@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_threads_change_nothing(monkeypatch, tol):
    import numba

    W, known = case("both", n=200)
    problem = problem_of(W, known)
    S, found = problem.laplacian.S, []
    for count in (1, 2, 5):
        monkeypatch.setattr(numba, "get_num_threads", lambda count=count: count)
        field = solve_diffusion(problem, tol=tol)
        new = field.strongest(S, 5)
        found.append(
            (field.ends, field.rows, field.values, field.on_pattern(S), new.first, new.beliefs)
        )
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert np.array_equal(one, two)


def test_parts_add_up():
    W, known = case("both", n=150)
    problem = problem_of(W, known)
    F, _ = wanted_of(W, known, problem)
    Y, m = problem.sources, problem.size
    whole = Diffusion.prepare(problem, 1e-5)
    C = Y.C.tocoo()
    total = np.zeros((m, m))
    for chosen in (C.row + C.col < Y.count // 2, C.row + C.col >= Y.count // 2):
        values = (C.data[chosen], (C.row[chosen], C.col[chosen]))
        part = Sources(Y.B, sp.csr_matrix(values, shape=C.shape))
        field = whole.spread(part)
        assert field.bound == whole.plan.bound
        total += in_full(field, m)
    assert np.abs(total - F).max() <= whole.plan.bound + 1e-6 * np.linalg.norm(F)
    empty = whole.spread(Sources(Y.B[:, :0], Y.C[:0, :0]))
    assert not empty.on_pattern(problem.laplacian.S).any()
    assert empty.strongest(problem.laplacian.S, 4).count == 0


def test_progress_reaches_the_end():
    W, known = case("pairs")
    heard = []
    solve_diffusion(problem_of(W, known), tol=1e-2, advance=heard.append)
    assert heard == sorted(heard)
    assert heard[-1] == 1.0


@pytest.mark.parametrize("room", [1, 1 << 16])
def test_the_kernel_spreads(monkeypatch, room):
    """Σ_k c_k S^k b by loops, with what is dropped on the way and at the end."""
    monkeypatch.setattr(diffused_kernels, "_ROOM", room)  # entries, as many as there are or more
    rng = np.random.default_rng(0)
    W = random_graph(rng, 40, 2)
    laplacian = normalized_laplacian(ml.Graph.from_affinity(W))
    S, root = laplacian.S.toarray(), laplacian.root_degree
    B = sp.csc_matrix(rng.standard_normal((40, 6)) * (rng.random((40, 6)) < 0.1))
    c = rng.random((5, 3)) * 0.5 ** np.arange(5)[:, None]
    thresholds = np.array([0.0, 0.05, 0.02, 0.1, 0.01])
    importance, least = np.array([1.0, 0.5, 2.0]), 0.3
    wanted = np.zeros((40, 6, 3))
    for a in range(6):
        x = B[:, a].toarray().ravel()
        size = (np.abs(x) / root).max()
        total = np.zeros((40, 3))
        for k in range(5):
            x = S @ x if k else x
            x[np.abs(x) < thresholds[k] * size * root] = 0.0
            total += np.outer(x, c[k])
        total[(np.abs(total) * importance).max(axis=1) < least * size * root] = 0.0
        wanted[:, a] = total
    for spans in ([(0, 6)], [(0, 2), (2, 3), (3, 6)]):
        space, column = workspace(40, laplacian.S.nnz, 3), 0
        for span in spans:
            ends, rows, values = diffused_columns(
                laplacian.S, root, B, span, c, thresholds, (importance, least), np.float64, space
            )
            for s in range(span[1] - span[0]):
                found = np.zeros((40, 3))
                found[rows[ends[s] : ends[s + 1]]] = values[ends[s] : ends[s + 1]]
                np.testing.assert_allclose(found, wanted[:, column], atol=1e-14)
                column += 1


def test_truncated_columns_whose_terms_cancel():
    """On the edges between two opposite sources sums become 0 again and again."""
    W = sp.csr_matrix(np.kron([[0.0, 1.0], [1.0, 0.0]], np.ones((4, 4))))
    laplacian = normalized_laplacian(ml.Graph.from_affinity(W))
    S = laplacian.S.toarray()
    b = np.zeros(8)
    one = 0
    others = np.flatnonzero(S[one] == 0)[1:]  # on its side
    b[one], b[others] = 3.0, -1.0
    wide = np.zeros(8)
    wide[np.flatnonzero(S[one])[0]] = 1.0
    B = sp.csc_matrix(np.column_stack([b, wide, b + wide]))
    c = np.array([[1.0], [0.5], [0.25]])
    found = diffused_columns(
        laplacian.S, laplacian.root_degree, B, (0, 3), c, np.zeros(3), (np.ones(1), 0.0),
        np.float64, workspace(8, laplacian.S.nnz, 1),
    )  # fmt: skip
    for a, x in enumerate(B.toarray().T):
        wanted = c[0] * x + c[1] * (S @ x) + c[2] * (S @ S @ x)
        ends, rows, values = found
        told = np.zeros(8)
        told[rows[ends[a] : ends[a + 1]]] = values[ends[a] : ends[a + 1], 0]
        np.testing.assert_allclose(told, wanted, atol=1e-14)


# --- sums of exponentials, filters


@pytest.mark.thorough
@settings(max_examples=12)
@given(
    st.floats(1e-9, np.log(2000)).map(np.exp),
    st.floats(1e-3, 1e3),
    st.sampled_from([1e-1, 1e-3, 1e-5, 1e-6]),
)
def test_sums_of_exponentials(ratio, low, tol):
    found = exponential_sum(low, low * ratio, tol)
    x = low * np.exp(np.linspace(0, np.log(ratio), 5000))
    error = np.abs(x * (np.exp(-x[:, None] * found.times) @ found.weights) - 1).max()
    assert error <= found.error * 1.001 + 1e-12
    assert found.error <= tol
    assert (found.times > 0).all()
    assert (found.weights > 0).all()
    assert (np.diff(found.times) > 0).all()


def test_few_exponentials_for_the_papers_mu():
    terms = [exponential_sum(0.4, 4.4, tol).times.size for tol in (3e-4, 3e-5, 3e-6)]
    assert terms == [4, 5, 6]


@pytest.mark.thorough(but=1)
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mu", [5.0, 1.0, 0.6, 0.5, 0.3, 0.2, 0.1])
def test_exponentials_to_eight_digits(mu):
    """What is asked of diffusion at tol = 1e-7, for ordinary μ."""
    assert exponential_sum(2 * mu, 2 * mu + 4, 1e-8).error <= 1e-8


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rounding_ends_it(monkeypatch):
    """Ten terms reach 8e-11 here, eleven 2e-11, and the twelfth adds nothing but rounding."""
    monkeypatch.setattr(filters, "_TERMS", 12)
    with pytest.raises(InputError, match="cannot be written as exponentials") as caught:
        exponential_sum(0.4, 4.4, 1e-15)
    assert "\n" not in str(caught.value)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("mu", "alpha"),
    [(1.0, None), (0.2, None), (0.01, None), (1e6, None), (0.2, 0.8), (0.2, 0.1)],
)
def test_filters_are_the_symbol(mu, alpha):
    W, known = case("pairs")
    problem = problem_of(W, known, mu, alpha)
    for tol in (1e-2, 1e-5):
        found = filter_of(problem, tol)
        assert found.error <= tol
        assert (found.coefficients >= 0).all()
        assert (found.left_out >= 0).all()
        # p_q on the spectrum of S: powers left out weigh at most left_out there.
        s = np.linspace(-1, 1, 60)
        p = np.polynomial.polynomial.polyval(s, found.coefficients)  # (Q, 60)
        value = np.einsum("q,qi,qj->ij", found.weights, p, p)
        wanted = problem.symbol(1 - s[:, None], 1 - s)
        rest = 2 * found.weights @ (found.left_out * found.tails[0])
        assert (np.abs(value - wanted) <= tol * wanted + rest + 1e-14).all()
        assert rest <= tol
        k = found.degree
        for at in {0, 1, k // 2, k} & set(range(k + 1)):
            below = found.coefficients[at:].sum(axis=0) + found.left_out
            np.testing.assert_allclose(found.tails[at], below, rtol=1e-12)
        assert found.tails.shape == found.coefficients.shape


def test_geometric_filter():
    W, known = case("pairs")
    found = filter_of(problem_of(W, known, alpha=0.6), 1e-3)
    np.testing.assert_allclose(found.coefficients[:, 0], 0.4 * 0.6 ** np.arange(found.degree + 1))
    assert found.left_out == pytest.approx([0.6 ** (found.degree + 1)])
    assert found.left_out[0] <= 1e-5
    np.testing.assert_allclose(found.tails[:, 0], 0.6 ** np.arange(found.degree + 1.0), rtol=1e-9)
    with pytest.raises(InputError, match=r"alpha: 0.9999"):
        filter_of(problem_of(W, known, alpha=0.9999), 1e-3)


# --- eq. 9, new edges


@given(seeds)
def test_adjust_is_equation_9(seed):
    rng = np.random.default_rng(seed)
    w = np.concatenate([rng.random(40), [0.0, 1.0, 0.0, 1.0, 0.5, 0.5, 0.5]])
    F = np.concatenate([rng.uniform(-1.3, 1.3, 40), [1.0, 1.0, -1.0, -1.0, 0.0, 1.0, -1.0]])
    before = w.copy(), F.copy()
    found = adjust(w, F)
    np.testing.assert_allclose(found, oracles.adjusted(w[None].T, F[None].T)[:, 0], atol=1e-15)
    np.testing.assert_array_equal(found[-7:], [1.0, 1.0, 0.0, 0.0, 0.5, 1.0, 0.0])
    assert ((found >= 0) & (found <= 1)).all()
    assert (adjust(w, F + 0.01) >= found - 1e-15).all()
    np.testing.assert_allclose(adjust(w, np.zeros(47)), w, atol=1e-15)
    np.testing.assert_array_equal(np.stack([w, F]), before)


def test_adjust_in_many_threads():
    rng = np.random.default_rng(0)
    w, F = rng.random(300_000), rng.uniform(-1, 1, 300_000)
    wanted = np.where(F >= 0, 1 - (1 - F) * (1 - w), (1 + F) * w)
    np.testing.assert_allclose(adjust(w, F), wanted, atol=1e-15)


def symmetric_values(rng, W):
    values = sp.triu(W, 1).tocsr()
    values.data = rng.uniform(-1.2, 1.2, values.nnz)
    both = values + values.T
    both.sort_indices()
    return both


@given(seeds, st.booleans())
def test_the_adjusted_graph(seed, with_new):
    rng = np.random.default_rng(seed)
    W = random_graph(rng, 25, 2)
    W.data = np.minimum(W.data, 1.0)
    F = symmetric_values(rng, W)
    F.data[np.abs(F.data) > 1] = np.sign(F.data[np.abs(F.data) > 1])  # some edges go for good
    new = local.none()
    everywhere = F.toarray()
    if with_new:
        i, j = np.nonzero(np.triu(W.toarray() == 0, 1) & (rng.random((25, 25)) < 0.2))
        new = NewEdges(i, j, rng.uniform(0, 1.2, i.size))
        everywhere[i, j] = everywhere[j, i] = new.beliefs
    kept = W.copy()
    found = Adjustment(F.data, new).apply(W)
    np.testing.assert_allclose(found.toarray(), oracles.adjusted(W.toarray(), everywhere))
    assert (found.data > 0).all()
    assert (found.data <= 1).all()
    assert abs(found - found.T).nnz == 0
    for ours, theirs in ((W, kept), (new.matrix(25), new.matrix(25).T)):
        np.testing.assert_array_equal(ours.toarray(), theirs.toarray())
    assert np.array_equal(W.indptr, kept.indptr)
    assert np.array_equal(W.indices, kept.indices)


@pytest.mark.parametrize("method", [ml.SRCP, ml.E2CP])
def test_two_nodes_whose_only_edge_goes_are_two_clusters(method):
    X = np.repeat([[0.0, 1.0], [5.0, 2.0]], 30, axis=0)
    y = np.full(60, -1)
    y[:3], y[30:33] = 0, 1
    with pytest.warns(DoubtfulResultWarning):
        labels = method(n_clusters=2, random_state=0).fit_predict(X, y)
    assert np.array_equal(labels, np.repeat(labels[[0, -1]], 30))
    assert labels[0] != labels[-1]


def test_counts_of_edges():
    W = sp.diags([np.ones(3), np.ones(3)], [-1, 1], format="csr")
    rows = MemoryRows(normalized_laplacian(ml.Graph.from_affinity(W)))
    rows.beliefs = np.array([0.5, 0.5, -0.1, -0.1, 1e-9, 1e-9])
    told = rows.counts(1e-6, 1)
    assert [told[key] for key in ("strengthened", "weakened", "added", "untouched")] == [1, 1, 1, 1]
    assert told["F"]["0"] == pytest.approx(-0.1)
    assert told["F"]["1"] == pytest.approx(0.5)
    rows.beliefs = np.zeros(6)
    assert not any(rows.counts(1e-4, 0)["F"].values())


@given(seeds, st.sampled_from([1.0, 0.5, 0.25, 2.0]), st.sampled_from([0.0, 0.1]))
def test_shaped_magnitudes(seed, power, floor):
    rng = np.random.default_rng(seed)
    F = np.append(rng.uniform(-1.5, 1.5, 20), [0.0, 0.05, -0.05])
    new = NewEdges(np.zeros(3, dtype=int), np.array([5, 6, 7]), rng.uniform(floor, 1, 3))
    before = F.copy(), new.beliefs.copy()
    found = Adjustment(F, new).shaped(1.2, power, floor)
    for f, g in zip(F, found.beliefs, strict=True):
        gone = power < 1 and abs(f) <= floor
        assert g == pytest.approx(0.0 if gone else np.sign(f) * min(abs(f) / 1.2, 1.0) ** power)
    assert found.new.beliefs == pytest.approx((new.beliefs / 1.2) ** power)
    np.testing.assert_array_equal(F, before[0])
    np.testing.assert_array_equal(new.beliefs, before[1])


@given(seeds)
def test_every_pair_once(seed):
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, 9, (2, 30))
    i, j = i[i != j], j[i != j]
    values = rng.random(i.size)
    new = local.once(i, j, values, 9)
    wanted = {}
    for a, b, v in sorted(zip(i, j, values, strict=True), key=lambda row: row[0] > row[1]):
        wanted.setdefault((min(a, b), max(a, b)), []).append((a > b, v))
    found = {(a, b): v for a, b, v in zip(new.first, new.second, new.beliefs, strict=True)}
    assert found.keys() == wanted.keys()
    for pair, said in wanted.items():  # what the lower end said, if it did
        assert found[pair] in [v for upper, v in said if upper == said[0][0]]
    assert local.once(i[:0], j[:0], values[:0], 9).count == 0
    assert new.pattern(9).ones().has_sorted_indices
    assert new.pattern(9).nnz == 2 * new.count


@given(seeds, st.integers(0, 6), st.sampled_from([0.0, 0.3]))
def test_best_and_strongest_by_loops(seed, count, floor):
    rng = np.random.default_rng(seed)
    W = random_graph(rng, 20, 2)
    G = rng.standard_normal((20, 20))
    F = (G + G.T) / 2
    wanted = oracles.strongest_outside(W.toarray(), F, count, floor)
    new = strongest(DenseField(F), Edges.of_matrix(W), count, floor)
    assert dict(
        zip(zip(new.first, new.second, strict=True), new.beliefs, strict=True)
    ) == pytest.approx(wanted)
    outside = sp.csr_matrix((W.toarray() == 0) & ~np.eye(20, dtype=bool), dtype=float)
    best = local.best_of(Edges.of_matrix(outside), F[outside.nonzero()], count, floor)
    for one, two in zip(vars(new).values(), vars(best).values(), strict=True):
        np.testing.assert_array_equal(one, two)


def test_strongest_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    W, G = Edges.of_matrix(random_graph(rng, 50, 2)), rng.standard_normal((50, 50))
    whole = strongest(DenseField(G + G.T), W, 3, 0.1)
    monkeypatch.setattr(local, "_CELLS", 350)
    parts = strongest(DenseField(G + G.T), W, 3, 0.1)
    np.testing.assert_array_equal(whole.second, parts.second)
    np.testing.assert_allclose(whole.beliefs, parts.beliefs, atol=1e-14)


# --- one entry point


@pytest.mark.parametrize("shape", ["pairs", "both", "between"])
def test_all_solvers_say_the_same(shape):
    W, known = case(shape, seed=6)
    problem = problem_of(W, known)
    found = {
        solver: solve_pairs(problem, Recorder(None), solver=solver, tol=1e-7, new_edges=4)
        for solver in ("auto", "dense", "diffusion", "krylov")
    }
    dense = found["dense"]
    assert found["auto"].convergence.solver == "dense"
    given, beliefs = source_pairs(problem.sources)
    F, Y = wanted_of(W, known, problem)
    sign = F[given.rows, given.indices] * beliefs > 0
    for one in found.values():
        # ‖F − F*‖ <= ‖R‖/2μ for both.
        left = one.quality["residual"] + dense.quality["residual"]
        assert left <= 1e-7
        apart = left * np.linalg.norm(Y)
        np.testing.assert_allclose(one.beliefs, dense.beliefs, rtol=0, atol=apart)
        np.testing.assert_array_equal(one.new.first, dense.new.first)
        np.testing.assert_array_equal(one.new.second, dense.new.second)
        assert one.agreement == pytest.approx(sign.mean())
        assert one.largest == pytest.approx(dense.largest, rel=0, abs=apart)
        assert one.convergence.converged.all()
        assert one.about["sources"] == problem.sources.count


def test_auto_looks_at_size_and_mu(monkeypatch):
    W, known = case("pairs")
    monkeypatch.setattr(solve, "SPREAD_DENSE_BELOW", 10)
    for mu, alpha, name in (
        (0.2, None, "diffusion"),
        (0.01, None, "global Krylov"),
        (0.2, 0.8, "diffusion"),
    ):
        found = solve_pairs(problem_of(W, known, mu, alpha), Recorder(None))
        assert found.convergence.solver == name
        assert found.convergence.converged.all()


def test_krylov_looks_for_edges_where_diffusion_does(monkeypatch):
    """On graphs too large for all of F: the same edges where F falls off alike, and a note."""
    W, known = case("pairs", seed=7)
    problem = problem_of(W, known, 0.1)
    whole = solve_pairs(problem, Recorder(None), solver="krylov", new_edges=3, tol=1e-6)
    monkeypatch.setattr(solve, "_ROWS_BELOW", 10)
    recorder = Recorder(None)
    found = solve_pairs(problem, recorder, solver="krylov", new_edges=3, tol=1e-6)
    assert any("new edges are looked for where diffusion" in note for note in recorder.notes)
    np.testing.assert_array_equal(found.beliefs, whole.beliefs)
    F, Y = wanted_of(W, known, problem)
    new = found.new
    # ‖F − F*‖ <= ‖R‖/2μ, and the residual is asked to be tol·μ/0.2.
    np.testing.assert_allclose(
        new.beliefs, F[new.first, new.second], rtol=0, atol=5e-7 * np.linalg.norm(Y)
    )
    assert not problem.laplacian.S.toarray()[new.first, new.second].any()
    sets = [set(zip(e.first.tolist(), e.second.tolist(), strict=True)) for e in (new, whole.new)]
    # Measured 155 of 157: F for μ = 0.2 orders the weakest otherwise than F for 0.1.
    assert len(sets[0] & sets[1]) > 0.95 * len(sets[1])
    none = solve_pairs(problem, Recorder(None), solver="krylov", new_edges=0, tol=1e-6)
    assert none.new.count == 0


@pytest.mark.parametrize("solver", ["dense", "diffusion", "krylov"])
def test_weak_beliefs_make_edges_too(solver):
    """F is linear: beliefs of 1e-5 spread as those of 1 do, and find the same edges."""
    W, known = case("pairs", seed=8)
    Y = problem_of(W, known)
    faint = LyapunovProblem(
        Y.laplacian, Y.mu, Sources(Y.sources.B, sp.csr_matrix(1e-5 * Y.sources.C))
    )
    full, weak = (
        solve_pairs(p, Recorder(None), solver=solver, tol=1e-4, new_edges=4) for p in (Y, faint)
    )
    # Some roundings in single precision, 6e-8 each.
    np.testing.assert_allclose(weak.beliefs, 1e-5 * full.beliefs, rtol=1e-6, atol=1e-14)
    assert weak.new.count == full.new.count


def test_parts_within_the_memory_are_the_whole():
    """Constraints taken in parts, twice, give the F and the new edges of all at once."""
    W, known = case("both")
    problem = problem_of(W, known)
    recorder = Recorder(None)
    whole = solve_pairs(problem, recorder, solver="diffusion", tol=1e-4)
    assert not recorder.notes
    found = solve_pairs(problem, recorder, solver="diffusion", tol=1e-4, memory=20_000)
    assert found.about["parts"] > 2
    assert "parts, twice" in recorder.notes[0]
    # The thresholds are those of all sources: only the order of sums differs.
    np.testing.assert_allclose(found.beliefs, whole.beliefs, atol=1e-7)
    new = [one.new for one in (whole, found)]
    pairs = [set(zip(n.first.tolist(), n.second.tolist(), strict=True)) for n in new]
    assert len(pairs[0] ^ pairs[1]) <= 0.05 * len(pairs[0])
