"""A few nodes: LOBPCG with the factored Laplacian in the place of grids."""

import numpy as np
import pytest
import scipy.sparse as sp

import mustlink as ml
import oracles
from cases import random_graph
from mustlink.context.stage_cache import Workspace
from mustlink.core import dense_algebra
from mustlink.eigen import memory_work
from mustlink.eigen.memory_work import DirectKey, GridsKey, laplacian_of, smallest_pairs, smoothest
from mustlink.errors import NumericalError
from mustlink.graph import Graph
from mustlink.linear import laplacian_solve
from mustlink.linear.laplacian_solve import DirectInverse

K = 6


def graphs():
    rng = np.random.default_rng(0)
    path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(160, 160), format="csr")
    return {
        "random": random_graph(rng, 150),
        "many components": random_graph(rng, 160, 7, isolated=5),
        "weak bridges": random_graph(rng, 140, 4, weak=1e-7),
        "hardly any bridges": random_graph(rng, 140, 4, weak=1e-11),
        "path": path,
        "two nodes each": sp.block_diag([np.array([[0, 1.0], [1.0, 0]])] * 60, format="csr"),
    }


def kept(work, kind):
    return any(True for _ in work.graph.derived.of(kind))


@pytest.fixture
def few(monkeypatch):
    """Graphs of a hundred nodes, as if LAPACK were no choice for them."""
    monkeypatch.setattr(memory_work, "FEW", range(2000))


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("name", graphs())
def test_pairs_are_those_of_the_dense_matrix(few, name, single):
    work = Workspace(Graph.from_affinity(graphs()[name]), single=single)
    tol = 1e-5 if single else 1e-9
    found = smallest_pairs(work, K, solver="lobpcg", tol=tol)
    laplacian = laplacian_of(work)
    assert kept(work, DirectKey)
    assert not kept(work, GridsKey)
    L, Z = laplacian.to_dense().astype(float), laplacian.null.matrix.toarray()
    exact = np.linalg.eigvalsh(L + 4.0 * Z @ Z.T)[:K]
    np.testing.assert_allclose(found.values, exact, atol=tol)
    V = found.vectors.astype(float)
    np.testing.assert_allclose(V.T @ V, np.eye(K), atol=10 * tol)
    np.testing.assert_allclose(Z.T @ V, 0.0, atol=10 * tol)
    assert np.linalg.norm(L @ V - V * found.values, axis=0).max() <= 2 * tol


@pytest.mark.parametrize("name", ["random", "path"])
def test_the_map_is_the_inverse_beyond_the_null_space(name):
    laplacian = laplacian_of(Workspace(Graph.from_affinity(graphs()[name])))
    L, project = laplacian.to_dense(), laplacian.null.project
    B = project(np.random.default_rng(1).standard_normal((laplacian.size, 5)))
    before = B.copy()
    X = project(DirectInverse(laplacian)(B))
    assert np.array_equal(B, before)
    smallest = np.linalg.eigvalsh(L)[1]
    assert np.linalg.norm(L @ X - B) <= 1e-5 / smallest * np.linalg.norm(B)


def test_where_it_cannot_be_grids_are_made(few, monkeypatch):
    def fails(A):
        raise NumericalError("no")

    W = graphs()["random"]
    expected = smallest_pairs(Workspace(Graph.from_affinity(W)), K, solver="lobpcg", tol=1e-9)
    monkeypatch.setattr(dense_algebra, "cholesky", fails)
    work = Workspace(Graph.from_affinity(W))
    found = smallest_pairs(work, K, solver="lobpcg", tol=1e-9)
    assert kept(work, GridsKey)
    np.testing.assert_allclose(found.values, expected.values, atol=1e-12)


def test_a_basis_asks_for_no_grids(few):
    work = Workspace(Graph.from_affinity(graphs()["random"]))
    basis = smoothest(work, 4)
    assert not kept(work, GridsKey)
    exact = np.linalg.eigvalsh(oracles.regularized_laplacian(work.graph.affinity.toarray(), 0.0)[0])
    np.testing.assert_allclose(basis.values[:1], exact[1:2], atol=memory_work.BASIS_TOL)


@pytest.mark.parametrize("method", [ml.GFHF, ml.Poisson])
@pytest.mark.parametrize("name", ["random", "many components", "weak bridges", "path"])
def test_propagation_is_that_of_the_dense_solver(monkeypatch, name, method):
    W = graphs()[name]
    graph, y = Graph.from_affinity(W), np.full(W.shape[0], -1)
    y[::9] = np.arange(y[::9].size) % 3
    exact = method(affinity="precomputed", solver="dense").fit(graph, y)
    monkeypatch.setattr(laplacian_solve, "FEW", range(2000))
    monkeypatch.setattr(laplacian_solve, "build_hierarchy", None)  # no grids are made
    found = method(affinity="precomputed", solver="cg", tol=1e-12).fit(graph, y)
    np.testing.assert_allclose(
        found.label_distributions_, exact.label_distributions_, atol=1e-6, rtol=0
    )
    np.testing.assert_array_equal(found.labels_, exact.labels_)
    assert found.report_.convergence.iterations <= 30
