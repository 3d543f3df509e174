"""Cells that are compared with each other: visits, their order, block by block.

Two points are compared where one lies so near the border of the other's cell that a true neighbour
may lie behind it. Cells of a block that is held are compared in rounds in which no cell meets two
others: so threads write to lists of their own, without locks, and which are found does not depend
on the number of threads. In memory one block is all.

Each list is read, finished and written once, with the block of its cell. Cells beyond that visit
it, or are visited, are read some at a time: their members get into lists of the block alone. So
cells of different blocks are compared twice, and no two lists have to be merged.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.context.neighbor_cost import Layout
from mustlink.core.observe import NEVER, Deadline
from mustlink.kernels import cells as cell_kernels
from mustlink.kernels import nearest_lists, symmetric_lists
from mustlink.kernels.cells import WORD, Cells, Nearest, ThreadBuffers, Visits
from mustlink.neighbors.cell_rows import (
    CellPoints,
    CellRows,
    Lists,
    SomeLists,
    Store,
    fill_rows,
    ranges_of,
)
from mustlink.neighbors.cells import Borders, Groups, QuerySample, Team, known_neighbours
from mustlink.neighbors.points_by_rows import Prepared
from mustlink.space.disk import DiskBlock

_FEWEST, _MOST, _RUNS = 8, 32, 64  # cells of a run, and runs that leave work for many threads
_CELLS = 16  # of a task
_LISTS = 1 << 14  # lists of a task
_QUERIES = 1 << 7  # members compared with their cell at once: they stay in the cache
_SPARE = 3  # kept beyond the list: products are less exact than differences

Measured = tuple[NDArray[np.float32], NDArray[np.float64]]


def edges_of(
    a: NDArray[np.integer],
    slot: NDArray[np.integer],
    b: NDArray[np.integer],
    hits: NDArray[np.int32],
    sizes: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Pairs of cells (e, 5): low, high, the slot of each at the other, and whether all compare.

    Of cell a, `hits` members visit cell b, which it knows in `slot`; cells have `sizes` members. A
    slot is -1 where no member visits. All members of two cells are compared where that is less work
    than visitors with all of the other.
    """
    C = sizes.size
    low, high = np.minimum(a, b), np.maximum(a, b)
    key, back = np.unique(low * np.int64(C) + high, return_inverse=True)
    edges = np.full((key.size, 5), -1, np.int32)
    edges[:, 0], edges[:, 1] = key // C, key % C
    edges[back[a < b], 2] = slot[a < b]
    edges[back[a > b], 3] = slot[a > b]
    work = np.bincount(back, weights=hits.astype(np.float64) * sizes[b], minlength=key.size)
    edges[:, 4] = work >= sizes[edges[:, 0]] * sizes[edges[:, 1]]
    return edges


def rounds_of(pairs: NDArray[np.int32], count: int) -> list[int]:
    """Number every pair (e, 2) so that in one round none of `count` meets twice, early ones first.

    Greedy: less than twice as many rounds as pairs meet at one at most.
    """
    busy, found = [0] * count, list[int]()  # rounds as bits
    for a, b in pairs.tolist():
        taken = busy[a] | busy[b]
        first = ~taken & (taken + 1)  # the lowest bit that is not set
        busy[a] |= first
        busy[b] |= first
        found.append(first.bit_length() - 1)
    return found


def schedule(
    edges: NDArray[np.int32], count: int, together: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], list[int]]:
    """Edges (e, 5) in groups that are compared by one thread, and the rounds they belong to.

    A group are the edges between two runs of so many cells, which lie near each other: both stay in
    the cache. Near cells come first, which makes lists good soon. Returns the edges, bounds of the
    groups, and of the rounds.
    """
    if edges.shape[0] == 0:
        return edges, np.zeros(1, np.int64), [0]
    runs = -(-count // together)
    rank = edges[:, 2:4].astype(np.int64)
    rank = np.where(rank < 0, np.iinfo(np.int32).max, rank).min(axis=1)
    key = (edges[:, 0] // together).astype(np.int64) * runs + edges[:, 1] // together
    order = np.lexsort((rank, key))
    edges, rank, key = edges[order], rank[order], key[order]
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    ends = np.concatenate([first[1:], [key.size]])
    pairs = np.stack([key[first] // runs, key[first] % runs], axis=1).astype(np.int32)
    alone = pairs[:, 0] == pairs[:, 1]
    # A run with itself, then those whose nearest cells are nearest.
    early = np.lexsort((rank[first], ~alone))
    number = np.empty(first.size, np.int64)
    number[early] = rounds_of(pairs[early], runs)
    by_round = np.lexsort((np.arange(first.size), number))
    sizes = (ends - first)[by_round]
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(first[by_round] - bounds[:-1], sizes) + np.arange(edges.shape[0])
    rounds = np.concatenate([[0], np.cumsum(np.bincount(number))])
    return np.ascontiguousarray(edges[places]), bounds, [int(r) for r in rounds]


@dataclass(frozen=True)
class Visitors:
    """Visits: `hits` members of cell `a` go to cell `b`, whose centre is `gap` off; a rises."""

    a: NDArray[np.int64]
    b: NDArray[np.integer]
    hits: NDArray[np.int32]
    gap: NDArray[np.float32]

    def some(self, chosen: Any) -> Visitors:
        """Those chosen."""
        return Visitors(self.a[chosen], self.b[chosen], self.hits[chosen], self.gap[chosen])

    def slots(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many cells each of `count` visits, and the slot of every visit."""
        each = np.bincount(self.a, minlength=count)
        return each, np.arange(self.a.size) - np.repeat(np.cumsum(each) - each, each)


def words_of(visitors: Visitors, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Words that the bits of every cell of these sizes take."""
    return -(-sizes // WORD) * np.bincount(visitors.a, minlength=sizes.size)


def visits_of(
    visitors: Visitors,
    sizes: NDArray[np.int64],
    bits: NDArray[np.uint64] | None = None,
    start: int = 0,
) -> Visits:
    """Room for the visits of cells of these sizes: in `bits` from word `start` on, which is 0."""
    words = words_of(visitors, sizes)
    ends = np.cumsum(words)
    if bits is None:
        bits = np.zeros(int(ends[-1]), dtype=np.uint64)
    else:
        bits[start : start + int(ends[-1])] = 0
    return Visits(bits, start + ends - words, -(-sizes // WORD))


def mark(
    cells: Cells,
    centres: NDArray[np.float32],
    names: NDArray[np.int64],
    visitors: Visitors,
    radii: NDArray[np.float32],
    limits: NDArray[np.float32],
    visits: Visits,
    first: int,
    team: Team,
) -> NDArray[np.int32]:
    """Fill the visits of the held cells from `first` on; by how many in every slot, (m, A).

    Visitors go from cells as they are held to any of all, of which `parts` (C, d) and `radii`
    (C,) are given; `names` (m,) are those of the held ones among them.
    """
    m = names.size
    each, slot = visitors.slots(m)
    shape = m, int(each.max(initial=1))
    near, gaps = np.zeros(shape, np.int32), np.full(shape, np.inf, np.float32)
    near[visitors.a, slot], gaps[visitors.a, slot] = visitors.b + m, visitors.gap
    used = np.zeros(shape, np.int32)
    there = cells._replace(centres=np.concatenate([centres[names], centres]))
    own = radii[names]

    def task(a: int, b: int) -> None:
        for cell in range(first + a, first + b):
            some = slice(0, int(each[cell]))
            used[cell, some] = _visit(
                there, cell, limits, near[cell, some], gaps[cell, some], own[cell], visits
            )

    team.each(task, m - first, _CELLS)
    return used


def _visit(
    cells: Cells,
    cell: int,
    limits: NDArray[np.float32],
    near: NDArray[np.int32],
    gaps: NDArray[np.float32],
    radius: np.float32,
    visits: Visits,
) -> NDArray[np.int64]:
    """Mark which members of a cell visit which of those near it, `near` (s,); by how many each.

    x visits cell b unless it lies farther than `radius` of its own cell a, or than the last of
    its list, from where points are as near to one centre as to the other, `gaps` (s,) apart:
    |b - a|/2 - (x - a)·(b - a)/|b - a|.
    """
    own, words = slice(*cells.starts[cell : cell + 2]), int(visits.width[cell])
    scale = np.divide(1.0, gaps, out=np.zeros_like(gaps), where=gaps > 0)
    ways = scale[:, None] * (cells.centres[near] - cells.centres[cell])
    along = ways @ (cells.points[own] - cells.centres[cell]).T
    far = np.sqrt(np.maximum(limits[own], 0.0))  # nothing is nearer than a list of copies
    far = np.where(limits[own] > 0, np.minimum(radius, far), -np.float32(np.inf))
    goes = (np.float32(0.5) * gaps)[:, None] - along <= far
    held = np.zeros((near.size, 8 * words), dtype=np.uint8)
    bits = np.packbits(goes, axis=1, bitorder="little")
    held[:, : bits.shape[1]] = bits
    at = int(visits.first[cell])
    visits.bits[at : at + words * near.size] = held.view("<u8").ravel()
    return np.count_nonzero(goes, axis=1)


def compare(
    cells: Cells,
    found: Nearest,
    desks: Desks,
    visits: Visits,
    edges: NDArray[np.int32],
    together: int,
) -> Iterator[float]:
    """Compare pairs of cells in rounds, each goes into lists of both: yields the share done."""
    groups, bounds, rounds = schedule(edges, cells.starts.size - 1, together)
    for a, b in pairwise(rounds):
        some = bounds[a : b + 1]

        def task(
            desk: ThreadBuffers, first: int, stop: int, some: NDArray[np.int64] = some
        ) -> None:
            edges = groups[some[first] : some[stop]]
            cell_kernels.across(cells, found, desk, visits, edges, together)

        desks.each(task, b - a, 1)
        yield float(bounds[b] / bounds[-1])


class Desks:
    """A desk for every thread, or `most` that threads wait for."""

    def __init__(self, largest: int, d: int, together: int, team: Team, most: int = 64) -> None:
        self._team = team
        self._free: queue.SimpleQueue[ThreadBuffers] = queue.SimpleQueue()
        for _ in range(min(team.workers, most)):
            self._free.put(cell_kernels.desk_for(largest, d, together))

    def each(self, task: Callable[[ThreadBuffers, int, int], Any], count: int, step: int) -> None:
        """Run task(desk, a, b) on pieces a:b of `count`."""

        def run(a: int, b: int) -> None:
            desk = self._free.get()
            try:
                task(desk, a, b)
            finally:
                self._free.put(desk)

        self._team.each(run, count, step)


def _within(cells: Cells, found: Nearest, first: int, stop: int) -> None:
    """Fill empty lists with the nearest in the own cell, for the cells first:stop."""
    k = found.indices.shape[1]
    for cell in range(first, stop):
        a, b = (int(end) for end in cells.starts[cell : cell + 2])
        members = cells.points[a:b] - cells.centres[cell]
        for start in range(a, b, _QUERIES):
            products = members[start - a : start - a + _QUERIES] @ members.T
            shape = len(products), min(b - a, k + _SPARE)
            values = np.full(shape, np.inf, np.float32)
            places = np.full(shape, -1, np.int32)
            nearest_lists.keep_smallest(products, cells.sizes[a:b], a, values, places)
            nearest_lists.insert_all(
                cells.points, places, start, found.squared, found.indices, found.limits
            )


class CellSearch:
    """Cells, what is known of all of them, and what is done with some at a time.

    Step by step these are set: `limits` (n,), the last squared lengths of the lists that the own
    cell has filled; the `mean` square of |x - centre| (C,); the `borders` that decide about visits;
    and `used` (C, A), by how many members of a cell each of those near it is visited, None where
    one block is all. `chunk` is how many members are read at a time beside a block, 0: all; `desks`
    how many threads compare at most.
    """

    mean: NDArray[np.float64]
    limits: NDArray[np.float32]
    borders: Borders
    used: NDArray[np.int32] | None = None

    def __init__(self, cells: CellRows, k: int, team: Team, chunk: int = 0, desks: int = 64):
        self.cells, self.k, self.team = cells, k, team
        self.chunk = chunk or cells.shape[0]
        self.counts = np.diff(cells.starts)
        self.together = max(_FEWEST, min(_MOST, self.counts.size // _RUNS))
        largest, d = int(self.counts.max()), cells.shape[1]
        self.desks = Desks(largest, d, self.together, team, desks)

    def rows(self, some: slice) -> slice:
        """Nodes of some cells."""
        return slice(int(self.cells.starts[some.start]), int(self.cells.starts[some.stop]))

    def within(self, some: slice) -> tuple[SomeLists, Measured]:
        """Lists of some cells with the nearest of the own cell, their last squared lengths (m,).

        And the mean square of |x - centre| in every cell.
        """
        cells = self.read(some)
        m = cells.sizes.size
        indices = np.full((m, self.k), -1, dtype=np.int32)
        squared = np.full((m, self.k), np.inf, dtype=np.float32)
        limits = np.full(m, np.inf, dtype=np.float32)
        found = Nearest(indices, squared, limits)
        self.team.each(lambda a, b: _within(cells, found, a, b), cells.starts.size - 1, _CELLS)
        self.each_list(symmetric_lists.name_all, indices, self.rows(some).start)
        sums = np.add.reduceat(cells.sizes, cells.starts[:-1], dtype=np.float64)
        return (indices, squared), (limits, np.asarray(sums / np.diff(cells.starts)))

    def visits(self, some: slice) -> NDArray[np.int32]:
        """By how many members of some cells each of those near is visited, (c, A)."""
        cells, all_near = self.read(some), self.near(some)
        visits = visits_of(all_near, self.counts[some])
        names, limits = np.arange(some.start, some.stop), self.limits[self.rows(some)]
        return mark(
            cells, self.cells.centres, names, all_near, self.borders.radii, limits, visits, 0,
            self.team,
        )  # fmt: skip

    def near(self, some: slice, chosen: Any = None) -> Visitors:
        """Visits of some cells to those near them, all or those that are `chosen` (c, A)."""
        near, gaps = self.borders.near[some], self.borders.gaps[some]
        a, slot = np.nonzero(np.ones(near.shape, np.bool_) if chosen is None else chosen)
        none = np.zeros(a.size, dtype=np.int32)
        return Visitors(a, near[a, slot], none, gaps[a, slot])

    def settle(self, lists: SomeLists, first: int) -> None:
        """Name all in lists of the nodes from `first` on, and put equally far ones in order."""
        self.each_list(symmetric_lists.name_all, lists[0], first)
        nearest_lists.order_ties(*lists)

    def read(self, some: slice, held: CellPoints | None = None) -> Cells:
        """Cells in memory, prepared; points that are there are copied only to a place `held`."""
        rows, store = self.rows(some), self.cells.store
        if held is None and isinstance(store, np.ndarray):
            held = CellPoints(store[rows])
            cells = held.cells(self.cells.centres[some], self.counts[some])
        else:
            held = held or CellPoints.empty(rows.stop - rows.start, store.shape[1])
            cells = held.cells(self.cells.centres[some], self.counts[some])
            fill_rows(store, rows.start, cells.points)
        held.prepare(cells, 0, self.team)
        return cells

    def each_list(self, kernel: Any, indices: NDArray[np.int32], *more: Any) -> None:
        """Run a kernel on all lists (m, k), some at a time."""
        self.team.each(lambda a, b: kernel(indices, *more, a, b), indices.shape[0], _LISTS)


def finish(
    search: CellSearch, some: slice, lists: SomeLists, deadline: Deadline = NEVER
) -> Iterator[float]:
    """Finish the lists of a block of cells, in place: yields the share that is done.

    They are given as their own cells have filled them. At the deadline they stay as they are.
    """
    rows, near, used = search.rows(some), search.borders.near, search.used
    if used is None:
        outward = search.near(some)
        inward = outward.some(slice(0))
    else:
        outward = search.near(some, used[some] > 0)
        coming = (near >= some.start) & (near < some.stop) & (used > 0)
        coming[some] = False
        a, slot = np.nonzero(coming)
        inward = Visitors(a, near[a, slot], used[a, slot], search.borders.gaps[a, slot])
    there = np.union1d(outward.b, inward.a)
    beyond = there[(there < some.start) | (there >= some.stop)]
    counts = search.counts[beyond]
    chunks = ranges_of(counts, search.chunk)
    largest = max((int(counts[one].sum()) for one in chunks), default=0)
    own = rows.stop - rows.start
    held = CellPoints.empty(own + largest, search.cells.shape[1]) if chunks else None
    cells = search.read(some, held)
    search.each_list(symmetric_lists.name_all, lists[0], -rows.start)
    limits = np.full(own + largest, -np.inf, dtype=np.float32)
    limits[:own] = search.limits[rows]
    words = words_of(inward, search.counts)
    room = max((int(words[beyond[one]].sum()) for one in chunks), default=0)
    block = _Block(search, some, cells, Nearest(*lists, limits), outward, room)
    share = 1.0 / (1 + len(chunks))
    for done in block.compared():
        yield share * done
        if deadline.is_over:
            break
    else:
        for number, chunk in enumerate(chunks):
            assert held is not None
            block.compare_with(beyond[chunk], inward, held)
            yield share * (2 + number)
            if deadline.is_over:
                break
    search.settle(lists, rows.start)


class _Block:
    """A range of cells with their lists, their visits, and bits for `room` words of others."""

    def __init__(
        self, search: CellSearch, own: slice, cells: Cells, found: Nearest, outward: Visitors,
        room: int = 0,
    ) -> None:  # fmt: skip
        self.search, self.own, self.rows = search, own, search.rows(own)
        self.cells, self.found = cells, found
        sizes, names = search.counts[own], np.arange(own.start, own.stop)
        self.words = int(words_of(outward, sizes).sum())
        self.bits = np.zeros(self.words + room, dtype=np.uint64)
        self.visits = visits_of(outward, sizes, self.bits)
        used = mark(
            cells, search.cells.centres, names, outward, search.borders.radii, found.limits,
            self.visits, 0, search.team,
        )  # fmt: skip
        _, self.slot = outward.slots(names.size)
        self.outward = replace(outward, hits=used[outward.a, self.slot])

    def compared(self) -> Iterator[float]:
        """Compare the cells with each other: yields the share that is done."""
        search, own, out = self.search, self.own, self.outward
        inside = (out.b >= own.start) & (out.b < own.stop) & (out.hits > 0)
        here = out.some(inside)
        edges = edges_of(
            here.a, self.slot[inside], here.b - own.start, here.hits, search.counts[own]
        )
        yield from compare(
            self.cells, self.found, search.desks, self.visits, edges, search.together
        )

    def compare_with(self, there: NDArray[np.integer], inward: Visitors, held: CellPoints) -> None:
        """Compare the block with cells beyond: their members get into its lists."""
        search, own, out = self.search, self.own, self.outward
        ours, inside = own.stop - own.start, self.rows.stop - self.rows.start
        names = np.concatenate([np.arange(own.start, own.stop), there])
        sizes = search.counts[names]
        cells = held.cells(search.cells.centres[names], sizes)
        search.cells.read(there, cells.points[inside:])
        held.prepare(cells, ours, search.team)
        nodes = _nodes(search.cells.starts[there], search.counts[there])
        limits = self.found.limits[: inside + nodes.size]
        limits[inside:] = search.limits[nodes]

        here = slice(*np.searchsorted(inward.a, [there[0], there[-1] + 1]))
        come = inward.some(here)
        come = Visitors(ours + np.searchsorted(there, come.a), come.b, come.hits, come.gap)
        visits = visits_of(come, sizes, self.bits, self.words)
        mark(
            cells, search.cells.centres, names, come, search.borders.radii, limits, visits, ours,
            search.team,
        )  # fmt: skip
        visits.first[:ours] = self.visits.first
        limits[inside:] = -np.inf  # no point is near enough for a list that is not held

        _, slot_in = come.slots(sizes.size)
        place = np.minimum(np.searchsorted(there, out.b), there.size - 1)
        go = there[place] == out.b
        edges = edges_of(
            np.concatenate([out.a[go], come.a]),
            np.concatenate([self.slot[go], slot_in]),
            np.concatenate([ours + place[go], come.b - own.start]),
            np.concatenate([out.hits[go], come.hits]),
            sizes,
        )
        found = Nearest(self.found.indices, self.found.squared, limits)
        for _ in compare(cells, found, search.desks, visits, edges, search.together):
            pass
        search.each_list(symmetric_lists.name_outside, found.indices, inside, nodes)


class SearchBackend:
    """The steps of the search over all points, by threads of this process; in memory or on disk.

    `tasks` has those of other processes. One step begins when the one before is over; its pieces
    depend on each other in nothing, and each is yielded with the cells that it is of.
    """

    def __init__(self, sizes: Layout, team: Team, folder: Any = None) -> None:
        self.sizes, self.team, self.folder = sizes, team, folder
        self.at_once = not sizes.on_disk  # one block is all: counts of visits are not needed

    def given(self, rows: Prepared) -> Prepared:
        """The points, as the workers can read them."""
        return rows

    def known(self, rows: Prepared, k: int, count: int, rng: np.random.Generator) -> QuerySample:
        """True neighbours of some nodes."""
        return known_neighbours(rows, k, count, rng, self.sizes, self.team.pool)

    def cells(self, rows: Prepared, groups: Groups) -> Iterator[tuple[slice, NDArray[np.int32]]]:
        """Yield some rows and the centres whose cells they are in."""
        for some in groups.bounds(rows):
            yield some, groups.cell(rows[some], self.team)

    def store(self, n: int, d: int) -> Store:
        """Where points lie in the order of the cells; raises InputError."""
        if self.sizes.on_disk:
            return DiskBlock(self.folder, (n, d), np.float32)
        return np.empty((n, d), dtype=np.float32)

    def within(self, search: CellSearch, lists: Lists) -> Iterator[tuple[slice, Measured]]:
        """Fill lists with the nearest of the own cell; what `CellSearch.within` measures."""
        for some in search.cells.ranges(search.chunk):
            found, measured = search.within(some)
            lists.write(search.rows(some).start, *found)
            del found
            yield some, measured

    def visits(self, search: CellSearch) -> Iterator[tuple[slice, NDArray[np.int32]]]:
        """By how many each of the cells near is visited."""
        for some in search.cells.ranges(search.chunk) if search.borders.near.size else []:
            yield some, search.visits(some)

    def finish(
        self, search: CellSearch, lists: Lists, deadline: Deadline, advance: Callable[[float], None]
    ) -> Iterator[tuple[slice, SomeLists]]:
        """Finish all lists, of one block of cells at a time; at the deadline they are left."""
        n = lists.shape[0]
        for some in search.cells.ranges(self.sizes.block or n):  # of which one is held, never two
            rows = search.rows(some)
            found = lists.read(rows)
            for done in finish(search, some, found, deadline):
                advance((rows.start + (rows.stop - rows.start) * done) / n)
            yield some, found
            del found


def _nodes(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Nodes of cells, one after the other."""
    shift = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return (np.arange(shift.size) + shift).astype(np.int32)
