"""Coordinates and what else a search puts on disk: scratch files, and files that workers share.

A scratch file has no name: nothing is left of it, ever. Nodes are numbered as they lie, part by
part; coordinates in memory and in a scratch file lead to the same lists.

Files in a folder are seen by all workers of an executor: points, what is known of cells, lists. A
file is written by one process, whole, before any other is told of it, or it is put in place when
it is whole: a task that is done twice, by a worker that was lost and by another, or half, changes
nothing that is read.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mustlink.neighbours.points_by_rows import Prepared
from mustlink.space.scratch_file import ScratchFile

_GAP_BYTES = 1 << 14  # unwanted bytes that are cheaper to read than to skip


class Scratch:
    """A file of `count` rows of `width` float32 coordinates, gone when it is closed or killed.

    Where a `file` is given, they are in that one.
    """

    def __init__(
        self, folder: Any, count: int, width: int, file: ScratchFile | None = None
    ) -> None:
        self.width = width
        self._row = 4 * width
        self._file = file or ScratchFile(folder, count * self._row)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def write(self, first: int, rows: NDArray[np.float32]) -> None:
        """Write contiguous rows (m, width) from row `first` on."""
        self._file.write(first * self._row, rows)

    def read(self, first: int, out: NDArray[np.float32]) -> None:
        """Fill contiguous `out` (m, width) with the rows from `first` on."""
        self._file.read(first * self._row, out)

    def write_many(self, places: NDArray[np.integer], rows: NDArray[np.float32]) -> None:
        """Write rows (m, width) to ascending places (m,)."""
        cuts = np.flatnonzero(np.diff(places) != 1) + 1
        for a, b in zip([0, *cuts.tolist()], [*cuts.tolist(), places.size], strict=True):
            self.write(int(places[a]), rows[a:b])

    def gather(
        self, places: NDArray[np.integer], out: NDArray[np.float32], buffer: NDArray[np.float32]
    ) -> None:
        """Fill `out` (m, width) with the rows at ascending places (m,), through `buffer`."""
        gap = max(1, _GAP_BYTES // self._row)
        cuts = np.flatnonzero(np.diff(places) > gap) + 1
        firsts, stops = [0, *cuts.tolist()], [*cuts.tolist(), places.size]
        for start, b in zip(firsts, stops, strict=True):
            a = start
            while a < b:
                first = int(places[a])
                stop = b
                if int(places[b - 1]) - first >= len(buffer):
                    stop = a + int(np.searchsorted(places[a:b], first + len(buffer)))
                span = int(places[stop - 1]) - first + 1
                if span == stop - a:
                    self.read(first, out[a:stop])
                else:
                    self.read(first, buffer[:span])
                    np.take(buffer, places[a:stop] - first, axis=0, out=out[a:stop], mode="clip")
                a = stop


class Coordinates(Protocol):
    """Where rows of `width` coordinates are had from."""

    width: int

    def part(self, first: int, members: NDArray[np.int32], out: NDArray[np.float32]) -> None:
        """Fill `out` (m, width) with a part's members (m,), which begin at place `first`."""

    def near(
        self, ids: NDArray[np.int32], sizes: NDArray[np.int32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Rows, and where the nodes `ids` (g, s) are among them; sizes[:, 1] of each row count."""


class InMemory:
    """All points, (n, width)."""

    def __init__(self, points: NDArray[np.float32]) -> None:
        self.points, self.width = points, points.shape[1]

    def part(self, first: int, members: NDArray[np.int32], out: NDArray[np.float32]) -> None:
        """Gather the rows."""
        np.take(self.points, members, axis=0, out=out, mode="clip")

    def near(
        self, ids: NDArray[np.int32], sizes: NDArray[np.int32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """All points: every node is its own place."""
        return self.points, ids


class OnDisk:
    """A scratch file with every part's points, one after the other.

    `home` (n,) is each node's place in it, ascending; `buffer_bytes` are read in one go.
    """

    def __init__(self, scratch: Scratch, home: NDArray[np.int64], buffer_bytes: int) -> None:
        self.width = scratch.width
        self._scratch, self._home = scratch, home
        self._buffer_rows = max(1, buffer_bytes // (4 * scratch.width))

    def part(self, first: int, members: NDArray[np.int32], out: NDArray[np.float32]) -> None:
        """Read the part as it lies there."""
        self._scratch.read(first, out)

    def near(
        self, ids: NDArray[np.int32], sizes: NDArray[np.int32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Read the rows that the nodes need, each once."""
        used = np.arange(ids.shape[1]) < sizes[:, 1:]
        wanted, places = np.unique(ids[used], return_inverse=True)
        points = np.empty((wanted.size, self.width), dtype=np.float32)
        buffer = np.empty((self._buffer_rows, self.width), dtype=np.float32)
        self._scratch.gather(self._home[wanted], points, buffer)
        found = np.zeros(ids.shape, dtype=np.int32)
        found[used] = places.ravel()
        return points, found


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
