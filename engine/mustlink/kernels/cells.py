"""Cells of points, in which neighbours are searched: layout, visits between cells, rounds.

Nodes are numbered cell by cell: those of cell a are starts[a]:starts[a + 1]. To be compared, its
points are laid out in panels of 32, coordinate by coordinate, about the cell's centre.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from mustlink.kernels.nearest_lists import insert, keep_smallest, squared_gap
from mustlink.kernels.tiles import TALL, WIDE, lowest_bit, near_tile

WORD = 64  # members whose visits are kept in one word
_FAST = {"reassoc", "contract", "nsz", "nnan"}  # lists begin with Inf


class Cells(NamedTuple):
    """Points (n, d) cell by cell, the cells' centres (C, d), and bounds (C + 1,).

    `sizes` (n,) are |x - centre|².
    """

    points: Any
    centres: Any
    starts: Any
    sizes: Any


class Visits(NamedTuple):
    """Which members visit which of A near cells: bits, `width` words a cell, from `first` on."""

    bits: Any
    first: Any
    width: Any


@nb.njit(cache=True, nogil=True)
def panels_of(cells: Cells, cell: int, out: Any) -> None:
    """Write the panels (d, 32) of a cell to `out`; what is left of the last is 0."""
    a, b = cells.starts[cell], cells.starts[cell + 1]
    points, centres, d = cells.points, cells.centres, cells.points.shape[1]
    at = 0
    for first in range(a, b, WIDE):
        count = min(WIDE, b - first)
        panel = out[at : at + WIDE * d].reshape(d, WIDE)
        for c in range(d):
            centre = centres[cell, c]
            for i in range(count):
                panel[c, i] = points[first + i, c] - centre
            for i in range(count, WIDE):
                panel[c, i] = np.float32(0.0)
        at += WIDE * d


@nb.njit(cache=True, nogil=True)
def prepare(cells: Cells, first: int, stop: int) -> None:
    """Fill the sizes of the members of the cells first:stop."""
    points, centres, sizes = cells.points, cells.centres, cells.sizes
    for cell in range(first, stop):
        for i in range(cells.starts[cell], cells.starts[cell + 1]):
            sizes[i] = squared_gap(points, i, centres, cell)


@nb.njit(cache=True, nogil=True)
def about_centre(cells: Cells, cell: int, first: int, stop: int, out: Any) -> None:
    """Write the nodes first:stop about the centre of a cell to `out` (stop - first, d)."""
    points, centres = cells.points, cells.centres
    for i in range(first, stop):
        for c in range(out.shape[1]):
            out[i - first, c] = points[i, c] - centres[cell, c]


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def visit(
    cells: Cells, limits: Any, near: Any, gaps: Any, slots: Any, radii: Any, visits: Visits,
    used: Any, first: int, stop: int,
) -> None:  # fmt: skip
    """Mark which members of cells first:stop visit which of their first `slots` near cells (C, A).

    x visits cell b unless it lies farther than `radii` (C,) of its own cell a, or than the last of
    its list, from where points are as near to one centre as to the other, `gaps` (C, A) apart:
    |b - a|/2 - (x - a)·(b - a)/|b - a|. `used` (C, A) is by how many each is visited.
    """
    A, d = near.shape[1], cells.centres.shape[1]
    centres, bits = cells.centres, visits.bits
    ways = np.empty((A, d), np.float32)
    half = np.float32(0.5)
    for a in range(first, stop):
        start, m = cells.starts[a], cells.starts[a + 1] - cells.starts[a]
        for s in range(slots[a]):
            scale = np.float32(1.0) / gaps[a, s] if gaps[a, s] > 0 else np.float32(0.0)
            for c in range(d):
                ways[s, c] = scale * (centres[near[a, s], c] - centres[a, c])
        members = np.empty((m, d), np.float32)
        about_centre(cells, a, start, start + m, members)
        D, far = np.empty((A, m), np.float32), np.empty(m, np.float32)
        np.dot(ways[: slots[a]], members.T, D[: slots[a]])
        for i in range(m):  # nothing is nearer than a list of copies
            limit = limits[start + i]
            far[i] = min(radii[a], np.sqrt(limit)) if limit > 0 else -np.float32(np.inf)
        for s in range(slots[a]):
            line, border = D[s], half * gaps[a, s]
            hits = np.int32(0)
            for i in range(m):
                hits += np.int32(border - line[i] <= far[i])
            if hits == 0:
                continue
            used[a, s] = hits
            at = visits.first[a] + s * visits.width[a]
            for i in range(m):
                goes = np.uint64(border - line[i] <= far[i])
                bits[at + i // WORD] |= goes << np.uint64(i % WORD)


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


# --- Neighbour lists of points that lie in cells: pairs of cells compared


_QUERIES = 16 * TALL  # points compared with a cell at once: they stay in the cache
_SPARE = 3  # kept beyond the list: products are less exact than differences
_ROUNDING = np.float32(1e-6)  # of |q|² + |p|²: what a product in single precision may err by
_ONE = np.uint64(1)
_FAST_LISTS = {"reassoc", "contract", "nsz"}  # sums in any order; lists begin with Inf


class Nearest(NamedTuple):
    """Lists (n, k) in the making, ascending, -1 and Inf at first; `limits` (n,) are the last."""

    indices: Any
    squared: Any
    limits: Any


class ThreadBuffers(NamedTuple):
    """One thread's arrays for queries, and for a cell of m members that they are compared with.

    `queries` (q, d) lie about the cell's centre; a point of the cell is near where its product
    with one is at least `own` (q,) + min(`lower` - `radii`, `upper`), of which `masks` have a bit
    each; `rows` and `places` name the near pairs. `panels` and `members` of the cell lie about its
    centre. `nodes` are to be compared with it, `products` are scratch.
    """

    queries: Any
    own: Any
    radii: Any
    panels: Any
    lower: Any
    upper: Any
    masks: Any
    members: Any
    products: Any
    rows: Any
    places: Any
    nodes: Any


def desk_for(largest: int, d: int, cells: int) -> ThreadBuffers:
    """A desk for cells of up to `largest` members, members of so many cells compared with one."""
    single = np.float32
    wide = -(-largest // WIDE) * WIDE
    return ThreadBuffers(
        np.empty((_QUERIES, d), single),
        np.empty(_QUERIES, single),
        np.empty(_QUERIES, single),
        np.empty(wide * d, single),
        np.empty(wide, single),
        np.empty(wide, single),
        np.empty(_QUERIES * wide // 64, np.uint64),
        np.empty((largest, d), single),
        np.empty(_QUERIES * largest, single),
        np.empty(_QUERIES * largest, np.int32),
        np.empty(_QUERIES * largest, np.int32),
        np.empty(cells * largest, np.int32),
    )


@nb.njit(cache=True, nogil=True)
def within(cells: Cells, lists: Nearest, desk: ThreadBuffers, first: int, stop: int) -> None:
    """Fill empty lists with the nearest in the own cell, for the cells first:stop."""
    points, indices, squared, limits = cells.points, lists.indices, lists.squared, lists.limits
    k = indices.shape[1]
    for cell in range(first, stop):
        a, b = cells.starts[cell], cells.starts[cell + 1]
        kept = min(b - a, k + _SPARE)
        sizes, members = cells.sizes[a:b], desk.members[: b - a]
        about_centre(cells, cell, a, b, members)
        for start in range(0, b - a, _QUERIES):
            tall = min(_QUERIES, b - a - start)
            D = desk.products[: tall * (b - a)].reshape(tall, b - a)
            np.dot(members[start : start + tall], members.T, D)
            values = np.full((tall, kept), np.inf, np.float32)
            places = np.full((tall, kept), -1, np.int32)
            keep_smallest(D, sizes, a, values, places)
            for r in range(tall):
                i = a + start + r
                for j in places[r]:
                    if j >= 0 and j != i:
                        gap = squared_gap(points, i, points, j)
                        insert(squared, indices, i, gap, j)
                limits[i] = squared[i, k - 1]


@nb.njit(cache=True, nogil=True)
def across(
    cells: Cells, lists: Nearest, desk: ThreadBuffers, visits: Visits, edges: Any, together: int
) -> int:
    """Compare the pairs of cells `edges` (e, 5): a, b, slot of b at a, slot of a at b, and whether
    all members are.

    The cells are of two runs of `together`. Else members that visit are compared with all of the
    other cell; a slot is -1 where none visits. A cell meets all its visitors at once.
    Returns the pairs of points compared.
    """
    starts, nodes = cells.starts, desk.nodes
    compared = 0
    for side in range(2):
        low = edges[0, side] // together * together
        for cell in range(low, min(low + together, starts.size - 1)):
            count = 0
            for e in range(edges.shape[0]):
                if edges[e, side] != cell:
                    continue
                other, slot = edges[e, 1 - side], edges[e, 3 - side]
                if not edges[e, 4]:
                    count = _visitors(starts, visits, other, slot, nodes, count)
                elif side == 1:
                    for i in range(starts[other], starts[other + 1]):
                        nodes[count] = i
                        count += 1
            _against(cells, lists, desk, nodes[:count], cell)
            compared += count * (starts[cell + 1] - starts[cell])
    return compared


@nb.njit(cache=True, nogil=True)
def _visitors(starts: Any, visits: Visits, cell: int, slot: int, nodes: Any, count: int) -> int:
    """Add members of a cell that visit the one in this slot to `count` nodes; returns the count."""
    if slot < 0:
        return count
    bits, width = visits.bits, visits.width[cell]
    at = visits.first[cell] + slot * width
    for w in range(width):
        word, node = bits[at + w], starts[cell] + WORD * w
        while word:
            nodes[count] = node + lowest_bit(word)
            count += 1
            word &= word - _ONE
    return count


@nb.njit(cache=True, nogil=True)
def _against(cells: Cells, lists: Nearest, desk: ThreadBuffers, nodes: Any, cell: int) -> None:
    """Compare some nodes with all of a cell; each goes into the other's list if near enough."""
    if nodes.size == 0:
        return
    # Fields are taken out of their tuples once: each time is counted, in a number that all threads
    # write to.
    first, wide = cells.starts[cell], cells.starts[cell + 1] - cells.starts[cell]
    points, sizes, d = cells.points, cells.sizes, cells.points.shape[1]
    squared, indices, limits = lists.squared, lists.indices, lists.limits
    queries, own, radii, masks = desk.queries, desk.own, desk.radii, desk.masks
    rows, places, gaps = desk.rows, desk.places, desk.products
    lower, upper, k = desk.lower, desk.upper, indices.shape[1]
    half = np.float32(0.5)
    share = half * (np.float32(1.0) - _ROUNDING)
    count = -(-wide // WIDE)
    lower[wide : count * WIDE] = np.inf  # no point
    upper[wide : count * WIDE] = np.inf
    for j in range(wide):
        lower[j] = share * sizes[first + j]
        upper[j] = lower[j] - half * limits[first + j]
    panels = desk.panels
    panels_of(cells, cell, panels)
    for start in range(0, nodes.size, _QUERIES):
        some = nodes[start : start + _QUERIES]
        _gather(points, cells.centres, cell, limits, some, queries, own, radii)
        groups = -(-some.size // TALL)
        for p in range(count):
            for g in range(groups):
                near_tile(
                    queries, g, panels, p * WIDE * d, d, own, radii,
                    lower, upper, p, masks, (p * groups + g) * TALL // 2,
                )  # fmt: skip
        near = _found(masks[: count * groups * TALL // 2], groups, some, rows, places)
        for e in range(near):  # before any goes in: the cache is waited for once, not for each
            gaps[e] = squared_gap(points, rows[e], points, first + places[e])
        for e in range(near):
            i, place, gap = rows[e], places[e], gaps[e]
            j = first + place
            if gap <= limits[i] and insert(squared, indices, i, gap, j) < k:
                limits[i] = squared[i, k - 1]
            if gap <= limits[j] and insert(squared, indices, j, gap, i) < k:
                limits[j] = squared[j, k - 1]
                upper[place] = lower[place] - half * limits[j]


@nb.njit(cache=True, nogil=True)
def _found(masks: Any, groups: int, nodes: Any, rows: Any, places: Any) -> int:
    """Write which of `nodes` is near which member of the cell; returns the number of pairs.

    A word has the bits of two rows of a tile; the tiles of one panel follow each other.
    """
    near = 0
    for w in range(masks.size):
        word, tile, row = masks[w], w // (TALL // 2), 2 * (w % (TALL // 2))
        while word:
            bit = lowest_bit(word)
            word &= word - _ONE
            rows[near] = nodes[tile % groups * TALL + row + bit // WIDE]
            places[near] = tile // groups * WIDE + bit % WIDE
            near += 1
    return near


@nb.njit(cache=True, nogil=True, fastmath=_FAST_LISTS)
def _gather(
    points: Any, centres: Any, cell: int, limits: Any, nodes: Any, queries: Any, own: Any,
    radii: Any,
) -> None:  # fmt: skip
    """Fill a desk with nodes about a cell's centre; what fills up the last tile is near nothing."""
    half = np.float32(0.5)
    share = half * (np.float32(1.0) - _ROUNDING)
    for r in range(nodes.size):
        i = nodes[r]
        size = np.float32(0.0)
        for c in range(points.shape[1]):
            value = points[i, c] - centres[cell, c]
            queries[r, c] = value
            size += value * value
        own[r], radii[r] = share * size, half * limits[i]
    for r in range(nodes.size, -(-nodes.size // TALL) * TALL):
        for c in range(points.shape[1]):
            queries[r, c] = np.float32(0.0)
        own[r], radii[r] = np.nan, np.float32(0.0)


# --- From a near centre to the nearest, by way of the centres around each


_FAST_CENTRES = {"reassoc", "contract", "nsz", "nnan", "ninf"}  # finite input; sums in any order


@nb.njit(cache=True, nogil=True, fastmath=_FAST_CENTRES)
def go_on(
    X: Any, middle: Any, at: Any, around: Any, gaps: Any, found: Any, squared: Any, first: int,
    stop: int,
) -> None:  # fmt: skip
    """Move the points first:stop of X (m, d) from centres `found` (m,) on to nearer ones.

    Centres are `at` (C, d) about `middle` (d,); `around` each are others (C, A), `gaps` (C, A)
    away, ascending; `squared` (m,) are the lengths in the end. Where x is |x - a| from a centre,
    and r from the nearest it has met, none that is nearer lies |x - a| + r from a or farther.
    """
    d = X.shape[1]
    x = np.empty((1, d), np.float32)
    for i in range(first, stop):
        for c in range(d):
            x[0, c] = X[i, c] - middle[c]
        best = found[i]
        least = squared_gap(x, 0, at, best)
        while True:
            a = best
            own = np.sqrt(least)
            bound = own + own
            for s in range(around.shape[1]):
                if gaps[a, s] >= bound:
                    break
                value = squared_gap(x, 0, at, around[a, s])
                if value < least:
                    least, best = value, around[a, s]
                    bound = own + np.sqrt(value)
            if best == a:
                break
        found[i], squared[i] = best, least
