"""Equal rows of points: found by hashing blocks of rows, before any neighbour is searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.neighbours.points_by_rows import DistinctRows, Prepared

_ROWS = 1 << 20  # of points in memory at once
_FEW_ROWS = 1 << 15  # where they are only counted


@dataclass(frozen=True, eq=False)
class EqualRows:
    """`nodes` (n,): number of every row's kind, by first appearance; `first` (m,): its first row.

    `counts` (m,) are the rows of every kind.
    """

    nodes: NDArray[np.integer[Any]]
    first: NDArray[np.int64]
    counts: NDArray[np.int64]

    def of(self, points: Any) -> Any:
        """The first row of every kind, (m, d), read when asked for where the points are."""
        if isinstance(points, np.ndarray):
            return points[self.first]
        return DistinctRows(points, self.first)


def group_equal_rows(points: NDArray[np.float32] | Prepared, advance: Any = None) -> EqualRows:
    """Which rows of points (n, d) are equal in single precision, as they are compared.

    Points in memory, or prepared as they are read: one pass over them. -0.0 equals 0.0. A table
    without equal rows keeps its order. By 128-bit hashes, see `kernels.row_hash`. Cost O(n d), and
    at most 40 bytes a row beside the points.
    """
    from mustlink.kernels.row_hash import RowTable  # a plain graph needs no compiler

    n = points.shape[0]
    table = RowTable(n)
    for start, X in _blocks(points):
        table.add(X)
        if advance is not None:
            advance((start + X.shape[0]) / n)
    return EqualRows(table.nodes, table.first, np.bincount(table.nodes, minlength=table.count))


def count_distinct(points: Any) -> int:
    """How many rows of points (n, d) differ in single precision: what a plan wants to know.

    `points` has a shape and blocks of rows [a:b]. Cost O(n d), 40 bytes a row and a block.
    """
    from mustlink.kernels.row_hash import RowTable

    n = int(points.shape[0])
    table = RowTable(n)
    for at in range(0, n, _FEW_ROWS):
        table.add(np.asarray(points[at : min(at + _FEW_ROWS, n)], dtype=np.float32))
    return table.count


def _blocks(points: NDArray[np.float32] | Prepared) -> Any:
    if isinstance(points, Prepared):
        return points.blocks()
    return ((at, points[at : at + _ROWS]) for at in range(0, points.shape[0], _ROWS))
