"""Cells of points that neighbours are searched in: their layout, who visits which, in what rounds.

Nodes are numbered cell by cell: those of cell a are starts[a]:starts[a + 1]. To be compared, its
points are laid out in panels of 32, coordinate by coordinate, about the cell's centre.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from mustlink.kernels.near_tiles import WIDE
from mustlink.kernels.nearest_lists import squared_gap

WORD = 64  # members whose visits are kept in one word
_FAST = {"reassoc", "contract", "nsz", "nnan"}  # lists begin with Inf


class Cells(NamedTuple):
    """Points (n, d) cell by cell, the cells' centres (C, d), and bounds (C + 1,).

    `sizes` (n,) are |x - centre|². `panels` are those of all cells one after the other, (d, 32)
    each, and `firsts` (C,) the first of every cell; they are empty where d is large.
    """

    points: Any
    centres: Any
    starts: Any
    sizes: Any
    panels: Any
    firsts: Any


class Visits(NamedTuple):
    """Who visits which of the A cells near his own: bits, `width` words a cell, from `first` on."""

    bits: Any
    first: Any
    width: Any


@nb.njit(cache=True, nogil=True)
def panels_of(cells: Cells, cell: int, out: Any, at: int) -> None:
    """Write the panels of a cell to `out` from place `at` on; what is left of the last is 0."""
    a, b = cells.starts[cell], cells.starts[cell + 1]
    points, centres, d = cells.points, cells.centres, cells.points.shape[1]
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
    """Fill the sizes of the members of the cells first:stop, and their panels where they are."""
    points, centres, sizes, d = cells.points, cells.centres, cells.sizes, cells.points.shape[1]
    for cell in range(first, stop):
        for i in range(cells.starts[cell], cells.starts[cell + 1]):
            sizes[i] = squared_gap(points, i, centres, cell)
        if cells.panels.size:
            panels_of(cells, cell, cells.panels, cells.firsts[cell] * WIDE * d)


@nb.njit(cache=True, nogil=True)
def about_centre(cells: Cells, cell: int, first: int, stop: int, out: Any) -> None:
    """Write the nodes first:stop about the centre of a cell to `out` (stop - first, d)."""
    points, centres = cells.points, cells.centres
    for i in range(first, stop):
        for c in range(out.shape[1]):
            out[i - first, c] = points[i, c] - centres[cell, c]


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def visit(
    cells: Cells, limits: Any, near: Any, gaps: Any, slots: Any, reach: Any, visits: Visits,
    used: Any, first: int, stop: int,
) -> None:  # fmt: skip
    """Find who of the cells first:stop visits which of the first `slots` (C,) cells `near` (C, A).

    x visits cell b unless it lies farther than `reach` (C,) of its own cell a, or than the last of
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
        for i in range(m):  # of a list of copies nobody is nearer
            limit = limits[start + i]
            far[i] = min(reach[a], np.sqrt(limit)) if limit > 0 else -np.float32(np.inf)
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
