"""L̄, its null space and Q̄ as operators against their dense twins."""

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from cases import KINDS, random_constraints, random_graph
from mustlink.constraints import Constraints
from mustlink.context.stage_cache import Workspace
from mustlink.eigen.memory_work import laplacian_of
from mustlink.graph import Graph
from mustlink.linear.cg import block_cg
from mustlink.linear.laplacian_solve import by_elimination
from mustlink.linear.multigrid import hierarchy
from mustlink.operators import constraint_operator as constraint_module
from mustlink.operators.constraint_operator import ConstraintOperator, constraint_operator
from mustlink.operators.laplacian import normalized_laplacian
from mustlink.operators.protocol import SparseOperator
from mustlink.space import LocalSpace

seeds = st.integers(0, 2**31)
shapes = st.tuples(st.integers(12, 40), st.integers(1, 4), st.integers(0, 3), seeds)


def prepared(shape):
    n, components, isolated, seed = shape
    rng = np.random.default_rng(seed)
    W = random_graph(rng, n, components, isolated)
    return rng, W, normalized_laplacian(Graph.from_affinity(W))


@given(shapes)
@settings(max_examples=40, deadline=None)
def test_laplacian_is_the_textbook_one_in_another_order(shape):
    rng, W, laplacian = prepared(shape)
    n, components, isolated, _ = shape
    L, root, nodes = oracles.laplacian(W.toarray())
    assert laplacian.size == n - isolated
    assert np.array_equal(np.sort(laplacian.nodes), nodes)
    assert laplacian.null.n_components == components
    place = np.searchsorted(nodes, laplacian.nodes)
    np.testing.assert_allclose(laplacian.root_degree, root[place], rtol=1e-14)
    np.testing.assert_allclose(laplacian.to_dense(), L[np.ix_(place, place)], atol=1e-14)
    assert laplacian.volume == pytest.approx(W.sum())
    X = rng.standard_normal((laplacian.size, 3))
    before = X.copy()
    np.testing.assert_allclose(laplacian.apply(X), laplacian.to_dense() @ X, atol=1e-13)
    assert np.array_equal(X, before)
    smooth = np.linalg.matrix_power((2 * np.eye(laplacian.size) - laplacian.to_dense()) / 2, 3) @ X
    # Single precision inside: it only prepares starting vectors.
    np.testing.assert_allclose(laplacian.smooth(X, 3), smooth, atol=1e-5)


@given(shapes)
@settings(max_examples=40, deadline=None)
def test_enter_and_leave_are_inverse_on_nodes_with_edges(shape):
    rng, W, laplacian = prepared(shape)
    X = rng.standard_normal((laplacian.n_nodes, 2))
    alone = np.asarray(W.sum(axis=1)).ravel() == 0
    back = laplacian.from_working_order(laplacian.to_working_order(X))
    assert np.array_equal(back[~alone], X[~alone])
    assert not back[alone].any()
    where = laplacian.positions
    assert np.array_equal(where[laplacian.nodes], np.arange(laplacian.size))
    assert (where[alone] == -1).all()


@given(shapes)
@settings(max_examples=40, deadline=None)
def test_null_space_is_exact_and_projected_out(shape):
    rng, W, laplacian = prepared(shape)
    null = laplacian.null
    Z = null.matrix.toarray()
    np.testing.assert_allclose(Z.T @ Z, np.eye(shape[1]), atol=1e-14)
    np.testing.assert_allclose(laplacian.apply(Z), 0, atol=1e-14)
    place = np.searchsorted(oracles.laplacian(W.toarray())[2], laplacian.nodes)
    np.testing.assert_allclose(
        Z @ Z.T, (O := oracles.null_space(W.toarray())[place]) @ O.T, atol=1e-14
    )
    X = rng.standard_normal((laplacian.size, 3))
    np.testing.assert_allclose(null.coefficients(X), Z.T @ X, atol=1e-13)
    np.testing.assert_allclose(null.project(X), X - Z @ (Z.T @ X), atol=1e-13)
    np.testing.assert_allclose(null.project(null.project(X)), null.project(X), atol=1e-13)
    held = np.arange(shape[1])[::-1]
    assert np.array_equal(null.columns(held), Z[:, held])


def test_loops_belong_to_degree_and_volume():
    W = np.array([[1.0, 1.0, 0], [1.0, 0, 2.0], [0, 2.0, 3.0]])
    laplacian = normalized_laplacian(Graph.from_affinity(W))
    L, _, nodes = oracles.laplacian(W)
    place = np.searchsorted(nodes, laplacian.nodes)
    np.testing.assert_allclose(laplacian.to_dense(), L[np.ix_(place, place)], atol=1e-15)
    np.testing.assert_allclose(laplacian.apply(laplacian.null.matrix.toarray()), 0, atol=1e-15)


def test_single_precision_affinity_is_solved_in_double():
    W = random_graph(np.random.default_rng(0), 30, 2, dtype=np.float32)
    laplacian = normalized_laplacian(Graph.from_affinity(W))
    assert laplacian.S.dtype == np.float64
    Z = laplacian.null.matrix.toarray()
    # The affinity was given to 7 digits, but what follows from it is exact to double precision.
    np.testing.assert_allclose(laplacian.apply(Z), 0, atol=1e-14)


def test_laplacian_is_built_once_per_graph_and_precision():
    graph = Graph.from_affinity(random_graph(np.random.default_rng(1), 20))
    double = laplacian_of(Workspace(graph))
    assert laplacian_of(Workspace(graph)) is double
    assert laplacian_of(Workspace(graph, single=True)).S.dtype == np.float32
    assert laplacian_of(Workspace(graph)) is not double  # let go with its precision


# --- Q̄


@given(shapes, st.sampled_from(KINDS))
@settings(max_examples=60, deadline=None)
def test_constraint_operator_is_normalised_q(shape, kind):
    rng, W, laplacian = prepared(shape)
    known = random_constraints(rng, W.shape[0], kind)
    Q = constraint_operator(known, laplacian)
    place = np.searchsorted(oracles.laplacian(W.toarray())[2], laplacian.nodes)
    dense = oracles.normalized_constraints(known.to_dense(), W.toarray())[np.ix_(place, place)]
    m = laplacian.size
    X = rng.standard_normal((m, 3))
    np.testing.assert_allclose(Q.apply(X), dense @ X, atol=1e-12)
    np.testing.assert_allclose(Q.apply(X, shift=-0.7), dense @ X - 0.7 * X, atol=1e-12)
    np.testing.assert_allclose(
        Q.inner(X[Q.support]), (dense @ _on(X, Q.support))[Q.support], atol=1e-12
    )
    np.testing.assert_allclose(Q.to_dense(), dense[np.ix_(Q.support, Q.support)], atol=1e-13)
    # Adjoint dot-test: ⟨Q̄x, y⟩ = ⟨x, Q̄y⟩.
    Y = rng.standard_normal((m, 3))
    assert np.vdot(Q.apply(X), Y) == pytest.approx(np.vdot(X, Q.apply(Y)), abs=1e-11)
    linked = np.asarray(W.sum(axis=1)).ravel()[known.nodes] > 0
    assert Q.support.size == linked.sum()

    values = np.sort(np.linalg.eigvalsh(dense))[::-1]
    for k in (1, 2, 3, m // 2, m):
        assert Q.kth_largest(k) == pytest.approx(values[k - 1], abs=1e-12)
    for beta in (-10.0, -0.3, -1e-6, 1e-6, 0.4, 10.0):
        assert Q.count_above(beta) == (values > beta).sum()
    # At 0 itself rounding must not turn zero eigenvalues into positive ones.
    assert Q.count_above(0.0) == (values > 1e-10).sum()


def _on(X, support):
    out = np.zeros_like(X)
    out[support] = X[support]
    return out


@pytest.mark.parametrize("kind", ["labels", "pairs"])
def test_large_supports_agree_with_small_ones(kind, monkeypatch):
    """Low-rank and Lanczos branches, which take over beyond 2,500 constrained nodes."""
    rng = np.random.default_rng(5)
    n = 700
    W = random_graph(rng, n, 2, density=0.01)
    laplacian = normalized_laplacian(Graph.from_affinity(W))
    known = random_constraints(rng, n, kind, k=5)
    if kind == "pairs":
        y = rng.integers(0, 5, n)
        pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(900)])
        belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
        known = Constraints.from_pairs(pairs, belief, n_nodes=n)
    exact = constraint_operator(known, laplacian)
    assert exact.eigenvalues.size == exact.support.size
    monkeypatch.setattr(constraint_module, "_DENSE_SUPPORT", 10)
    other = constraint_operator(known, laplacian)
    assert other.eigenvalues.size < exact.eigenvalues.size
    for k in (1, 4, 9):
        # The Lanczos branch stops at 1e-6: λ_{K−1} is only the unit that β is a fraction of.
        assert other.kth_largest(k) == pytest.approx(exact.kth_largest(k), rel=1e-6, abs=1e-12)
    for beta in (0.9 * exact.kth_largest(1), 0.5 * exact.kth_largest(3)):
        assert other.count_above(beta) == exact.count_above(beta)
    low = other.count_above(-0.1)
    assert low is None or low == exact.count_above(-0.1)


def test_no_constraints_is_the_zero_operator():
    laplacian = prepared((20, 1, 0, 3))[2]
    Q = constraint_operator(Constraints.none(20), laplacian)
    X = np.ones((20, 2))
    assert np.array_equal(Q.apply(X), np.zeros((20, 2)))
    assert np.array_equal(Q.apply(X, shift=2.0), 2 * X)
    assert Q.kth_largest(1) == 0.0
    assert Q.count_above(-0.5) == 20
    assert Q.count_above(0.5) == 0


def test_constraints_on_isolated_nodes_are_counted_as_lost():
    W = sp.lil_matrix((6, 6))
    for i in range(3):
        W[i, i + 1] = W[i + 1, i] = 1.0
    laplacian = normalized_laplacian(Graph.from_affinity(W.tocsr()))
    known = Constraints.from_pairs([[0, 5], [1, 2]], [1.0, -1.0], n_nodes=6)
    Q = constraint_operator(known, laplacian)
    assert Q.support.size == 3
    root = laplacian.root_degree
    i, j = laplacian.positions[[1, 2]]
    expected = np.zeros((4, 4))
    expected[i, j] = expected[j, i] = -1 / (root[i] * root[j])
    np.testing.assert_allclose(Q.apply(np.eye(4)), expected, atol=1e-15)


@given(st.integers(1, 20), st.integers(0, 20), st.integers(0, 4), st.integers(1, 3), seeds)
@settings(max_examples=60, deadline=None)
def test_sparse_plus_low_rank_acts_on_its_support(s, free, r, b, seed):
    rng = np.random.default_rng(seed)
    m = s + free
    support = np.sort(rng.permutation(m)[:s]).astype(np.int64)
    matrix = sp.random(s, s, rng.random(), "csr", rng=rng)
    factor = sp.random(s, r, 0.3, "csr", rng=rng) if r else None
    core = rng.standard_normal((r, r))
    X = rng.standard_normal((m, b))
    before = X.copy()
    inner = matrix.toarray()
    if r:
        inner = inner + factor.toarray() @ core @ factor.toarray().T
    full = np.zeros((m, m))
    full[np.ix_(support, support)] = inner
    shift = rng.standard_normal()
    Q = ConstraintOperator(matrix, factor, core, support, LocalSpace(m))
    Y = Q.apply(X, shift)
    np.testing.assert_allclose(Y, full @ X + shift * X, atol=1e-12)
    assert np.array_equal(X, before)
    # A column view is not contiguous; it must not matter.
    np.testing.assert_allclose(Q.apply(np.asfortranarray(X), shift), Y)
    Q.add_to(Y, X, -1.0)
    np.testing.assert_allclose(Y, shift * X, atol=1e-12)
    symmetric = (full + full.T) / 2
    np.testing.assert_allclose(Q.within(X), X.T @ symmetric @ X, atol=1e-11)


@pytest.mark.parametrize("by", ["multigrid", "elimination"])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_diagonal_added_and_nodes_taken_out(by, parts, monkeypatch):
    """As on disk and on ranks: T = D + ground on the nodes kept, rows of the others are 0."""
    monkeypatch.setattr(hierarchy, "_COARSEST", 10)
    rng, _, laplacian = prepared((90, parts, 2, 5))
    m = laplacian.size
    kept, ground = rng.random(m) > 0.2, rng.uniform(0.01, 0.5, m)
    found = laplacian.grounded(ground, kept)
    root = np.where(kept, np.sqrt(laplacian.root_degree**2 + ground), 0.0)
    np.testing.assert_allclose(found.root_degree, root, rtol=1e-14)
    inverse = np.divide(1.0, root, out=np.zeros(m), where=kept)
    W = laplacian.graph_weights.toarray()
    dense = np.eye(m) - inverse[:, None] * W * inverse
    np.testing.assert_allclose(found.to_dense(), dense, atol=1e-14)
    away = W[:, ~kept].sum(axis=1)
    np.testing.assert_allclose(found.ground, np.where(kept, ground + away, 0.0), atol=1e-12)
    assert found.null.n_components == 0
    B = rng.standard_normal((m, 3)) * kept[:, None]
    if by == "multigrid":
        grids = hierarchy.build_hierarchy(found)
        assert len(grids.levels) > 1
        X, ended = block_cg(found.apply, B, tol=1e-12, precondition=grids.cycle())
        assert ended.converged.all()
    else:
        X = by_elimination(found, B)
    np.testing.assert_allclose(X, np.linalg.solve(dense, B), atol=1e-9)
    assert not X[~kept].any()


def test_a_matrix_in_single_precision_is_its_own_copy_and_holds_no_other():
    """It is freed with its last user; one that held itself waited for the garbage collector."""
    A = sp.csr_matrix(np.eye(3, dtype=np.float32))
    gc.disable()
    try:
        held = SparseOperator(A)
        assert held.in_single is held
        gone = weakref.ref(held)
        del held
        assert gone() is None
    finally:
        gc.enable()
    double = SparseOperator(A.astype(np.float64))
    assert double.in_single is double.in_single
    assert double.in_single.local.dtype == np.float32
