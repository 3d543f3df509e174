"""Every iteration on rows in P pieces that nothing sees together agrees with the one at home."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import oracles
from cases import planted_graph, random_constraints, random_graph, solve_krylov
from mustlink.clusterers.csp import ConstrainedCut
from mustlink.constraints import Constraints
from mustlink.discretize import assign as assign_module
from mustlink.discretize.assign import assign
from mustlink.eigen import smooth_subspace
from mustlink.eigen.lobpcg import Lobpcg, lobpcg, orthonormal, rayleigh_ritz
from mustlink.eigen.low_rank_pencil import low_rank_pencil, solve_low_rank
from mustlink.eigen.penalized import PenalizedProblem, smallest_penalized
from mustlink.eigen.pencil import Pencil, leading_pencil
from mustlink.eigen.plain_solve import nested
from mustlink.eigen.smooth_subspace import EigenOptions, smooth_basis
from mustlink.graph import Graph
from mustlink.linear.cg import block_cg
from mustlink.linear.multigrid import hierarchy as amg
from mustlink.linear.multigrid.cycle import chebyshev, largest_eigenvalue
from mustlink.linear.multigrid.hierarchy import build_hierarchy
from mustlink.lyapunov.fields import LyapunovProblem
from mustlink.lyapunov.sources import sources_at
from mustlink.operators.constraint_operator import constraint_operator
from mustlink.operators.laplacian import normalized_laplacian
from mustlink.space import LocalSpace
from split_operators import SplitGrids, SplitLaplacian, SplitMatrix
from split_space import SplitSpace, division, gather, scatter

PIECES = [1, 2, 3, 7]
VALUES, ANGLES = 1e-10, 1e-8


def graphs():
    rng = np.random.default_rng(1)
    yield "planted", planted_graph(rng, 300, 4)[0]
    yield "parts", random_graph(rng, 260, 3, isolated=2, density=0.03)
    line = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(19, 19))
    row = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(13, 13))
    grid = sp.kron(line, sp.eye_array(13)) + sp.kron(sp.eye_array(19), row)
    yield "grid", sp.csr_matrix(grid)


GRAPHS = dict(graphs())


class Twins:
    """One graph at home and in pieces."""

    def __init__(self, name, pieces):
        self.home = normalized_laplacian(Graph.from_affinity(GRAPHS[name]))
        self.space = SplitSpace(division(self.home.size, pieces, seed=pieces))
        self.split = SplitLaplacian(self.space, self.home)
        self.size = self.home.size

    def to_working_order(self, X):
        return scatter(self.space, X)

    def from_working_order(self, X):
        return gather(self.space, X)

    def agree(self, here, there, size=1.0):
        np.testing.assert_allclose(self.from_working_order(there), here, rtol=0, atol=VALUES * size)


@pytest.fixture(params=PIECES)
def pieces(request):
    return request.param


@pytest.fixture(params=GRAPHS)
def twins(request, pieces):
    return Twins(request.param, pieces)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def same_pairs(twins, here, there):
    """Eigenvalues to 1e-10, and angles between eigenspaces to 1e-8."""
    np.testing.assert_allclose(there.values, here.values, rtol=0, atol=VALUES)
    assert there.convergence.reason == here.convergence.reason == "tolerance"
    V, W = here.vectors, twins.from_working_order(there.vectors)
    for group in oracles.groups(here.values, 1e-4):
        assert oracles.angle(V[:, group], W[:, group]) < ANGLES


def test_the_operator_in_pieces_is_the_operator(twins, rng):
    X = rng.standard_normal((twins.size, 3))
    x, home, split = twins.to_working_order(X), twins.home, twins.split
    twins.agree(home.apply(X), split.apply(x))
    twins.agree(home.null.project(X), split.null.project(x))
    twins.agree(home.null.columns(np.array([0])), split.null.columns(np.array([0])))
    coefficients = split.null.coefficients(x)
    np.testing.assert_allclose(coefficients, home.null.coefficients(X), atol=VALUES)


@pytest.mark.thorough(but=3)
def test_lobpcg(twins, rng):
    X = rng.standard_normal((twins.size, 8))
    rule = Lobpcg(5, 1e-11, 600, norm_A=2.0)
    home, split = twins.home, twins.split
    here = lobpcg(home.apply, X, rule, project=home.null.project)
    x = twins.to_working_order(X)
    there = lobpcg(split.apply, x, rule, project=split.null.project, space=twins.space)
    same_pairs(twins, here, there)
    twins.agree(X, x)  # the start is not changed


@pytest.mark.thorough
@pytest.mark.parametrize("largest", [False, True])
def test_lobpcg_of_a_pencil(pieces, largest):
    rng = np.random.default_rng(3)
    n, parts = 60, division(60, pieces)
    space = SplitSpace(parts)
    A, M = (Z @ Z.T / n for Z in rng.standard_normal((2, n, n)))
    M += np.eye(n)
    a, m = SplitMatrix(space, A), SplitMatrix(space, M)
    rule = Lobpcg(4, 1e-11, 500, largest=largest, relative=largest, norm_A=4.0)
    X = rng.standard_normal((n, 6))
    here = lobpcg(lambda V: A @ V, X, rule, M=lambda V: M @ V)
    there = lobpcg(a.apply, scatter(space, X), rule, M=m.apply, space=space)
    np.testing.assert_allclose(there.values, here.values, rtol=0, atol=VALUES)
    assert oracles.angle(here.vectors, gather(space, there.vectors)) < ANGLES


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("coarsest", [20, 60])
def test_nested_iteration(twins, coarsest, monkeypatch):
    monkeypatch.setattr(amg, "_COARSEST", coarsest)
    grids = build_hierarchy(twins.home)
    assert len(grids.levels) >= 2
    here = nested(twins.home, grids, 4, tol=1e-10, max_iter=300)
    there = nested(twins.split, SplitGrids(twins.split, grids), 4, tol=1e-10, max_iter=300)
    same_pairs(twins, here, there)


def test_rayleigh_ritz_and_orthonormal_bases(twins, rng):
    V = rng.standard_normal((twins.size, 6)) * np.geomspace(1e-6, 1, 6)
    V[:, 3] = V[:, 1] - V[:, 2]  # dependent
    v, home, split = twins.to_working_order(V), twins.home, twins.split
    theta, C = rayleigh_ritz(twins.home.space, V, home.apply(V), count=4)
    found, c = rayleigh_ritz(twins.space, v, split.apply(v), count=4)
    np.testing.assert_allclose(found, theta, atol=VALUES)
    X, x = V @ C, twins.from_working_order(twins.space.combine(v, c))
    for k in range(4):
        assert oracles.angle(X[:, [k]], x[:, [k]]) < ANGLES
    U = twins.from_working_order(orthonormal(twins.space, v))
    assert U.shape == orthonormal(home.space, V).shape == (twins.size, 5)
    np.testing.assert_allclose(U.T @ U, np.eye(5), atol=1e-12)
    assert oracles.angle(U, orthonormal(home.space, V)) < ANGLES


@pytest.mark.thorough(but=6)
@pytest.mark.parametrize("preconditioned", [None, "jacobi", "multigrid"])
def test_block_cg(twins, rng, preconditioned, monkeypatch):
    monkeypatch.setattr(amg, "_COARSEST", 20)
    B = rng.standard_normal((twins.size, 4)) * [1e-6, 1.0, 0.0, 1e6]
    home, split, grids = twins.home, twins.split, build_hierarchy(twins.home)
    K, k = {
        None: (None, None),
        "jacobi": [
            partial(one.space.scaled, v=one.space.rowwise(np.reciprocal, one.diagonal))
            for one in (home, split)
        ],
        "multigrid": (grids.cycle(), SplitGrids(split, grids).cycle()),
    }[preconditioned]
    both = {"tol": 1e-12, "max_iter": 900}
    X, here = block_cg(home.apply, B, precondition=K, project=home.null.project, **both)
    x, there = block_cg(
        split.apply,
        twins.to_working_order(B),
        precondition=k,
        project=split.null.project,
        space=twins.space,
        **both,
    )
    assert here.reason == there.reason == "tolerance"
    found = twins.from_working_order(x)
    size = np.maximum(np.linalg.norm(X, axis=0), 1e-300)
    np.testing.assert_allclose(found / size, X / size, rtol=0, atol=VALUES)


def test_chebyshev_smoothing_and_the_cycle(twins, rng, monkeypatch):
    """In single precision: the same to its rounding, 6e-8 an operation, some hundred of them."""
    monkeypatch.setattr(amg, "_COARSEST", 20)
    grids = build_hierarchy(twins.home)
    split = SplitGrids(twins.split, grids)
    B = rng.standard_normal((twins.size, 3)).astype(np.float32)
    here = chebyshev(grids.levels[0], B, B, 3)
    there = twins.from_working_order(
        chebyshev(split.finest, twins.to_working_order(B), twins.to_working_order(B), 3)
    )
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-5)
    B = twins.home.null.project(B.astype(np.float64)) * [1e-20, 1.0, 1e20]
    here, there = (
        grids.cycle()(B),
        twins.from_working_order(split.cycle()(twins.to_working_order(B))),
    )
    size = np.linalg.norm(here, axis=0)
    np.testing.assert_allclose(there / size, here / size, rtol=0, atol=1e-5)


def test_power_method(twins):
    here = largest_eigenvalue(twins.home.apply, twins.home.space, 25)
    there = largest_eigenvalue(twins.split.apply, twins.space, 25)
    assert abs(here - there) < VALUES
    assert 0.9 * np.linalg.norm(twins.home.to_dense(), 2) < here <= 2.0 + 1e-12


@pytest.mark.thorough(but=8)
@pytest.mark.parametrize("mu", [0.2, 0.02])
@pytest.mark.parametrize("one_pass", [True, False])
def test_global_lanczos_of_the_lyapunov_equation(twins, mu, one_pass):
    n = twins.home.n_nodes
    rng = np.random.default_rng(2)
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(8)])
    known = Constraints.from_pairs(pairs, rng.choice([-1.0, 1.0], 8), n_nodes=n)
    sources = sources_at(known, twins.home.nodes, twins.home.weights)
    memory = None if one_pass else 8 * twins.size * sources.count * 40
    here, first = solve_krylov(LyapunovProblem(twins.home, mu, sources), memory=memory, tol=1e-8)
    there, second = solve_krylov(LyapunovProblem(twins.split, mu, sources), memory=memory, tol=1e-8)
    assert first.converged.all()
    assert first.iterations == second.iterations
    F = sum((Z * theta) @ Z.T for Z, theta in here.terms)
    G = sum(
        (W * theta) @ W.T for W, theta in ((twins.from_working_order(Z), t) for Z, t in there.terms)
    )
    np.testing.assert_allclose(G, F, rtol=0, atol=VALUES)


@pytest.mark.thorough(but=8)
@pytest.mark.parametrize("how", ["kmeans", "sphere", "sign-kmeans"])
@pytest.mark.parametrize("sample", [50, 50_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_kmeans_on_rows(pieces, how, sample, weighted, monkeypatch):
    monkeypatch.setattr(assign_module, "_SAMPLE", sample)
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((200, 3)) + 3 * rng.integers(-1, 2, (200, 3))
    times = rng.integers(1, 4, 200).astype(float) if weighted else None
    space = SplitSpace(division(200, pieces))
    space.weights = scatter(space, times) if weighted else None
    here = assign(rows, 5, how, 0, space=LocalSpace(200, times))
    there = assign(scatter(space, rows), 5, how, 0, space=space)
    assert np.array_equal(gather(space, there.labels), here.labels)
    np.testing.assert_allclose(there.centers, here.centers, rtol=0, atol=VALUES)
    assert there.inertia == pytest.approx(here.inertia)
    far = np.full((5, 3), 1e3) + np.arange(5)[:, None]  # empty clusters take the farthest rows
    here = assign(rows, 5, how, 0, centers=far, space=LocalSpace(200, times))
    there = assign(scatter(space, rows), 5, how, 0, centers=far, space=space)
    assert np.array_equal(gather(space, there.labels), here.labels)


@pytest.mark.parametrize("kind", ["pairs", "labels", "mixed"])
def test_constraints_in_pieces(twins, rng, kind):
    known = random_constraints(rng, twins.home.n_nodes, kind)
    Q = constraint_operator(known, twins.home)
    q = replace(Q, space=twins.space)
    X = rng.standard_normal((twins.size, 3))
    x = twins.to_working_order(X)
    twins.agree(Q.apply(X, shift=-0.3), q.apply(x, shift=-0.3))
    np.testing.assert_allclose(q.within(x), Q.within(X), rtol=0, atol=VALUES)
    Q.add_to(X, X.copy(), 2.0)
    q.add_to(x, twins.space.copy(x), 2.0)
    twins.agree(X, x)


@pytest.mark.thorough(but=2)
def test_the_pencil_of_low_rank(twins, rng):
    factor = rng.standard_normal((twins.size, 6)) / np.sqrt(twins.size)

    def solved(laplacian, factor):
        def inverse(B):
            project, space = laplacian.null.project, laplacian.space
            return project(block_cg(laplacian.apply, B, tol=1e-13, project=project, space=space)[0])

        pencil = low_rank_pencil(laplacian, factor)
        return solve_low_rank(pencil, 2, inverse, tol=1e-11)

    here, there = solved(twins.home, factor), solved(twins.split, twins.to_working_order(factor))
    assert here.pairs == there.pairs >= 2
    np.testing.assert_allclose(there.values, here.values, rtol=VALUES)
    np.testing.assert_allclose(there.satisfaction, here.satisfaction, rtol=0, atol=VALUES)
    for k in range(2):
        assert (
            oracles.angle(here.vectors[:, [k]], twins.from_working_order(there.vectors)[:, [k]])
            < ANGLES
        )


@pytest.mark.thorough(but=1)
def test_the_exact_pencil(twins, rng):
    known = random_constraints(rng, twins.home.n_nodes, "pairs")
    Q = constraint_operator(known, twins.home)
    beta = 0.3 * Q.kth_largest(1)
    grids = build_hierarchy(twins.home)
    home = Pencil(twins.home, Q, beta)
    split = Pencil(twins.split, replace(Q, space=twins.space), beta)
    here, first = leading_pencil(home, grids, 3, EigenOptions(), tol=1e-11)
    there, second = leading_pencil(
        split, SplitGrids(twins.split, grids), 3, EigenOptions(), tol=1e-11
    )
    assert first.reason == second.reason == "tolerance"
    np.testing.assert_allclose(there.lam, here.lam, rtol=VALUES)
    W = twins.from_working_order(there.vectors)
    for k in range(here.lam.size):
        assert oracles.angle(here.vectors[:, [k]], W[:, [k]]) < ANGLES


def bases(twins, p):
    """The smooth basis of the same vectors, at home and in pieces."""
    null = twins.home.null
    Z = null.columns(np.arange(null.n_components))
    values, vectors = np.linalg.eigh(twins.home.to_dense() + 4 * Z @ Z.T)
    values, vectors = values[:p], np.ascontiguousarray(vectors[:, :p])
    gaps = np.full(p, 1e-15)
    here = smooth_basis(twins.home, values, vectors, gaps)
    return here, smooth_basis(twins.split, values, twins.to_working_order(vectors), gaps)


@pytest.mark.parametrize("least", [0.0, 0.3])
def test_the_smooth_basis(twins, rng, least, monkeypatch):
    monkeypatch.setattr(smooth_subspace, "_TINY", least)  # share of the nodes of a component
    here, there = bases(twins, 6)
    twins.agree(here.vectors, there.vectors)
    np.testing.assert_array_equal(there.values, here.values)
    U, null = here.vectors, twins.home.null
    share = np.bincount(null.component) / twins.size
    large = np.flatnonzero(share >= least)
    assert here.n_ties == large.size - (large.size == null.n_components)
    np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-12)
    held = np.column_stack([U[:, 0], null.columns(large)])  # z and the large components
    span = U[:, : here.n_ties + 1]
    np.testing.assert_allclose(span @ (span.T @ held), held, atol=1e-12)
    short, nodes = there.first(3), rng.choice(twins.size, 9)
    twins.agree(U[:, :4], short.vectors)
    np.testing.assert_allclose(short.rows(nodes), U[nodes, :4], rtol=0, atol=VALUES)
    C = rng.standard_normal((4, 2))
    twins.agree(U[:, :4] @ C, short.combine(C))


def of_pairs(twins, rng):
    """D^-½ED^-½ of pairs, E their Laplacian: positive semidefinite, D^½1 in its null space."""
    known = random_constraints(rng, twins.home.n_nodes, "pairs")
    Q = constraint_operator(known, twins.home)
    root = sp.diags_array(twins.home.root_degree[Q.support])
    W = root @ abs(Q.matrix) @ root
    E = sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W
    inverse = sp.diags_array(1 / twins.home.root_degree[Q.support])
    return replace(Q, matrix=sp.csr_matrix(inverse @ E @ inverse))


def penalized(twins, rng, mass=None, **options):
    """A problem of constraints on pairs, with a mass (m,) and pairs in M, or without."""
    home = PenalizedProblem(twins.home, of_pairs(twins, rng), 3, **options)
    split = replace(home, laplacian=twins.split, penalty=replace(home.penalty, space=twins.space))
    if mass is None:
        return home, split
    M = of_pairs(twins, rng)
    return (
        replace(home, mass=mass, mass_update=M),
        replace(
            split, mass=twins.to_working_order(mass), mass_update=replace(M, space=twins.space)
        ),
    )


def same_solutions(twins, here, there):
    np.testing.assert_allclose(there.values, here.values, rtol=VALUES, atol=VALUES)
    np.testing.assert_allclose(there.cost, here.cost, rtol=VALUES, atol=VALUES)
    V, W = here.vectors, twins.from_working_order(there.vectors)
    for group in oracles.groups(here.values, 1e-4):
        assert oracles.angle(V[:, group], W[:, group]) < ANGLES


@pytest.mark.parametrize("p", [8, 5])
def test_a_cut_in_the_smooth_subspace(twins, rng, p):
    known = random_constraints(rng, twins.home.n_nodes, "pairs")
    Q = constraint_operator(known, twins.home)
    here, there = (basis.first(p) for basis in bases(twins, 8))
    home = ConstrainedCut(twins.home, Q, 2, 2, open_=True, yields=True)
    split = replace(home, laplacian=twins.split, Q=replace(Q, space=twins.space))
    same_solutions(twins, home.inside(here, 0.1), split.inside(there, 0.1))


@pytest.mark.parametrize("massive", [False, True])
def test_a_penalised_problem_in_the_smooth_subspace(twins, rng, massive):
    mass = rng.uniform(0.5, 2.0, twins.size) if massive else None
    weights = {"weights": lambda gamma: (1.0 - gamma, gamma), "normalized": True}
    home, split = penalized(twins, rng, mass, **weights)
    here, there = bases(twins, 8)
    same_solutions(twins, home.inside(here, 0.3), split.inside(there, 0.3))


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("kind", ["plain", "massive", "without constant", "turned"])
def test_penalised_problems(twins, rng, kind, monkeypatch):
    """Preconditioned by the cycle that knows the penalty."""
    monkeypatch.setattr(amg, "_COARSEST", 20)
    even = np.full(twins.size, 0.5)
    options = {
        "plain": {},
        "massive": {"mass": rng.uniform(0.5, 2.0, twins.size)},
        "without constant": {"without_constant": True},
        "turned": {"mass": even, "without_constant": True, "turned": 0.1},
    }[kind]
    home, split = penalized(twins, rng, **options)
    grids = build_hierarchy(twins.home)
    how, weights = EigenOptions(tol=1e-11, max_iter=300), (1.0, 0.1)
    here = smallest_penalized(home, grids, 3, weights, how)
    there = smallest_penalized(split, SplitGrids(twins.split, grids), 3, weights, how)
    same_pairs(twins, here, there)
