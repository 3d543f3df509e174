"""From neighbour lists to a symmetric matrix, row by row: who names a node is found once."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop
from mustlink.kernels.row_sort import SHORT, place_row, sort_row

_ROWS = 1 << 10  # at a time
_PARTS = 2  # of the named nodes; each looks through all lists, which more parts do not make up for


@loop()
def _look_back(indices: Any, back: Any, count: Any) -> None:
    """Where j lists i for all j that i lists, -1 if it does not; `count` (n + 1,) entries of i."""
    n, k = indices.shape
    for i in nb.prange(n):
        held = 0
        for a in range(k):
            j, at = indices[i, a], -1
            if j >= 0:
                held += 1
                for b in range(k):
                    if indices[j, b] == i:
                        at = b
            back[i, a] = at
        count[i + 1] = held


@nb.njit(cache=True, nogil=True)
def _count_named(indices: Any, back: Any, count: Any) -> None:
    """Add those who list a node that does not list them."""
    n, k = indices.shape
    for i in range(n):
        for a in range(k):
            if indices[i, a] >= 0 and back[i, a] < 0:
                count[indices[i, a] + 1] += 1


@loop()
def _write_own(indices: Any, weights: Any, back: Any, at: Any, columns: Any, data: Any) -> None:
    """Entries of every node's own list, from place at[i] on, which moves behind them."""
    n, k = indices.shape
    half = data.dtype.type(0.5)
    for i in nb.prange(n):
        for a in range(k):
            j, b = indices[i, a], back[i, a]
            if j >= 0:
                columns[at[i]] = j
                data[at[i]] = half * (weights[i, a] if b < 0 else weights[i, a] + weights[j, b])
                at[i] += 1


@loop()
def _write_named(indices: Any, weights: Any, back: Any, at: Any, columns: Any, data: Any) -> None:
    """Entries of those who list a node that does not list them: a part of the named at a time."""
    n, k = indices.shape
    half = data.dtype.type(0.5)
    for part in nb.prange(_PARTS):
        low, high = part * n // _PARTS, (part + 1) * n // _PARTS
        for i in range(n):
            for a in range(k):
                j = indices[i, a]
                if low <= j < high and back[i, a] < 0:
                    columns[at[j]] = i
                    data[at[j]] = half * weights[i, a]
                    at[j] += 1


@loop()
def _sort(indptr: Any, columns: Any, data: Any, some_columns: Any, some_data: Any) -> None:
    n = indptr.size - 1
    for part in nb.prange(some_columns.shape[0]):
        found, held = some_columns[part], some_data[part]
        for i in range(part * _ROWS, min((part + 1) * _ROWS, n)):
            first, last = indptr[i], indptr[i + 1]
            if last - first > SHORT:
                sort_row(columns, data, first, last)
                continue
            for q in range(first, last):
                found[q - first], held[q - first] = columns[q], data[q]
            place_row(found, held, last - first, columns, data, first)


def symmetric_lists(
    indices: NDArray[np.int32], weights: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.integer], NDArray[np.int64]]:
    """(A + Aᵀ)/2 for neighbour lists (n, k), -1 where one is missing, with weights (n, k).

    Returns data, columns, indptr of CSR, columns of rows rising, in the precision of the weights.
    Cost O(n k²), k² comparisons of numbers that lie together; beside the result a byte for every
    entry of the lists.
    """
    n, k = indices.shape
    work = n * k * k
    back = np.empty((n, k), dtype=np.min_scalar_type(-k))
    indptr = np.zeros(n + 1, dtype=np.int64)
    _look_back(work, indices, back, indptr)
    _count_named(indices, back, indptr)
    np.cumsum(indptr, out=indptr)
    entries = int(indptr[-1])
    data = np.empty(entries, dtype=weights.dtype)
    columns: NDArray[np.integer] = np.empty(entries, np.int32 if entries < 2**31 else np.int64)
    at = indptr[:-1].copy()
    _write_own(work, indices, weights, back, at, columns, data)
    _write_named(work, indices, weights, back, at, columns, data)
    room = -(-n // _ROWS), SHORT  # made here: arrays made in a kernel are slow to compile
    short = np.empty(room, columns.dtype), np.empty(room, data.dtype)
    _sort(work, indptr, columns, data, *short)
    return data, columns, indptr
