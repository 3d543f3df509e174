"""One row of a sparse matrix put in order.

By Shell's method (Knuth, vol. 3, 5.2.1), written out: NumPy's argsort in a kernel takes three
seconds to compile, and short rows, which most are, want insertion anyway.
"""

from __future__ import annotations

from typing import Any

import numba as nb

SHORT = 64  # entries up to which a row is best put in order by counting


@nb.njit(cache=True, nogil=True)
def place_row(found: Any, held: Any, count: int, columns: Any, values: Any, first: int) -> None:
    """Write `count` different columns and their values in order from `first` on.

    The place of a column is how many are less: no branches, vectors of comparisons.
    """
    for k in range(count):
        j, less = found[k], 0
        for m in range(count):
            less += found[m] < j
        columns[first + less] = j
        values[first + less] = held[k]


@nb.njit(cache=True, nogil=True)
def sort_row(columns: Any, values: Any, first: int, last: int) -> None:
    """Sort entries first to last - 1 by column, values along; equal columns come in any order.

    Cost: insertion for up to 12 entries, O(k^1.5) at worst.
    """
    gap = 1
    while 9 * gap < last - first - 3:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(first + gap, last):
            column, value, to = columns[at], values[at], at
            while to - gap >= first and columns[to - gap] > column:
                columns[to] = columns[to - gap]
                values[to] = values[to - gap]
                to -= gap
            columns[to] = column
            values[to] = value
        gap //= 3
