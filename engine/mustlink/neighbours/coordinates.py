"""Coordinates of the points while their neighbours are searched: in memory, or in a scratch file.

Nodes are numbered as they lie: part by part. Both kinds lead to the same lists.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mustlink.neighbours.scratch import Scratch


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
