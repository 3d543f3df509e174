"""Exact neighbours by comparing all pairs in blocks, and the recall of approximate ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.neighbours.points_by_rows import Prepared

_CELLS = 1 << 22  # distances, or coordinates of a block, held at once
_WIDE = 1 << 14  # points that a block of nodes is compared with at once


def exact_neighbours(
    X: NDArray[np.float32], nodes: NDArray[np.integer], k: int, advance: Any = None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Find the k nearest points of each of `nodes` (m,) but itself: indices, lengths (m, k).

    Blocks of m x n distances in double precision, O(m n d). Ties go to the smaller index.
    """
    return _search(X, X, nodes, k, advance, apart=True)


def nearest_points(
    X: NDArray[np.float32], queries: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Find the k nearest points of each of other points (q, d): indices, lengths (q, k)."""
    return _search(X, queries, np.arange(queries.shape[0]), k, None, apart=False)


def _search(
    X: NDArray[np.float32],
    queries: NDArray[np.float32],
    nodes: NDArray[np.integer],
    k: int,
    advance: Any,
    *,
    apart: bool,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """For rows `nodes` of the queries; `apart`: queries are X itself, nobody his own neighbour."""
    n, d = X.shape
    indices = np.empty((nodes.size, k), dtype=np.int32)
    distances = np.empty((nodes.size, k), dtype=np.float32)
    wide = min(n, _WIDE, max(1, _CELLS // d))
    tall = min(nodes.size, max(1, _CELLS // max(wide, d)))
    shift = X.mean(axis=0, dtype=np.float64)
    for start in range(0, nodes.size, tall):
        rows = nodes[start : start + tall]
        Q = queries[rows] - shift
        Q *= -2.0
        best_d = np.full((rows.size, k), np.inf)
        best_i = np.full((rows.size, k), -1, dtype=np.int64)
        for c in range(0, n, wide):
            P = X[c : c + wide] - shift
            D = Q @ P.T  # |q|² is the same along a row and not needed to compare
            D += np.einsum("ij,ij->i", P, P)
            if apart:
                own = np.flatnonzero((rows >= c) & (rows < c + wide))
                D[own, rows[own] - c] = np.inf
            best_d, best_i = _smallest(D, c, best_d, best_i)
        # The expansion |q|² + |p|² - 2qp loses digits: measure the chosen again, then sort.
        exact = _lengths(X, best_i, queries, rows)
        order = np.lexsort((best_i, exact), axis=1)
        indices[start : start + tall] = np.take_along_axis(best_i, order, axis=1)
        distances[start : start + tall] = np.take_along_axis(exact, order, axis=1)
        if advance is not None:
            advance(min(1.0, (start + tall) / nodes.size))
    return indices, distances


def _lengths(
    X: NDArray[np.float32],
    lists: NDArray[np.int64],
    queries: NDArray[np.float32],
    rows: NDArray[np.integer],
) -> NDArray[np.float64]:
    """Distances of queries `rows` (m,) from the points in their lists (m, k), by differences."""
    (m, k), d = lists.shape, X.shape[1]
    found = np.empty((m, k))
    step = max(1, _CELLS // (2 * k * d))
    for a in range(0, m, step):
        part = slice(a, a + step)
        gap = X[lists[part]].astype(np.float64)
        gap -= queries[rows[part]][:, None, :]
        found[part] = np.sqrt(np.einsum("ijk,ijk->ij", gap, gap))
    return found


def _smallest(
    D: NDArray[np.float64],
    first: int,
    best_d: NDArray[np.float64],
    best_i: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Keep the k smallest per row of what was known and of a block that begins at `first`."""
    m, k = best_d.shape
    bound = best_d.max(axis=1, keepdims=True)
    if np.isfinite(bound).all():  # few entries qualify: sort only those
        r, c = np.nonzero(bound > D)
    else:
        few = min(k, D.shape[1])
        c = np.argpartition(D, few - 1, axis=1)[:, :few].ravel()
        r = np.repeat(np.arange(m), few)
    row = np.concatenate([np.repeat(np.arange(m), k), r])
    d = np.concatenate([best_d.ravel(), D[r, c]])
    i = np.concatenate([best_i.ravel(), c + first])
    order = np.lexsort((i, d, row))
    starts = np.searchsorted(row[order], np.arange(m))
    keep = order[starts[:, None] + np.arange(k)]
    return d[keep], i[keep]


def measured_recall(
    X: NDArray[np.float32], nodes: NDArray[np.integer], distances: NDArray[np.float32]
) -> float:
    """Share of found neighbours of `nodes` no farther than the true k-th one (ties count)."""
    _, true = exact_neighbours(X, nodes, distances.shape[1])
    limit = true[:, -1:].astype(np.float64) * (1 + 1e-5) + 1e-12
    return float(np.mean(distances <= limit))


def exact_streamed(
    rows: Prepared, nodes: NDArray[np.integer], k: int, nbytes: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Find the k nearest points of each of `nodes` (m,) but itself in one pass over the rows.

    Indices, lengths (m, k), lengths from |q|² + |p|² - 2qp in double precision. Needs two blocks
    of `nbytes` and the nodes' coordinates. Cost O(m n d).
    """
    from mustlink.kernels.nearest_lists import keep_smallest

    Q = rows.gather(nodes).astype(np.float64)
    shift = Q.mean(axis=0)
    Q -= shift
    squares = np.full((nodes.size, k + 1), np.inf)
    places = np.full((nodes.size, k + 1), -1, dtype=np.int32)
    step = max(1, min(1 << 13, nbytes // (8 * max(nodes.size, rows.shape[1]))))
    for start, block in rows.blocks(nbytes):
        for c in range(0, block.shape[0], step):
            P = block[c : c + step] - shift
            keep_smallest(Q @ P.T, np.einsum("ij,ij->i", P, P), start + c, squares, places)
    indices, squares = drop_own(places, squares, nodes)
    squares += np.einsum("ij,ij->i", Q, Q)[:, None]
    return indices, np.sqrt(np.maximum(squares, 0.0))


def drop_own(
    indices: NDArray[np.int32], lengths: NDArray[Any], nodes: NDArray[np.integer]
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Take each node out of its own list (m, k + 1); where it is absent the farthest goes.

    Among duplicates the own index may stand anywhere in its list or be missing from it.
    """
    m, wide = indices.shape
    own = indices == nodes.astype(indices.dtype)[:, None]
    at = np.where(own.any(axis=1), own.argmax(axis=1), wide - 1)
    keep = np.ones((m, wide), dtype=bool)
    keep[np.arange(m), at] = False
    return indices[keep].reshape(m, wide - 1), lengths[keep].reshape(m, wide - 1)
