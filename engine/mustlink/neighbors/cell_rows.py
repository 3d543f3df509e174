"""Points in the order of their cells, in memory or in a file, and lists of neighbours in files.

Nodes are numbered as they lie there. Whatever is read from a file is what an array would hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.context.neighbor_cost import Layout
from mustlink.kernels.cells import Cells
from mustlink.neighbors.cells import Groups, Team
from mustlink.neighbors.points_by_rows import Prepared
from mustlink.space.disk import DiskBlock

_CELLS = 16  # of a task

SomeLists = tuple[NDArray[np.int32], NDArray[np.float32]]  # (m, k): numbers, squared lengths


Store = NDArray[Any] | DiskBlock  # (n, d) in single precision


class Lists:
    """Neighbour lists (n, k): numbers, and squared lengths or what comes for them.

    In arrays, or on disk in a `folder`, None for the usual one. Slices of arrays that are read are
    changed in place.
    """

    indices: Any
    values: Any

    def __init__(self, n: int, k: int, *, on_disk: bool, folder: Any = None) -> None:
        self.shape, self._on_disk = (n, k), on_disk
        if on_disk:
            self.indices = DiskBlock(folder, self.shape, np.int32)
            self.values = DiskBlock(folder, self.shape, np.float32)

    def read(self, rows: slice) -> SomeLists:
        """Lists a:b."""
        return self.indices[rows], self.values[rows]

    def write(self, first: int, indices: NDArray[np.int32], values: NDArray[np.float32]) -> None:
        """Write lists from `first` on; arrays of all lists are taken as they are."""
        if indices.shape == self.shape and not self._on_disk:
            self.indices, self.values = indices, values
            return
        rows = slice(first, first + indices.shape[0])
        self.indices[rows], self.values[rows] = indices, values


@dataclass(frozen=True, eq=False)
class CellRows:
    """n points cell by cell; the nodes of cell c are starts[c]:starts[c + 1], about centres (C, d).

    `order` (n,) is the row of the points that each node is, None in workers of an executor.
    """

    store: Store
    starts: NDArray[np.int64]
    centres: NDArray[np.float32]
    order: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of points and of coordinates: rows of them are read as `self[a:b]`."""
        return int(self.starts[-1]), self.store.shape[1]

    def __getitem__(self, rows: slice) -> NDArray[np.float32]:
        """Nodes a:b, (b - a, d)."""
        return self.store[rows]

    def ranges(self, most: int) -> list[slice]:
        """All cells in ranges of at most so many members, or of one cell."""
        return ranges_of(np.diff(self.starts), most)

    def read(self, chosen: NDArray[np.integer], out: NDArray[np.float32]) -> None:
        """Fill `out` with the members of some cells, ascending: what lies together in one go."""
        at = 0
        for a, b in _runs(chosen):
            first, stop = int(self.starts[chosen[a]]), int(self.starts[chosen[b - 1] + 1])
            fill_rows(self.store, first, out[at : at + stop - first])
            at += stop - first


def fill_rows(store: Store, first: int, out: NDArray[np.float32]) -> None:
    """Fill contiguous `out` (m, d) with the rows from `first` on."""
    if isinstance(store, np.ndarray):
        out[:] = store[first : first + len(out)]
    else:
        store.read(first, out)


def ranges_of(sizes: NDArray[np.int64], most: int) -> list[slice]:
    """Things of these sizes in ranges of at most `most` in all, or of one thing."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    found, first = [], 0
    while first < sizes.size:
        stop = int(np.searchsorted(ends, ends[first] + most, side="right")) - 1
        found.append(slice(first, max(stop, first + 1)))
        first = found[-1].stop
    return found


def _runs(numbers: NDArray[np.integer]) -> Iterable[tuple[int, int]]:
    """Where ascending numbers follow each other without a gap: from a to b."""
    cuts = (np.flatnonzero(np.diff(numbers) != 1) + 1).tolist()
    return zip([0, *cuts], [*cuts, numbers.size], strict=True)


def lay_out(
    rows: Prepared,
    groups: Groups,
    layout: Layout,
    store: Store,
    assigned: Iterable[tuple[slice, NDArray[np.int32]]],
    nodes: NDArray[np.int64],
    advance: Callable[[float], None],
) -> tuple[CellRows, NDArray[np.int64], NDArray[np.int32]]:
    """Put every point into the cell of its centre; where some rows `nodes` went, and the cells
    (C,) of the centres, the first of several.

    Cells of more than four times the usual are cut. Which centre's they are is `assigned`, for
    some rows at a time. Memory: 8 bytes a point, and three blocks.
    """
    n = rows.shape[0]
    centres = groups.centres
    cell = np.empty(n, dtype=np.int32)
    for some, found in assigned:
        cell[some] = found
        advance(0.8 * some.stop / n)
    counts = np.bincount(cell, minlength=centres.norms.size)
    filled = np.concatenate([[0], np.cumsum(counts)])
    pieces = -(-counts // layout.largest)  # none of a centre without points
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
        rows_by_cell = block[by_cell]
        for a, b in _runs(place):  # what lies together in one go
            store[int(place[a]) : int(place[a]) + b - a] = rows_by_cell[a:b]
        some = slice(*np.searchsorted(nodes, [start, start + own.size]))
        back = np.empty(own.size, dtype=np.int64)
        back[by_cell] = place
        places[some] = back[nodes[some] - start]
        advance(0.8 + 0.2 * (start + own.size) / n)
    return CellRows(store, starts, where, order), places, first


class CellPoints:
    """Points of some cells in memory, or room for them."""

    def __init__(self, points: NDArray[np.float32]) -> None:
        self.points = points
        self.sizes = np.empty(points.shape[0], dtype=np.float32)

    @classmethod
    def empty(cls, rows: int, d: int) -> CellPoints:
        """Room for so many points."""
        return cls(np.empty((rows, d), dtype=np.float32))

    def cells(self, centres: NDArray[np.float32], counts: NDArray[np.int64]) -> Cells:
        """Cells of so many points, which take the first of the room."""
        starts = np.concatenate([[0], np.cumsum(counts)])
        n = int(starts[-1])
        return Cells(self.points[:n], centres, starts, self.sizes[:n])

    @staticmethod
    def prepare(cells: Cells, first: int, team: Team) -> None:
        """Fill the sizes of the cells from `first` on."""

        def task(a: int, b: int) -> None:
            for cell in range(first + a, first + b):
                own = slice(*cells.starts[cell : cell + 2])
                about = cells.points[own] - cells.centres[cell]
                np.einsum("ij,ij->i", about, about, out=cells.sizes[own])

        team.each(task, cells.starts.size - 1 - first, _CELLS)
