"""The sum of two sparse matrices that share no entry: their rows are merged."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp

from mustlink.kernels.loops import loop


@loop()
def _merge(
    indptr: Any, indices: Any, data: Any, indptr2: Any, indices2: Any, data2: Any,
    rows: Any, columns: Any, values: Any,
) -> None:  # fmt: skip
    for i in nb.prange(rows.size - 1):
        p, last = indptr[i], indptr[i + 1]
        q, last2 = indptr2[i], indptr2[i + 1]
        for at in range(rows[i], rows[i + 1]):
            if q == last2 or (p < last and indices[p] < indices2[q]):
                columns[at], values[at] = indices[p], data[p]
                p += 1
            else:
                columns[at], values[at] = indices2[q], data2[q]
                q += 1


def disjoint_sum(first: sp.csr_matrix, second: sp.csr_matrix) -> sp.csr_matrix:
    """A + B for CSR matrices (m, n) with sorted rows and no common (i, j), in A's precision.

    Cost: one pass over both, without the search for common entries of a general sum.
    """
    rows = first.indptr + second.indptr.astype(first.indptr.dtype)
    columns = np.empty(rows[-1], dtype=first.indices.dtype)
    values = np.empty(rows[-1], dtype=first.data.dtype)
    arrays = (part for A in (first, second) for part in (A.indptr, A.indices, A.data))
    _merge(first.nnz + second.nnz, *arrays, rows, columns, values)
    found = sp.csr_matrix((values, columns, rows), shape=first.shape)
    found.has_sorted_indices = True
    return found
