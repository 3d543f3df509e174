"""GLP with any energy: its optimality conditions, AB09's methods as rows of it, hard input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator
from sklearn.base import clone

import mustlink as ml
import oracles
from cases import blobs, random_graph
from mustlink.errors import InputError


def random_case(seed):
    """M of full or of nearly full rank, labels, weights of which some are infinite, Δ."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(6, 50)), int(rng.integers(2, 4))
    W = random_graph(rng, n)
    L = sp.csr_matrix(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W)
    A = sp.random_array((n, n), density=0.3, rng=rng) + sp.diags_array(1 + rng.random(n))
    M = [L, sp.csr_matrix(L @ L), sp.csr_matrix(A.T @ A)][seed % 3]
    y = np.full(n, -1)
    nodes = rng.permutation(n)[: int(rng.integers(k, n // 2 + k))]
    y[nodes] = np.append(np.arange(k), rng.integers(0, k, nodes.size - k))
    u = np.where(y >= 0, rng.random(n) + 0.1, 0.3 * (rng.random(n) < 0.3))
    u[(y >= 0) & (rng.random(n) < 0.3)] = np.inf
    delta = rng.standard_normal((n, seed % 4)) if seed % 4 < 3 else np.ones((n, 1))
    free = n - np.isinf(u).sum()
    return M, y, u, delta[:, : max(0, min(delta.shape[1], free - 1))]


def fitted(M, y, u=np.inf, delta=None, **how):
    est = ml.GLP(tol=1e-12, **how).fit(M, y, weights=u, orthogonal_to=delta)
    return est, est._scores


@pytest.mark.thorough(but=1)
@pytest.mark.parametrize("solver", ["dense", "cg"])
def test_dense_twin_with_a_prior(solver):
    """Σ b‖f − p‖² over nodes without a label, beside weights that draw some of them to 0."""
    for seed in range(40):
        M, y, u, delta = random_case(seed)
        rng, k = np.random.default_rng(seed), np.unique(y[y >= 0]).size
        P = rng.dirichlet(np.ones(k), y.size)
        b = np.where(rng.random(y.size) < 0.4, 0.0, rng.exponential(size=y.size))
        P[b == 0] = np.nan
        est = ml.GLP(tol=1e-12, solver=solver)
        est.fit(M, y, u, delta if delta.size else None, prior=P, belief=b)
        held = np.isinf(u)
        w, b = np.where(held, 0.0, u), np.where(y >= 0, 0.0, b)
        sums = w[:, None] * one_hot(y) + b[:, None] * np.nan_to_num(P)
        Y = np.where(held[:, None], one_hot(y), sums / np.maximum(w + b, 1e-300)[:, None])
        true = oracles.glp_dense(M.toarray(), Y, w + b, held, delta)
        size = max(1.0, np.abs(true).max())
        np.testing.assert_allclose(est._scores, true, atol=1e-6 * size, err_msg=str(seed))


def test_a_prior_reaches_where_no_label_does():
    """Two parts, labels in one; and what is wrong is told."""
    L = np.kron(np.eye(2), [[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]])
    y = np.array([0, -1, 1, -1, -1, -1])
    P, b = np.tile([0.2, 0.8], (6, 1)), np.array([0, 0, 0, 2.0, 0, 0])
    assert ml.GLP().fit(L, y).labels_.tolist() == [0, 0, 1, -1, -1, -1]
    est = ml.GLP().fit(L, y, prior=P, belief=b)
    assert est.labels_.tolist() == [0, 0, 1, 1, 1, 1]
    np.testing.assert_allclose(est._scores[3:], P[3:], atol=1e-9)
    same = ml.GFHF(affinity="precomputed", class_mass=False)
    same.fit(np.diag(np.diag(L)) - L, y, prior=P, belief=b)
    np.testing.assert_allclose(same._scores[0][same._scores[1]], est._scores, atol=1e-9)
    for given, words in (
        ({"belief": 1.0}, "no prior"),
        ({"prior": P[:, :1]}, "2 classes"),
        ({"prior": P, "belief": -1.0}, "0 or more"),
    ):
        with pytest.raises(InputError, match=words):
            ml.GLP().fit(L, y, **given)


def one_hot(y):
    return (y[:, None] == np.unique(y[y >= 0])) * 1.0


@pytest.mark.parametrize("solver", ["dense", "cg"])
def test_dense_twin(solver):
    for seed in range(40):
        M, y, u, delta = random_case(seed)
        est, F = fitted(M, y, u, delta if delta.size else None, solver=solver)
        held = np.isinf(u)
        w = np.where(held, 0.0, u)
        true = oracles.glp_dense(M.toarray(), one_hot(y), w, held, delta)
        size = max(1.0, np.abs(true).max())
        np.testing.assert_allclose(F, true, atol=1e-6 * size, err_msg=str(seed))
        np.testing.assert_array_equal(F[held], one_hot(y)[held])
        np.testing.assert_allclose(delta.T @ F, 0, atol=1e-7 * size)
        assert est.report_.convergence.solver == ("LAPACK" if solver == "dense" else "block CG")


@pytest.mark.parametrize("seed", range(6))
def test_dense_matrices_are_as_sparse_ones(seed):
    M, y, u, delta = random_case(seed)
    found = [
        fitted(given, y, u, delta if delta.size else None, solver=solver)[1]
        for given in (M, M.toarray())
        for solver in ("dense", "cg")
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-7 * np.abs(found[0]).max())


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    X, truth = blobs(rng, 120, 3, d=4, separation=1.0)
    y = np.full(120, -1)
    known = np.append([np.argmax(truth == c) for c in range(3)], rng.choice(120, 20))
    y[known] = truth[known]
    graph = ml.knn_graph(X, 8, random_state=0)
    assert not graph.info.get("n_bridges")
    return X, y, graph


def test_every_method_of_the_paper_is_a_row(problem):
    X, y, graph = problem
    for name, (method, M, u, delta) in oracles.ab09_rows(X, y, graph, 8).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = clone(method).fit(X, y, graph=graph)
        est = ml.GLP().fit(M, y, weights=u, orthogonal_to=delta)
        F = theirs.decision_function()
        size = np.abs(F).max()
        np.testing.assert_allclose(est.decision_function(), F, atol=1e-7 * size, err_msg=name)
        top = np.sort(F, axis=1)
        clear = top[:, -1] - top[:, -2] > 1e-6 * size
        assert (est.labels_ == theirs.labels_)[clear].all(), name


def test_multigrid_of_a_matrix_needs_few_steps():
    X, truth = blobs(np.random.default_rng(0), 3000, 4, d=3, separation=3.0)
    graph = ml.knn_graph(X, 10, random_state=0)
    W = graph.affinity
    L = sp.csr_matrix(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W)
    y = np.full(3000, -1)
    y[:40] = truth[:40]
    est = ml.GLP().fit(L, y)
    assert est.report_.convergence.converged.all()
    assert est.n_iter_ < 150
    F = ml.GFHF(class_mass=False).fit(X, y, graph=graph).decision_function()
    np.testing.assert_allclose(est.decision_function(), F, atol=1e-6)


# --- hard input


def test_parts_without_a_label_are_not_answered():
    W = random_graph(np.random.default_rng(0), 40, components=3, isolated=2)
    L = sp.csr_matrix(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W)
    parts = sp.csgraph.connected_components(W, directed=False)[1]
    largest = np.argsort(np.bincount(parts))[::-1]
    y = np.full(40, -1)
    y[np.flatnonzero(parts == largest[0])[:2]] = 0, 1
    y[np.flatnonzero(parts == largest[1])[0]] = 1
    with pytest.warns(UserWarning, match="not reached"):
        est = ml.GLP().fit(L, y)
    reached = np.isin(parts, largest[:2])
    assert (est.labels_[~reached] == -1).all()
    assert (est.labels_[parts == largest[1]] == 1).all()  # the class that is there
    assert not est.label_distributions_[~reached].any()
    np.testing.assert_allclose(est.label_distributions_[reached].sum(axis=1), 1)


def test_what_labels_do_not_determine_is_told():
    """Of two nodes only their difference is in M: a whole line of minimisers."""
    M, y = np.outer([1.0, -1.0, 1.0, -1.0], [1.0, -1.0, 1.0, -1.0]), np.array([0, 1, -1, -1])
    with pytest.warns(UserWarning, match="do not determine"):
        est = ml.GLP().fit(M, y)
    np.testing.assert_allclose((M @ est._scores)[2:], 0, atol=1e-9)


def test_two_classes_named_and_signed(problem):
    _, y, graph = problem
    W = graph.affinity
    L = sp.csr_matrix(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W)
    before = L.copy()
    names = np.where(y < 0, "", np.where(y == 0, "rest", "third")).astype(object)
    est = ml.GLP().fit(L, names)
    assert (before != L).nnz == 0
    f = est.decision_function()
    sign = np.where(y < 0, 0.0, np.where(y == 0, -1.0, 1.0))[:, None]
    true = oracles.glp_dense(L.toarray(), sign, np.zeros(len(y)), y >= 0, np.empty((len(y), 0)))
    np.testing.assert_allclose(f, true[:, 0], atol=1e-8)
    assert list(est.classes_) == ["rest", "third"]
    clear = np.abs(f) > 1e-9
    assert (est.transduction_ == np.where(f > 0, "third", "rest"))[clear].all()
    assert est.n_iter_ == 1
    assert est.report_.to_dict()["labels_kept"] == 1.0


@pytest.mark.parametrize(
    ("M", "y", "more", "match"),
    [
        (np.eye(3), [0, 1], {}, "shape"),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), [0, 1], {}, "not symmetric"),
        (-np.eye(2), [0, 1], {}, "negative"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), [0, 1], {}, "finite"),
        (aslinearoperator(np.eye(3)), [0, 1, -1], {}, "M"),
        (np.eye(3), [0, 0, -1], {}, "1 class only"),
        (np.eye(3), [0, 1, -1], {"weights": -1.0}, "0 or more"),
        (np.eye(3), [0, 1, -1], {"weights": [1.0, 1.0]}, "shape"),
        (np.eye(3), [0, 1, -1], {"weights": [0.0, 0.0, 1.0]}, "0 on all nodes"),
        (np.eye(3), [0, 1, -1], {"weights": [1.0, 1.0, np.inf]}, "node 2"),
        (np.eye(3), [0, 1, -1], {"orthogonal_to": np.ones(4)}, "columns"),
        (np.eye(3), [0, 1, -1], {"orthogonal_to": np.zeros(3)}, "zero"),
    ],
)
def test_errors(M, y, more, match):
    with pytest.raises(InputError, match=match):
        ml.GLP().fit(M, y, **more)
