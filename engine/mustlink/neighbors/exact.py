"""Exact neighbours by comparing all pairs in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.neighbors.points_by_rows import Prepared

_CELLS = 1 << 22  # distances, or coordinates of a block, held at once
_WIDE = 1 << 14  # points that a block of nodes is compared with at once
_TALL = 1 << 9  # nodes of such a block where products are looked through by a kernel
_COMPILED = 3e7  # pairs from which that makes up for loading the kernel
_SPARE = 3  # kept beyond the list: products in single precision are less exact than differences
_ROUNDING = 2.0**-22  # of a sum of products, for each of its terms

Lists = tuple[NDArray[np.int32], NDArray[np.float32]]


def exact_neighbours(
    X: NDArray[np.float32], nodes: NDArray[np.integer], k: int, advance: Any = None
) -> Lists:
    """Find the k nearest points of each of `nodes` (m,) but itself: indices, lengths (m, k).

    Blocks of |p|² - 2qp, the nearest measured anew by differences, O(m n d). In double precision;
    of many pairs in single first, which decides of all nodes but those whose list its rounding
    leaves in question. Ties go to the smaller index.
    """
    if nodes.size * float(X.shape[0]) < _COMPILED:
        return _search(X, X, nodes, k, apart=True, advance=advance)[:2]
    indices, distances, sure = _search(X, X, nodes, k, apart=True, single=True, advance=advance)
    if not sure.all():
        again = _search(X, X, nodes[~sure], k, apart=True)
        indices[~sure], distances[~sure] = again[:2]
    return indices, distances


def nearest_points(X: NDArray[np.float32], queries: NDArray[np.float32], k: int) -> Lists:
    """Find the k nearest points of each of other points (q, d): indices, lengths (q, k)."""
    return _search(X, queries, np.arange(queries.shape[0]), k)[:2]


def _search(
    X: NDArray[np.float32],
    queries: NDArray[np.float32],
    nodes: NDArray[np.integer],
    k: int,
    *,
    apart: bool = False,
    single: bool = False,
    advance: Any = None,
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.bool_]]:
    """For rows `nodes` of the queries; `apart`: queries are X, and no point is its own neighbour.

    And which lists (m,) are sure to be right, of products in `single` precision, for queries
    `apart`: those whose last is nearer than all that was not kept can be, however products were
    rounded.
    """
    n, d = X.shape
    indices = np.empty((nodes.size, k), dtype=np.int32)
    distances = np.empty((nodes.size, k), dtype=np.float32)
    sure = np.ones(nodes.size, dtype=np.bool_)
    wide = min(n, _WIDE // (1 + single), max(1, _CELLS // d))
    tall = _TALL if single else min(nodes.size, max(1, _CELLS // max(wide, d)))
    kept = min(n, k + 1 + _SPARE) if single else k
    middle = X.mean(axis=0, dtype=np.float64).astype(np.float32 if single else np.float64)
    keep = _kept_by_kernel if nodes.size * float(n) >= _COMPILED else _kept

    def blocks() -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
        for first in range(0, n, wide):
            P = X[first : first + wide] - middle
            yield first, P, np.einsum("ij,ij->i", P, P)

    largest = max(float(norms.max()) for _, _, norms in blocks()) if single else 0.0
    for start in range(0, nodes.size, tall):
        rows, part = nodes[start : start + tall], slice(start, start + tall)
        Q = queries[rows] - middle
        squares = np.full((rows.size, kept), np.inf, dtype=Q.dtype)
        places = np.full((rows.size, kept), -1, dtype=np.int32)
        for first, P, norms in blocks():
            products = Q @ P.T
            if apart and not single:
                own = np.flatnonzero((rows >= first) & (rows < first + wide))
                products[own, rows[own] - first] = -np.inf
            squares, places = keep(products, norms, first, squares, places)
        # The expansion |q|² + |p|² - 2qp loses digits: measure the chosen again, then sort.
        exact = _lengths(X, places, queries, rows)
        if single:
            exact[places == rows[:, None]] = np.inf
        order = np.lexsort((places, exact), axis=1)[:, :k]
        indices[part] = np.take_along_axis(places, order, axis=1)
        nearest = np.take_along_axis(exact, order, axis=1)
        distances[part] = nearest
        if single and kept < n:
            size = np.einsum("ij,ij->i", Q, Q).astype(np.float64)
            rounding = _ROUNDING * (d + 8) * (size + largest)
            sure[part] = nearest[:, -1] ** 2 < squares[:, -1] + size - rounding
        if advance is not None:
            advance(min(1.0, (start + tall) / nodes.size))
    return indices, distances, sure


def _lengths(
    X: NDArray[np.float32],
    lists: NDArray[np.int32],
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


Kept = tuple[NDArray[Any], NDArray[np.int32]]


def _kept_by_kernel(
    products: NDArray[Any], norms: NDArray[Any], first: int, squares: NDArray[Any],
    places: NDArray[np.int32],
) -> Kept:  # fmt: skip
    """`_kept` in place, in less time once the kernel is loaded."""
    from mustlink.kernels.nearest_lists import keep_smallest

    keep_smallest(products, norms, first, squares, places)
    return squares, places


def _kept(
    products: NDArray[np.float64],
    norms: NDArray[np.float64],
    first: int,
    squares: NDArray[np.float64],
    places: NDArray[np.int32],
) -> Kept:
    """The smallest |p|² - 2qp per row of what was known (m, k) and of a block from `first` on."""
    m, k = squares.shape
    products *= -2.0
    products += norms
    bound = squares.max(axis=1, keepdims=True)
    if np.isfinite(bound).all():  # few entries qualify: sort only those
        r, c = np.nonzero(bound > products)
    else:
        few = min(k, products.shape[1])
        c = np.argpartition(products, few - 1, axis=1)[:, :few].ravel()
        r = np.repeat(np.arange(m), few)
    row = np.concatenate([np.repeat(np.arange(m), k), r])
    d = np.concatenate([squares.ravel(), products[r, c]])
    i = np.concatenate([places.ravel(), (c + first).astype(np.int32)])
    order = np.lexsort((i, d, row))
    starts = np.searchsorted(row[order], np.arange(m))
    keep = order[starts[:, None] + np.arange(k)]
    return d[keep], i[keep]


def exact_streamed(
    rows: Prepared, nodes: NDArray[np.integer], k: int, nbytes: int
) -> NDArray[np.int32]:
    """Find the k nearest points of each of `nodes` (m,) but itself in one pass over the rows.

    Indices (m, k), of products in single precision and some more of them measured by differences;
    a second pass, in double, is for nodes whose list rounding leaves in question. Needs two blocks
    of `nbytes` and the coordinates of nodes and lists. Cost O(m n d).
    """
    n, d = rows.shape
    Q = rows.gather(nodes)
    shift = Q.mean(axis=0, dtype=np.float64)
    kept = min(n, k + 1 + _SPARE)
    squares, places, largest = _streamed(rows, Q - shift.astype(np.float32), shift, kept, nbytes)
    exact = np.empty(places.shape)
    ids, at = np.unique(places, return_inverse=True)
    others, at = rows.gather(ids), at.reshape(places.shape)
    for i in range(nodes.size):
        gap = others[at[i]].astype(np.float64) - Q[i]
        exact[i] = np.einsum("ij,ij->i", gap, gap)
    exact[places == nodes[:, None]] = np.inf
    order = np.lexsort((places, exact), axis=1)[:, :k]
    found = np.take_along_axis(places, order, axis=1)
    if kept < n:
        last = np.take_along_axis(exact, order[:, -1:], axis=1)[:, 0]
        size = np.square(Q - shift).sum(axis=1)
        rounding = _ROUNDING * (d + 8) * (size + largest)
        again = np.flatnonzero(last >= squares[:, -1] + size - rounding)
        if again.size:
            squares, places, _ = _streamed(rows, Q[again] - shift, shift, k + 1, nbytes)
            found[again] = drop_own(places, squares, nodes[again])[0]
    return found


def _streamed(
    rows: Prepared, Q: NDArray[Any], shift: NDArray[np.float64], kept: int, nbytes: int
) -> tuple[NDArray[Any], NDArray[np.int32], float]:
    """The smallest |p|² - 2qp of each of Q (m, d), their points, and the largest |p|²."""
    squares = np.full((Q.shape[0], kept), np.inf, dtype=Q.dtype)
    places = np.full((Q.shape[0], kept), -1, dtype=np.int32)
    shift, largest = shift.astype(Q.dtype), 0.0
    step = max(1, min(1 << 13, nbytes // (Q.itemsize * max(Q.shape[0], Q.shape[1]))))
    keep = _kept_by_kernel if Q.itemsize == 4 else _kept
    for start, block in rows.blocks(nbytes):
        for c in range(0, block.shape[0], step):
            P = block[c : c + step] - shift
            norms = np.einsum("ij,ij->i", P, P)
            largest = max(largest, float(norms.max()))
            squares, places = keep(Q @ P.T, norms, start + c, squares, places)
    return squares, places, largest


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
