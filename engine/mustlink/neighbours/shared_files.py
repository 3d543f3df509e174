"""Files in a folder that all workers of an executor see: points, parts, lists, what joins found.

Whatever a task writes has its own place or its own file and depends on nothing that it overwrites:
a task that is done twice, by a worker that was lost and by another, leaves the same bytes.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.neighbours.points_by_rows import Prepared


@dataclass(frozen=True)
class Table:
    """A file of rows of `width` numbers of one type; it may be handed to another process."""

    path: Path
    dtype: str
    width: int

    def make(self, rows: int) -> Table:
        """Make the file, all zeros."""
        with open(self.path, "wb") as file:
            file.truncate(rows * self.width * np.dtype(self.dtype).itemsize)
        return self

    def keep(self, values: NDArray[Any]) -> Table:
        """Make the file of all rows (n, width)."""
        with open(self.path, "wb") as file:
            np.ascontiguousarray(values, dtype=self.dtype).tofile(file)
        return self

    def write(self, first: int, values: NDArray[Any]) -> None:
        """Write rows (m, width) from row `first` on."""
        with open(self.path, "r+b") as file:
            file.seek(first * self.width * np.dtype(self.dtype).itemsize)
            np.ascontiguousarray(values, dtype=self.dtype).tofile(file)

    def read(self, first: int, stop: int) -> NDArray[Any]:
        """Rows first:stop, (m, width)."""
        size = np.dtype(self.dtype).itemsize
        count, offset = (stop - first) * self.width, first * self.width * size
        found = np.fromfile(self.path, self.dtype, count, offset=offset)
        return found.reshape(-1, self.width)

    def mapped(self) -> NDArray[Any]:
        """All rows, read where they are looked at; what is assigned stays in this process."""
        rows = os.path.getsize(self.path) // (self.width * np.dtype(self.dtype).itemsize)
        held = np.memmap(self.path, self.dtype, "c", shape=(rows, self.width))
        return np.asarray(held)

    def remove(self) -> None:
        """Give the room back."""
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class ListTables:
    """Neighbour lists (n, l) after a sweep: numbers, squared lengths, and flags of `Lists`."""

    indices: Table
    squared: Table
    fresh: Table

    @staticmethod
    def after(sweep: int, folder: Path, length: int) -> ListTables:
        """The lists after so many sweeps."""
        return ListTables(
            Table(folder / f"indices-{sweep}", "int32", length),
            Table(folder / f"squared-{sweep}", "float32", length),
            Table(folder / f"fresh-{sweep}", "uint8", length),
        )

    def __iter__(self) -> Iterator[Table]:
        """The three files."""
        return iter((self.indices, self.squared, self.fresh))

    def make(self, rows: int) -> ListTables:
        """Make the files."""
        for one in self:
            one.make(rows)
        return self

    def remove(self) -> None:
        """Give the room back."""
        for one in self:
            one.remove()


@dataclass(frozen=True)
class StoredRows:
    """Points in a dataset of an HDF5 file: every process opens it for itself."""

    path: str
    name: str
    shape: tuple[int, int]

    def __getitem__(self, rows: slice) -> Any:
        """Rows a:b."""
        import h5py

        with h5py.File(self.path, "r") as file:
            return file[self.name][rows]


@dataclass(frozen=True)
class KeptRows:
    """Points in a file of the shared folder."""

    table: Table
    shape: tuple[int, int]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Rows a:b."""
        return self.table.read(*rows.indices(self.shape[0])[:2])


def handed_over(rows: Prepared, folder: Path, nbytes: int) -> Prepared:
    """Points (n, d) that another process can read: their HDF5 file, or a copy in the folder."""
    source, (n, d) = rows.source, rows.shape
    file = getattr(source, "file", None)
    if file is not None and getattr(file, "filename", None) and hasattr(source, "name"):
        path = os.path.abspath(os.fsdecode(file.filename))
        return replace(rows, source=StoredRows(path, source.name, (n, d)))
    if isinstance(source, StoredRows | KeptRows):
        return rows
    copy = Table(folder / "rows", "float32", d).make(n)
    for start, block in rows.blocks(nbytes):
        copy.write(start, block)
    size = rows.size * rows.unit
    return Prepared(KeptRows(copy, (n, d)), "euclidean", None, size)


def save_whole(path: Path, values: NDArray[Any]) -> None:
    """Write an array as a .npy file that is there whole or not at all."""
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    with open(temporary, "wb") as file:
        np.save(file, values)
    os.replace(temporary, path)
