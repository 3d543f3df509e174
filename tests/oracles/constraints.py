"""Constraints pair by pair: Q, its closure, and the links that act."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


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


def outvoted(n, must, cannot):
    """Must-links and cannot-links (masks) not to be believed: every must-link is tried without."""
    out, unsure = np.zeros(len(must), bool), np.zeros(len(cannot), bool)

    def parts(kept):
        ends = must[kept]
        shape = (n, n)
        linked = sp.coo_matrix((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=shape)
        return sp.csgraph.connected_components(linked, directed=False)[1]

    while True:
        part = parts(~out)
        inside = np.flatnonzero((part[cannot[:, 0]] == part[cannot[:, 1]]) & ~unsure)
        votes = {at: [] for at in inside.tolist()}
        for link in np.flatnonzero(~out).tolist():
            without = ~out
            without[link] = False
            then = parts(without)
            one, other = then[must[link]]
            if one == other:
                continue
            against = inside[then[cannot[inside, 0]] != then[cannot[inside, 1]]].tolist()
            smaller = min((then == one).sum(), (then == other).sum())
            if smaller < 3:
                continue
            for at in against:
                votes[at].append((len(against), smaller, -link))
        chosen = {at: max(found) for at, found in votes.items() if found}
        if not chosen:
            return out, unsure
        for at, (against, _, link) in chosen.items():
            unsure[at] |= against == 1
            out[-link] = True


def links(known):
    """P⁺ and P⁻ (n, n), zero on the diagonal, from what was given: labels pair by pair."""
    said = [pairs_dense(known.pairs, known.belief, known.n_nodes)]
    if known.soft is not None:
        said[0] = said[0] + known.soft.toarray()
    if known.labels is not None:
        said.append(labels_dense(known.labels))
    must, cannot = sum(np.maximum(M, 0) for M in said), sum(np.maximum(-M, 0) for M in said)
    np.fill_diagonal(must, 0)
    np.fill_diagonal(cannot, 0)
    return must, cannot


def acting(P, W):
    """The links both ends of which have an edge."""
    linked = W.sum(axis=1) > 0
    return P * np.outer(linked, linked)


def soft_labels_dense(Y, u, within=1.0, between=1.0):
    """P⁺ and P⁻ (n, n) of distributions pair by pair, and Q with its diagonal."""
    n = len(Y)
    must, cannot = np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if u[i] and u[j]:
                same = sum(a * b for a, b in zip(Y[i], Y[j], strict=True))
                must[i, j] = within * u[i] * u[j] * same
                cannot[i, j] = between * u[i] * u[j] * (1 - same)
    Q = must - cannot
    np.fill_diagonal(must, 0)
    np.fill_diagonal(cannot, 0)
    return must, cannot, Q
