"""Points by blocks of rows, and checksums by blocks of bytes: nothing is read twice its size."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.preprocessing.survey import missing_error

BLOCK_BYTES = 32 * 2**20

Advance = Callable[[float], None]


def silent(fraction: float) -> None:
    """Ignore progress."""


def row_blocks(source: Any, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield (first row, rows) of a 2-d HDF5 dataset or array, whole storage chunks at a time."""
    n, d = source.shape
    rows = max(1, block_bytes // max(1, d * source.dtype.itemsize))
    chunk = (getattr(source, "chunks", None) or (1,))[0]
    rows = max(chunk, rows - rows % chunk)
    for start in range(0, n, rows):
        yield start, np.asarray(source[start : start + rows])


def check_points_shape(source: Any, where: str) -> None:
    """Raise InputError unless `source` declares a non-empty 2-d array of real numbers."""
    if source.ndim != 2:
        raise InputError(
            f"{where}: {source.ndim} dimensions of shape {source.shape}; points are (n, d), one "
            "row a point"
        )
    if 0 in source.shape:
        raise InputError(f"{where}: shape {source.shape} holds no points")
    if source.dtype.kind not in "fiub":
        raise InputError(f"{where}: values of type {source.dtype}; points are real numbers")


def read_points(
    source: Any,
    where: str,
    advance: Advance = silent,
    columns: Sequence[str] = (),
    *,
    gaps: bool = False,
) -> NDArray[np.float32]:
    """Read (n, d) points as float32, checking every value; `columns` are names, if there are some.

    Raises InputError naming the first rows that hold NaN (unless `gaps` are allowed), Inf or a
    number beyond float32. Needs the result and one block.
    """
    check_points_shape(source, where)
    points = np.empty(source.shape, dtype=np.float32)
    _check_rows(source, where, advance, points, columns, gaps)
    return points


def check_points(
    source: Any, where: str, advance: Advance = silent, columns: Sequence[str] = ()
) -> None:
    """Check (n, d) points as `read_points` does, keeping one block only; raises InputError."""
    check_points_shape(source, where)
    _check_rows(source, where, advance, None, columns, gaps=False)


def _check_rows(
    source: Any,
    where: str,
    advance: Advance,
    into: NDArray[np.float32] | None,
    names: Sequence[str],
    gaps: bool,
) -> None:
    """Look at every value, in single precision, and keep it where there is a place for it."""
    bad: list[int] = []
    n_bad = n_missing = 0
    first, columns = (0, 0), np.zeros(source.shape[1], dtype=bool)
    empty = ~columns
    for start, block in row_blocks(source):
        part = _single(block) if into is None else into[start : start + len(block)]
        if into is not None:
            part[...] = _single(block)
        fine = np.isfinite(part) | np.isnan(part) if gaps else np.isfinite(part)
        wrong = np.flatnonzero(~fine.all(axis=1))
        gap = np.isnan(part[wrong])
        missing = wrong[gap.any(axis=1)]
        if missing.size and not n_missing:
            at = int(gap.any(axis=1).argmax())
            first = (start + int(wrong[at]), int(gap[at].argmax()))
        columns |= gap.any(axis=0)
        empty &= gap.all(axis=0) & (wrong.size == len(block))
        n_missing += missing.size
        n_bad += wrong.size
        bad.extend((wrong[: max(0, 5 - len(bad))] + start).tolist())
        advance((start + len(block)) / source.shape[0])
    if n_bad and n_bad == n_missing:
        raise missing_error(where, n_missing, first, int(columns.sum()), empty, names)
    if n_bad:
        rows = ", ".join(str(row) for row in bad) + (" …" if n_bad > len(bad) else "")
        noun = "row" if n_bad == 1 else "rows"
        raise InputError(
            f"{where}: {n_bad} {noun} with NaN, Inf or values beyond float32 ({noun} {rows}, "
            "numbered from 0); remove or fill them"
        )


def _single(block: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore", invalid="ignore"):
        return block.astype(np.float32, copy=False)


class PointRows:
    """Points (n, d) of an HDF5 dataset, read when asked for: `rows[a:b]` is float32 (b - a, d).

    Checked before by `check_points`. The file stays open as long as this lives. Rows that are
    still to be prepared are read as they are (`raw`).
    """

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, path: Path, name: str, *, raw: bool = False) -> None:
        self._words = Path(path).absolute(), name, raw
        self._raw = raw
        self._file = h5py.File(path, "r")
        self._data = self._file[name]
        self.shape: tuple[int, int] = self._data.shape
        self.chunks = self._data.chunks  # read in step with them; and a sign of being on disk

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the file for itself."""
        return _point_rows, self._words

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Some rows, one after the other."""
        return np.asarray(self._data[rows]) if self._raw else _single(self._data[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All of them, where a method needs them all."""
        return self[:].astype(dtype or np.float32, copy=False)


def _point_rows(path: Path, name: str, raw: bool) -> PointRows:
    return PointRows(path, name, raw=raw)


def sha256(path: str | Path, advance: Advance = silent, block_bytes: int = 2**20) -> str:
    """SHA-256 of a file as hexadecimal, read in blocks."""
    path = Path(path)
    size, done = path.stat().st_size, 0
    digest, block = hashlib.sha256(), memoryview(bytearray(block_bytes))
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(block):
            digest.update(block[:read])
            done += read
            advance(min(1.0, done / max(1, size)))
    return digest.hexdigest()
