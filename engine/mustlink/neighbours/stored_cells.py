"""Points in the order of their cells, in a scratch file: those of some cells are read at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.neighbour_graph import FEW, Layout
from mustlink.kernels import cells as cell_kernels
from mustlink.kernels.cells import Cells
from mustlink.kernels.near_tiles import WIDE
from mustlink.neighbours.cells import Groups
from mustlink.neighbours.points_by_rows import Prepared
from mustlink.neighbours.refine import Team
from mustlink.neighbours.scratch import Scratch

_CELLS = 16  # of a task


@dataclass(frozen=True, eq=False)
class CellRows:
    """n points in a file, cell by cell; nodes are numbered as they lie there.

    The nodes of cell c are starts[c]:starts[c + 1], about `parts` (C, d).
    """

    file: Scratch
    starts: NDArray[np.int64]
    centres: NDArray[np.float32]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of points and of coordinates: rows of them are read as `self[a:b]`."""
        return int(self.starts[-1]), self.file.width

    def __getitem__(self, rows: slice) -> NDArray[np.float32]:
        """Nodes a:b, (b - a, d)."""
        first, stop, _ = rows.indices(self.shape[0])
        found = np.empty((max(0, stop - first), self.file.width), dtype=np.float32)
        self.file.read(first, found)
        return found

    def ranges(self, most: int) -> list[slice]:
        """All cells in ranges of at most so many members, or of one cell."""
        return ranges_of(np.diff(self.starts), most)

    def read(self, chosen: NDArray[np.integer], out: NDArray[np.float32]) -> None:
        """Fill `out` with the members of some cells, ascending: what lies together in one go."""
        at = 0
        cuts = np.flatnonzero(np.diff(chosen) != 1) + 1
        for a, b in zip([0, *cuts.tolist()], [*cuts.tolist(), chosen.size], strict=True):
            first, stop = int(self.starts[chosen[a]]), int(self.starts[chosen[b - 1] + 1])
            self.file.read(first, out[at : at + stop - first])
            at += stop - first


@dataclass(frozen=True, eq=False)
class StoredCells(CellRows):
    """Cells, and where their points come from.

    `order` (n,) is the row of the points that each node is, `first` the first cell of every centre,
    as they were given.
    """

    order: NDArray[np.int32]
    first: NDArray[np.int32]


def ranges_of(sizes: NDArray[np.int64], most: int) -> list[slice]:
    """Things of these sizes in ranges of at most `most` in all, or of one thing."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    found, first = [], 0
    while first < sizes.size:
        stop = int(np.searchsorted(ends, ends[first] + most, side="right")) - 1
        found.append(slice(first, max(stop, first + 1)))
        first = found[-1].stop
    return found


def write_cells(
    rows: Prepared,
    groups: Groups,
    layout: Layout,
    file: Scratch,
    assigned: Iterable[tuple[slice, NDArray[np.int32]]],
    nodes: NDArray[np.int64],
    advance: Callable[[float], None],
) -> tuple[StoredCells, NDArray[np.int64]]:
    """Put every point into the cell of its centre, in a file; and where some rows `nodes` went.

    The cells of `cells_of`: those of more than four times the usual are cut. Which centre's they
    are is `assigned`, for some rows at a time. Memory: 8 bytes a point, and three blocks.
    """
    n = rows.shape[0]
    centres = groups.centres
    cell = np.empty(n, dtype=np.int32)
    for some, found in assigned:
        cell[some] = found
        advance(0.8 * some.stop / n)
    counts = np.bincount(cell, minlength=centres.norms.size)
    filled = np.concatenate([[0], np.cumsum(counts)])
    pieces = -(-counts // layout.largest_part(1))  # none of a centre without points
    owner = np.repeat(np.arange(counts.size), pieces)
    piece = np.arange(owner.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = np.append(filled[owner] + counts[owner] * piece // pieces[owner], n)
    first = np.where(counts > 0, np.cumsum(pieces) - pieces, 0).astype(np.int32)
    where = np.ascontiguousarray(centres.at[owner] + centres.middle)
    order, places = np.empty(n, dtype=np.int32), np.empty(nodes.size, dtype=np.int64)
    for start, block in rows.blocks(layout.block_bytes):
        own = cell[start : start + block.shape[0]]
        by_cell = np.argsort(own, kind="stable")
        held = np.bincount(own, minlength=counts.size)
        place = np.arange(own.size) + np.repeat(filled[:-1] - (np.cumsum(held) - held), held)
        filled[:-1] += held
        order[place] = start + by_cell
        file.write_many(place, block[by_cell])
        some = slice(*np.searchsorted(nodes, [start, start + own.size]))
        back = np.empty(own.size, dtype=np.int64)
        back[by_cell] = place
        places[some] = back[nodes[some] - start]
        advance(0.8 + 0.2 * (start + own.size) / n)
    return StoredCells(file, starts, where, order, first), places


class Held:
    """Room for points of some cells in memory, and their panels where coordinates are few."""

    def __init__(self, rows: int, panels: int, d: int) -> None:
        self.points = np.empty((rows, d), dtype=np.float32)
        self.sizes = np.empty(rows, dtype=np.float32)
        self.panels = np.empty(panels * WIDE * d if self.panelled(d) else 0, dtype=np.float32)

    @staticmethod
    def panelled(d: int) -> bool:
        """Whether points of so many coordinates have panels."""
        return d <= FEW

    def cells(self, centres: NDArray[np.float32], sizes: NDArray[np.int64]) -> Cells:
        """Cells of these sizes, which take the first of the room."""
        starts = np.concatenate([[0], np.cumsum(sizes)])
        firsts = np.concatenate([[0], np.cumsum(panels_of(sizes))])
        n, d = int(starts[-1]), self.points.shape[1]
        panels = self.panels[: firsts[-1] * WIDE * d]
        return Cells(self.points[:n], centres, starts, self.sizes[:n], panels, firsts[:-1])

    @staticmethod
    def prepare(cells: Cells, first: int, team: Team) -> None:
        """Fill sizes and panels of the cells from `first` on."""
        team.each(
            lambda a, b: cell_kernels.prepare(cells, first + a, first + b),
            cells.starts.size - 1 - first,
            _CELLS,
        )


def panels_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Panels of cells of these sizes."""
    return -(-sizes // WIDE)
