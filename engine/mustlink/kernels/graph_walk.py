"""Nearest fitted points of new ones, found along the edges of their graph."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from mustlink.kernels.nearest_lists import insert, keep_smallest, squared_gap


@nb.njit(cache=True, nogil=True)
def _within_two_edges(indptr: Any, indices: Any, centre: int, stamp: Any, mark: int) -> Any:
    """A node, its neighbours and theirs, each once."""
    first, last = indptr[centre], indptr[centre + 1]
    most = 1 + last - first
    for e in range(first, last):
        most += indptr[indices[e] + 1] - indptr[indices[e]]
    near = np.empty(most, np.int64)
    near[0], stamp[centre], count = centre, mark, 1
    at, stop = 0, 1
    for _ in range(2):
        while at < stop:
            for e in range(indptr[near[at]], indptr[near[at] + 1]):
                if stamp[indices[e]] != mark:
                    near[count], stamp[indices[e]] = indices[e], mark
                    count += 1
            at += 1
        stop = count
    return near[:count]


@nb.njit(cache=True, nogil=True)
def around(
    points: Any, indptr: Any, indices: Any, centre: int, stamp: Any, mark: int,
    queries: Any, nodes: Any, squared: Any,
) -> None:  # fmt: skip
    """Fill lists (q, l) with what is nearest to queries (q, d) within two edges of a node.

    Ascending by squared length, -1 and Inf where there are fewer. `stamp` (n,) holds no `mark`.
    """
    near = _within_two_edges(indptr, indices, centre, stamp, mark)
    count = near.size
    d = points.shape[1]
    P, Q = np.empty((count, d), np.float32), np.empty_like(queries)
    sizes = np.zeros(count, np.float32)
    for a in range(count):
        for c in range(d):
            P[a, c] = points[near[a], c] - points[centre, c]  # about it: products keep digits
            sizes[a] += P[a, c] * P[a, c]
    for i in range(queries.shape[0]):
        for c in range(d):
            Q[i, c] = queries[i, c] - points[centre, c]
    D = np.dot(Q, P.T)
    wide = min(nodes.shape[1], count)
    values = np.full((queries.shape[0], wide), np.inf, np.float32)
    places = np.full((queries.shape[0], wide), -1, np.int32)
    keep_smallest(D, sizes, 0, values, places)
    nodes[:, :], squared[:, :] = -1, np.inf
    for i in range(queries.shape[0]):
        for c in range(wide):
            if places[i, c] >= 0:
                node = near[places[i, c]]
                insert(squared, nodes, i, squared_gap(queries, i, points, node), node)


@nb.njit(cache=True, nogil=True)
def walk(
    points: Any, indptr: Any, indices: Any, queries: Any, most: int, stamp: Any, mark: int,
    nodes: Any, squared: Any,
) -> int:  # fmt: skip
    """Improve lists (q, l): the neighbours of the nearest `most` nodes of each are compared, too.

    Best first, each once. `stamp` (n,) holds no number from `mark` on; q are used. Returns how
    many.
    """
    q, width = nodes.shape
    left = np.zeros(width, np.bool_)
    for i in range(q):
        left[:] = False
        for c in range(width):
            if nodes[i, c] >= 0:
                stamp[nodes[i, c]] = mark + i
        for _ in range(most):
            at = 0
            while at < width and (left[at] or nodes[i, at] < 0):
                at += 1
            if at == width:
                break
            left[at] = True
            own = nodes[i, at]
            for e in range(indptr[own], indptr[own + 1]):
                node = indices[e]
                if stamp[node] == mark + i:
                    continue
                stamp[node] = mark + i
                gap = squared_gap(queries, i, points, node)
                if gap < squared[i, width - 1]:
                    place = insert(squared, nodes, i, gap, node)
                    for c in range(width - 1, place, -1):
                        left[c] = left[c - 1]
                    if place < width:
                        left[place] = False
    return q


@nb.njit(cache=True, nogil=True)
def reaches(
    points: Any, indptr: Any, indices: Any, nodes: Any, near: int, k: int, scale: Any, reach: Any
) -> None:
    """Squared lengths of the edges of `nodes` (m,): that to the `near`-th neighbour, and the k-th.

    Of fewer edges the longest. Edges of a node are its own k nearest and others that name it.
    """
    for i in range(nodes.size):
        own = nodes[i]
        a, b = indptr[own], indptr[own + 1]
        gaps = np.empty(b - a, np.float32)
        for e in range(a, b):
            gaps[e - a] = squared_gap(points, own, points, indices[e])
        gaps.sort()
        scale[i] = gaps[min(near, b - a) - 1] if b > a else np.inf
        reach[i] = gaps[min(k, b - a) - 1] if b > a else np.inf


@nb.njit(cache=True, nogil=True)
def among(points: Any, members: Any, nodes: Any, squared: Any) -> None:
    """Put each of the `members` (c,) of points (m, d) into the lists (m, k) of the others."""
    count, d = members.size, points.shape[1]
    P, sizes = np.empty((count, d), np.float32), np.zeros(count, np.float32)
    for a in range(count):
        for c in range(d):
            P[a, c] = points[members[a], c] - points[members[0], c]  # about it: digits are kept
            sizes[a] += P[a, c] * P[a, c]
    D = np.dot(P, P.T)
    wide = min(nodes.shape[1] + 1, count)
    values = np.full((count, wide), np.inf, np.float32)
    places = np.full((count, wide), -1, np.int32)
    keep_smallest(D, sizes, 0, values, places)
    for a in range(count):
        for c in range(wide):
            if places[a, c] >= 0 and places[a, c] != a:
                other = members[places[a, c]]
                gap = squared_gap(points, members[a], points, other)
                insert(squared, nodes, members[a], gap, other)
