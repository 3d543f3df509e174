"""Neighbour lists one row at a time."""

from __future__ import annotations

import numpy as np


def listed_nearest(X, lists, k):
    """The k nearest of each node's listed others by one sort per node, -1 where there are fewer."""
    X = np.asarray(X, dtype=np.float64)
    out = np.full((len(X), k), -1)
    for i, others in enumerate(lists):
        order = sorted((float(((X[i] - X[j]) ** 2).sum()), j) for j in set(others) - {i})
        for at, (_, j) in enumerate(order[:k]):
            out[i, at] = j
    return out


def smallest(products, norms, k):
    """The k smallest norms_j - 2 products_ij of every row and their columns, ties to the first."""
    D = norms - 2 * products
    order = np.argsort(D, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(D, order, axis=1), order


def visited(X, owner, centres, radii, k):
    """Squared lengths (n, k) of the nearest of the own cell and of whom a visit brings together.

    x of cell a visits b where |b - a|/2 - (x - a)·(b - a)/|b - a| is within the radius of a and the
    last of what its own cell gives; nobody whose last is a copy. All of two cells meet where that
    is less work. Inf where there are fewer. And the least gap > 0 of such a comparison:
    rounding decides where it is tiny.
    """
    n = len(X)
    gaps = ((X[:, None].astype(float) - X) ** 2).sum(axis=2)
    np.fill_diagonal(gaps, np.inf)
    known = owner[:, None] == owner
    own = np.sort(np.where(known, gaps, np.inf), axis=1)
    own = np.concatenate([own, np.full((n, k), np.inf)], axis=1)[:, k - 1]
    goes, least = np.zeros((n, len(centres)), dtype=bool), np.inf
    for i in range(n):
        a = owner[i]
        for b in range(len(centres)):
            way = (centres[b] - centres[a]).astype(float)
            gap = np.linalg.norm(way)
            beyond = gap / 2 - ((X[i] - centres[a]) @ way / gap if gap > 0 else 0.0)
            if b != a and own[i] > 0:
                bound = min(radii[a], np.sqrt(own[i]))
                goes[i, b] = beyond <= bound
                least = min(least, abs(beyond - bound) or np.inf)
    for a in range(len(centres)):
        for b in range(a):
            here, there = owner == a, owner == b
            mine, theirs = here & goes[:, b], there & goes[:, a]
            if mine.sum() * there.sum() + theirs.sum() * here.sum() >= here.sum() * there.sum():
                mine = here
            met = np.outer(mine, there) | np.outer(here, theirs)
            known |= met | met.T
    best = np.sort(np.where(known, gaps, np.inf), axis=1)
    return np.concatenate([best, np.full((n, k), np.inf)], axis=1)[:, :k], least
