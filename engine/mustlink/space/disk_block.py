"""Rows of nodes in a temporary file, read and written a range of rows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.space.scratch_file import ScratchFile

_GAP_BYTES = 1 << 14  # unwanted bytes that are cheaper to read than to skip


class DiskBlock:
    """A block (n, b), or a vector (n,), of zeros at first; `block[a:b]` are rows in memory.

    What is read is the caller's own: to change rows, write them.
    """

    def __init__(self, folder: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self._row = self.dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        self._file = ScratchFile(folder, shape[0] * self._row)

    @property
    def ndim(self) -> int:
        """1 for a vector, else 2."""
        return len(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self._row

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Rows a:b, one after the other."""
        first, stop, _ = rows.indices(self.shape[0])
        out = np.empty((max(stop - first, 0), *self.shape[1:]), dtype=self.dtype)
        self.read(first, out)
        return out

    def __setitem__(self, rows: slice, values: NDArray[Any]) -> None:
        """Write rows a:b."""
        first, stop, _ = rows.indices(self.shape[0])
        assert values.shape == (stop - first, *self.shape[1:])
        self._file.write(first * self._row, np.ascontiguousarray(values, dtype=self.dtype))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All rows, for who has the memory."""
        return self[:].astype(dtype or self.dtype, copy=False)

    def read(self, first: int, out: NDArray[Any]) -> None:
        """Fill contiguous `out`, of the block's type, with rows from `first` on."""
        self._file.read(first * self._row, out)

    def picked(self, nodes: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Some rows, in any order; near ones are read in one go."""
        wanted, back = np.unique(np.asarray(nodes, dtype=np.int64), return_inverse=True)
        out = np.empty((wanted.size, *self.shape[1:]), dtype=self.dtype)
        gap = max(1, _GAP_BYTES // max(self._row, 1))
        cuts = np.flatnonzero(np.diff(wanted) > gap) + 1
        for at in np.split(np.arange(wanted.size), cuts):
            for some in np.array_split(at, max(1, at.size // gap)):
                if some.size:
                    first, last = int(wanted[some[0]]), int(wanted[some[-1]])
                    out[some] = self[first : last + 1][wanted[some] - first]
        return out[back.ravel()]
