"""Entries of a product on a sparse pattern: the rest of the product is never computed."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop


@loop(fastmath=True)
def _sampled(indptr: Any, indices: Any, left: Any, weights: Any, right: Any, out: Any) -> None:
    width = nb.uint64(left.shape[1])
    for i in nb.prange(indptr.size - 1):
        row = left[i] * weights
        for q in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
            j = nb.uint64(indices[q])
            total = 0.0
            for c in range(width):
                total += row[c] * right[j, c]
            out[q] += total


def sampled_product(
    pattern: Any,
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    weights: NDArray[np.float64] | None = None,
    out: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Σ_c weights_c·left_ic·right_jc for every stored (i, j) of a CSR pattern, (nnz,).

    In the pattern's order. `left` (m, k), `right` (m', k), `weights` (k,), 1 when left out. With
    `out` (nnz,) the result is added to it. Cost 2·nnz·k.
    """
    if weights is None:
        weights = np.ones(left.shape[1])
    if out is None:
        out = np.zeros(pattern.nnz)
    work = pattern.nnz * left.shape[1]
    blocks = np.ascontiguousarray(left), weights, np.ascontiguousarray(right)
    _sampled(work, pattern.indptr, pattern.indices, *blocks, out)
    return out
