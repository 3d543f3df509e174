"""Neighbour lists of points that lie in cells: who visits which cell, and pairs of cells compared.

Nodes are numbered cell by cell: those of cell a are starts[a]:starts[a + 1]. A cell's m points lie
coordinate by coordinate, (d, m): products of few points with a cell take half the time so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from mustlink.kernels.nearest_lists import DOUBTFUL, insert, keep_smallest, squared_gap

TALL = 64  # points compared with a cell at once: their products stay in the cache
WORD = 64  # members whose visits are kept in one word
_SPARE = 3  # kept beyond the list: products are less exact than differences
_CHUNK = 32  # products looked at together before any is taken
_ROUNDING = np.float32(1e-6)  # of |q|² + |p|²: what a product in single precision may err by
_DOUBTFUL = np.float32(DOUBTFUL)
_FAST = {"reassoc", "contract", "nsz", "nnan"}  # lists begin with Inf


class Cells(NamedTuple):
    """Points (n d,) cell by cell, about the cells' centres (C, d); bounds (C + 1,).

    `sizes` (n,) are |x - centre|².
    """

    points: Any
    centres: Any
    starts: Any
    sizes: Any


class Nearest(NamedTuple):
    """Lists (n, k) in the making, ascending, -1 and Inf at first; `limits` (n,) are the last."""

    indices: Any
    squared: Any
    limits: Any


class Visits(NamedTuple):
    """Who visits which of the A cells near his own: bits, `width` words a cell, from `first` on."""

    bits: Any
    first: Any
    width: Any


class Desk(NamedTuple):
    """One thread's arrays: queries, products, two bounds (m,) of a cell's members, numbers (m,)."""

    queries: Any
    products: Any
    lower: Any
    upper: Any
    found: Any
    mine: Any
    theirs: Any
    size: Any


def desk_for(largest: int, d: int) -> Desk:
    """A desk for cells of up to `largest` members."""
    single = np.float32
    return Desk(
        np.empty(TALL * d, single),
        np.empty(TALL * largest, single),
        np.empty(largest, single),
        np.empty(largest, single),
        np.empty(largest + 1, np.int32),
        np.empty(largest + 1, np.int32),
        np.empty(largest + 1, np.int32),
        np.empty(TALL, single),
    )


@nb.njit(cache=True, nogil=True, inline="always")
def _columns(cells: Cells, cell: int) -> Any:
    d = cells.centres.shape[1]
    a, b = cells.starts[cell], cells.starts[cell + 1]
    return cells.points[a * d : b * d].reshape(d, b - a)


@nb.njit(cache=True, nogil=True)
def to_columns(cells: Cells, first: int, stop: int) -> None:
    """Turn the rows of the cells first:stop into coordinates about their centres; their sizes."""
    d = cells.centres.shape[1]
    for cell in range(first, stop):
        a, b = cells.starts[cell], cells.starts[cell + 1]
        columns = _columns(cells, cell)
        rows = cells.points[a * d : b * d].reshape(b - a, d).copy()
        cells.sizes[a:b] = 0.0
        for c in range(d):
            middle = cells.centres[cell, c]
            for i in range(b - a):
                gap = rows[i, c] - middle
                columns[c, i] = gap
                cells.sizes[a + i] += gap * gap


@nb.njit(cache=True, nogil=True)
def to_rows(cells: Cells, first: int, stop: int) -> None:
    """Turn the coordinates of the cells first:stop into rows again, about the origin."""
    d = cells.centres.shape[1]
    for cell in range(first, stop):
        a, b = cells.starts[cell], cells.starts[cell + 1]
        columns = _columns(cells, cell).copy()
        rows = cells.points[a * d : b * d].reshape(b - a, d)
        for i in range(b - a):
            for c in range(d):
                rows[i, c] = columns[c, i] + cells.centres[cell, c]


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def _gather(cells: Cells, desk: Desk, nodes: Any, home: int, cell: int) -> Any:
    """Coordinates (d, q) of some nodes of cell `home` about the centre of another; desk.size."""
    d, first = cells.centres.shape[1], cells.starts[home]
    points = _columns(cells, home)
    Q, size = desk.queries[: d * nodes.size].reshape(d, nodes.size), desk.size
    for r in range(nodes.size):
        size[r] = 0.0
    for c in range(d):
        row, out = points[c], Q[c]
        shift = cells.centres[home, c] - cells.centres[cell, c]
        for r in range(nodes.size):
            value = row[nodes[r] - first] + shift
            out[r] = value
            size[r] += value * value
    return Q


@nb.njit(cache=True, nogil=True)
def within(cells: Cells, lists: Nearest, desk: Desk, first: int, stop: int) -> None:
    """Fill empty lists with the nearest in the own cell, for the cells first:stop."""
    k = lists.indices.shape[1]
    for cell in range(first, stop):
        a, b = cells.starts[cell], cells.starts[cell + 1]
        kept = min(b - a, k + _SPARE)
        P, sizes = _columns(cells, cell), cells.sizes[a:b]
        for start in range(a, b, TALL):
            tall = min(TALL, b - start)
            for r in range(tall):
                desk.mine[r] = start + r
            Q = _gather(cells, desk, desk.mine[:tall], cell, cell)
            D = desk.products[: tall * (b - a)].reshape(tall, b - a)
            np.dot(Q.T, P, D)
            values = np.full((tall, kept), np.inf, np.float32)
            places = np.full((tall, kept), -1, np.int32)
            keep_smallest(D, sizes, a, values, places)
            for r in range(tall):
                i = start + r
                nodes, lengths = lists.indices[i], lists.squared[i]
                for c in range(kept):
                    j = places[r, c]
                    if j >= 0 and j != i:
                        gap = _length(Q, r, P, j - a, desk.size[r] + sizes[j - a], D[r, j - a])
                        insert(lengths, nodes, gap, j)
                lists.limits[i] = lengths[k - 1]


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def _length(Q: Any, r: int, P: Any, j: int, total: Any, product: Any) -> Any:
    """|q|² + |p|² - 2qp, or by differences where too few digits are left."""
    gap = total - np.float32(2.0) * product
    if gap < _DOUBTFUL * total:
        gap = np.float32(0.0)
        for c in range(Q.shape[0]):
            gap += (Q[c, r] - P[c, j]) * (Q[c, r] - P[c, j])
    return gap


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
    largest = 0
    for a in range(first, stop):
        largest = max(largest, cells.starts[a + 1] - cells.starts[a])
    ways, products = np.empty((A, d), np.float32), np.empty(A * largest, np.float32)
    far = np.empty(largest, np.float32)
    half = np.float32(0.5)
    for a in range(first, stop):
        start, m = cells.starts[a], cells.starts[a + 1] - cells.starts[a]
        for s in range(A):
            scale = np.float32(1.0) / gaps[a, s] if gaps[a, s] > 0 else np.float32(0.0)
            for c in range(d):
                ways[s, c] = scale * (cells.centres[near[a, s], c] - cells.centres[a, c])
        D = products[: A * m].reshape(A, m)
        np.dot(ways, _columns(cells, a), D)
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


@nb.njit(cache=True, nogil=True)
def across(
    cells: Cells, lists: Nearest, desk: Desk, visits: Visits, edges: Any, first: int, stop: int
) -> int:
    """Compare the pairs of cells edges[first:stop] (a, b, slot of b at a, slot of a at b).

    Who visits is compared with all members of the other cell, and so are all where that is less
    work; a slot is -1 where nobody does. Returns the pairs of points compared.
    """
    compared = 0
    for e in range(first, stop):
        a, b = edges[e, 0], edges[e, 1]
        here = cells.starts[a + 1] - cells.starts[a]
        there = cells.starts[b + 1] - cells.starts[b]
        mine = _visitors(cells.starts, visits, a, edges[e, 2], desk.mine)
        theirs = _visitors(cells.starts, visits, b, edges[e, 3], desk.theirs)
        if mine * there + theirs * here < here * there:
            _against(cells, lists, desk, desk.theirs[:theirs], b, a)
            compared += theirs * here
        else:
            mine = here
            for i in range(here):
                desk.mine[i] = cells.starts[a] + i
        _against(cells, lists, desk, desk.mine[:mine], a, b)
        compared += mine * there
    return compared


@nb.njit(cache=True, nogil=True)
def _visitors(starts: Any, visits: Visits, cell: int, slot: int, nodes: Any) -> int:
    """Members of a cell that visit the one in this slot; how many."""
    count = 0
    if slot < 0:
        return count
    at = visits.first[cell] + slot * visits.width[cell]
    for w in range(visits.width[cell]):
        word, node = visits.bits[at + w], starts[cell] + WORD * w
        while word:
            if word & np.uint64(1):
                nodes[count] = node
                count += 1
            word >>= np.uint64(1)
            node += 1
    return count


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def _against(cells: Cells, lists: Nearest, desk: Desk, nodes: Any, home: int, cell: int) -> None:
    """Compare some nodes of cell `home` with all of another; each goes into the other's list."""
    first, wide = cells.starts[cell], cells.starts[cell + 1] - cells.starts[cell]
    limits, found = lists.limits, desk.found
    half = np.float32(0.5)
    share = half * (np.float32(1.0) - _ROUNDING)
    sizes, last = cells.sizes[first : first + wide], limits[first : first + wide]
    P, lower, upper = _columns(cells, cell), desk.lower[:wide], desk.upper[:wide]
    if nodes.size == 0:
        return
    for j in range(wide):
        lower[j] = share * sizes[j]
        upper[j] = share * sizes[j] - half * last[j]
    for start in range(0, nodes.size, TALL):
        some = nodes[start : start + TALL]
        Q = _gather(cells, desk, some, home, cell)
        D = desk.products[: some.size * wide].reshape(some.size, wide)
        np.dot(Q.T, P, D)
        for r in range(some.size):
            i, size = some[r], desk.size[r]
            near = _near(D[r], share * size, half * limits[i], lower, upper, found)
            for e in range(near):
                at = found[e]
                j = first + at
                gap = _length(Q, r, P, at, size + sizes[at], D[r, at])
                if gap <= limits[i] and insert(lists.squared[i], lists.indices[i], gap, j) >= 0:
                    limits[i] = lists.squared[i, -1]
                if gap <= limits[j] and insert(lists.squared[j], lists.indices[j], gap, i) >= 0:
                    limits[j] = lists.squared[j, -1]
                    upper[at] = lower[at] - half * limits[j]


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def _near(products: Any, own: Any, reach: Any, lower: Any, upper: Any, found: Any) -> int:
    """Columns whose product says that they are within one of the two limits; how many."""
    count = np.uint64(0)
    bound = own - reach
    whole = products.size // _CHUNK * _CHUNK
    for at in range(0, whole, _CHUNK):
        hits = np.int32(0)
        for j in range(_CHUNK):
            hits += np.int32(products[at + j] >= min(bound + lower[at + j], own + upper[at + j]))
        if hits == 0:
            continue
        for j in range(_CHUNK):  # without a branch: which are near is hard to guess
            found[count] = at + j
            count += np.uint64(products[at + j] >= min(bound + lower[at + j], own + upper[at + j]))
    for j in range(whole, products.size):
        found[count] = j
        count += np.uint64(products[j] >= min(bound + lower[j], own + upper[j]))
    return np.int64(count)  # type: ignore[return-value]


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
