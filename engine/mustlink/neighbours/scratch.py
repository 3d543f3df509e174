"""Rows of coordinates in a temporary file that has no name: nothing is left of it, ever."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
