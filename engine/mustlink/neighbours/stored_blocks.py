"""Cells on disk compared block by block, so that each list is read, finished and written once.

A block of cells is held with its lists. Cells beyond that visit it, or are visited, are read some
at a time: who is there gets into lists of the block alone, its own list is finished with its own
block. So cells of different blocks are compared twice, and no two lists have to be merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mustlink.deadline import NEVER, Deadline
from mustlink.kernels import cell_pairs, stored_lists
from mustlink.kernels.cell_pairs import Desk, Nearest
from mustlink.kernels.cells import Cells, Visits
from mustlink.neighbours.cell_edges import edges_of
from mustlink.neighbours.cell_search import compare
from mustlink.neighbours.cell_visits import Visitors, mark, visits_of, words_of
from mustlink.neighbours.stored_cells import Held, panels_of, ranges_of
from mustlink.neighbours.stored_lists import SomeLists, StoredSearch


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
