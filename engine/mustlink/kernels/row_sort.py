"""One row of a sparse matrix put in order."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

_SHORT = 48  # entries of a row up to which insertion beats a general sort


@nb.njit(cache=True, nogil=True)
def sort_row(columns: Any, values: Any, first: int, last: int) -> None:
    """Sort entries first to last - 1 by column, values along; columns are distinct."""
    if last - first > _SHORT:
        order = np.argsort(columns[first:last])
        columns[first:last] = columns[first:last][order]
        values[first:last] = values[first:last][order]
        return
    for at in range(first + 1, last):
        column, value, to = columns[at], values[at], at
        while to > first and columns[to - 1] > column:
            columns[to] = columns[to - 1]
            values[to] = values[to - 1]
            to -= 1
        columns[to] = column
        values[to] = value
