"""Kernel k-means with every objective from scratch."""

from __future__ import annotations

import numpy as np


def sskk_problem(W, must, cannot, k, volume="links", penalty="auto"):
    """A' = W + w(must − cannot), node weights and w; dense, diagonals of constraints ignored."""
    must, cannot = must - np.diag(np.diag(must)), cannot - np.diag(np.diag(cannot))
    total = np.triu(must + cannot).sum()
    w = (W.sum() / (k * total) if penalty == "auto" else penalty) if total else 0.0
    weight = W.sum(axis=1) + (w * must.sum(axis=1) if volume == "links" else 0.0)
    return W + w * (must - cannot), weight, w


def sskk_objective(A, weight, labels):
    """K − Σ_c Σ_{i,j∈c} A_ij / s_c over non-empty clusters."""
    return sum(
        1 - A[np.ix_(labels == c, labels == c)].sum() / weight[labels == c].sum()
        for c in set(labels.tolist())
    )


def kernel_step(A, weight, labels, k, sigma):
    """Nearest cluster of every node by distances in the kernel σM⁻¹ + M⁻¹AM⁻¹, written out."""
    K = np.diag(sigma / weight) + A / np.outer(weight, weight)
    distance = np.empty((len(A), k))
    for c in range(k):
        inside = labels == c
        share = weight[inside] / weight[inside].sum()
        distance[:, c] = (
            np.diag(K) - 2 * K[:, inside] @ share + share @ K[inside][:, inside] @ share
        )
    own = distance[np.arange(len(A)), labels]
    gain = weight * (own - distance.min(axis=1))
    found = np.where(
        gain > 1e-11 * weight * np.abs(distance).max(), distance.argmin(axis=1), labels
    )
    for c in range(k):
        if not (found == c).any():
            members = np.flatnonzero(labels == c)
            found[members[gain[members].argmin()]] = c
    return found


def kernel_kmeans(A, weight, near, labels, k, sigmas):
    """Batch steps while the objective falls, then single moves in order; every J from scratch.

    `near` (n, n) says whom a move wakes: sweeps over all nodes, then over those awake, in turn.
    """
    labels = labels.copy()
    for sigma in sigmas:
        while True:
            found = kernel_step(A, weight, labels, k, sigma)
            before, after = (sskk_objective(A, weight, x) for x in (labels, found))
            if not after < before - 1e-13:
                break
            labels = found
    awake = np.zeros(len(A), dtype=bool)
    while single_moves(A, weight, near, labels, k, awake, range(len(A))):
        while single_moves(A, weight, near, labels, k, awake, None):
            pass
    return labels


def single_moves(A, weight, near, labels, k, awake, which):
    """One sweep over `which` nodes, or those awake: each goes where the objective is least."""
    moves = 0
    for i in range(len(A)) if which is None else which:
        if which is None and not awake[i]:
            continue
        awake[i] = False
        if (labels == labels[i]).sum() == 1:
            continue
        values = np.empty(k)
        for c in range(k):
            trial = labels.copy()
            trial[i] = c
            values[c] = sskk_objective(A, weight, trial)
        if values.min() < values[labels[i]] - 1e-11 * (1 + abs(values.min())):
            labels[i] = values.argmin()
            awake |= near[i]
            awake[i] = False
            moves += 1
    return moves
