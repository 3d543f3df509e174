"""The passes of the search by cells over the points, by threads of this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.neighbour_graph import Layout
from mustlink.deadline import Deadline
from mustlink.neighbours.cell_blocks import CellSearch, finish
from mustlink.neighbours.cell_rows import (
    Held,
    ListsFile,
    Scratch,
    SomeLists,
    Store,
)
from mustlink.neighbours.cells import (
    Groups,
    Sample,
    Team,
    known_neighbours,
)
from mustlink.neighbours.points_by_rows import Prepared


class Passes:
    """Points assigned to cells, lists filled within cells, visits found, lists finished.

    By threads of this process; `tasks` has those of others. One pass begins when the one before is
    over; its pieces depend on each other in nothing.
    """

    def __init__(self, sizes: Layout, team: Team, folder: Any = None, block: int = 0) -> None:
        self.sizes, self.team, self.folder, self.block = sizes, team, folder, block

    def given(self, rows: Prepared) -> Prepared:
        """The points, as those who make the passes can read them."""
        return rows

    def known(self, rows: Prepared, k: int, count: int, rng: np.random.Generator) -> Sample:
        """True neighbours of some nodes."""
        return known_neighbours(rows, k, count, rng, self.sizes, self.team.pool)

    def cells(self, rows: Prepared, groups: Groups) -> Iterator[tuple[slice, NDArray[np.int32]]]:
        """Yield some rows and the centres whose cells they are in."""
        for some in groups.bounds(rows):
            yield some, groups.cell(rows[some], self.team)

    def store(self, n: int, d: int) -> Store:
        """A file for the points in the order of the cells; raises InputError."""
        return Scratch(self.folder, n, d)

    def within(self, search: CellSearch, lists: ListsFile) -> Iterator[float]:
        """Fill lists with the nearest of the own cell: yields the share that is done."""
        ranges, held = self._ranges(search)
        search.mean = np.empty(search.counts.size)
        search.limits = np.empty(lists.shape[0], dtype=np.float32)
        for some in ranges:
            rows = search.rows(some)
            found, search.limits[rows], search.mean[some] = search.within(some, held)
            lists.write(rows.start, *found)
            del found
            yield rows.stop / lists.shape[0]

    def visits(self, search: CellSearch) -> Iterator[float]:
        """Find who is visited: yields the share that is done."""
        search.used = np.zeros(search.borders.near.shape, dtype=np.int32)
        ranges, held = self._ranges(search)
        for some in ranges if search.used.size else []:
            search.used[some] = search.visits(some, held)
            yield some.stop / search.counts.size

    def finish(
        self,
        search: CellSearch,
        lists: ListsFile,
        short: list[NDArray[np.int64]],
        deadline: Deadline,
    ) -> Iterator[float]:
        """Finish all lists: yields the share that is done.

        Nodes whose lists have not become full are added to `short`. At the deadline the lists that
        are left stay as they are.
        """
        n = lists.shape[0]
        for some in search.cells.ranges(self.block):  # of which one is held, never two
            rows = search.rows(some)
            found = lists.read(rows)
            for done in finish(search, some, found, deadline):
                yield (rows.start + (rows.stop - rows.start) * done) / n
            self.write(lists, short, rows.start, found)
            del found

    @staticmethod
    def write(
        lists: ListsFile, short: list[NDArray[np.int64]], first: int, found: SomeLists
    ) -> None:
        """Write lists of the nodes from `first` on, and note which are not full."""
        lists.write(first, *found)
        short.append(first + np.flatnonzero(found[0][:, -1] < 0))

    def _ranges(self, search: CellSearch) -> tuple[list[slice], Held]:
        """All cells in ranges, and room for the largest."""
        ranges = search.cells.ranges(search.chunk)
        most = max(int(search.counts[some].sum()) for some in ranges)
        return ranges, Held(most, 0, search.cells.shape[1])
