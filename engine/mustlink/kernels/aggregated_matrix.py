"""A matrix between aggregates of nodes: PᵀMP for a prolongation with one entry a row."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp

from mustlink.kernels.loops import loop
from mustlink.kernels.row_sort import sort_row

_BLOCKS = 32  # of aggregates, each with lists as long as there are aggregates


@loop()
def _count(
    members: Any, starts: Any, group: Any, indptr: Any, indices: Any, own: Any, counts: Any
) -> None:
    size = starts.size - 1
    for block in nb.prange(_BLOCKS):
        met = np.zeros(size, dtype=np.int32)
        for g in range(block * size // _BLOCKS, (block + 1) * size // _BLOCKS):
            held = 0
            if own:
                met[g], held = g + 1, 1
            for r in range(starts[g], starts[g + 1]):
                i = members[r]
                for q in range(indptr[i], indptr[i + 1]):
                    h = group[indices[q]]
                    if h >= 0 and met[h] != g + 1:
                        met[h] = g + 1
                        held += 1
            counts[g + 1] = held


@loop()
def _fill(
    members: Any, starts: Any, group: Any, weight: Any, indptr: Any, indices: Any, data: Any,
    own: Any, rows: Any, columns: Any, values: Any,
) -> None:  # fmt: skip
    size, sign = starts.size - 1, -1.0 if own else 1.0
    for block in nb.prange(_BLOCKS):
        place = np.full(size, -1, dtype=np.int64)
        for g in range(block * size // _BLOCKS, (block + 1) * size // _BLOCKS):
            at = rows[g]
            if own:
                place[g], columns[at], values[at] = at, g, 0.0
                at += 1
            for r in range(starts[g], starts[g + 1]):
                i = members[r]
                if own:
                    values[rows[g]] += weight[i] * weight[i]
                for q in range(indptr[i], indptr[i + 1]):
                    j = indices[q]
                    h = group[j]
                    if h < 0:
                        continue
                    term = sign * (weight[i] * data[q] * weight[j])
                    if place[h] >= rows[g]:
                        values[place[h]] += term
                    else:
                        place[h], columns[at], values[at] = at, h, term
                        at += 1
            sort_row(columns, values, rows[g], at)


def aggregated(matrix: sp.csr_matrix, P: sp.csr_matrix, *, complement: bool) -> sp.csr_matrix:
    """PᵀMP (k, k) in double precision, columns of rows rising; PᵀP − PᵀMP if `complement`.

    P (n, k) has at most one entry a row. Cost: two passes over the matrix; beside the result (n,)
    and two lists of k for every thread.
    """
    n, size = P.shape
    has = np.diff(P.indptr) > 0
    group, weight = np.full(n, -1, dtype=np.int32), np.zeros(n)
    group[has], weight[has] = P.indices, P.data
    R = P.T.tocsr()
    arrays = matrix.indptr, matrix.indices
    rows = np.zeros(size + 1, dtype=np.int64)
    _count(matrix.nnz, R.indices, R.indptr, group, *arrays, complement, rows)
    np.cumsum(rows, out=rows)
    kind = np.int32 if rows[-1] < np.iinfo(np.int32).max else np.int64
    columns, values = np.empty(rows[-1], dtype=kind), np.empty(rows[-1])
    lists = R.indices, R.indptr, group, weight
    _fill(matrix.nnz, *lists, *arrays, matrix.data, complement, rows, columns, values)
    found = sp.csr_matrix((size, size))
    found.indptr, found.indices, found.data = rows.astype(kind), columns, values
    found.has_sorted_indices = True
    return found
