"""Eigenproblems in a hundred digits: twins of what doubles cannot add up."""

from __future__ import annotations

import mpmath as mp
import numpy as np

__all__ = ["exact_pencil", "exact_quotients"]
DIGITS = 120


def exact_pencil(W, Q, share):
    """All pairs 0 < λ < ∞ of Lu = λ(Q − βD)u, β = share·λ_max(D^-½QD^-½): λ, u, in order of λ.

    On a connected graph. The rows 1ᵀ(Q − βD)u = 0 eliminate the constant, the last node is the
    sum of the others with its sign turned.
    """
    with mp.workdps(DIGITS):
        n = len(W)
        W, Q = mp.matrix(W.tolist()), mp.matrix(Q.tolist())
        d = [mp.fsum(W[i, :]) for i in range(n)]
        D, one = mp.diag(d), mp.ones(n, 1)
        root = mp.diag([1 / mp.sqrt(x) for x in d])
        beta = share * max(mp.eigsy(root * Q * root, eigvals_only=True))
        B, L = Q - beta * D, D - W
        b = B * one
        S = B - b * b.T / (one.T * b)[0]
        mu, X = _definite(S[: n - 1, : n - 1], L[: n - 1, : n - 1])
        U = mp.matrix(n, n - 1)
        U[: n - 1, :] = X
        for j in range(n - 1):
            U[:, j] -= one * ((b.T * U[:, j])[0] / (one.T * b)[0])
        pairs = sorted((1 / m, j) for j, m in enumerate(mu) if m > 0)
        return (
            np.array([float(lam) for lam, _ in pairs]),
            np.array([[float(U[i, j]) for _, j in pairs] for i in range(n)]),
        )


def exact_quotients(upper, lower):
    """All ρ ascending and V of Σ upper v = ρ Σ lower v, Σ lower definite."""
    with mp.workdps(DIGITS):
        K, M = (
            sum((mp.matrix(A.tolist()) for A in side), mp.matrix(*side[0].shape))
            for side in (upper, lower)
        )
        rho, V = _definite(K, M)
        order = sorted(range(len(rho)), key=lambda j: rho[j])
        return (
            np.array([float(rho[j]) for j in order]),
            np.array([[float(V[i, j]) for j in order] for i in range(K.rows)]),
        )


def _definite(A, M):
    """All pairs of Ax = θMx."""
    inverse = mp.cholesky(M) ** -1
    theta, Y = mp.eigsy(inverse * A * inverse.T)
    return list(theta), inverse.T * Y
