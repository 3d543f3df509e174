"""Neighbour lists on disk, and what is known of the cells whose members they are of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.stored_neighbours import StoredLayout
from mustlink.kernels import cell_pairs, local_joins, stored_lists
from mustlink.kernels.cell_pairs import Nearest
from mustlink.kernels.cells import Cells
from mustlink.neighbours.cell_edges import runs_of
from mustlink.neighbours.cell_search import Desks
from mustlink.neighbours.cell_visits import Visitors, mark, visits_of
from mustlink.neighbours.cells import Borders, mean_squares
from mustlink.neighbours.refine import Team
from mustlink.neighbours.stored_cells import CellRows, Held
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
