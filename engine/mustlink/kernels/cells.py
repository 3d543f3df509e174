"""Cells of points, in which neighbours are searched: layout, visits between cells, rounds.

Nodes are numbered cell by cell: those of cell a are starts[a]:starts[a + 1]. To be compared, its
points are laid out in panels of 32, coordinate by coordinate, about the cell's centre.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from mustlink.kernels.nearest_lists import insert, squared_gap
from mustlink.kernels.threads import inlined, kernel
from mustlink.kernels.tiles import TALL, WIDE, lowest_bit, near_tile

WORD = 64  # members whose visits are kept in one word


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


@inlined()
def panels_of(points: Any, centres: Any, cell: Any, first: Any, last: Any, out: Any) -> None:
    """Write the panels (d, 32) of a cell's points first:last to `out`; what is left over is 0."""
    at = nb.uint64(0)
    for start in range(first, last, WIDE):
        for c in range(points.shape[1]):
            for i in range(start, start + WIDE):
                out[at] = points[i, c] - centres[cell, c] if i < last else np.float32(0.0)
                at += nb.uint64(1)


# --- Neighbour lists of points that lie in cells: pairs of cells compared


_QUERIES = 16 * TALL  # points compared with a cell at once: they stay in the cache
_ROUNDING = np.float32(1e-6)  # of |q|² + |p|²: what a product in single precision may err by
_ONE = np.uint64(1)
_HALF = np.float32(0.5)
_SHARE = _HALF * (np.float32(1.0) - _ROUNDING)
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
    each; `rows` and `places` name the near pairs, `gaps` are their squared lengths. `panels` of the
    cell lie about its centre. `nodes` are to be compared with it.
    """

    queries: Any
    own: Any
    radii: Any
    panels: Any
    lower: Any
    upper: Any
    masks: Any
    rows: Any
    places: Any
    gaps: Any
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
        np.empty(_QUERIES * largest, np.int32),
        np.empty(_QUERIES * largest, np.int32),
        np.empty(_QUERIES * largest, single),
        np.empty(cells * largest, np.int32),
    )


@kernel(fastmath=_FAST_LISTS)
def across(
    cells: Cells, lists: Nearest, desk: ThreadBuffers, visits: Visits, edges: Any, together: int
) -> int:
    """Compare the pairs of cells `edges` (e, 5): a, b, slot of b at a, slot of a at b, and whether
    all members are.

    The cells are of two runs of `together`. Else members that visit are compared with all of the
    other cell; a slot is -1 where none visits. A cell meets all its visitors at once.
    Returns the pairs of points compared.
    """
    # Fields are taken out of their tuples once: each time is counted, in a number that all threads
    # write to.
    points, centres, starts, sizes = cells
    indices, squared, limits = lists
    queries, own, radii, panels, lower, upper, masks, rows, places, gaps, nodes = desk
    bits, begin, width = visits
    d, k = points.shape[1], indices.shape[1]
    compared = 0
    for side in range(2):
        low = edges[0, side] // together * together
        for cell in range(low, min(low + together, starts.size - 1)):
            count = _visitors(starts, bits, begin, width, edges, side, cell, nodes)
            first, last = starts[cell], starts[cell + 1]
            compared += count * (last - first)
            if count == 0:
                continue
            panels_of(points, centres, cell, first, last, panels)
            right = _bounds(sizes, limits, first, last, lower, upper)
            for start in range(0, count, _QUERIES):
                some = min(_QUERIES, count - start)
                groups = _about(
                    points, centres, cell, limits, nodes, start, some, queries, own, radii
                )
                for p in range(right):
                    for g in range(groups):
                        near_tile(
                            queries, g, panels, p * WIDE * d, d, own, radii,
                            lower, upper, p, masks, (p * groups + g) * TALL // 2,
                        )  # fmt: skip
                near = _found(masks, right, groups, nodes, start, rows, places)
                # All before any goes in: the cache is waited for once, not for each.
                for e in range(near):
                    i, j = np.int64(rows[e]), first + places[e]
                    gaps[e] = squared_gap(points, i, points, j)
                for e in range(near):
                    i, j, gap = np.int64(rows[e]), first + places[e], gaps[e]
                    if gap <= limits[i] and insert(squared, indices, i, gap, j) < k:
                        limits[i] = squared[i, k - 1]
                    if gap <= limits[j] and insert(squared, indices, j, gap, i) < k:
                        limits[j] = squared[j, k - 1]
                        upper[places[e]] = lower[places[e]] - _HALF * limits[j]
    return compared


@inlined()
def _bounds(sizes: Any, limits: Any, first: Any, last: Any, lower: Any, upper: Any) -> int:
    """Fill the bounds of the points of a cell; how many panels they are."""
    right = -(-(last - first) // WIDE)
    for j in range(right * WIDE):
        lower[j] = upper[j] = np.inf  # no point
        if first + j < last:
            lower[j] = _SHARE * sizes[first + j]
            upper[j] = lower[j] - _HALF * limits[first + j]
    return right


@inlined()
def _about(
    points: Any, centres: Any, cell: Any, limits: Any, nodes: Any, start: Any, some: Any,
    queries: Any, own: Any, radii: Any,
) -> int:  # fmt: skip
    """Fill a desk with nodes about a cell's centre; how many tiles, the last filled up."""
    groups = -(-some // TALL)
    for r in range(groups * TALL):
        i = nodes[start + min(r, some - 1)]
        size = np.float32(0.0)
        for c in range(points.shape[1]):
            value = points[i, c] - centres[cell, c]
            queries[r, c] = value
            size += value * value
        own[r] = _SHARE * size if r < some else np.nan  # what fills up is near nothing
        radii[r] = _HALF * limits[i]
    return groups


@inlined()
def _visitors(
    starts: Any, bits: Any, begin: Any, width: Any, edges: Any, side: Any, cell: Any, nodes: Any
) -> int:
    """Write the members of other cells that are compared with all of this one; how many."""
    count = 0
    for e in range(edges.shape[0]):
        other, slot = edges[e, 1 - side], edges[e, 3 - side]
        if edges[e, side] != cell:
            continue
        if edges[e, 4]:
            if side == 1:
                for i in range(starts[other], starts[other + 1]):
                    nodes[count] = i
                    count += 1
        elif slot >= 0:
            for w in range(width[other]):
                word = bits[begin[other] + slot * width[other] + w]
                while word:
                    nodes[count] = starts[other] + WORD * w + lowest_bit(word)
                    count += 1
                    word &= word - _ONE
    return count


@inlined()
def _found(
    masks: Any, right: Any, groups: Any, nodes: Any, start: Any, rows: Any, places: Any
) -> int:
    """Write which of the nodes from `start` on is near which member of the cell; how many pairs.

    A word has the bits of two rows of a tile; the tiles of one panel follow each other.
    """
    near, w = 0, 0
    for p in range(right):
        for pair in range(groups * TALL // 2):
            word = masks[w]
            w += 1
            while word:
                bit = lowest_bit(word)
                word &= word - _ONE
                rows[near] = nodes[start + 2 * pair + bit // WIDE]
                places[near] = p * WIDE + bit % WIDE
                near += 1
    return near


# --- From a near centre to the nearest, by way of the centres around each


_FAST_CENTRES = {"reassoc", "contract", "nsz", "nnan", "ninf"}  # finite input; sums in any order


@kernel(fastmath=_FAST_CENTRES)
def go_on(
    X: Any, middle: Any, at: Any, around: Any, gaps: Any, found: Any, squared: Any, first: int,
    stop: int, x: Any,
) -> None:  # fmt: skip
    """Move the points first:stop of X (m, d) from centres `found` (m,) on to nearer ones.

    Centres are `at` (C, d) about `middle` (d,); `around` each are others (C, A), `gaps` (C, A)
    away, ascending; `squared` (m,) are the lengths in the end; `x` (1, d) is room. Where x is
    |x - a| from a centre, and r from the nearest it has met, none that is nearer lies |x - a| + r
    from a or farther.
    """
    for i in range(first, stop):
        for c in range(X.shape[1]):
            x[0, c] = X[i, c] - middle[c]
        best = np.int64(found[i])
        least = squared_gap(x, 0, at, best)
        while True:
            a = best
            own = np.sqrt(least)
            bound = own + own
            for s in range(around.shape[1]):
                if gaps[a, s] >= bound:
                    break
                other = np.int64(around[a, s])
                value = squared_gap(x, 0, at, other)
                if value < least:
                    least, best = value, other
                    bound = own + np.sqrt(value)
            if best == a:
                break
        found[i], squared[i] = best, least
