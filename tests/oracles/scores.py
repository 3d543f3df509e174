"""Scores of labels by loops over pairs and blocks of a dense affinity."""

from __future__ import annotations

import numpy as np


def satisfaction_dense(found, Q):
    """Shares of must-links, cannot-links, all, and weight kept, over all i < j of a dense Q."""
    must = must_kept = cannot = cannot_kept = 0
    left = 0
    weight = weight_kept = 0.0
    n = len(Q)
    for i in range(n):
        for j in range(i + 1, n):
            same = found[i] == found[j]
            if Q[i, j] != 0 and min(found[i], found[j]) < 0:
                left += 1
                continue
            if Q[i, j] > 0:
                must += 1
                kept = same
                must_kept += kept
            elif Q[i, j] < 0:
                cannot += 1
                kept = not same
                cannot_kept += kept
            else:
                continue
            weight += abs(Q[i, j])
            weight_kept += abs(Q[i, j]) * kept

    nothing = 0.0 if left else 1.0

    def share(part, whole, nothing=1.0):
        return part / whole if whole else nothing

    asked = [k / m for k, m in ((must_kept, must), (cannot_kept, cannot)) if m]
    return {
        "must_kept": share(must_kept, must),
        "cannot_kept": share(cannot_kept, cannot),
        "balanced": np.mean(asked) if asked else nothing,
        "kept": share(must_kept + cannot_kept, must + cannot, nothing),
        "kept_weighted": share(weight_kept, weight, nothing),
        "n_must": must,
        "n_cannot": cannot,
        "n_unclustered": left,
    }


def mncut_dense(W, found):
    """WHC11 eq. 2 by sums over blocks of a dense affinity; unassigned nodes are in no cluster."""
    total = 0.0
    for k in set(found[found >= 0].tolist()):
        inside = found == k
        volume = W[inside].sum()
        if volume > 0:
            total += W[np.ix_(inside, ~inside)].sum() / volume
    return total


def modularity_dense(W, found):
    """Σ_ij [w_ij/v − d_i d_j/v²] over pairs of nodes in one cluster, by a loop over all pairs."""
    d, v = W.sum(axis=1), W.sum()
    total = 0.0
    for i in range(len(W)):
        for j in range(len(W)):
            if found[i] == found[j] >= 0 and v > 0:
                total += W[i, j] / v - d[i] * d[j] / v**2
    return total


def ncut_of(W, side):
    """NCut of one cut, WHC11 eq. 2 for two clusters."""
    return mncut_dense(W, side.astype(int))


def edge_information(W, labels):
    """Σ_rs p_rs log(p_rs/(p_r p_s)), p_rs the share of W between clusters r and s."""
    total, found = W.sum(), 0.0
    for r in np.unique(labels):
        for s in np.unique(labels):
            p = W[labels == r][:, labels == s].sum() / total
            p_r, p_s = W[labels == r].sum() / total, W[labels == s].sum() / total
            found += p * np.log(p / (p_r * p_s)) if p > 0 else 0.0
    return found
