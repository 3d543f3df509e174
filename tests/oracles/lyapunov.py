"""FLI11 on the m nodes with an edge, in the graph's order: Lyapunov, spreading, adjustment."""

from __future__ import annotations

import numpy as np
import scipy.linalg as sla

from mustlink.discretize.assign import kmeans
from oracles.constraints import acting, links
from oracles.operators import laplacian


def known_pairs(known, W):
    """Y (m, m) of FLI11 eq. 2: beliefs cut to [-1, 1], zero diagonal, labels as all their pairs."""
    nodes = laplacian(W)[2]
    must, cannot = (acting(np.minimum(P, 1.0), W) for P in links(known))
    return (must - cannot)[np.ix_(nodes, nodes)]


def bartels_stewart(W, Y, mu):
    """F of FLI11 eq. 5 by Bartels & Stewart's algorithm, which knows nothing of symmetry."""
    M = mu * np.eye(len(Y)) + laplacian(W)[0]
    return sla.solve_continuous_lyapunov(M, 2 * mu * Y)


def information_spreading(W, Y, alpha):
    """FLI11 eq. 7 until nothing moves: F ← α(SF + FS)/2 + (1 − α)Y."""
    S = np.eye(len(Y)) - laplacian(W)[0]
    F = np.zeros_like(Y)
    while True:
        new = alpha * (S @ F + F @ S) / 2 + (1 - alpha) * Y
        if np.abs(new - F).max() <= 1e-15 * np.abs(Y).max(initial=0):
            return new
        F = new


def exhaustive(W, Y, alpha):
    """E2CP by explicit inverses: (1 − α)²(I − αS)⁻¹Y(I − αS)⁻¹."""
    L = laplacian(W)[0]
    inverse = np.linalg.inv((1 - alpha) * np.eye(len(L)) + alpha * L)
    return (1 - alpha) ** 2 * inverse @ Y @ inverse


def adjusted(W, F):
    """FLI11 eq. 9 entry by entry, F cut to [-1, 1]."""
    out = np.zeros(W.shape)
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            f, w = min(1.0, max(-1.0, F[i, j])), W[i, j]
            out[i, j] = 1 - (1 - f) * (1 - w) if f >= 0 else (1 + f) * w
    return out


def strongest_outside(W, F, count, floor):
    """{(i, j): F_ij}, i < j: pairs without an edge among the `count` largest F > floor of a row."""
    found = {}
    for i in range(len(W)):
        there = [j for j in range(len(W)) if j != i and W[i, j] == 0 and F[i, j] > floor]
        for j in sorted(there, key=lambda j, i=i: (-F[i, j], j))[:count]:
            found[min(i, j), max(i, j)] = F[min(i, j), max(i, j)]
    return found


def propagated_cut(W, F, k, seed):
    """FLI11 Alg. 1 steps 4 and 5: eq. 9 on all pairs, W*, its k smoothest vectors, k-means."""
    nodes = laplacian(W)[2]
    everywhere = np.zeros(W.shape)
    everywhere[np.ix_(nodes, nodes)] = F - np.diag(np.diag(F))
    moved = adjusted(W, everywhere)
    L, root, nodes = laplacian(moved)
    Z = np.linalg.eigh(L)[1][:, :k]
    labels = np.full(len(W), -1)
    labels[nodes] = kmeans(Z / root[:, None], k, seed).labels
    return moved, labels
