"""Neighbour lists on disk, and the passes over cells that come before these are compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.stored_neighbours import StoredLayout
from mustlink.kernels import cell_pairs, stored_lists
from mustlink.kernels.cell_pairs import Desk, Nearest
from mustlink.kernels.cells import Cells
from mustlink.neighbours.cell_edges import runs_of
from mustlink.neighbours.cell_search import Desks
from mustlink.neighbours.cell_visits import Visitors, mark, visits_of
from mustlink.neighbours.cells import Borders, borders_of, mean_squares
from mustlink.neighbours.parts import Sample
from mustlink.neighbours.refine import Team
from mustlink.neighbours.stored_cells import Held, StoredCells
from mustlink.space.scratch_file import ScratchFile

_CELLS = 16  # of a task
_LISTS = 1 << 14  # lists of a task


class ListsFile:
    """Lists (n, k) of neighbours on disk: numbers, and squared lengths or what comes for them."""

    def __init__(self, folder: Any, n: int, k: int) -> None:
        self.shape = n, k
        self._row = 4 * k
        self._indices = ScratchFile(folder, n * self._row)
        self._values = ScratchFile(folder, n * self._row)

    def read(self, rows: slice) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
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
    """Cells on disk with their lists, and what is known of all of them: 4 bytes a node in memory.

    `limits` (n,) are the last squared lengths of the lists that the own cell has filled, `used`
    (C, A) by how many members of a cell each of those near it is visited.
    """

    def __init__(
        self, cells: StoredCells, k: int, layout: StoredLayout, folder: Any, team: Team
    ) -> None:
        n, d = cells.shape
        self.cells, self.layout, self.team = cells, layout, team
        self.counts = np.diff(cells.starts)
        self.lists = ListsFile(folder, n, k)
        self.limits = np.full(n, np.inf, dtype=np.float32)
        self.together = runs_of(self.counts.size)
        largest = int(self.counts.max())
        self.desks = Desks(largest, d, self.together, Held.panelled(d), team, layout.desks)

    def within(self) -> Iterator[float]:
        """Fill lists with the nearest of the own cell: yields the share that is done."""
        n, k = self.lists.shape
        self.mean = np.empty(self.counts.size)
        ranges, held = self._ranges()
        most = held.sizes.size
        indices, squared = np.empty((most, k), np.int32), np.empty((most, k), np.float32)
        for some in ranges:
            cells, rows = self.read(some, held)
            m = rows.stop - rows.start
            indices[:m], squared[:m] = -1, np.inf
            found = Nearest(indices[:m], squared[:m], self.limits[rows])

            def task(
                desk: Desk, a: int, b: int, cells: Cells = cells, found: Nearest = found
            ) -> None:
                cell_pairs.within(cells, found, desk, a, b)

            self.desks.each(task, some.stop - some.start, _CELLS)
            self.mean[some] = mean_squares(cells)
            self.each_list(stored_lists.name_all, indices[:m], rows.start)
            self.lists.write(rows.start, indices[:m], squared[:m])
            yield rows.stop / n

    def find_visits(
        self, known: Sample, owner: NDArray[np.int32], others: NDArray[np.int32]
    ) -> Iterator[float]:
        """Find how far visits have to reach, and who is visited: yields the share that is done."""
        where = self.cells.centres
        self.borders: Borders = borders_of(
            where, self.counts, self.mean, known, owner, others, self.team, joined=False
        )
        near, gaps = self.borders.near, self.borders.gaps
        self.used = np.zeros(near.shape, dtype=np.int32)
        if near.shape[1] == 0:
            return
        ranges, held = self._ranges()
        for some in ranges:
            cells, rows = self.read(some, held)
            own = np.repeat(np.arange(some.stop - some.start), near.shape[1])
            none = np.zeros(own.size, dtype=np.int32)
            all_near = Visitors(own, near[some].ravel(), none, gaps[some].ravel())
            visits = visits_of(all_near, self.counts[some])
            names, limits = np.arange(some.start, some.stop), self.limits[rows]
            self.used[some] = mark(
                cells, where, names, all_near, self.borders.reach, limits, visits, 0, self.team
            )
            yield rows.stop / self.cells.shape[0]

    def read(self, some: slice, held: Held) -> tuple[Cells, slice]:
        """Cells in memory, prepared, and their nodes."""
        cells = held.cells(self.cells.centres[some], self.counts[some])
        rows = slice(int(self.cells.starts[some.start]), int(self.cells.starts[some.stop]))
        self.cells.file.read(rows.start, cells.points)
        held.prepare(cells, 0, self.team)
        return cells, rows

    def each_list(self, kernel: Any, indices: NDArray[np.int32], *more: Any) -> None:
        """Run a kernel on all lists (m, k), some at a time."""
        self.team.each(lambda a, b: kernel(indices, *more, a, b), indices.shape[0], _LISTS)

    def _ranges(self) -> tuple[list[slice], Held]:
        """All cells in ranges, and room for the largest."""
        ranges = self.cells.ranges(self.layout.chunk)
        most = max(int(self.counts[some].sum()) for some in ranges)
        return ranges, Held(most, 0, self.cells.shape[1])
