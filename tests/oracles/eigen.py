"""Dense eigenproblems, by LAPACK: pencils whole and projected; angles between subspaces."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.linalg as sla

from oracles.operators import regularized_laplacian


def pencil(L, Q, beta, volume):
    """All pairs 0 < λ < ∞ of L̄v = λ(Q̄ − βI)v by QZ, ‖v‖² = vol: λ, v and cost, in order of λ.

    Nothing is assumed about the null space of L̄. Where it has several dimensions QZ returns them
    as λ = 0 up to rounding; vectors without cost are not candidates (WD14 Lemma 1).
    """
    homogeneous, V = sla.eig(L, Q - beta * np.eye(len(L)), homogeneous_eigvals=True)
    a, b = homogeneous
    real = np.abs(np.imag(a * np.conj(b))) <= 1e-7 * np.abs(a * b)  # QZ rounds like √eps at worst
    finite = np.abs(b) > 1e-11 * np.abs(a)
    lam = np.real(a[real & finite] / b[real & finite])
    V = np.real(V[:, real & finite])
    V = V * np.sqrt(volume) / np.linalg.norm(V, axis=0)
    cost = np.einsum("ij,ij->j", V, L @ V)
    feasible = (lam > 1e-9) & (cost > 1e-9 * volume)
    order = np.argsort(lam[feasible])
    return lam[feasible][order], V[:, feasible][:, order], cost[feasible][order]


def projected_pencil(L, Q, beta, U, volume):
    """The pencil inside span(U), every direction dense: λ > 0 and cost, in order of cost."""
    lam, C, _ = pencil(U.T @ L @ U, U.T @ Q @ U, beta, volume)
    cost = np.einsum("ij,ij->j", U @ C, L @ (U @ C))
    order = np.argsort(cost)
    return lam[order], (U @ C)[:, order], cost[order]


def finite_pairs(L, Q, Z):
    """All pairs 0 < λ < ∞ of Lf = λQf, both semidefinite, Z the null space of L: λ, unit f, fᵀQf.

    By the Schur complement of ZᵀQZ on a basis of Z^⟂; λ ascending.
    """
    inner = np.linalg.pinv(Z.T @ Q @ Z, rcond=1e-10, hermitian=True)
    S = Q - Q @ Z @ inner @ Z.T @ Q
    N = sla.null_space(Z.T)
    mu, W = sla.eigh(N.T @ (S + S.T) @ N / 2, N.T @ (L + L.T) @ N / 2)
    kept = mu > 1e-11 * mu.max(initial=0)
    W = N @ W[:, kept]
    F = W - Z @ (inner @ (Z.T @ Q @ W))
    F /= np.linalg.norm(F, axis=0)
    return 1 / mu[kept][::-1], F[:, ::-1], np.einsum("ij,ij->j", F, Q @ F)[::-1]


def proven(L, Q, Z, lam, F, exact):
    """What the residuals of pairs (λ, f) of `finite_pairs` prove: relative errors of λ, and of √s.

    With H, HᵀLH = I on Z^⟂, and S the Schur complement of `finite_pairs`, f = EHg and
    HᵀSHg = μg, μ = 1/λ, is a symmetric problem: its residual ρ, ‖g‖ = 1, says that some exact μ_i
    is within ρ of μ, and that g is √2ρ/gap from its vector at most. As ‖Q‖ <= 1, √s = √fᵀQf is no
    farther from √s_i than the unit vector f from f_i. `exact` are all λ_i; every other μ is 0.
    """
    inner = np.linalg.pinv(Z.T @ Q @ Z, rcond=1e-10, hermitian=True)
    N = sla.null_space(Z.T)
    values, U = np.linalg.eigh(N.T @ L @ N)
    H = N @ U / np.sqrt(values)
    E = H - Z @ (inner @ (Z.T @ Q @ H))
    G = H.T @ L @ F
    size = np.linalg.norm(G, axis=0)
    G, mu = G / size, 1 / lam
    rho = np.linalg.norm(E.T @ Q @ E @ G - G * mu, axis=0)
    every = np.append(1 / exact, np.zeros(len(values) - exact.size))
    apart = np.sort(np.abs(every[:, None] - mu), axis=0)
    V = E @ G
    turned = 2 * np.linalg.norm(E, 2) * np.sqrt(2) * rho / apart[1] / np.linalg.norm(V, axis=0)
    off = np.linalg.norm(F - V / np.linalg.norm(V, axis=0), axis=0)
    return rho / mu, turned + off


def penalised(L, U):
    """All θ, v of (L + U)v = θv, θ ascending."""
    return np.linalg.eigh((L + L.T + U + U.T) / 2)


def galerkin(A, M, U):
    """All θ and v of Av = θMv inside span(U)."""
    A, M = U.T @ A @ U, U.T @ M @ U
    theta, C = sla.eigh((A + A.T) / 2, (M + M.T) / 2)
    return theta, U @ C


def angle(V, W):
    """Sine of the largest angle between the spans of V and W, which have as many columns."""
    V, W = np.linalg.qr(V)[0], np.linalg.qr(W)[0]
    return np.linalg.norm(W - V @ (V.T @ W), 2)


def groups(values, gap):
    """Slices of sorted values that lie closer together than a relative gap."""
    edges = np.flatnonzero(np.diff(values) > gap * np.abs(values[1:])) + 1
    bounds = [0, *edges.tolist(), len(values)]
    return [slice(i, j) for i, j in itertools.pairwise(bounds) if j > i]


def carried_span(W, tau, p, counts=None):
    """D^½1/√vol and D^½T^-½V, V the p smallest eigenvectors of I − T^-½WT^-½.

    On nodes with an edge; `counts` (n,) tell how many a node stands for.
    """
    L, root, nodes = regularized_laplacian(W, tau, counts)
    V = np.linalg.eigh(L)[1][:, :p]
    degree = W.sum(axis=1)[nodes]
    z = np.sqrt(degree / degree.sum())
    return np.column_stack([z, V * (np.sqrt(degree) / root)[:, None]])
