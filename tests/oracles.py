"""Slow, dense, obvious twins of what the engine computes: one section per package."""

from __future__ import annotations

import numpy as np

# --- constraints


def pairs_dense(pairs, belief, n):
    """Q of WD14 §4.1 entry by entry: the mean belief of all rows naming the same two nodes."""
    said = {}
    for (i, j), b in zip(np.asarray(pairs).tolist(), belief, strict=True):
        said.setdefault((min(i, j), max(i, j)), []).append(float(b))
    Q = np.zeros((n, n))
    for (i, j), values in said.items():
        Q[i, j] = Q[j, i] = sum(values) / len(values)
    return Q


def labels_dense(y):
    """+1 within a class, -1 between classes, 0 where a label is missing; the diagonal is kept."""
    n = len(y)
    Q = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if y[i] >= 0 and y[j] >= 0:
                Q[i, j] = 1.0 if y[i] == y[j] else -1.0
    return Q


def closure_dense(Q, hard=1.0):
    """Transitive closure of a dense Q without contradictions: soft entries stay, others are ±1.

    Must-links reach along any path; a cannot-link separates everything reached from its two ends.
    """
    n = len(Q)
    reach = (hard <= Q) & (Q > 0) | np.eye(n, dtype=bool)
    for k in range(n):
        reach |= reach[:, k : k + 1] & reach[k]
    apart = reach @ ((-hard >= Q) & (Q < 0)) @ reach
    stated = np.where(Q > 0, hard <= Q, -hard >= Q) & (Q != 0)
    touched = stated.any(axis=1)
    implied = reach * 1.0 - apart * 1.0
    implied[~touched] = 0
    implied[:, ~touched] = 0
    return np.where(stated, 0, Q) + implied


def satisfaction_dense(found, Q):
    """Shares of must-links, cannot-links, all, and weight kept, over all i < j of a dense Q."""
    must = must_kept = cannot = cannot_kept = 0
    weight = weight_kept = 0.0
    n = len(Q)
    for i in range(n):
        for j in range(i + 1, n):
            same = found[i] == found[j]
            if Q[i, j] > 0:
                must += 1
                kept = same and found[i] >= 0
                must_kept += kept
            elif Q[i, j] < 0:
                cannot += 1
                kept = not same
                cannot_kept += kept
            else:
                continue
            weight += abs(Q[i, j])
            weight_kept += abs(Q[i, j]) * kept

    def share(part, whole):
        return part / whole if whole else 1.0

    return {
        "must_kept": share(must_kept, must),
        "cannot_kept": share(cannot_kept, cannot),
        "kept": share(must_kept + cannot_kept, must + cannot),
        "kept_weighted": share(weight_kept, weight),
        "n_must": must,
        "n_cannot": cannot,
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
