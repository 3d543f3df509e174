"""Files in a folder that all workers of an executor see: points, what is known of cells, lists.

A file is written by one process, whole, before any other is told of it, or it is put in place when
it is whole: a task that is done twice, by a worker that was lost and by another, or half, changes
nothing that is read.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mustlink.neighbours.points_by_rows import Prepared


@dataclass(frozen=True)
class StoredRows:
    """Points in a dataset of an HDF5 file: every process opens it for itself."""

    path: str
    name: str
    shape: tuple[int, int]
    chunks: tuple[int, ...] | None

    def __getitem__(self, rows: slice) -> Any:
        """Rows a:b."""
        import h5py

        with h5py.File(self.path, "r") as file:
            return file[self.name][rows]


@dataclass(frozen=True)
class KeptRows:
    """Points (n, d) in single precision in a file of the shared folder."""

    path: Path
    shape: tuple[int, int]

    def __getitem__(self, rows: slice) -> NDArray[np.float32]:
        """Rows a:b."""
        first, stop, _ = rows.indices(self.shape[0])
        d = self.shape[1]
        found = np.fromfile(self.path, np.float32, (stop - first) * d, offset=4 * d * first)
        return found.reshape(-1, d)


def handed_over(rows: Prepared, folder: Path, nbytes: int) -> Prepared:
    """Points (n, d) that another process can read: their HDF5 file, or a copy in the folder."""
    source, (n, d) = rows.source, rows.shape
    file = getattr(source, "file", None)
    if file is not None and getattr(file, "filename", None) and hasattr(source, "name"):
        path = os.path.abspath(os.fsdecode(file.filename))
        return replace(rows, source=StoredRows(path, source.name, (n, d), source.chunks))
    if isinstance(source, StoredRows | KeptRows):
        return rows
    copy = folder / "rows"
    with open(copy, "wb") as kept:
        for _, block in rows.blocks(nbytes):
            block.tofile(kept)
    size = rows.size * rows.unit
    return Prepared(KeptRows(copy, (n, d)), "euclidean", None, size)


def save_whole(path: Path, save: Callable[[IO[bytes]], None]) -> None:
    """Write a file that is there whole or not at all."""
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    with open(temporary, "wb") as file:
        save(file)
    os.replace(temporary, path)


def save_arrays(path: Path, **arrays: Any) -> None:
    """Write arrays as a .npz file."""
    save_whole(path, lambda file: np.savez(file, **arrays))


def saved(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays in a .npz file, read."""
    with np.load(path) as found:
        return dict(found)
