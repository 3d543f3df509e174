"""Local weights and tangents of LNP and LTSA, one neighbourhood at a time."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls


def local_gram(X, i, near, reg):
    Z = np.asarray(X, dtype=np.float64)[near] - np.asarray(X, dtype=np.float64)[i]
    C = Z @ Z.T
    return C + (reg * np.trace(C) if np.trace(C) > 0 else reg) * np.eye(len(near))


def affine_weights(X, neighbors, reg):
    """LLE: min wᵀCw, Σw = 1, from the multiplier's linear system, point by point."""
    out = np.zeros(neighbors.shape)
    for i, row in enumerate(neighbors):
        there = np.flatnonzero(row >= 0)
        m = there.size
        C = local_gram(X, i, row[there], reg)
        C /= max(np.abs(C).max(initial=0.0), 1e-300)
        K = np.block([[C, np.ones((m, 1))], [np.ones((1, m)), np.zeros((1, 1))]])
        out[i, there] = np.linalg.solve(K, np.append(np.zeros(m), 1.0))[:m] if m else 0.0
    return out


def simplex_weights(X, neighbors, reg):
    """LNP: the same with w >= 0, as non-negative least squares: min ‖Rw‖² + (Σw − 1)², scaled."""
    out = np.zeros(neighbors.shape)
    for i, row in enumerate(neighbors):
        there = np.flatnonzero(row >= 0)
        if there.size:
            C = local_gram(X, i, row[there], reg)
            R = np.linalg.cholesky(C / np.trace(C)).T
            target = np.append(np.zeros(there.size), 1.0)
            w, _ = nnls(np.vstack([R, np.ones(there.size)]), target)
            out[i, there] = w / w.sum()
    return out


def tangent_projectors(X, neighbors, d):
    """LTSA: G_iG_iᵀ (k+1, k+1) of every neighbourhood by a singular value decomposition."""
    X = np.asarray(X, dtype=np.float64)
    n, k = neighbors.shape
    out = np.zeros((n, k + 1, k + 1))
    for i, row in enumerate(neighbors):
        there = np.flatnonzero(row >= 0)
        Z = X[np.append(i, row[there])] - X[i]  # copies differ by exactly nothing
        g, s, _ = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)
        g = g[:, :d][:, s[:d] > 1e-5 * max(s.max(initial=0.0), 1e-300)]
        G = np.column_stack([np.full(len(Z), len(Z) ** -0.5), g])
        out[np.ix_([i], np.append(0, 1 + there), np.append(0, 1 + there))] = G @ G.T
    return out


def listed_matrix(weights, lists):
    """Weights of listed neighbours as a dense matrix."""
    A = np.zeros((len(lists), len(lists)))
    for i, row in enumerate(lists):
        for w, j in zip(weights[i], row, strict=True):
            if j >= 0:
                A[i, j] += w
    return A


def lnp_iterated(U, Y, alpha):
    """AB09 eq. 18 until nothing moves."""
    return (1 - alpha) * np.linalg.inv(np.eye(len(U)) - alpha * U) @ Y


def lnp_minimum(U, Y, alpha):
    """AB09 eq. 17: the Hessian of Σ_ij u_ij (f_i − f_j)² + μΣ(f_i − y_i)², pair by pair."""
    n, mu = len(U), (1 - alpha) / alpha
    H = mu * np.eye(n)
    for i in range(n):
        for j in np.flatnonzero(U[i]):
            e = np.zeros(n)
            e[i] += 1
            e[j] -= 1
            H += U[i, j] * np.outer(e, e)
    return np.linalg.solve(H, mu * Y)


def ltsa_matrix(X, lists, d):
    """AB09 §5.1: M(N, N) += I − GGᵀ over neighbourhoods of the point and its neighbours."""
    M = np.zeros((len(X), len(X)))
    for i, P in enumerate(tangent_projectors(X, lists, d)):
        there = np.append(True, lists[i] >= 0)
        members = np.append(i, lists[i][lists[i] >= 0])
        M[np.ix_(members, members)] += np.eye(len(members)) - P[np.ix_(there, there)]
    return M


def embedded_balanced(M, Y, alpha):
    """min fᵀMf + αΣ_known (f − y)², f ⟂ 1 (AB09 eq. 39), with its multiplier as an unknown."""
    n = len(M)
    A = M + alpha * np.diag(Y.any(axis=1) * 1.0)
    K = np.block([[A, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    return np.linalg.solve(K, np.vstack([alpha * Y, np.zeros((1, Y.shape[1]))]))[:n]
