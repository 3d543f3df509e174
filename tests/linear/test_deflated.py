"""Solves with smooth vectors known, against dense algebra."""

import numpy as np
import pytest

from cases import blobs, labelled, planted_graph, random_graph
from mustlink import GFHF, LLGC, Poisson, TikReg, knn_graph
from mustlink.context.stage_cache import Workspace
from mustlink.eigen import memory_work
from mustlink.eigen.smooth_subspace import BasisKey
from mustlink.errors import NumericalError
from mustlink.graph import Graph
from mustlink.linear.laplacian_solve import DeflatedPolynomial, solve_deflated
from mustlink.linear.multigrid.hierarchy import Hierarchy, polynomial
from mustlink.operators.laplacian import normalized_laplacian


def known(case, rng):
    """L̄, some of its smoothest vectors beside the null space, roughly, and the next value."""
    W = {
        "clusters": lambda: planted_graph(rng, 150, 4, 0.3, 0.005)[0],
        "random": lambda: random_graph(rng, 120, 1, density=0.1),
        "parts": lambda: random_graph(rng, 140, 3, density=0.2),
    }[case]()
    laplacian = normalized_laplacian(Graph.from_affinity(W))
    values, vectors = np.linalg.eigh(laplacian.to_dense())
    first = laplacian.null.n_components
    Z = vectors[:, first : first + 5] + 1e-2 * rng.normal(size=(laplacian.size, 5))
    return laplacian, laplacian.null.project(Z), float(values[first + 5])


def dense_polynomial(A, low, steps):
    """q(A): Chebyshev iteration for AX = I from 0, step by step (Saad 2003, Alg. 12.1)."""
    centre, half = (2.0 + low) / 2, (2.0 - low) / 2
    T = [np.eye(len(A)), (centre * np.eye(len(A)) - A) / half]
    scale = [1.0, centre / half]
    for _ in range(steps - 1):
        T.append(2 * T[1] @ T[-1] - T[-2])
        scale.append(2 * scale[1] * scale[-1] - scale[-2])
    left = T[steps] / scale[steps]  # I − Aq(A)
    return np.linalg.lstsq(A, np.eye(len(A)) - left, rcond=1e-12)[0], left


@pytest.fixture
def rng():
    return np.random.default_rng(5)


CASES = ["clusters", "random", "parts"]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("share", [0.5, 1e-2, 1e-4])
def test_the_polynomial_leaves_no_more_than_its_share(case, share, rng):
    laplacian, _, low = known(case, rng)
    cycle, A = polynomial(laplacian, low, share), laplacian.to_dense()
    q, left = dense_polynomial(A, low, 4 * cycle.degree)
    B = laplacian.null.project(rng.normal(size=(laplacian.size, 3)))
    expected = q @ B
    found = laplacian.null.project(cycle(B))
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    values, vectors = np.linalg.eigh(A)
    kept = ((left @ vectors) * vectors).sum(axis=0)
    assert np.abs(kept[values >= low]).max() <= share * (1 + 1e-8)
    assert ((kept > 0) & (kept <= 1 + 1e-9))[values < low].all()


@pytest.mark.parametrize("case", CASES)
def test_the_inverse_is_the_formula_symmetric_and_positive(case, rng):
    laplacian, Z, low = known(case, rng)
    inverse, A = DeflatedPolynomial(laplacian, Z, low), laplacian.to_dense()
    eye = np.eye(laplacian.size)
    q = inverse.rest(eye)
    E = np.linalg.inv(Z.T @ A @ Z)
    P = eye - Z @ E @ Z.T @ A
    expected = Z @ E @ Z.T + P @ q @ P.T
    M = inverse(eye)
    np.testing.assert_allclose(M, expected, atol=1e-6 * np.abs(expected).max())  # q is in single
    off = laplacian.null.project
    M = off(off(M).T)
    np.testing.assert_allclose(M, M.T, atol=1e-4 * np.abs(M).max())
    own = np.linalg.eigvalsh((M + M.T) / 2)
    assert (own > 1e-3).sum() == laplacian.size - laplacian.null.n_components
    np.testing.assert_allclose(inverse(A @ Z), Z, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("tol", [1e-4, 1e-9])
def test_solutions_are_those_of_the_dense_inverse(case, tol, rng):
    laplacian, Z, low = known(case, rng)
    inverse, A = DeflatedPolynomial(laplacian, Z, low), laplacian.to_dense()
    B = A @ rng.normal(size=(laplacian.size, 4)) * [1.0, 1e9, 1e-9, 0.0]
    how = {"max_iter": 100, "project": laplacian.null.project}
    X, told = solve_deflated(inverse, B, tol=tol, **how)
    size = np.linalg.norm(B, axis=0)
    left = np.linalg.norm(B - A @ X, axis=0)
    assert (left <= 1.01 * tol * size).all()
    assert told.converged.all()
    np.testing.assert_allclose(told.residuals * size, left, atol=1e-12 * size.max(), rtol=0.1)
    # A residual without a part along Z bounds the error by the next eigenvalue.
    error = np.linalg.norm(laplacian.null.project(X) - np.linalg.pinv(A) @ B, axis=0)
    assert (error <= 2 * tol * size / low).all()
    assert inverse.tolerance(tol) >= tol


def test_vectors_that_say_the_same_are_refused(rng):
    laplacian, Z, low = known("clusters", rng)
    with pytest.raises(NumericalError):
        DeflatedPolynomial(laplacian, np.hstack([Z, Z[:, :1]]), low)


@pytest.fixture
def clear(monkeypatch):
    """Clear clusters of points, taken for many of whose grids little is to be had."""
    monkeypatch.setattr(memory_work, "_MANY", 1000)
    monkeypatch.setattr(Hierarchy, "is_cheap", lambda *_: False)
    rng = np.random.default_rng(3)
    X, y = blobs(rng, 3000, 4, d=5, separation=2.5)
    y = np.asarray(y)
    return knn_graph(X, random_state=0), labelled(y, 5, rng), y


def kept(graph):
    return [one for _, one in graph.derived.of(memory_work.DeflationKey)]


def bases(graph):
    return [one for _, one in graph.derived.of(BasisKey)]


def test_vectors_that_the_polynomial_does_as_well_are_left_out(clear, monkeypatch):
    monkeypatch.setattr(memory_work, "_CLEAR", 1e-4)
    work = Workspace(clear[0])
    basis, low = memory_work.smooth_vectors(work, 0)
    everything = memory_work.smoothest(work, memory_work._VECTORS, seed=0).values
    few = np.count_nonzero(everything < low)
    assert 0 < few < everything.size
    np.testing.assert_array_equal(basis.values, everything[:few])
    assert (everything[few:] >= low).all()


@pytest.mark.parametrize("method", [Poisson, GFHF, LLGC])
def test_labels_spread_alike_by_vectors_and_by_grids(clear, method, monkeypatch):
    graph, given, y = clear
    monkeypatch.setattr(memory_work, "_CLEAR", 1e-4)
    how = {"affinity": "precomputed", "random_state": 0}
    how |= {"alpha": 0.99} if method is LLGC else {}
    by_vectors = method(**how).fit(graph, given)
    first = (*kept(graph), *bases(graph))
    assert first
    more = given.copy()
    more[:: len(y) // 10] = y[:: len(y) // 10]
    again = by_vectors.refit(more).labels_
    assert (*kept(graph), *bases(graph)) == first
    fresh = Graph.from_affinity(graph.affinity, graph.info)
    assert (again == method(**how).fit(fresh, more).labels_).all()
    monkeypatch.setattr(memory_work, "_MANY", 10**9)
    grids = Graph.from_affinity(graph.affinity, graph.info)
    other = method(**how, tol=1e-10).fit(grids, more)
    assert not kept(grids)
    assert not bases(grids)
    assert (again != other.labels_).mean() <= 1e-3
    F, G = by_vectors.decision_function(), other.decision_function()
    np.testing.assert_allclose(F, G, atol=1e-2 * np.abs(G).std())


def test_labels_that_pull_at_few_nodes_go_without_vectors(clear):
    graph, given, _ = clear
    TikReg(affinity="precomputed", random_state=0).fit(graph, given)
    LLGC(affinity="precomputed", random_state=0, alpha=0.5).fit(graph, given)
    assert not bases(graph)


@pytest.mark.parametrize("why", ["time", "memory", "smooth", "cheap"])
def test_grids_do_where_vectors_do_not_pay(clear, why, monkeypatch):
    graph, given, _ = clear
    limits = {"time": {"time_limit": 1000}, "memory": {"memory": "8GB"}}.get(why, {})
    if why == "smooth":
        monkeypatch.setattr(memory_work, "_CLEAR", 1.9)
    if why == "cheap":
        monkeypatch.undo()
    est = Poisson(affinity="precomputed", random_state=0, **limits).fit(graph, given)
    assert not kept(graph)
    assert est.report_.convergence.converged.all()
