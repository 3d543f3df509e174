"""Rows of a graph in an HDF5 file, some at a time: a rank of an MPI job reads no others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.hdf5 import schema, store

_COPIES = ("weights", "rows")  # of a graph in which equal points are one node


@dataclass(frozen=True)
class RowSlices:
    """The CSR group `name` of a file, with `n_nodes` rows and `n_entries` weights."""

    path: Path
    name: str
    n_nodes: int
    n_entries: int
    info: Mapping[str, Any]

    def read(self, first: int, end: int) -> sp.csr_matrix:
        """Rows `first` to `end` of W, (end − first, n); raises InputError for what is no row."""
        try:
            with h5py.File(self.path) as file:
                return self._rows(file[self.name], first, end)
        except (OSError, RuntimeError, KeyError) as error:
            words = " ".join(str(error).split())[:200]
            raise InputError(f"{self._where}: rows {first} to {end - 1}: {words}") from None

    def _rows(self, group: h5py.Group, first: int, end: int) -> sp.csr_matrix:
        ends = np.asarray(group["indptr"][first : end + 1], dtype=np.int64)
        low, high = int(ends[0]), int(ends[-1])
        if (np.diff(ends) < 0).any() or low < 0 or high > self.n_entries:
            raise InputError(f"{self._where}: damaged: indptr falls, or leads out of the weights")
        columns: NDArray[Any] = group["indices"][low:high]
        if columns.size and (columns.min() < 0 or columns.max() >= self.n_nodes):
            raise InputError(
                f"{self._where}: damaged: rows {first} to {end - 1} have columns outside 0 to "
                f"{self.n_nodes - 1}"
            )
        data = np.asarray(group["data"][low:high])
        kind = np.float32 if data.dtype == np.float32 else np.float64
        found = (data.astype(kind, copy=False), columns.astype(np.int32, copy=False), ends - low)
        return sp.csr_matrix(found, shape=(end - first, self.n_nodes))

    @property
    def _where(self) -> str:
        return f"{self.path}:{self.name}"


def row_slices(path: Path, name: str | None) -> RowSlices:
    """Find a graph in a file, by its header alone; raises InputError."""
    name = "/graph" if name is None else name
    where = f"{path}:{name}"
    with store.open_h5(path) as file:
        group = store.find(file, name)
        parts = ("indptr", "indices", "data")
        if not isinstance(group, h5py.Group) or not set(parts) <= set(group.keys()):
            raise InputError(
                f"{where}: no graph by rows, which --ranks takes; make one by: mustlink graph"
            )
        encoding = store.text(group.attrs.get("encoding-type", schema.CSR_TYPE))
        if encoding not in (schema.CSR_TYPE, "csr"):
            raise InputError(f"{where}: encoding {encoding[:40]!r}; --ranks takes csr_matrix only")
        if any(part in group.keys() for part in _COPIES):  # noqa: SIM118
            raise InputError(
                f"{where}: counts equal points as one node, which does not run on ranks; leave "
                "out --ranks"
            )
        ends, columns, data = (
            store.dataset(file, f"{name.rstrip('/')}/{part}", values=False) for part in parts
        )
        for part, kinds in ((ends, "iu"), (columns, "iu"), (data, "fiub")):
            if part.ndim != 1 or part.dtype.kind not in kinds:
                raise InputError(f"{where}: {part.name} has shape {part.shape}, type {part.dtype}")
        if ends.size < 3 or columns.size != data.size or not data.size:
            raise InputError(
                f"{where}: {max(ends.size - 1, 0)} nodes, {columns.size} columns and {data.size} "
                "weights; that is no graph with edges"
            )
        info = json.loads(store.text(group.attrs.get("info", "{}")))
        return RowSlices(path, name, ends.size - 1, data.size, info)
