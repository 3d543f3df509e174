"""The search by cells of points that do not fit into memory: lists and points end up on disk.

Its passes over points and cells are by threads of this process; `by_tasks` has those of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.stored_neighbours import StoredLayout
from mustlink.deadline import NEVER, Deadline
from mustlink.kernels import local_joins
from mustlink.neighbours.cells import Groups, borders_of, grouped
from mustlink.neighbours.parts import Sample, centres_of, known_neighbours
from mustlink.neighbours.points_by_rows import Prepared, near_one
from mustlink.neighbours.refine import Team, full_lists
from mustlink.neighbours.scratch import Scratch
from mustlink.neighbours.stored_cells import Held, StoredCells, write_cells
from mustlink.neighbours.stored_lists import ListsFile, SomeLists, StoredSearch, finish


class Passes:
    """Points assigned to cells, lists filled within cells, visits found, lists finished.

    One pass begins when the one before is over; its pieces depend on each other in nothing.
    """

    def __init__(self, folder: Any, layout: StoredLayout, team: Team) -> None:
        self.folder, self.layout, self.team = folder, layout, team

    def given(self, rows: Prepared) -> Prepared:
        """The points, as those who make the passes can read them."""
        return rows

    def known(self, rows: Prepared, k: int, count: int, rng: np.random.Generator) -> Sample:
        """True neighbours of some nodes."""
        return known_neighbours(rows, k, count, rng, self.layout.cells, self.team.pool)

    def cells(self, rows: Prepared, groups: Groups) -> Iterator[tuple[slice, NDArray[np.int32]]]:
        """Yield some rows and the centres whose cells they are in."""
        for some in groups.bounds(rows):
            yield some, groups.cell(rows[some], self.team)

    def file(self, n: int, d: int) -> Scratch:
        """A file for the points in the order of the cells; raises InputError."""
        return Scratch(self.folder, n, d)

    def within(self, search: StoredSearch, lists: ListsFile) -> Iterator[float]:
        """Fill lists with the nearest of the own cell: yields the share that is done."""
        ranges, held = _ranges(search)
        search.mean = np.empty(search.counts.size)
        search.limits = np.empty(lists.shape[0], dtype=np.float32)
        for some in ranges:
            rows = search.rows(some)
            found, search.limits[rows], search.mean[some] = search.within(some, held)
            lists.write(rows.start, *found)
            del found
            yield rows.stop / lists.shape[0]

    def visits(self, search: StoredSearch) -> Iterator[float]:
        """Find who is visited: yields the share that is done."""
        search.used = np.zeros(search.borders.near.shape, dtype=np.int32)
        ranges, held = _ranges(search)
        for some in ranges if search.used.size else []:
            search.used[some] = search.visits(some, held)
            yield some.stop / search.counts.size

    def finish(
        self,
        search: StoredSearch,
        lists: ListsFile,
        short: list[NDArray[np.int64]],
        deadline: Deadline,
    ) -> Iterator[float]:
        """Finish all lists: yields the share that is done.

        Nodes whose lists have not become full are added to `short`. At the deadline the lists that
        are left stay as they are.
        """
        n = lists.shape[0]
        for some in search.cells.ranges(self.layout.block):  # of which one is held, never two
            rows = search.rows(some)
            found = lists.read(rows)
            for done in finish(search, some, found, deadline):
                yield (rows.start + (rows.stop - rows.start) * done) / n
            keep_finished(lists, short, rows.start, found)
            del found


def keep_finished(
    lists: ListsFile, short: list[NDArray[np.int64]], first: int, found: SomeLists
) -> None:
    """Write lists of the nodes from `first` on, and note which are not full."""
    lists.write(first, *found)
    short.append(first + np.flatnonzero(found[0][:, -1] < 0))


def _ranges(search: StoredSearch) -> tuple[list[slice], Held]:
    """All cells in ranges, and room for the largest."""
    ranges = search.cells.ranges(search.layout.chunk)
    most = max(int(search.counts[some].sum()) for some in ranges)
    return ranges, Held(most, 0, search.cells.shape[1])


_SHORT = 2048  # lists made full at once
_READ = 1 << 18  # lists read at once

PassesOf = Callable[[Any, StoredLayout, Team], Passes]


@dataclass(frozen=True, eq=False)
class StoredLists:
    """Neighbours of nodes numbered cell by cell, their squared lengths and points, all on disk.

    Coordinates are multiplied by `unit`, a power of two. `info` is how they were found.
    """

    cells: StoredCells
    lists: ListsFile
    unit: float
    info: dict[str, Any]

    @property
    def points(self) -> Prepared:
        """Points as they were before they were multiplied, in the order of the nodes."""
        return Prepared(self.cells, "euclidean", None, 1.0, 1 / self.unit)


def stored_lists(
    rows: Prepared,
    k: int,
    rng: np.random.Generator,
    layout: StoredLayout,
    *,
    n_jobs: int = 1,
    sample: int = 500,
    folder: Any = None,
    deadline: Deadline = NEVER,
    advance: Callable[[float], None] | None = None,
    passes: PassesOf = Passes,
) -> StoredLists:
    """Find about the k nearest of each point but itself, as `cell_lists`, and leave them on disk.

    The same generator and cells give the same lists for any number of threads, and those found in
    memory up to the choice among equally far ones, as long as local joins are not needed there:
    here visits go farther instead. n (d + 2k) numbers of 4 bytes are written to `folder`. Whoever
    makes the `passes` finds the same. Raises InputError where files do not fit.
    """
    from threadpoolctl import threadpool_limits

    tell = advance or (lambda _: None)
    rows, unit = near_one(rows)
    sizes = layout.cells

    def run(steps: Iterator[float], first: float, last: float) -> None:
        for done in steps:
            tell(first + (last - first) * done)

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_jobs) as pool:
        team = Team(pool, n_jobs)
        by = passes(folder, layout, team)
        rows = by.given(rows)
        known = by.known(rows, k, sample, rng)
        tell(0.05)
        groups = grouped(centres_of(rows, k, rng, sizes, pool), known.points, rng, team)
        tell(0.1)
        cells, places = write_cells(
            rows, groups, sizes, by.file(*rows.shape), by.cells(rows, groups), known.nodes,
            lambda x: tell(0.1 + 0.1 * x),
        )  # fmt: skip
        known = replace(known, nodes=places)
        owner = np.searchsorted(cells.starts, places, side="right") - 1
        others = cells.first[groups.cell(known.others, team)]
        search, lists = StoredSearch(cells, k, layout, team), ListsFile(folder, rows.shape[0], k)
        run(by.within(search, lists), 0.2, 0.4)
        search.borders = borders_of(
            cells.centres, search.counts, search.mean, known, owner.astype(np.int32), others,
            team, joined=False,
        )  # fmt: skip
        run(by.visits(search), 0.4, 0.45)
        short: list[NDArray[np.int64]] = []
        run(by.finish(search, lists, short, deadline), 0.45, 1.0)
    borders = search.borders
    info = {
        "recall": _recall(lists, known),
        "recall_sample": int(places.size),
        "parts": cells.starts.size - 1,
        "visited": borders.pairs,
        "shared": borders.shared,
    }
    found = StoredLists(cells, lists, unit, info)
    _complete(found, np.concatenate(short), layout)
    return found


def _recall(lists: ListsFile, known: Sample) -> float:
    """Share of each list of known nodes that is no farther than the true last one."""
    limits = known.reach * (1 + 1e-5) + 1e-12
    near = [
        np.sqrt(lists.read(slice(int(node), int(node) + 1))[1][0]) <= limit
        for node, limit in zip(known.nodes, limits, strict=True)
    ]
    return float(np.mean(near))


def _complete(found: StoredLists, short: NDArray[np.int64], layout: StoredLayout) -> None:
    """Fill lists that are not full, of points in small cells only, by comparing them with all."""
    rows = Prepared(found.cells, "euclidean", None, 1.0)
    k = found.lists.shape[1]
    batch = max(1, min(_SHORT, layout.cells.block_bytes // (8 * k * rows.shape[1])))
    for a in range(0, short.size, batch):
        nodes = short[a : a + batch]
        for node, indices, squared in zip(
            nodes, *full_lists(rows, nodes, k, layout.cells), strict=True
        ):
            found.lists.write(int(node), indices, squared.astype(np.float32))


def lists_by_disk(
    rows: Prepared, k: int, rng: np.random.Generator, layout: StoredLayout, **how: Any
) -> tuple[NDArray[np.int32], NDArray[np.float32], dict[str, Any]]:
    """Find lists by `stored_lists` and read them: indices, distances (n, k), and how.

    In the order of the points, ascending, ties to the smaller index.
    """
    found = stored_lists(rows, k, rng, layout, **how)
    n, order = rows.shape[0], found.cells.order
    indices, distances = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
    for first in range(0, n, _READ):
        nodes = slice(first, min(first + _READ, n))
        numbers, squared = found.lists.read(nodes)
        numbers = order[numbers]
        local_joins.order_ties(numbers, squared)
        indices[order[nodes]], distances[order[nodes]] = numbers, np.sqrt(squared)
    if found.unit != 1:
        distances /= np.float32(found.unit)
    return indices, distances, found.info
