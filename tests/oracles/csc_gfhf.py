"""WD12's Algorithm 4 and its kernel, entry by entry."""

from __future__ import annotations

import numpy as np

from oracles.eigen import finite_pairs


def gaussian_dense(Y, sigma):
    """Q_ij = exp(−‖y_i − y_j‖²/2σ²) entry by entry (WD12 eq. 15)."""
    return np.array([[np.exp(-np.sum((a - b) ** 2) / (2 * sigma**2)) for b in Y] for a in Y])


def by_own_sums(Q):
    """D_Q^-½QD_Q^-½ (WD12 Alg. 4 lines 9 and 10)."""
    sums = Q.sum(axis=1)
    return Q / np.sqrt(np.outer(sums, sums))


def algorithm4(W, y, sigma):
    """WD12 Algorithm 4 line by line: y (n,) is ±1, 0 unknown; the graph is connected. f, λ."""
    d = W.sum(axis=1)
    P = W / d[:, None]
    known, unknown = np.flatnonzero(y), np.flatnonzero(y == 0)
    full = y.astype(float)
    Puu, Pul = P[np.ix_(unknown, unknown)], P[np.ix_(unknown, known)]
    full[unknown] = np.linalg.solve(np.eye(unknown.size) - Puu, Pul @ y[known])
    Q = by_own_sums(gaussian_dense(full[:, None], sigma))
    L = np.eye(len(W)) - W / np.sqrt(np.outer(d, d))
    lam, F, satisfied = finite_pairs(L, Q, np.sqrt(d / d.sum())[:, None])
    best = np.argmax(satisfied)
    return F[:, best], lam[best]
