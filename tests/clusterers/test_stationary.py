"""Stationary labelings (WD12 Definition 1) and the paper's three claims as identities."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import mustlink as ml
import oracles
from cases import random_graph
from mustlink.clusterers import csc_gfhf
from mustlink.clusterers.csc_gfhf import stationary_labelings, stationary_residual
from mustlink.eigen.pencil import Pencil, dense_pencil
from mustlink.errors import InputError
from mustlink.operators.constraint_operator import constraint_operator
from mustlink.operators.laplacian import normalized_laplacian

seeds = st.integers(0, 2**31)


def normalised(W):
    """Ā = D^-½WD^-½ and the degrees."""
    d = np.asarray(W.sum(axis=1)).ravel()
    half = sp.diags_array(1 / np.sqrt(d))
    return sp.csr_matrix(half @ W @ half), d


def knowledge(rng, n, rank):
    """A non-negative positive semidefinite Q (n, n) of some rank."""
    P = rng.dirichlet(np.ones(rank), n)
    return P @ P.T


def case(seed, components=1, n=None):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(15, 50)) if n is None else n
    return rng, n, random_graph(rng, n, components)


# --- Definition 1


@given(seeds, st.integers(1, 3), st.booleans())
@settings(max_examples=40)
def test_labelings_come_back_as_they_were(seed, components, as_array):
    rng, n, W = case(seed, components)
    S, _ = normalised(W)
    Q = oracles.by_own_sums(knowledge(rng, n, int(rng.integers(4, 8))))
    P = S.toarray() if as_array else S
    lam, F = stationary_labelings(P, Q)
    assert lam.size == np.linalg.matrix_rank(Q) - components
    assert (np.diff(lam) >= 0).all()
    assert (lam > 0).all()
    np.testing.assert_allclose(np.linalg.norm(F, axis=0), 1)
    assert (stationary_residual(F, lam, P, Q) <= 1e-9 * (1 + lam)).all()
    # eq. 11 itself: αS has an inverse, and its labelings are fixed points.
    alpha = 0.9
    lam, F = stationary_labelings(alpha * P, Q, 3)
    again = np.linalg.solve(np.eye(n) - alpha * S.toarray(), Q @ F) * lam
    np.testing.assert_allclose(again, F, atol=1e-8 * lam.max())


@given(seeds)
@settings(max_examples=15)
def test_walks_that_are_not_symmetric(seed):
    rng, n, W = case(seed)
    d = np.asarray(W.sum(axis=1)).ravel()
    walk = W.toarray() / d[:, None]
    Q = knowledge(rng, n, 4)
    to_graph = Q / Q.sum(axis=1, keepdims=True)
    lam, F = stationary_labelings(walk, to_graph)
    assert lam.size in (1, 3)  # the others are a complex pair
    assert (stationary_residual(F, lam, walk, to_graph) <= 1e-8 * (1 + np.abs(lam))).all()


@pytest.mark.parametrize("kind", ["symmetric", "walk"])
@pytest.mark.parametrize("components", [1, 3])
def test_large_and_small_agree(kind, components, monkeypatch):
    rng, n, W = case(3, components, n=120)
    S, d = normalised(W)
    own = sp.diags_array(0.1 + rng.random(n))
    P = S if kind == "symmetric" else sp.csr_matrix(sp.diags_array(1 / d) @ W)
    dense, F = stationary_labelings(P, own, 6)
    monkeypatch.setattr("mustlink.clusterers.csc_gfhf._DENSE", 10)
    for way in (lambda M: M, lambda M: M.toarray()):
        lam, V = stationary_labelings(way(P), way(own), 6)
        np.testing.assert_allclose(lam, dense, rtol=1e-7)
        assert oracles.angle(F, V) < 1e-6
        assert stationary_residual(V, lam, P, own).max() < 1e-8


def test_a_large_sparse_pair(monkeypatch):
    monkeypatch.setattr(csc_gfhf, "_DENSE", 300)
    rng, n = np.random.default_rng(0), 600
    W = random_graph(rng, n, 2, density=0.01)
    S, _ = normalised(W)
    lam, F = stationary_labelings(S, sp.identity(n), 4)
    assert lam.shape == (4,)
    assert F.shape == (n, 4)
    assert stationary_residual(F, lam, S, sp.identity(n)).max() < 1e-9
    found = ml.NCut(6, affinity="precomputed", solver="dense", regularization=0).fit(W)
    np.testing.assert_allclose(lam, found.eigenvalues_[2:], rtol=1e-8)
    with pytest.raises(InputError, match="how many"):
        stationary_labelings(S, sp.identity(n))


def test_residual_of_what_is_not_stationary():
    _, n, W = case(0)
    S, _ = normalised(W)
    f = np.arange(n) - 3.0
    told = stationary_residual(f, 0.5, S, np.eye(n))
    expected = np.linalg.norm(f - S @ f - 0.5 * f) / np.linalg.norm(f)
    assert told == pytest.approx([expected])
    assert stationary_residual(10 * f, 0.5, S, np.eye(n)) == pytest.approx(told)
    assert stationary_residual(np.zeros(n), 1.0, S, np.eye(n)) == pytest.approx([0])


# --- the claims


@given(seeds)
@settings(max_examples=30)
def test_claim_1_csc_at_beta_0_finds_the_stationary_labelings(seed):
    rng, n, W = case(seed)
    Q = knowledge(rng, n, int(rng.integers(3, 7)))
    known = ml.Constraints.from_matrix(Q)
    S, d = normalised(W)
    Q_bar = Q / np.sqrt(np.outer(d, d))
    lam, F = stationary_labelings(S, Q_bar)
    laplacian = normalized_laplacian(ml.Graph.from_affinity(W))
    pencil = Pencil(laplacian, constraint_operator(known, laplacian), 0.0)
    all_ = dense_pencil(pencil)
    np.testing.assert_allclose(np.sort(all_.lam), lam, rtol=1e-6)
    V = laplacian.from_working_order(all_.vectors)
    assert (stationary_residual(V, all_.lam, S, Q_bar) <= 1e-8 * (1 + all_.lam)).all()
    assert oracles.angle(F, V) < 1e-5
    # "among which the one with the lowest cost on G will be chosen", through the estimator
    est = ml.CSP(
        2, affinity="precomputed", beta=0.0, subspace="exact", assign="sign", random_state=0
    ).fit(W, constraints=known)
    v = est.embedding_[:, 0] * np.sqrt(d)
    assert stationary_residual(v, est.eigenvalues_, S, Q_bar) <= 1e-8 * (1 + est.eigenvalues_)
    cost = np.einsum("ij,ij->j", F, F - S @ F)
    if cost.size < 2 or np.sort(cost)[1] > 1.001 * cost.min():
        best = np.argmin(cost)
        assert est.eigenvalues_ == pytest.approx([lam[best]], rel=1e-6)
        assert oracles.angle(F[:, [best]], v[:, None]) < 1e-5


@given(seeds, st.sampled_from([0.1, 0.5, 0.99]))
@settings(max_examples=20)
def test_claim_2_llgc_is_the_case_without_constraints(seed, alpha):
    _, n, W = case(seed)
    S, _ = normalised(W)
    lam, F = stationary_labelings(alpha * S, sp.identity(n))
    assert lam.size == n
    # f = λ(I − αĀ)⁻¹f (eq. 13)
    again = np.linalg.solve(np.eye(n) - alpha * S.toarray(), F) * lam
    np.testing.assert_allclose(again, F, atol=1e-9)
    values = np.sort(1 - alpha * np.linalg.eigvalsh(S.toarray()))
    np.testing.assert_allclose(lam, values, atol=1e-10)
    # LLGC as printed sends such a labeling to a multiple of itself.
    spread = oracles.llgc_dense(W.toarray(), F[:, :3], alpha)
    np.testing.assert_allclose(spread, F[:, :3] * ((1 - alpha) / lam[:3]), atol=1e-9)


@given(seeds, st.sampled_from([0.3, 0.9]))
@settings(max_examples=20)
def test_claim_3_csc_without_knowledge_finds_those_of_llgc(seed, alpha):
    _, n, W = case(seed)
    S, d = normalised(W)
    # Q̄ = I is Q = D.
    known = ml.Constraints.from_matrix(np.diag(d))
    laplacian = normalized_laplacian(ml.Graph.from_affinity(W))
    pencil = Pencil(laplacian, constraint_operator(known, laplacian), 0.0)
    found = dense_pencil(pencil)
    assert found.lam.size == n - 1  # all but λ = 0
    V = laplacian.from_working_order(found.vectors)
    moved = 1 - alpha + alpha * found.lam  # the same vectors, L̄f = μf: (I − αĀ)f = (1 − α + αμ)f
    assert stationary_residual(V, moved, alpha * S, sp.identity(n)).max() < 1e-9
    lam, F = stationary_labelings(alpha * S, sp.identity(n))
    np.testing.assert_allclose(np.sort(moved), lam[1:], rtol=1e-8)
    # The one of lowest cost is that of the plain normalised cut.
    best = found.cheapest(1)
    assert best.lam == pytest.approx([(lam[1] - 1 + alpha) / alpha], abs=1e-8)
    if lam[2] > 1.0001 * lam[1]:
        assert oracles.angle(F[:, [1]], laplacian.from_working_order(best.vectors)) < 1e-5


# --- bad input


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((np.eye(3), np.eye(4)), "P_GH"),
        ((np.ones((3, 4)), np.eye(3)), "P_GG"),
        ((np.ones(3), np.eye(3)), "square"),
        ((np.zeros((0, 0)), np.zeros((0, 0))), "P_GG"),
        ((np.full((3, 3), np.nan), np.eye(3)), "NaN"),
        ((sp.csr_matrix(np.diag([1.0, np.inf, 1.0])), np.eye(3)), "NaN"),
        ((np.eye(3) / 2, np.zeros((3, 3))), "all zero"),
        ((np.eye(3) / 2, np.eye(3), 0), "n_vectors"),
        (([["a", "b"], ["c", "d"]], np.eye(2)), "numbers"),
    ],
)
def test_bad_input(arguments, word):
    with pytest.raises(InputError, match=word) as caught:
        stationary_labelings(*arguments)
    assert "\n" not in str(caught.value)


def test_bad_labelings():
    with pytest.raises(InputError, match="3 nodes"):
        stationary_residual(np.ones(4), 1.0, np.eye(3), np.eye(3))
