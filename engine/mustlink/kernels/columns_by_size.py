"""Sparse columns of several values an entry, the largest entries first."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.row_sort import sort_row


@nb.njit(cache=True, nogil=True)
def _by_size(
    ends: Any, rows: Any, values: Any, first: Any, last: Any, size: Any, order: Any,
    old_rows: Any, old_values: Any,
) -> None:  # fmt: skip
    for s in range(first, last):
        a, count = ends[s], ends[s + 1] - ends[s]
        for k in range(count):
            old_rows[k], order[k], size[k] = rows[a + k], k, 0.0
            for q in range(values.shape[1]):
                old_values[k, q] = values[a + k, q]
                size[k] -= abs(values[a + k, q])
        sort_row(size, order, 0, count)
        for k in range(count):
            rows[a + k] = old_rows[order[k]]
            for q in range(values.shape[1]):
                values[a + k, q] = old_values[order[k], q]


def sort_by_size(
    factor: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]], span: tuple[int, int]
) -> None:
    """Order the entries of columns first … last−1 by falling Σ_q |value|, in place."""
    ends, rows, values = factor
    most = int(np.diff(ends[span[0] : span[1] + 1]).max(initial=0))
    old = np.empty(most, rows.dtype), np.empty((most, values.shape[1]), values.dtype)
    _by_size(*factor, *span, np.empty(most), np.empty(most, np.int64), *old)
