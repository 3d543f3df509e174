"""Links of a sparse matrix that are strong: what nodes are aggregated along."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.loops import loop


@loop()
def _largest(indptr: Any, indices: Any, data: Any, found: Any) -> None:
    """The largest size off the diagonal of every row."""
    for i in nb.prange(found.size):
        most = found.dtype.type(0)
        for q in range(indptr[i], indptr[i + 1]):
            if indices[q] != i:
                most = max(most, abs(data[q]))
        found[i] = most


@loop()
def _count(indptr: Any, indices: Any, data: Any, largest: Any, share: Any, counts: Any) -> None:
    for i in nb.prange(largest.size):
        held = 0
        for q in range(indptr[i], indptr[i + 1]):
            j = indices[q]
            held += j != i and abs(data[q]) >= share * min(largest[i], largest[j])
        counts[i + 1] = held


@loop()
def _fill(
    indptr: Any, indices: Any, data: Any, largest: Any, share: Any, starts: Any, columns: Any
) -> None:
    for i in nb.prange(largest.size):
        at = starts[i]
        for q in range(indptr[i], indptr[i + 1]):
            j = indices[q]
            if j != i and abs(data[q]) >= share * min(largest[i], largest[j]):
                columns[at] = j
                at += 1


def strongest_links(matrix: sp.csr_matrix) -> NDArray[Any]:
    """The largest size off the diagonal in every row, (m,); own columns come first."""
    found = np.zeros(matrix.shape[0], dtype=matrix.dtype)
    _largest(matrix.nnz, matrix.indptr, matrix.indices, matrix.data, found)
    return found


def strong_links(matrix: sp.csr_matrix, share: float) -> sp.csr_matrix:
    """Pattern (n, n) of |a_ij| >= share·min(m_i, m_j), i ≠ j, m_i = max_j |a_ij|; ones of a byte.

    Symmetric where the matrix is, and every row that has a link keeps its largest. Cost: three
    passes over the matrix.
    """
    n = matrix.shape[0]
    arrays = matrix.nnz, matrix.indptr, matrix.indices, matrix.data
    largest = strongest_links(matrix)
    starts = np.zeros(n + 1, dtype=matrix.indptr.dtype)
    _count(*arrays, largest, share, starts)
    np.cumsum(starts, out=starts)
    columns = np.empty(int(starts[-1]), dtype=matrix.indices.dtype)
    _fill(*arrays, largest, share, starts, columns)
    ones = np.ones(columns.size, dtype=np.int8)
    return sp.csr_matrix((ones, columns, starts), shape=matrix.shape)
