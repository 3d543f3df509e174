"""Regions of a graph on disk, and what constraints say of its edges, on disk as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.graph.row_buckets import EntryRuns
from mustlink.graph.stored import RowBlock
from mustlink.lyapunov.fields import LocalField
from mustlink.lyapunov.regions import Floats, Ints, Region, Told
from mustlink.operators.edges import Edges
from mustlink.operators.stored_laplacian import StoredLaplacian
from mustlink.space import Block
from mustlink.space.scratch_file import ScratchFile

_GO = 1 << 22  # entries that are written in one go
_AT_ONCE = 8  # regions that are looked for together: a pass over the graph each step


class StoredRows:
    """The rows of W on disk as `SpreadRows`: one process, one region at a time.

    `beliefs` holds F afterwards, by blocks of rows. Memory: a region and what is found in it, and
    4 bytes a node.
    """

    at_once = _AT_ONCE

    def __init__(self, laplacian: StoredLaplacian, room: int | None, folder: Any = None) -> None:
        self.laplacian, self.room, self._folder = laplacian, room, folder
        self.n_entries = laplacian.graph.n_entries
        self.beliefs = EntryRuns(laplacian.graph.bounds, folder)

    def rounds(self, reached: Block) -> Iterator[tuple[int, Region]]:
        """See `SpreadRows`."""
        for column in range(reached.shape[1]):
            yield column, self._region(reached, column)

    def _region(self, reached: Block, column: int) -> Region:
        space, root = self.laplacian.space, self.laplacian.root_degree
        nodes, roots = [], []
        for rows in space.ranges(reached.row_bytes + 16):
            here = np.flatnonzero(reached[rows][:, column])
            nodes.append(here + rows.start)
            roots.append(root[rows][here])
        found = np.concatenate(nodes)
        place = np.full(space.size, -1, dtype=np.int32)
        place[found] = np.arange(found.size, dtype=np.int32)
        columns: list[NDArray[np.int32]] = []
        weights: list[NDArray[np.float32]] = []
        lengths: list[Ints] = []
        for block in self.laplacian.graph.blocks():
            part = _among(block, found, place)
            columns.append(part[0])
            weights.append(part[1])
            lengths.append(part[2])
        ends = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        kind = np.int32 if ends[-1] < np.iinfo(np.int32).max else np.int64
        W: Any = sp.csr_matrix((found.size, found.size))
        W.indptr, W.indices = ends.astype(kind), _joined(columns).astype(kind, copy=False)
        W.data = _joined(weights).astype(np.float64)
        return Region.of(found, W, np.concatenate(roots))

    def deliver(self, region: Region | None, F: Floats | None) -> None:
        """See `SpreadRows`."""
        assert region is not None
        assert F is not None
        pattern, nodes = region.laplacian.pattern, region.nodes
        for first in range(0, F.size, _GO):
            told = np.flatnonzero(F[first : first + _GO]) + first
            rows = np.searchsorted(pattern.indptr, told, side="right") - 1
            self.beliefs.add(nodes[rows], nodes[pattern.indices[told]], F[told])

    def kept(self, field: LocalField, pattern: Edges) -> Callable[[], tuple[LocalField, Edges]]:
        """See `SpreadRows`."""
        return _Kept(field, pattern, self._folder).again

    def added(self, values: NDArray[Any]) -> NDArray[Any]:
        """See `SpreadRows`."""
        return values

    def joined(self, found: NDArray[Any]) -> NDArray[Any]:
        """See `SpreadRows`."""
        return found

    def told(self, floor: float) -> Told:
        """See `SpreadRows`."""
        largest, up, down = 0.0, 0, 0
        for number in range(self.beliefs.bounds.size - 1):
            F = self.beliefs.block(number).data
            largest = max(largest, float(np.abs(F).max(initial=0.0)))
            up, down = up + int((floor < F).sum()), down + int((-floor > F).sum())
        return Told(largest, up // 2, down // 2, self.n_entries // 2)


class _Kept:
    """The large arrays of a field, and the edges of its region, in a temporary file."""

    def __init__(self, field: LocalField, pattern: Edges, folder: Any) -> None:
        large = field.rows, field.values, pattern.indptr, pattern.indices
        self._file = ScratchFile(folder, sum(each.nbytes for each in large))
        self._shapes = [(each.shape, each.dtype) for each in large]
        at = 0
        for each in large:
            self._file.write(at, np.ascontiguousarray(each))
            at += each.nbytes
        self._field = replace(field, rows=field.rows[:0].copy(), values=field.values[:0].copy())

    def again(self) -> tuple[LocalField, Edges]:
        """Both as they were."""
        found, at = [np.empty(*each) for each in self._shapes], 0
        for each in found:
            self._file.read(at, each)
            at += each.nbytes
        rows, values, indptr, indices = found
        return replace(self._field, rows=rows, values=values), Edges(indptr, indices)


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """All in one, and the parts are let go."""
    found = np.concatenate(parts)
    parts.clear()
    return found


def _among(
    block: RowBlock, nodes: Ints, place: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.float32], Ints]:
    """Columns by their place, weights and lengths of the rows of `nodes` in a block, among them."""
    first, stop = np.searchsorted(nodes, [block.rows.start, block.rows.stop])
    own = nodes[first:stop] - block.first
    begin, lengths = block.indptr[own], np.diff(block.indptr)[own]
    row = np.repeat(np.arange(own.size), lengths)
    before = np.cumsum(lengths) - lengths
    at = np.arange(row.size) + (begin - before)[row]
    columns, weights = place[block.indices[at]], block.data[at]
    inside = (columns >= 0) & (weights > 0)
    counts = np.bincount(row[inside], minlength=own.size)
    return columns[inside], weights[inside], counts
