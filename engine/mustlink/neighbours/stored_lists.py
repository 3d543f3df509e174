"""Neighbour lists on disk, what is known of their cells, and how these are compared.

By blocks, so that each list is read, finished and written once. A block of cells is held with its
lists. Cells beyond that visit it, or are visited, are read some at a time: who is there gets into
lists of the block alone, its own list is finished with its own block. So cells of different blocks
are compared twice, and no two lists have to be merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.stored_neighbours import StoredLayout
from mustlink.deadline import NEVER, Deadline
from mustlink.kernels import cell_pairs, local_joins, stored_lists
from mustlink.kernels.cell_pairs import Desk, Nearest
from mustlink.kernels.cells import Cells, Visits
from mustlink.neighbours.cell_edges import Visitors, edges_of, mark, runs_of, visits_of, words_of
from mustlink.neighbours.cell_search import Desks, compare
from mustlink.neighbours.cells import Borders, mean_squares
from mustlink.neighbours.refine import Team
from mustlink.neighbours.stored_cells import CellRows, Held, panels_of, ranges_of
from mustlink.space.scratch_file import ScratchFile

_CELLS = 16  # of a task
_LISTS = 1 << 14  # lists of a task

SomeLists = tuple[NDArray[np.int32], NDArray[np.float32]]  # (m, k): numbers, squared lengths


class ListsFile:
    """Lists (n, k) of neighbours on disk: numbers, and squared lengths or what comes for them."""

    def __init__(self, folder: Any, n: int, k: int) -> None:
        self.shape = n, k
        self._row = 4 * k
        self._indices = ScratchFile(folder, n * self._row)
        self._values = ScratchFile(folder, n * self._row)

    def read(self, rows: slice) -> SomeLists:
        """Lists a:b."""
        values = np.empty((rows.stop - rows.start, self.shape[1]), np.float32)
        self._values.read(rows.start * self._row, values)
        return self.indices(rows), values

    def indices(self, rows: slice) -> NDArray[np.int32]:
        """Numbers in the lists a:b."""
        found = np.empty((rows.stop - rows.start, self.shape[1]), np.int32)
        self._indices.read(rows.start * self._row, found)
        return found

    def write(self, first: int, indices: NDArray[np.int32], values: NDArray[np.float32]) -> None:
        """Write lists from `first` on."""
        self._indices.write(first * self._row, indices)
        self.revalue(first, values)

    def revalue(self, first: int, values: NDArray[np.float32]) -> None:
        """Write the values of lists from `first` on anew."""
        self._values.write(first * self._row, values)


class StoredSearch:
    """Cells on disk, what is known of all of them, and what is done with some at a time.

    Known are, once they are found, `limits` (n,), the last squared lengths of the lists that the
    own cell has filled, the `mean` square of |x - centre| (C,), the `borders` that visits reach,
    and `used` (C, A): by how many members of a cell each of those near it is visited.
    """

    mean: NDArray[np.float64]
    limits: NDArray[np.float32]
    borders: Borders
    used: NDArray[np.int32]

    def __init__(self, cells: CellRows, k: int, layout: StoredLayout, team: Team) -> None:
        self.cells, self.k, self.layout, self.team = cells, k, layout, team
        self.counts = np.diff(cells.starts)
        self.together = runs_of(self.counts.size)
        largest, d = int(self.counts.max()), cells.shape[1]
        self.desks = Desks(largest, d, self.together, Held.panelled(d), team, layout.desks)

    def rows(self, some: slice) -> slice:
        """Nodes of some cells."""
        return slice(int(self.cells.starts[some.start]), int(self.cells.starts[some.stop]))

    def within(
        self, some: slice, held: Held | None = None
    ) -> tuple[SomeLists, NDArray[np.float32], NDArray[np.float64]]:
        """Lists of some cells with the nearest of the own cell, their last squared lengths (m,).

        And the mean square of |x - centre| in every cell.
        """
        cells = self.read(some, held)
        m = cells.sizes.size
        indices = np.full((m, self.k), -1, dtype=np.int32)
        squared = np.full((m, self.k), np.inf, dtype=np.float32)
        found = Nearest(indices, squared, np.full(m, np.inf, dtype=np.float32))
        self.desks.each(
            lambda desk, a, b: cell_pairs.within(cells, found, desk, a, b),
            some.stop - some.start,
            _CELLS,
        )
        self.each_list(stored_lists.name_all, indices, self.rows(some).start)
        return (indices, squared), found.limits, mean_squares(cells)

    def visits(self, some: slice, held: Held | None = None) -> NDArray[np.int32]:
        """By how many members of some cells each of those near is visited, (c, A)."""
        near, gaps = self.borders.near[some], self.borders.gaps[some]
        cells = self.read(some, held)
        own = np.repeat(np.arange(some.stop - some.start), near.shape[1])
        none = np.zeros(own.size, dtype=np.int32)
        all_near = Visitors(own, near.ravel(), none, gaps.ravel())
        visits = visits_of(all_near, self.counts[some])
        names, limits = np.arange(some.start, some.stop), self.limits[self.rows(some)]
        return mark(
            cells, self.cells.centres, names, all_near, self.borders.reach, limits, visits, 0,
            self.team,
        )  # fmt: skip

    def settle(self, lists: SomeLists, first: int) -> None:
        """Name all in lists of the nodes from `first` on, and put equally far ones in order."""
        self.each_list(stored_lists.name_all, lists[0], first)
        local_joins.order_ties(*lists)

    def read(self, some: slice, held: Held | None = None) -> Cells:
        """Cells in memory, prepared."""
        rows = self.rows(some)
        if held is None:
            held = Held(rows.stop - rows.start, 0, self.cells.shape[1])
        cells = held.cells(self.cells.centres[some], self.counts[some])
        self.cells.file.read(rows.start, cells.points)
        held.prepare(cells, 0, self.team)
        return cells

    def each_list(self, kernel: Any, indices: NDArray[np.int32], *more: Any) -> None:
        """Run a kernel on all lists (m, k), some at a time."""
        self.team.each(lambda a, b: kernel(indices, *more, a, b), indices.shape[0], _LISTS)


def finish(
    search: StoredSearch, some: slice, lists: SomeLists, deadline: Deadline = NEVER
) -> Iterator[float]:
    """Finish the lists of a block of cells, in place: yields the share that is done.

    They are given as their own cells have filled them. At the deadline they stay as they are.
    """
    block = _Block(search, some, lists)
    yield from block.compared(deadline)
    search.settle(lists, block.rows.start)


class _Block:
    """A range of cells with their lists, and those beyond that they are to be compared with."""

    def __init__(self, search: StoredSearch, own: slice, lists: SomeLists) -> None:
        self.search, self.own = search, own
        near, gaps = search.borders.near, search.borders.gaps
        a, slot = np.nonzero(search.used[own])
        self.outward = Visitors(
            a, near[own][a, slot], search.used[own][a, slot], gaps[own][a, slot]
        )
        coming = (near >= own.start) & (near < own.stop) & (search.used > 0)
        coming[own] = False
        a, slot = np.nonzero(coming)
        self.inward = Visitors(a, near[a, slot], search.used[a, slot], gaps[a, slot])
        there = np.union1d(self.outward.b, self.inward.a)
        self.beyond = there[(there < own.start) | (there >= own.stop)]
        sizes = search.counts[self.beyond]
        self.chunks = ranges_of(sizes, search.layout.chunk)
        each = [self.beyond[chunk] for chunk in self.chunks]
        largest = max((int(search.counts[some].sum()) for some in each), default=0)
        panels = max((int(panels_of(search.counts[some]).sum()) for some in each), default=0)
        own_sizes = search.counts[own]
        self.held = Held(
            int(own_sizes.sum()) + largest,
            int(panels_of(own_sizes).sum()) + panels,
            search.cells.shape[1],
        )
        self.cells, self.rows = search.read(own, self.held), search.rows(own)
        m = self.rows.stop - self.rows.start
        search.each_list(stored_lists.name_all, lists[0], -self.rows.start)
        limits = np.full(m + largest, -np.inf, dtype=np.float32)
        limits[:m] = search.limits[self.rows]
        self.found = Nearest(*lists, limits)
        words = words_of(self.inward, search.counts)
        room = max((int(words[some].sum()) for some in each), default=0)
        self.words = int(words_of(self.outward, own_sizes).sum())
        self.bits = np.zeros(self.words + room, dtype=np.uint64)

    def compared(self, deadline: Deadline) -> Iterator[float]:
        """Compare the cells with each other, then with those beyond: yields the share done."""
        search, own, out = self.search, self.own, self.outward
        names, sizes = np.arange(own.start, own.stop), search.counts[own]
        visits = visits_of(out, sizes, self.bits)
        mark(
            self.cells, search.cells.centres, names, out, search.borders.reach, self.found.limits,
            visits, 0, search.team,
        )  # fmt: skip
        _, slot = out.slots(names.size)
        inside = (out.b >= own.start) & (out.b < own.stop)
        edges = edges_of(
            out.a[inside], slot[inside], out.b[inside] - own.start, out.hits[inside], sizes
        )
        share = 1.0 / (1 + len(self.chunks))
        for done in compare(self.cells, self.found, search.desks, visits, edges, search.together):
            yield share * done
            if deadline.is_over:
                return
        for number, chunk in enumerate(self.chunks):
            self._compare_with(self.beyond[chunk], visits)
            yield share * (2 + number)
            if deadline.is_over:
                return

    def _compare_with(self, there: NDArray[np.integer], own_visits: Visits) -> None:
        """Compare the block with cells beyond: their members get into its lists."""
        search, own, out = self.search, self.own, self.outward
        ours, inside = own.stop - own.start, self.rows.stop - self.rows.start
        names = np.concatenate([np.arange(own.start, own.stop), there])
        sizes = search.counts[names]
        cells = self.held.cells(search.cells.centres[names], sizes)
        search.cells.read(there, cells.points[inside:])
        self.held.prepare(cells, ours, search.team)
        nodes = _nodes(search.cells.starts[there], search.counts[there])
        limits = self.found.limits[: inside + nodes.size]
        limits[inside:] = search.limits[nodes]

        here = slice(*np.searchsorted(self.inward.a, [there[0], there[-1] + 1]))
        come = self.inward.some(here)
        come = Visitors(ours + np.searchsorted(there, come.a), come.b, come.hits, come.gap)
        visits = visits_of(come, sizes, self.bits, self.words)
        mark(
            cells, search.cells.centres, names, come, search.borders.reach, limits, visits, ours,
            search.team,
        )  # fmt: skip
        visits.first[:ours] = own_visits.first
        limits[inside:] = -np.inf  # nobody is near enough for a list that is not held

        _, slot_out = out.slots(ours)
        _, slot_in = come.slots(sizes.size)
        place = np.minimum(np.searchsorted(there, out.b), there.size - 1)
        go = there[place] == out.b
        edges = edges_of(
            np.concatenate([out.a[go], come.a]),
            np.concatenate([slot_out[go], slot_in]),
            np.concatenate([ours + place[go], come.b - own.start]),
            np.concatenate([out.hits[go], come.hits]),
            sizes,
        )
        found = Nearest(self.found.indices, self.found.squared, limits)
        self._one_sided(cells, found, visits, edges)
        search.each_list(stored_lists.name_outside, found.indices, inside, nodes)

    def _one_sided(
        self, cells: Cells, found: Nearest, visits: Visits, edges: NDArray[np.int32]
    ) -> None:
        """Compare pairs of cells, the first of each in the block: a run of those by one thread."""
        together = self.search.together
        runs = edges[:, :2] // together
        order = np.lexsort((runs[:, 1], runs[:, 0]))
        edges, runs = edges[order], runs[order]
        new = np.flatnonzero((np.diff(runs, axis=0) != 0).any(axis=1)) + 1
        bounds = np.concatenate([[0], new, [len(edges)]])
        heads = runs[bounds[:-1], 0] if len(edges) else runs[:0, 0]
        firsts = np.append(np.unique(heads, return_index=True)[1], heads.size)

        def task(desk: Desk, a: int, b: int) -> None:
            for first, stop in pairwise(bounds[firsts[a] : firsts[b] + 1]):
                cell_pairs.across(cells, found, desk, visits, edges[first:stop], together)

        self.search.desks.each(task, firsts.size - 1, 1)


def _nodes(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Nodes of cells, one after the other."""
    shift = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return (np.arange(shift.size) + shift).astype(np.int32)
