"""Embeddings against dense eigenvectors of their matrices, scikit-learn's, and hard input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.datasets import make_blobs, make_swiss_roll
from sklearn.manifold import LocallyLinearEmbedding, SpectralEmbedding
from sklearn.utils.estimator_checks import check_estimator

import mustlink as ml
import oracles
from cases import random_graph
from mustlink.eigen.arpack import factor_bytes, factors
from mustlink.errors import DoubtfulResultWarning, InputError
from mustlink.kernels.local_fits import nearest_listed

OF_FITS = (ml.LLE, ml.LTSA)


def roll(n=400, seed=0):
    X, t = make_swiss_roll(n, noise=0.05, random_state=seed)
    return X, t


def matrix_of(kind, X, graph, k=8):
    """M and C by definition, on the nodes of the graph."""
    P = X[graph.first_rows]
    W = graph.affinity
    lists = nearest_listed(P, W.indptr, W.indices, k)
    counts = np.ones(len(P)) if graph.weights is None else graph.weights
    if kind is ml.LLE:
        R = np.eye(len(P)) - oracles.listed_matrix(oracles.affine_weights(P, lists, 1e-3), lists)
        return R.T @ np.diag(counts) @ R, np.diag(counts)
    projectors = oracles.tangent_projectors(P, lists, 2)
    M = np.zeros((len(P), len(P)))
    for i, G in enumerate(projectors):
        members = np.append(i, lists[i][lists[i] >= 0])
        there = np.append(True, lists[i] >= 0)
        M[np.ix_(members, members)] += counts[i] * (np.eye(len(members)) - G[np.ix_(there, there)])
    return M, np.diag(counts)


def smallest(M, C, d):
    """Pairs Mf = λCf beyond the constant, Σ c f² = Σ c."""
    values, F = scipy.linalg.eigh(M, C)
    return values[1 : d + 1], F[:, 1 : d + 1] * np.sqrt(np.trace(C))


def same_up_to_signs(A, B, atol):
    signs = np.sign((A * B).sum(axis=0))
    np.testing.assert_allclose(A * signs, B, atol=atol)


@pytest.mark.thorough(but=4)
@pytest.mark.parametrize("solver", ["dense", "shift-invert"])
@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("kind", OF_FITS)
def test_dense_twin(kind, copies, solver):
    for seed in range(5):
        X, _ = roll(150 + 30 * seed, seed)
        if copies:
            X = np.vstack([X, X[:40], X[:10]])
        graph = ml.knn_graph(X, 8, duplicates="merge", random_state=0)
        assert not graph.info.get("n_bridges")
        assert graph.n_nodes == 150 + 30 * seed
        est = kind(n_neighbors=8, solver=solver, random_state=0).fit(X, graph=graph)
        values, F = smallest(*matrix_of(kind, X, graph), 2)
        np.testing.assert_allclose(est.eigenvalues_, values, rtol=1e-4, atol=1e-13)
        found = est.embedding_
        same_up_to_signs(found[graph.first_rows], F, 1e-3)
        np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose((found**2).mean(axis=0), 1, atol=1e-9)
        np.testing.assert_array_equal(
            found, found[graph.first_rows][graph.spread(np.arange(graph.n_nodes))]
        )


@pytest.mark.thorough
@pytest.mark.parametrize("kind", OF_FITS)
def test_iterations_find_what_factors_do(kind):
    """Where directions of the fits miss much, eigenvalues are not far below ‖M‖."""
    X = np.random.default_rng(0).standard_normal((1500, 30))
    graph = ml.knn_graph(X, 12, random_state=0)
    how = {"n_neighbors": 12, "random_state": 0}
    exact = kind(solver="shift-invert", **how).fit(X, graph=graph)
    found = kind(solver="lobpcg", tol=1e-8, max_iter=500, **how).fit(X, graph=graph)
    assert found.report_.convergence.converged.all()
    np.testing.assert_allclose(found.eigenvalues_, exact.eigenvalues_, rtol=1e-5)
    same_up_to_signs(found.embedding_, exact.embedding_, 1e-2)


def test_lle_is_scikit_learns():
    X, _ = roll()
    graph = ml.knn_graph(X, 8, random_state=0)
    assert not graph.info.get("n_bridges")
    theirs = LocallyLinearEmbedding(n_neighbors=8, eigen_solver="dense").fit_transform(X)
    ours = ml.LLE(n_neighbors=8).fit(X, graph=graph).embedding_
    same_up_to_signs(ours, theirs * np.sqrt(len(X)), 1e-3)


def test_laplacian_eigenmaps_are_scikit_learns():
    X, _ = roll()
    graph = ml.knn_graph(X, 8, random_state=0)
    est = ml.LaplacianEigenmaps(n_components=3).fit(X, graph=graph)
    theirs = SpectralEmbedding(3, affinity="precomputed", eigen_solver="lobpcg", eigen_tol=1e-12)
    W = graph.affinity.toarray()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        F = theirs.fit_transform(W)
    d = W.sum(axis=1)
    F *= np.sqrt(d.sum() / (d @ F**2))
    same_up_to_signs(est.embedding_, F, 1e-4)
    values, V = scipy.linalg.eigh(np.diag(d) - W, np.diag(d))
    np.testing.assert_allclose(est.eigenvalues_, values[1:4], atol=1e-9)
    same_up_to_signs(est.embedding_, V[:, 1:4] * np.sqrt(d.sum()), 1e-5)
    again = ml.LaplacianEigenmaps(n_components=3, affinity="precomputed").fit_transform(W)
    same_up_to_signs(again, est.embedding_, 1e-5)


def test_ltsa_unrolls():
    X, t = make_swiss_roll(3000, random_state=0)
    arc = 0.5 * (t * np.sqrt(1 + t * t) + np.arcsinh(t))
    U = np.column_stack([arc, X[:, 1]])
    U -= U.mean(axis=0)
    est = ml.LTSA(n_neighbors=10, random_state=0).fit(X)
    assert est.report_.convergence.solver == "ARPACK shift-invert"
    F = est.embedding_
    left = U - F @ np.linalg.lstsq(F, U, rcond=None)[0]
    assert ((left**2).sum(axis=0) < 1e-3 * (U**2).sum(axis=0)).all()
    held = ml.LTSA(n_neighbors=10, random_state=0).fit(X[:2500])
    new, fitted = held.transform(X[2500:]), held.embedding_
    A = np.linalg.lstsq(fitted, U[:2500] - U[:2500].mean(axis=0), rcond=None)[0]
    miss = new @ A + U[:2500].mean(axis=0) - U[2500:]
    assert np.sqrt((miss**2).mean(axis=0)).max() < 0.05 * U.std(axis=0).max()
    np.testing.assert_allclose(held.transform(X[:50]), fitted[:50])


@pytest.mark.thorough
def test_foretold_factors_are_those_that_come():
    graph = ml.knn_graph(make_swiss_roll(20_000, random_state=0)[0], 10, random_state=0)
    W = graph.affinity
    L = sp.csr_matrix(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W)
    M = sp.csr_matrix(L @ L)
    told, came = factor_bytes(M), 24 * factors(M)[0].L.nnz
    assert came / 2 < told < 2 * came


# --- hard input


def test_components_are_told():
    X, _ = make_blobs(60, centers=[[0, 0, 0], [50, 50, 0]], random_state=0)
    graph = ml.knn_graph(X, 6, connect=False, random_state=0)
    for kind in (*OF_FITS, ml.LaplacianEigenmaps):
        with pytest.warns(DoubtfulResultWarning, match="2 components"):
            est = kind(n_neighbors=6).fit(X, graph=graph)
        for part in (0, 1):
            own = est.embedding_[graph.components == part]
            weight = graph.degrees[graph.components == part]
            mean = own.mean(axis=0) if kind is not ml.LaplacianEigenmaps else weight @ own
            np.testing.assert_allclose(mean, 0, atol=1e-6)


def test_isolated_nodes_are_at_zero():
    W = random_graph(np.random.default_rng(0), 30, isolated=3)
    est = ml.LaplacianEigenmaps(affinity="precomputed").fit(W)
    alone = np.asarray(W.sum(axis=1)).ravel() == 0
    assert not est.embedding_[alone].any()
    assert any("no edge" in note for note in est.report_.notes)


@pytest.mark.parametrize("kind", [*OF_FITS, ml.LaplacianEigenmaps])
def test_few_points_and_many_neighbours(kind):
    X = np.random.default_rng(0).standard_normal((6, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = kind(n_neighbors=40).fit(X).embedding_  # as many as there are
        assert found.shape == (6, 2)
        assert np.isfinite(found).all()
        with pytest.raises(InputError, match="6 coordinates asked of 6"):
            kind(n_components=6, n_neighbors=40).fit(X)
    two = np.repeat(np.eye(3), 5, axis=0)
    found = kind(n_neighbors=8).fit_transform(two)
    assert np.ptp(found.reshape(3, 5, 2), axis=1).max() == 0


def test_parameters():
    X, _ = roll(60)
    for wrong in (
        ml.LTSA(n_components=8, n_neighbors=8),
        ml.LLE(reg=0.0),
        ml.LLE(solver="arpack"),
        ml.LLE(n_components=0),
        ml.LaplacianEigenmaps(tol=-1.0),
    ):
        with pytest.raises(InputError):
            wrong.fit(X)
    for kind in OF_FITS:
        with pytest.raises(InputError, match="neighbourhoods of points"):
            kind().fit(ml.knn_graph(X, 5))
    for kind in (*OF_FITS, ml.LaplacianEigenmaps):
        with pytest.warns(DoubtfulResultWarning), pytest.raises(InputError, match="all 20 are"):
            kind().fit(np.ones((20, 3)))


@pytest.mark.parametrize("kind", [*OF_FITS, ml.LaplacianEigenmaps])
def test_same_answer_for_any_number_of_threads(kind):
    X, _ = roll(1200)
    one, two = (kind(random_state=0, n_jobs=j).fit_transform(X) for j in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [*OF_FITS, ml.LaplacianEigenmaps])
def test_at_home_in_scikit_learn(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = kind(n_components=1)
        results = check_estimator(est, on_skip=None, on_fail=None)
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert failed == {}
