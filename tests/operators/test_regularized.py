"""L̄_τ, its empty null space and its smallest pairs against dense algebra."""

import numpy as np
import pytest

import oracles
from cases import planted_graph, random_graph
from mustlink.context.stage_cache import Workspace
from mustlink.eigen.memory_work import choose, laplacian_of, smallest_pairs
from mustlink.eigen.plain_solve import best_pairs, chebyshev
from mustlink.graph import Graph
from mustlink.operators.laplacian import normalized_laplacian, regularized
from mustlink.space import NullSpace


def one_of_many(seed):
    """A random graph with components and isolated nodes, τ from 0.01 to 10; half are counted."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 50))
    W = random_graph(rng, n, int(rng.integers(1, 4)), isolated=int(rng.integers(0, 3)))
    counts = rng.integers(1, 5, n).astype(float) if seed % 2 else None
    return Graph(W, weights=counts), W.toarray(), 10.0 ** rng.uniform(-2, 1), counts


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_dense_twins(first):
    for seed in range(first, first + 25):
        graph, W, tau, counts = one_of_many(seed)
        found = regularized(normalized_laplacian(graph), tau)
        L, root, nodes = oracles.regularized_laplacian(W, tau, counts)
        order = np.argsort(found.nodes)
        assert (found.nodes[order] == nodes).all()
        np.testing.assert_allclose(found.to_dense()[order][:, order], L, atol=1e-14)
        np.testing.assert_allclose(found.root_degree[order], root)
        np.testing.assert_allclose(found.degrees[order], W.sum(axis=1)[nodes])
        np.testing.assert_allclose(found.graph_weights.toarray()[order][:, order],
                                   W[np.ix_(nodes, nodes)], atol=1e-14)  # fmt: skip
        X = np.random.default_rng(seed).standard_normal((found.size, 3))
        np.testing.assert_allclose(found.apply(X), found.to_dense() @ X, atol=1e-13)
        assert np.linalg.eigvalsh(L)[0] >= 0.99 * (found.ground / root[order].max() ** 2).min()


def test_copies_are_nodes_of_their_own():
    """A node that counts c is c nodes: its eigenvalues are among those of the copies."""
    rng = np.random.default_rng(3)
    W = random_graph(rng, 12, density=0.4)
    counts = rng.integers(1, 4, 12)
    full = np.repeat(np.repeat(W.toarray(), counts, axis=0), counts, axis=1)
    graph = Graph(W).weighing(counts.astype(float))
    one = regularized(normalized_laplacian(graph), 0.3)
    own = np.linalg.eigvalsh(one.to_dense())
    many = np.linalg.eigvalsh(oracles.regularized_laplacian(full, 0.3)[0])
    assert np.abs(many[:, None] - own).min(axis=0).max() < 1e-12


def test_an_empty_null_space_takes_nothing_away():
    null, X = NullSpace.empty(5), np.arange(10.0).reshape(5, 2)
    assert null.project(X) is X
    assert null.coefficients(X).shape == (0, 2)
    assert null.columns(np.arange(0)).shape == (5, 0)
    assert null.matrix.shape == (5, 0)
    assert null.rows(np.array([1, 2])).shape == (2, 0)
    assert not null.expand(np.zeros((0, 3))).any()


@pytest.mark.thorough(but=2)
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("solver", ["dense", "lobpcg", "shift-invert", "chebyshev"])
@pytest.mark.parametrize("tau", [0.0, 0.3])
def test_smallest_pairs_by_every_solver(tau, solver, single):
    if single and solver not in ("lobpcg", "chebyshev"):
        pytest.skip("the others work in doubles")
    W = planted_graph(np.random.default_rng(5), 300, 4, 0.2, 0.01)[0]
    work = Workspace(Graph(W), single=single, tau=tau)
    k, tol = 5, 1e-5 if single else 1e-8
    found = smallest_pairs(work, k, solver=solver, tol=tol, max_iter=400)
    values = np.linalg.eigvalsh(oracles.regularized_laplacian(W.toarray(), tau)[0])
    first = 0 if tau else 1
    assert found.convergence.converged.all()
    np.testing.assert_allclose(found.values, values[first : first + k], atol=10 * tol)
    V = found.vectors.astype(float)
    R = laplacian_of(work).to_dense() @ V - V * found.values
    assert np.linalg.norm(R, axis=0).max() < 20 * tol
    np.testing.assert_allclose(V.T @ V, np.eye(k), atol=1e-4 if single else 1e-10)


def test_filters_start_anywhere_and_change_nothing():
    W = planted_graph(np.random.default_rng(6), 400, 3, 0.1, 0.01)[0]
    laplacian = laplacian_of(Workspace(Graph(W), tau=0.1))
    X = np.random.default_rng(0).standard_normal((400, 7))
    before = X.copy()
    found = chebyshev(laplacian, X, 3, tol=1e-10)
    assert (before == X).all()
    assert found.convergence.reason == "tolerance"
    again = chebyshev(laplacian, np.hstack([found.vectors, X[:, 3:]]), 3, tol=1e-9)
    assert again.convergence.iterations <= 2
    short = chebyshev(laplacian, X, 3, tol=1e-10, max_iter=1)
    assert short.convergence.reason == "max_iter"
    assert (short.values >= found.values - 1e-12).all()  # Ritz values come from above


def test_few_digits_are_found_in_single_precision():
    W = planted_graph(np.random.default_rng(8), 400, 3, 0.1, 0.01)[0]
    work = Workspace(Graph(W), tau=0.3)
    found = smallest_pairs(work, 4, solver="chebyshev", tol=1e-4)
    laplacian = laplacian_of(work)
    assert found.vectors.dtype == laplacian.dtype == np.float64
    assert laplacian.in_single.in_single.S.dtype == np.float32
    R = laplacian.apply(found.vectors) - found.vectors * found.values
    assert np.linalg.norm(R, axis=0).max() < 2e-4
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(4), atol=1e-5)


@pytest.mark.parametrize("close", [1.0, 1e-3, 1e-5])
def test_the_best_pairs_of_a_span_are_those_of_lapack(close):
    rng = np.random.default_rng(9)
    laplacian = laplacian_of(Workspace(Graph(planted_graph(rng, 90, 3)[0]), tau=0.1))
    basis = np.linalg.qr(rng.standard_normal((90, 6)))[0]
    Y = basis @ (np.eye(6) + (1 - close) * np.ones((6, 6)) / close) * np.geomspace(1, 1e6, 6)
    theta, X = best_pairs(laplacian, Y)
    L = laplacian.to_dense()
    np.testing.assert_allclose(theta, np.linalg.eigvalsh(basis.T @ L @ basis), atol=1e-8)
    np.testing.assert_allclose(X.T @ X, np.eye(6), atol=1e-7)
    np.testing.assert_allclose(X.T @ L @ X, np.diag(theta), atol=1e-7)


def test_views_of_one_graph_keep_their_own():
    W = planted_graph(np.random.default_rng(7), 60, 3)[0]
    work = Workspace(Graph(W))
    plain, regular = laplacian_of(work), laplacian_of(work.regularized(0.3))
    assert laplacian_of(work) is plain
    assert laplacian_of(work.regularized(0.3)) is regular
    assert laplacian_of(work.regularized(0.1)) is not regular
    assert choose(plain, 3, "auto") == "dense"
