"""Entries of a sparse matrix found in several goes, kept on disk until rows are wanted."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.graph.row_buckets import RECORD
from mustlink.space.scratch_file import ScratchFile

Ints = NDArray[np.integer[Any]]


class EntryRuns:
    """Sums of entries (n, n) by blocks of rows, `bounds` (blocks + 1,) being their first rows.

    Each `add` is a temporary file in `folder`. Memory: 8 bytes a block and run.
    """

    def __init__(self, bounds: NDArray[np.int64], folder: Any = None) -> None:
        self.bounds = bounds
        self._folder = folder
        self._runs: list[tuple[ScratchFile, NDArray[np.int64]]] = []

    def add(self, rows: Ints, columns: Ints, values: NDArray[Any]) -> None:
        """Add entries (m,) each, by rising rows."""
        if rows.size == 0:
            return
        records = np.empty(rows.size, dtype=RECORD)
        records["row"], records["column"], records["value"] = rows, columns, values
        file = ScratchFile(self._folder, records.nbytes)
        file.write(0, records)
        self._runs.append((file, np.searchsorted(rows, self.bounds)))

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
