"""Neighbour lists of points that lie in cells: pairs of cells compared."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from mustlink.kernels.cells import WORD, Cells, Visits, products_of
from mustlink.kernels.nearest_lists import DOUBTFUL, insert, keep_smallest, squared_gap

TALL = 128  # points compared with a cell at once: their products stay in the cache
_SPARE = 3  # kept beyond the list: products are less exact than differences
_CHUNK = 32  # products looked at together before any is taken
_ROUNDING = np.float32(1e-6)  # of |q|² + |p|²: what a product in single precision may err by
_DOUBTFUL = np.float32(DOUBTFUL)
_FAST = {"reassoc", "contract", "nsz", "nnan"}  # lists begin with Inf


class Nearest(NamedTuple):
    """Lists (n, k) in the making, ascending, -1 and Inf at first; `limits` (n,) are the last."""

    indices: Any
    squared: Any
    limits: Any


class Desk(NamedTuple):
    """One thread's arrays: queries, products, two bounds (m,) of a cell's members, who is found.

    `nodes` are compared with a cell: `count` runs of them, each of one cell `homes`, up to `ends`.
    """

    queries: Any
    shift: Any
    products: Any
    lower: Any
    upper: Any
    found: Any
    size: Any
    nodes: Any
    homes: Any
    ends: Any


def desk_for(largest: int, d: int, cells: int) -> Desk:
    """A desk for cells of up to `largest` members, members of so many cells compared with one."""
    single = np.float32
    return Desk(
        np.empty((TALL, d), single),
        np.empty(d, single),
        np.empty(TALL * largest, single),
        np.empty(largest, single),
        np.empty(largest, single),
        np.empty(largest + 1, np.int32),
        np.empty(TALL, single),
        np.empty(cells * largest + 1, np.int32),
        np.empty(cells, np.int32),
        np.empty(cells, np.int64),
    )


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def _gather(cells: Cells, desk: Desk, nodes: Any, home: int, cell: int, at: int) -> None:
    """Write nodes of cell `home` about the centre of another to desk.queries, from row `at` on."""
    points, Q, shift = cells.points, desk.queries, desk.shift
    for c in range(shift.size):
        shift[c] = cells.centres[home, c] - cells.centres[cell, c]
    for r in range(nodes.size):
        size = np.float32(0.0)
        for c in range(shift.size):
            value = points[nodes[r], c] + shift[c]
            Q[at + r, c] = value
            size += value * value
        desk.size[at + r] = size


@nb.njit(cache=True, nogil=True)
def within(cells: Cells, lists: Nearest, desk: Desk, first: int, stop: int) -> None:
    """Fill empty lists with the nearest in the own cell, for the cells first:stop."""
    k = lists.indices.shape[1]
    for cell in range(first, stop):
        a, b = cells.starts[cell], cells.starts[cell + 1]
        kept = min(b - a, k + _SPARE)
        sizes = cells.sizes[a:b]
        for start in range(a, b, TALL):
            tall = min(TALL, b - start)
            D = desk.products[: tall * (b - a)].reshape(tall, b - a)
            products_of(cells, cells.points[start : start + tall], cell, D)
            values = np.full((tall, kept), np.inf, np.float32)
            places = np.full((tall, kept), -1, np.int32)
            keep_smallest(D, sizes, a, values, places)
            for i in range(start, start + tall):
                point = cells.points[i]
                for j in places[i - start]:
                    if j >= 0 and j != i:
                        total = cells.sizes[i] + cells.sizes[j]
                        gap = _length(point, cells.points[j], total, D[i - start, j - a])
                        insert(lists.squared[i], lists.indices[i], gap, j)
                lists.limits[i] = lists.squared[i, k - 1]


@nb.njit(cache=True, nogil=True)
def _length(q: Any, p: Any, total: Any, product: Any) -> Any:
    """|q|² + |p|² - 2qp, or by differences where too few digits are left."""
    gap = total - np.float32(2.0) * product
    return squared_gap(q, p) if gap < _DOUBTFUL * total else gap


@nb.njit(cache=True, nogil=True)
def across(
    cells: Cells, lists: Nearest, desk: Desk, visits: Visits, edges: Any, together: int
) -> int:
    """Compare the pairs of cells `edges` (e, 4): a, b, slot of b at a, slot of a at b.

    The cells are of two runs of `together`. Who visits is compared with all members of the other
    cell, and so are all where that is less work; a slot is -1 where nobody does. All that a cell is
    compared with, it is at once. Returns the pairs of points compared.
    """
    whole = np.empty(edges.shape[0], np.bool_)
    for e in range(edges.shape[0]):
        a, b = edges[e, 0], edges[e, 1]
        here = cells.starts[a + 1] - cells.starts[a]
        there = cells.starts[b + 1] - cells.starts[b]
        mine = _visitors(cells.starts, visits, a, edges[e, 2], desk.nodes, 0)
        theirs = _visitors(cells.starts, visits, b, edges[e, 3], desk.nodes, 0)
        whole[e] = mine * there + theirs * here >= here * there
    compared = 0
    for side in range(2):
        low = edges[0, side] // together * together
        for cell in range(low, min(low + together, cells.starts.size - 1)):
            runs, count = 0, 0
            for e in range(edges.shape[0]):
                if edges[e, side] != cell:
                    continue
                other, before = edges[e, 1 - side], count
                if not whole[e]:
                    count = _visitors(
                        cells.starts, visits, other, edges[e, 3 - side], desk.nodes, count
                    )
                elif side == 1:
                    for i in range(cells.starts[other], cells.starts[other + 1]):
                        desk.nodes[count] = i
                        count += 1
                if count > before:
                    desk.homes[runs], desk.ends[runs] = other, count
                    runs += 1
            _against(cells, lists, desk, runs, cell)
            compared += count * (cells.starts[cell + 1] - cells.starts[cell])
    return compared


@nb.njit(cache=True, nogil=True)
def _visitors(starts: Any, visits: Visits, cell: int, slot: int, nodes: Any, count: int) -> int:
    """Add members of a cell that visit the one in this slot to `count` nodes; how many then."""
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
def _against(cells: Cells, lists: Nearest, desk: Desk, runs: int, cell: int) -> None:
    """Compare desk.nodes with all of a cell; each goes into the other's list if near enough."""
    if runs == 0:
        return
    first, wide = cells.starts[cell], cells.starts[cell + 1] - cells.starts[cell]
    limits, found, Q = lists.limits, desk.found, desk.queries
    half = np.float32(0.5)
    share = half * (np.float32(1.0) - _ROUNDING)
    sizes, last = cells.sizes[first : first + wide], limits[first : first + wide]
    lower, upper = desk.lower[:wide], desk.upper[:wide]
    for j in range(wide):
        lower[j] = share * sizes[j]
        upper[j] = share * sizes[j] - half * last[j]
    run = 0
    for start in range(0, desk.ends[runs - 1], TALL):
        some = desk.nodes[start : min(start + TALL, desk.ends[runs - 1])]
        at = 0
        while at < some.size:
            stop = min(some.size, desk.ends[run] - start)
            _gather(cells, desk, some[at:stop], desk.homes[run], cell, at)
            run += desk.ends[run] - start == stop
            at = stop
        D = desk.products[: some.size * wide].reshape(some.size, wide)
        products_of(cells, Q[: some.size], cell, D)
        for r in range(some.size):
            i, size = some[r], desk.size[r]
            near = _near(D[r], share * size, half * limits[i], lower, upper, found)
            for e in range(near):
                place = found[e]
                j = first + place
                gap = _length(Q[r], cells.points[j], size + sizes[place], D[r, place])
                if gap <= limits[i] and insert(lists.squared[i], lists.indices[i], gap, j) >= 0:
                    limits[i] = lists.squared[i, -1]
                if gap <= limits[j] and insert(lists.squared[j], lists.indices[j], gap, i) >= 0:
                    limits[j] = lists.squared[j, -1]
                    upper[place] = lower[place] - half * limits[j]


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
