"""The constraint matrix times a block: rows of constrained nodes only, the rest is a scaling."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop


@loop()
def _shifted(X: Any, shift: Any, Y: Any) -> None:
    for i in nb.prange(X.shape[0]):
        for c in range(X.shape[1]):
            Y[i, c] = shift * X[i, c]


@loop()
def _scatter(indptr: Any, indices: Any, data: Any, support: Any, X: Any, Y: Any) -> None:
    width = X.shape[1]
    for i in nb.prange(support.size):
        row = support[i]
        for q in range(indptr[i], indptr[i + 1]):
            column = support[indices[q]]
            w = data[q]
            for c in range(width):
                Y[row, c] += w * X[column, c]


def constraint_product(
    matrix: Any,
    support: NDArray[np.int64],
    factor: Any,
    core: Any,
    X: NDArray[np.float64],
    shift: float,
) -> NDArray[np.float64]:
    """Return (E (matrix + factor core factorᵀ) Eᵀ + shift I) X for a block X (m, b).

    `matrix` (s, s) CSR and `factor` (s, r) or None live on the s constrained nodes, which E
    places at `support` (s,), distinct. Cost: one pass over X, plus nnz*b for the constraints.
    """
    X = np.ascontiguousarray(X)
    Y = np.empty_like(X)
    _shifted(X.size, X, shift, Y)
    if matrix.nnz:
        _scatter(matrix.nnz * X.shape[1], matrix.indptr, matrix.indices, matrix.data, support, X, Y)
    if factor is not None:
        Y[support] += factor @ (core @ (factor.T @ X[support]))
    return Y
