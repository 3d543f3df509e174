"""A matrix renumbered and scaled in one go, without the copies that fancy indexing makes."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.loops import loop
from mustlink.kernels.row_sort import SHORT, place_row, sort_row

_ROWS = 1 << 10  # at a time


@loop()
def _count(indptr: Any, indices: Any, nodes: Any, positions: Any, counts: Any) -> None:
    for i in nb.prange(nodes.size):
        old, held = nodes[i], 0
        for q in range(indptr[old], indptr[old + 1]):
            held += positions[indices[q]] >= 0
        counts[i + 1] = held


@loop()
def _fill(
    indptr: Any, indices: Any, data: Any, nodes: Any, positions: Any, root: Any,
    rows: Any, columns: Any, values: Any, some_columns: Any, some_values: Any,
) -> None:  # fmt: skip
    for part in nb.prange(some_columns.shape[0]):
        found, held = some_columns[part], some_values[part]
        for i in range(part * _ROWS, min((part + 1) * _ROWS, nodes.size)):
            old, first, last = nodes[i], rows[i], rows[i + 1]
            short = last - first <= SHORT
            at = 0 if short else first
            to, into = (found, held) if short else (columns, values)
            for q in range(indptr[old], indptr[old + 1]):
                j = positions[indices[q]]
                if j >= 0:
                    to[at] = j
                    into[at] = data[q] / (root[i] * root[j])
                    at += 1
            if not short:
                sort_row(columns, values, first, last)
                continue
            place_row(found, held, at, columns, values, first)


@loop()
def _scale(indptr: Any, indices: Any, data: Any, by: Any, values: Any) -> None:
    for i in nb.prange(indptr.size - 1):
        for q in range(indptr[i], indptr[i + 1]):
            values[q] = data[q] * (by[indices[q]] * by[i])  # the same for (i, j) and (j, i)


def scaled(matrix: sp.csr_matrix, by: NDArray[np.float64]) -> NDArray[Any]:
    """Stored values of diag(by)·M·diag(by), in M's precision; `by` (m,). Cost: one pass."""
    values = np.empty_like(matrix.data)
    _scale(matrix.nnz, matrix.indptr, matrix.indices, matrix.data, by, values)
    return values


def scaled_permutation(
    W: sp.csr_matrix,
    nodes: NDArray[np.int64],
    root: NDArray[np.float64],
    dtype: np.dtype[Any],
) -> sp.csr_matrix:
    """S (m, m) with S_ij = W_{nodes[i], nodes[j]} / (root_i root_j), columns of rows rising.

    `nodes` (m,) are distinct, `root` (m,) is positive. The quotient is taken in double precision
    and stored as `dtype`. Cost O(nnz log degree); beside S nothing larger than (n,).
    """
    m = nodes.size
    positions = np.full(W.shape[0], -1, dtype=W.indices.dtype)
    positions[nodes] = np.arange(m, dtype=positions.dtype)
    rows = np.zeros(m + 1, dtype=np.int64)
    if m == W.shape[0]:
        rows[1:] = np.diff(W.indptr)[nodes]
    else:
        _count(W.nnz, W.indptr, W.indices, nodes, positions, rows)
    np.cumsum(rows, out=rows)
    columns = np.empty(rows[-1], dtype=W.indices.dtype)
    values = np.empty(rows[-1], dtype=dtype)
    arrays = W.indptr, W.indices, W.data, nodes, positions, root
    room = -(-m // _ROWS), SHORT  # made here: arrays made in a kernel are slow to compile
    short = np.empty(room, dtype=columns.dtype), np.empty(room, dtype=dtype)
    _fill(W.nnz, *arrays, rows, columns, values, *short)
    found = sp.csr_matrix((m, m), dtype=dtype)
    found.indptr, found.indices = rows.astype(W.indptr.dtype, copy=False), columns
    found.data, found.has_sorted_indices = values, True
    return found
