"""Entries of a matrix that come in any order or in several goes, put into rows on disk.

Temporary files have no name: nothing is left of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.graph.disk_graph import DiskGraph, FileNumbers, RowBlock
from mustlink.space.disk import ScratchFile


def scratch_graph(
    n_nodes: int,
    blocks: Iterable[RowBlock],
    info: Mapping[str, Any],
    rows: NDArray[np.int32] | None = None,
    folder: Any = None,
) -> DiskGraph:
    """The rows in temporary files in `folder`, None for the usual one, which go with the graph.

    Blocks come in order; `rows` are the nodes of the caller's, as `DiskGraph` has them. Raises
    InputError where they do not fit.
    """
    where = "graph in temporary files"
    columns, weights = ScratchFile(folder, 0), ScratchFile(folder, 0)
    ends, done = ScratchFile(folder, 8 * (n_nodes + 1)), 0
    for block in blocks:
        try:
            columns.write(4 * done, block.indices)
            weights.write(4 * done, block.data)
        except OSError as error:
            raise InputError(
                f"scratch: the graph does not fit ({error.strerror}); make room or name another "
                "folder"
            ) from None
        ends.write(8 * (block.first + 1), done + block.indptr[1:].astype(np.int64))
        done += block.nnz
    graph = DiskGraph.of(
        FileNumbers.in_one(ends, where, np.int64, n_nodes + 1),
        FileNumbers.in_one(columns, where, np.int32, done),
        FileNumbers.in_one(weights, where, np.float32, done),
        info,
    )
    return replace(graph, rows=rows)


ENTRIES = 1 << 22  # of a bucket, which is put into rows in memory
RECORD = np.dtype([("row", np.int32), ("column", np.int32), ("value", np.float32)])
MEMORY = ENTRIES * (2 * RECORD.itemsize + 16)  # bytes while entries are dealt out, or put into rows


class RowBuckets:
    """Room for `counts` (n,) entries of every row of a matrix (n, columns), on disk.

    Not more than those are to be added. Memory: as many bytes as `MEMORY`, and 6 a row; a row of
    more entries than a bucket has room for takes its own.
    """

    def __init__(self, counts: NDArray[np.integer[Any]], folder: Any = None) -> None:
        ends = np.cumsum(counts, dtype=np.int64)
        total = int(ends[-1])
        size = max(ENTRIES, total // (1 << 15) + 1)
        wanted = np.arange(0, total + size, size)
        cuts = np.unique(np.searchsorted(ends, wanted, side="left") + 1)
        first = np.unique(np.concatenate([[0], cuts[cuts < counts.size], [counts.size]]))
        before = np.concatenate([[0], ends])
        self._divide(first, before[first], buckets_of(first), folder)

    @classmethod
    def of(
        cls,
        bounds: NDArray[np.int64],
        totals: NDArray[np.int64],
        bucket: NDArray[np.uint16],
        folder: Any = None,
    ) -> RowBuckets:
        """Buckets for the rows between `bounds` (b + 1,) with room for so many entries (b,) each.

        `bucket` (n,) is that of every row, `buckets_of` the bounds.
        """
        made = cls.__new__(cls)
        made._divide(bounds, np.concatenate([[0], np.cumsum(totals)]), bucket, folder)
        return made

    def _divide(
        self,
        first: NDArray[np.int64],
        start: NDArray[np.int64],
        bucket: NDArray[np.uint16],
        folder: Any,
    ) -> None:
        self.n_rows = int(first[-1])
        self._first, self._start, self._bucket = first, start, bucket
        self._filled = start[:-1].copy()
        self._file = ScratchFile(folder, int(start[-1]) * RECORD.itemsize)

    def add(self, rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any]) -> None:
        """Add entries (m,) each, in any order."""
        from mustlink.kernels.symmetric_lists import deal

        for first in range(0, rows.size, ENTRIES):
            part = slice(first, first + ENTRIES)
            held = np.bincount(self._bucket[rows[part]], minlength=self._filled.size)
            starts = np.concatenate([[0], np.cumsum(held)])
            out = np.empty(int(starts[-1]), dtype=RECORD)
            deal(self._bucket, rows[part], columns[part], values[part], starts[:-1].copy(), out)
            for b in np.flatnonzero(held):
                some = out[starts[b] : starts[b + 1]]
                self._file.write(int(self._filled[b]) * RECORD.itemsize, some)
                self._filled[b] += some.size
        assert (self._filled <= self._start[1:]).all()

    def rows(
        self,
        *,
        largest: bool = False,
        beside: Callable[[slice, NDArray[Any]], NDArray[Any]] = lambda _, dealt: dealt,
    ) -> Iterator[RowBlock]:
        """All rows in blocks, columns rising; of equal ones the sum, or the `largest`.

        `beside` adds records to those that were dealt out to some rows.
        """
        from mustlink.kernels.symmetric_lists import into_rows

        place = np.full(self.n_rows, -1, dtype=np.int32)
        for b, (first, stop) in enumerate(zip(self._first[:-1], self._first[1:], strict=True)):
            records = np.empty(int(self._filled[b] - self._start[b]), dtype=RECORD)
            self._file.read(int(self._start[b]) * RECORD.itemsize, records)
            records = beside(slice(int(first), int(stop)), records)
            ends = np.zeros(int(stop - first) + 1, dtype=np.int32)
            columns = np.empty(records.size, dtype=np.int32)
            values = np.empty(records.size, dtype=np.float32)
            left = into_rows(records, int(first), ends, columns, values, largest, place)
            del records
            yield RowBlock(int(first), ends, columns[:left], values[:left], self.n_rows)


def buckets_of(bounds: NDArray[np.int64]) -> NDArray[np.uint16]:
    """Bucket (n,) of every row, between `bounds` (b + 1,) of at most 2^16 buckets."""
    assert bounds.size <= (1 << 16) + 1, f"a bucket too many: {bounds.size - 1}"
    number = np.arange(bounds.size - 1, dtype=np.uint16)
    return np.repeat(number, np.diff(bounds))


Ints = NDArray[np.integer[Any]]


class EntryRuns:
    """Sums of entries (n, n) by blocks of rows, `bounds` (blocks + 1,) being their first rows.

    Each `add` is a temporary file in `folder`. Memory: a part of it, 8 bytes a block and run.
    """

    def __init__(self, bounds: NDArray[np.int64], folder: Any = None) -> None:
        self.bounds = bounds
        self._folder = folder
        self._runs: list[tuple[ScratchFile, NDArray[np.int64]]] = []

    def add(self, parts: Iterable[tuple[Ints, Ints, NDArray[Any]]]) -> None:
        """Add rows, columns and values (m,) of entries, part after part, by rising rows in all."""
        file, at = ScratchFile(self._folder, 0), np.zeros(self.bounds.size, dtype=np.int64)
        for rows, columns, values in parts:
            records = np.empty(rows.size, dtype=RECORD)
            records["row"], records["column"], records["value"] = rows, columns, values
            file.write(int(at[-1]) * RECORD.itemsize, records)
            at += np.searchsorted(rows, self.bounds)
        if at[-1]:
            self._runs.append((file, at))

    def block(self, number: int) -> sp.csr_matrix:
        """The rows of a block, (rows, n), columns rising."""
        first, stop = self.bounds[number : number + 2]
        shape = (int(stop - first), int(self.bounds[-1]))
        found = sp.csr_matrix(shape)
        for file, at in self._runs:
            records = np.empty(int(at[number + 1] - at[number]), dtype=RECORD)
            file.read(int(at[number]) * RECORD.itemsize, records)
            ends = records["row"] - first, records["column"]
            run = sp.csr_matrix((records["value"].astype(np.float64), ends), shape=shape)
            found = run if found.nnz == 0 else found + run
        found.sort_indices()
        return found
