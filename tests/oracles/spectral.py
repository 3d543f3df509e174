"""Penalised and quotient methods as their papers print them, dense."""

from __future__ import annotations

import numpy as np
import scipy.linalg as sla

from oracles.constraints import acting
from oracles.eigen import penalised
from oracles.operators import laplacian


def balanced(must, cannot, alpha=1.0, beta=1.0):
    """WHC11 eq. 11, signs corrected, pair by pair: beliefs over the number of links of the kind."""
    Q = np.zeros(must.shape)
    for P, sign in ((must, beta), (cannot, -alpha)):
        count = sum(P[i, j] > 0 for i in range(len(P)) for j in range(i))
        for i, j in np.argwhere(P):
            Q[i, j] += sign * P[i, j] / count
    return Q


def sssc(W, must, cannot, gamma, alpha=1.0, beta=1.0):
    """WHC11 Alg. 1 with the penalty's signs corrected: all θ and Z, θ without the shift by λ_min.

    Q̄ = (Q − λ_min I)/(λ_max − λ_min) as printed; the shift moves all θ alike.
    """
    L, _, nodes = laplacian(W)
    Q = -balanced(acting(must, W), acting(cannot, W), alpha, beta)[np.ix_(nodes, nodes)]
    low, high = np.linalg.eigvalsh(Q)[[0, -1]]
    if high == low:
        return penalised((1 - gamma) * L, 0 * L)
    theta, Z = penalised((1 - gamma) * L, gamma * (Q - low * np.eye(len(L))) / (high - low))
    return theta + gamma * low / (high - low), Z


def overwritten(W, must, cannot):
    """W' of Kamvar et al. 2003: 1 for must-links, 0 for cannot-links; a belief goes its share."""
    W2, full = W.astype(float), max(1.0, W.max())
    for i, j in np.argwhere(must + cannot):
        m, c = min(must[i, j], 1.0), min(cannot[i, j], 1.0)
        W2[i, j] = m * full + max(1.0 - m - c, 0.0) * W[i, j]
    return W2


def spectral_learning(W, must, cannot):
    """SL as printed: the largest eigenvectors of (W' + d_max I − D')/d_max, turned into θ of D'−W'.

    WHC11 §2.2.2. Nodes without an edge of the graph are left out, with their constraints.
    """
    nodes = np.flatnonzero(W.sum(axis=1) > 0)
    W2 = overwritten(W, acting(must, W), acting(cannot, W))[np.ix_(nodes, nodes)]
    d = W2.sum(axis=1)
    kappa, X = np.linalg.eigh((W2 + d.max() * np.eye(len(d)) - np.diag(d)) / d.max())
    return d.max() * (1 - kappa[::-1]), X[:, ::-1]


def spectral_learning_normalized(W, must, cannot):
    """SL-L̄: the smallest eigenvectors of I − D'^-½W'D'^-½; the eigenvalue 1 without any edge."""
    nodes = np.flatnonzero(W.sum(axis=1) > 0)
    W2 = overwritten(W, acting(must, W), acting(cannot, W))[np.ix_(nodes, nodes)]
    d = W2.sum(axis=1)
    inverse = np.array([1 / x if x > 1e-9 else 0.0 for x in d])
    return np.linalg.eigh(np.eye(len(d)) - W2 * np.sqrt(np.outer(inverse, inverse)))


def observations(W, must, cannot):
    """F: one row √b(e_i ∓ e_j)ᵀD^-½ for every pair that acts."""
    _, root, nodes = laplacian(W)
    rows = []
    for P, sign in ((acting(must, W), -1.0), (acting(cannot, W), 1.0)):
        for i, j in np.argwhere(np.triu(P)):
            row = np.zeros(len(W))
            row[i], row[j] = np.sqrt(P[i, j]), sign * np.sqrt(P[i, j])
            rows.append(row[nodes] / root)
    return np.array(rows).reshape(-1, nodes.size)


def posterior(W, must, cannot, noise, eps):
    """Lu & Carreira-Perpiñán's K' = K − KFᵀ(s²I + FKFᵀ)⁻¹FK: its κ as θ = 1/κ − ε, and vectors.

    K = (L̄ + εI)⁻¹, s² = noise²/mean degree.
    """
    L, _, nodes = laplacian(W)
    F = observations(W, must, cannot)
    K = np.linalg.inv(L + eps * np.eye(len(L)))
    s2 = noise**2 / (W.sum() / nodes.size)
    K = K - K @ F.T @ np.linalg.solve(s2 * np.eye(len(F)) + F @ K @ F.T, F @ K)
    kappa, V = np.linalg.eigh((K + K.T) / 2)
    return 1 / kappa[::-1] - eps, V[:, ::-1]


def posterior_affinity(W, must, cannot, noise):
    """The same with the affinity as covariance, K = W + D, pair by pair: θ = 2 − κ, and vectors.

    s² = noise²·(mean degree); κ are those of D^-½K'D^-½.
    """
    nodes = np.flatnonzero(W.sum(axis=1) > 0)
    W2, d = W[np.ix_(nodes, nodes)], W.sum(axis=1)[nodes]
    F = observations(W, must, cannot) * np.sqrt(d)  # of x, not of D^-½v
    K = W2 + np.diag(d)
    for row in F:  # one observation after the other
        reach = K @ row
        K = K - np.outer(reach, reach) / (noise**2 * d.mean() + row @ reach)
    kappa, V = np.linalg.eigh(K / np.sqrt(np.outer(d, d)))
    return 2 - kappa[::-1], V[:, ::-1]


def two_laplacians(W, must, cannot):
    """L_G and L_H of FAST-GE entry by entry, on the nodes with an edge, and their degrees."""
    nodes = np.flatnonzero(W.sum(axis=1) > 0)
    d, m = W.sum(axis=1)[nodes], nodes.size
    G, H = np.zeros((m, m)), np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            if i != j:
                weight = d[i] * d[j] / (d.min() * d.max())
                G[i, j] = W[nodes[i], nodes[j]] + weight * must[nodes[i], nodes[j]]
                H[i, j] = weight * cannot[nodes[i], nodes[j]] + d[i] * d[j] / d.sum() / len(W)
    return np.diag(G.sum(axis=1)) - G, np.diag(H.sum(axis=1)) - H, d


def fast_ge_quotient(W, must, cannot):
    """min xᵀL_Gx / xᵀL_Hx over dᵀx = 0: all ρ ascending and D^½x."""
    LG, LH, d = two_laplacians(W, must, cannot)
    N = sla.null_space(d[None, :])
    rho, C = sla.eigh(N.T @ LG @ N, N.T @ LH @ N)
    return rho, np.sqrt(d)[:, None] * (N @ C)


def fast_ge(W, must, cannot, mu):
    """−L_Hx = σ(L_G + μL_H + ZSZᵀ)x, ZSZᵀ = ddᵀ/vol: all σ < 0 ascending and D^½x."""
    LG, LH, d = two_laplacians(W, must, cannot)
    sigma, X = sla.eigh(-LH, LG + mu * LH + np.outer(d, d) / d.sum())
    return sigma[:-1], np.sqrt(d)[:, None] * X[:, :-1]  # the last is σ = 0, x constant
