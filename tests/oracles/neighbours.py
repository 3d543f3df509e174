"""Neighbour lists one row at a time."""

from __future__ import annotations

import numpy as np


def smallest(products, norms, k):
    """The k smallest norms_j - 2 products_ij of every row and their columns, ties to the first."""
    D = norms - 2 * products
    order = np.argsort(D, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(D, order, axis=1), order


def refined(X, lists, wide):
    """The k nearest of a node's list and the `wide` first of the lists of its `wide` first."""
    out = []
    for i, near in enumerate(lists):
        seen = {j for j in near if j >= 0}
        for j in near[:wide]:
            seen |= {other for other in lists[j][:wide] if other >= 0} if j >= 0 else set()
        seen.discard(i)
        ranked = sorted((np.linalg.norm(X[i] - X[j]), j) for j in seen)[: len(near)]
        out.append([j for _, j in ranked] + [-1] * (len(near) - len(ranked)))
    return np.array(out)


def listed_nearest(X, lists, k):
    """The k nearest of each node's listed others by one sort per node, -1 where there are fewer."""
    X = np.asarray(X, dtype=np.float64)
    out = np.full((len(X), k), -1)
    for i, others in enumerate(lists):
        order = sorted((float(((X[i] - X[j]) ** 2).sum()), j) for j in set(others) - {i})
        for at, (_, j) in enumerate(order[:k]):
            out[i, at] = j
    return out


def joined(X, lists, wide):
    """Each node's nearest of its own list and of all whom it has met at some node.

    At a node meet the `wide` first of its list and all who name it.
    """
    n, k = lists.shape
    near = [{int(j) for j in row if j >= 0} for row in lists]
    found = [set(row) for row in near]
    for m in range(n):
        there = {int(j) for j in lists[m, :wide] if j >= 0} | {i for i in range(n) if m in near[i]}
        for i in there:
            found[i] |= there - {i}
    return listed_nearest(X, found, k)
