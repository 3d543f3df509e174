"""Rows of coordinates in a temporary file that has no name: nothing is left of it, ever.

Blocks are read and written explicitly. A memory map would be shorter, but its pages count as
resident memory of the process.
"""

from __future__ import annotations

import os
import tempfile
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import MustlinkError

_GAP_BYTES = 1 << 14  # unwanted bytes that are cheaper to read than to skip


class Scratch:
    """A file of `count` rows of `width` float32 coordinates, gone when it is closed or killed."""

    def __init__(self, folder: Any, count: int, width: int) -> None:
        self.width = width
        self._row = 4 * width
        where = folder if folder is not None else tempfile.gettempdir()
        size = count * self._row
        try:
            self._file = tempfile.TemporaryFile(dir=where, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise MustlinkError(
                f"scratch: no temporary file in {where} ({error.strerror}); name another folder"
            ) from None
        self._fd = self._file.fileno()
        try:
            os.posix_fallocate(self._fd, 0, size)
        except OSError as error:
            self._file.close()
            raise MustlinkError(
                f"scratch: {size / 1e9:.2f} GB do not fit in {where} ({error.strerror}); "
                "make room or name another folder"
            ) from None

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
        left = memoryview(rows.data).cast("B")
        at = first * self._row
        while left:
            done = os.pwrite(self._fd, left, at)
            left, at = left[done:], at + done

    def read(self, first: int, out: NDArray[np.float32]) -> None:
        """Fill contiguous `out` (m, width) with the rows from `first` on."""
        left = memoryview(out.data).cast("B")
        at = first * self._row
        while left:
            done = os.preadv(self._fd, [left], at)
            if done == 0:
                raise MustlinkError("scratch: the temporary file ended early; run again")
            left, at = left[done:], at + done

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
