"""Affinities without a floor: degrees from 1e-24 to 10, against a hundred digits and real data."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import adjusted_rand_score

import mustlink as ml
import oracles
from mustlink.core.dense_algebra import smallest_quotients
from mustlink.eigen.pencil import Pencil, dense_pencil
from mustlink.operators.constraint_operator import constraint_operator
from mustlink.operators.laplacian import normalized_laplacian

_NEAR = Path(__file__).resolve().parents[3] / "shared" / "data"
GLASS = Path(os.environ.get("MUSTLINK_DATA", _NEAR)) / "uci" / "glass.npz"


def gaussian(X):
    """Gaussian affinity without a floor, sigma = 1."""
    W = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1) / 2)
    np.fill_diagonal(W, 0.0)
    return W


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def random_pairs(y, count, seed):
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(y.size, 2, replace=False) for _ in range(count)])
    belief = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)
    return ml.Constraints.from_pairs(pairs, belief, n_nodes=y.size)


def outliers(seed, n=12):
    """Points in two clouds, three of them far out: (n, n) affinity, its constraints dense."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) + np.repeat([[0.0, 0.0], [2.5, 0.0]], [n // 2, n - n // 2], 0)
    X[:3] += rng.uniform(4, 8, (3, 2)) * rng.choice([-1, 1], (3, 2))
    W = gaussian(X)
    Q = np.zeros((n, n))
    for _ in range(8):
        i, j = rng.choice(n, 2, replace=False)
        Q[i, j] = Q[j, i] = rng.choice([-1.0, 1.0])
    return W, Q


@pytest.mark.thorough(but=3)
@pytest.mark.parametrize("share", [0.5, 0.05, -0.2])
@pytest.mark.parametrize("seed", range(8))
def test_feasible_pairs_beside_much_larger_ones(seed, share):
    """All pairs whose cost is no rounding, as a hundred digits know them."""
    W, Q = outliers(seed)
    expected, U = oracles.exact_pencil(W, Q, share)
    pairs = np.argwhere(np.triu(Q))
    known = ml.Constraints.from_pairs(pairs, Q[tuple(pairs.T)], n_nodes=len(W))
    laplacian = normalized_laplacian(ml.Graph.from_affinity(W))
    operator = constraint_operator(known, laplacian)
    found = dense_pencil(Pencil(laplacian, operator, share * operator.kth_largest(1)))
    V = np.sqrt(W.sum(axis=1))[:, None] * U
    L, _, _ = oracles.laplacian(W)
    cost = np.einsum("ij,ij->j", V, L @ V) / np.einsum("ij,ij->j", V, V)
    assert found.lam.size == expected.size > 0
    for lam, v in zip(expected[cost > 1e-10], V.T[cost > 1e-10], strict=True):
        at = np.abs(found.lam / lam - 1).argmin()
        # L̄ = I − S rounds at 1e-16, a millionth of its smallest eigenvalues here, and LAPACK at
        # that share of the largest μ.
        error = 1e-5 + 1e-14 * lam / expected[0]
        np.testing.assert_allclose(found.lam[at], lam, rtol=error)
        assert (
            oracles.angle(laplacian.from_working_order(found.vectors)[:, [at]], v[:, None]) < 1e-4
        )


@pytest.mark.parametrize("seed", range(8))
def test_quotients_of_sums_that_a_double_cannot_hold(seed):
    rng = np.random.default_rng(seed)

    def semidefinite(exponent, rank, n=8):
        F = rng.integers(-9, 10, (rank, n)).astype(float)
        return 2.0**exponent * F.T @ F  # without rounding: the null space is there in all digits

    upper = [semidefinite(0, 9), semidefinite(80, 3)]
    lower = [semidefinite(-20, 9), semidefinite(66, 2)]
    expected, U = oracles.exact_quotients(upper, lower)
    rho, V = smallest_quotients(upper, lower, 3)
    np.testing.assert_allclose(rho, expected[:3], rtol=1e-6)
    assert oracles.angle(V[:, :2], U[:, :2]) < 1e-5


@pytest.mark.thorough
def test_wdbc_without_a_floor():
    """Standardised, sigma = 1, 300 pairs: the 20 loneliest nodes and half of the others.

    Degrees are from 1e-24 to 8.
    """
    X, y = load_breast_cancer(return_X_y=True)
    W = gaussian(standardised(X))
    order = np.argsort(W.sum(axis=1))
    kept = np.sort(np.append(order[:20], order[20::2]))
    graph, y = ml.Graph.from_affinity(W[np.ix_(kept, kept)]), y[kept]
    assert graph.degrees.min() < 1e-23
    assert graph.degrees.max() > 5
    known = random_pairs(y, 300, 0)
    for make in (ml.CSP, ml.FastGE):
        for subspace in ("auto", 8):
            est = make(2, affinity="precomputed", random_state=0, subspace=subspace)
            est.fit(graph, constraints=known)
            assert np.isfinite(est.embedding_).all()
            assert np.unique(est.labels_).size == 2
            if subspace == "auto":
                # SSSC, whose matrices are not wide, has 0.84 to 0.86.
                assert adjusted_rand_score(y, est.labels_) > 0.7


@pytest.mark.skipif(
    not GLASS.exists(), reason="uci/glass.npz is not in the data folder (MUSTLINK_DATA)"
)
def test_glass_has_the_feasible_vector_that_the_paper_promises():
    """WD14 §4.3: β < λ_max leaves a positive eigenvalue; here beside −1e20."""
    data = np.load(GLASS)
    y = np.unique(data["y"], return_inverse=True)[1]
    graph = ml.Graph.from_affinity(gaussian(standardised(data["X"])))
    laplacian = normalized_laplacian(graph)
    for seed in range(3):
        known = random_pairs(y, 300, seed)
        Q = constraint_operator(known, laplacian)
        pencil = Pencil(laplacian, Q, 0.5 * Q.kth_largest(1))
        found = dense_pencil(pencil)
        assert found.lam.size == pencil.n_feasible() > 0
        assert (pencil.residuals(found.vectors, found.lam) < 1e-10).all()
        # Lemma 1: β < α.
        V = found.vectors
        assert (np.einsum("ij,ij->j", V, Q.apply(V)) > pencil.beta * laplacian.volume).all()
        est = ml.CSP(2, beta=0.5, subspace="exact", affinity="precomputed", random_state=0)
        est.fit(graph, constraints=known)
        assert est.eigenvalues_ == pytest.approx(found.cheapest(1).lam)
