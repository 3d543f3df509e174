"""Cells of points that neighbours are searched in: their layout, who visits which, in what rounds.

Nodes are numbered cell by cell: those of cell a are starts[a]:starts[a + 1]. A cell's m points of
few coordinates lie coordinate by coordinate too, (d, m): products with them take 2/3 of the time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from mustlink.kernels.nearest_lists import insert, squared_gap

WORD = 64  # members whose visits are kept in one word
_FAST = {"reassoc", "contract", "nsz", "nnan"}  # lists begin with Inf


class Cells(NamedTuple):
    """Points (n, d) cell by cell, about the cells' centres (C, d); bounds (C + 1,).

    `columns` (n d,) are the same, (d, m) of each cell, empty where d is large; `sizes` (n,) are
    |x - centre|².
    """

    points: Any
    columns: Any
    centres: Any
    starts: Any
    sizes: Any


class Visits(NamedTuple):
    """Who visits which of the A cells near his own: bits, `width` words a cell, from `first` on."""

    bits: Any
    first: Any
    width: Any


@nb.njit(cache=True, nogil=True)
def to_centres(cells: Cells, first: int, stop: int) -> None:
    """Take their centres from the points of the cells first:stop; their columns and sizes."""
    points, d = cells.points, cells.points.shape[1]
    for cell in range(first, stop):
        a, b = cells.starts[cell], cells.starts[cell + 1]
        for i in range(a, b):
            size = np.float32(0.0)
            for c in range(d):
                points[i, c] -= cells.centres[cell, c]
                size += points[i, c] * points[i, c]
            cells.sizes[i] = size
        if cells.columns.size:
            columns = cells.columns[a * d : b * d].reshape(d, b - a)
            for c in range(d):
                for i in range(b - a):
                    columns[c, i] = points[a + i, c]


@nb.njit(cache=True, nogil=True)
def from_centres(cells: Cells, first: int, stop: int) -> None:
    """Put the points of the cells first:stop where they were."""
    for cell in range(first, stop):
        for i in range(cells.starts[cell], cells.starts[cell + 1]):
            for c in range(cells.points.shape[1]):
                cells.points[i, c] += cells.centres[cell, c]


@nb.njit(cache=True, nogil=True)
def products_of(cells: Cells, Q: Any, cell: int, out: Any) -> None:
    """Products (q, m) of some rows with all points of a cell."""
    a, b = cells.starts[cell], cells.starts[cell + 1]
    d = cells.points.shape[1]
    if cells.columns.size:
        np.dot(Q, cells.columns[a * d : b * d].reshape(d, b - a), out)
    else:
        np.dot(Q, cells.points[a:b].T, out)


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def visit(
    cells: Cells, limits: Any, near: Any, gaps: Any, reach: Any, visits: Visits, used: Any,
    first: int, stop: int,
) -> None:  # fmt: skip
    """Find who of the cells first:stop visits which of the cells `near` (C, A).

    x visits cell b unless it lies farther than `reach` (C,) of its own cell a, or than the last of
    its list, from where points are as near to one centre as to the other, `gaps` (C, A) apart:
    |b - a|/2 - (x - a)·(b - a)/|b - a|. `used` (C, A) says which are visited at all.
    """
    A, d = near.shape[1], cells.centres.shape[1]
    ways = np.empty((A, d), np.float32)
    half = np.float32(0.5)
    for a in range(first, stop):
        start, m = cells.starts[a], cells.starts[a + 1] - cells.starts[a]
        for s in range(A):
            scale = np.float32(1.0) / gaps[a, s] if gaps[a, s] > 0 else np.float32(0.0)
            for c in range(d):
                ways[s, c] = scale * (cells.centres[near[a, s], c] - cells.centres[a, c])
        D, far = np.empty((A, m), np.float32), np.empty(m, np.float32)
        products_of(cells, ways, a, D)
        for i in range(m):  # of a list of copies nobody is nearer
            limit = limits[start + i]
            far[i] = min(reach[a], np.sqrt(limit)) if limit > 0 else -np.float32(np.inf)
        for s in range(A):
            line, border = D[s], half * gaps[a, s]
            hits = np.int32(0)
            for i in range(m):
                hits += np.int32(border - line[i] <= far[i])
            if hits == 0:
                continue
            used[a, s] = True
            at = visits.first[a] + s * visits.width[a]
            for i in range(m):
                goes = np.uint64(border - line[i] <= far[i])
                visits.bits[at + i // WORD] |= goes << np.uint64(i % WORD)


@nb.njit(cache=True)
def rounds_of(pairs: Any, count: int, most: int) -> Any:
    """Number every pair (e, 2) so that in one round none of `count` meets twice, early ones first.

    `most` pairs meet at one at most: greedy, less than 2·most rounds.
    """
    words = 2 * most // 64 + 1
    busy = np.zeros((count, words), np.uint64)
    found = np.empty(pairs.shape[0], np.int32)
    for e in range(pairs.shape[0]):
        a, b = pairs[e, 0], pairs[e, 1]
        for w in range(words):
            free = ~(busy[a, w] | busy[b, w])
            if free == 0:
                continue
            bit = np.uint64(0)
            while not (free >> bit) & np.uint64(1):
                bit += np.uint64(1)
            busy[a, w] |= np.uint64(1) << bit
            busy[b, w] |= np.uint64(1) << bit
            found[e] = 64 * w + np.int64(bit)
            break
    return found


@nb.njit(cache=True, nogil=True)
def measure_lists(points: Any, indices: Any, squared: Any, first: int, stop: int) -> None:
    """Measure the lists of the nodes first:stop anew, by differences of rows (n, d), and sort."""
    for i in range(first, stop):
        nodes, lengths = indices[i].copy(), squared[i]
        indices[i, :] = -1
        lengths[:] = np.inf
        for j in nodes:
            if j >= 0:
                insert(lengths, indices[i], squared_gap(points[i], points[j]), j)
