"""Sparse matrix times dense block, in parallel over rows, alone or fused with what follows it.

A row's sums are made in vector registers (`row_sums`), where what follows them is made, too: loops
over a dozen columns took as long as the sums.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop
from mustlink.kernels.row_sums import affine_row, row_sums
from mustlink.kernels.spare import empty


@loop(fastmath=True)
def _spmm(indptr: Any, indices: Any, data: Any, X: Any, Y: Any) -> None:
    for i in nb.prange(Y.shape[0]):
        row_sums(indices, data, indptr[i], indptr[i + 1], X, Y, i)


@loop(fastmath=True)
def _affine(
    indptr: Any,
    indices: Any,
    data: Any,
    X: Any,
    V: Any,
    B: Any,
    scale: Any,
    weights: Any,
    Y: Any,
) -> None:
    of_sums, of_own, of_other, kept = weights[0], weights[1], weights[2], weights[3]
    each = scale.size > 1
    for i in nb.prange(Y.shape[0]):
        s = scale[i] if each else scale[0]
        by = s * of_sums, s * of_own + kept, s * of_other
        affine_row(indices, data, indptr[i], indptr[i + 1], X, V, B, by, Y, i)


@loop()  # with fastmath its last bits were others when compiled now than when read from the cache
def _chebyshev(
    indptr: Any, indices: Any, data: Any, X: Any, B: Any, inverse: Any, weights: Any, step: Any,
    Y: Any,
) -> None:  # fmt: skip
    shift, factor, old, new = weights[0], weights[1], weights[2], weights[3]
    width = nb.uint64(X.shape[1])
    for i in nb.prange(Y.shape[0]):
        row_sums(indices, data, indptr[i], indptr[i + 1], X, Y, i)
        scale = new * inverse[i]
        for c in range(width):
            residual = B[i, c] - shift * X[i, c] - factor * Y[i, c]
            move = old * step[i, c] + scale * residual
            step[i, c] = move
            Y[i, c] = X[i, c] + move


@loop(fastmath=True)
def _scaled(X: Any, by: Any, Y: Any) -> None:
    width = nb.uint64(X.shape[1])
    for i in nb.prange(Y.shape[0]):
        for c in range(width):
            Y[i, c] = by[i] * X[i, c]


@loop(fastmath=True)
def _add(indptr: Any, indices: Any, data: Any, X: Any, Y: Any) -> None:
    width = nb.uint64(X.shape[1])
    for i in nb.prange(Y.shape[0]):
        for q in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
            j = nb.uint64(indices[q])
            for c in range(width):
                Y[i, c] += data[q] * X[j, c]


def spmm(matrix: Any, X: NDArray[Any]) -> NDArray[Any]:
    """Return matrix @ X for a CSR matrix (m, n) and a block X (n, b), in the block's precision.

    Cost: 2*nnz*b operations, one pass over the matrix.
    """
    X = np.ascontiguousarray(X)
    Y = empty((matrix.shape[0], X.shape[1]), X.dtype)
    _spmm(matrix.nnz * X.shape[1], matrix.indptr, matrix.indices, matrix.data, X, Y)
    return Y


def spmm_axpby(
    matrix: Any,
    X: NDArray[Any],
    B: NDArray[Any],
    a: float,
    b: float,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return a * (matrix @ X) + b * B in one pass; B (m, b) has the shape of the result.

    `out`, neither X nor B, is where it is written: new memory takes a third of a product's time.
    """
    return _affinely(matrix, X, (B, B), None, (a, b, 0.0, 0.0), out)


def _affinely(
    matrix: Any,
    X: NDArray[Any],
    others: tuple[NDArray[Any], NDArray[Any]],
    scale: NDArray[Any] | None,
    weights: tuple[float, float, float, float],
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Return diag(scale)(p·matrix·X + q·V + r·B) + kept·V, `weights` (p, q, r, kept)."""
    X = np.ascontiguousarray(X)
    V, B = (np.ascontiguousarray(block, dtype=X.dtype) for block in others)
    Y = empty((matrix.shape[0], X.shape[1]), X.dtype) if out is None else out
    scale = np.ones(1, dtype=X.dtype) if scale is None else scale.astype(X.dtype, copy=False)
    arrays = matrix.indptr, matrix.indices, matrix.data, X, V, B, scale
    _affine(matrix.nnz * X.shape[1], *arrays, np.array(weights, dtype=X.dtype), Y)
    return Y


def chebyshev_step(
    matrix: Any,
    X: NDArray[Any],
    B: NDArray[Any],
    inverse: NDArray[Any],
    step: NDArray[Any],
    weights: tuple[float, float, float, float],
) -> NDArray[Any]:
    """Return X + step after step = old·step + new·D⁻¹(B − (shift·I + factor·matrix)X), in one pass.

    `weights` are (shift, factor, old, new), `inverse` (m,) is D⁻¹. `step` (m, b) is changed.
    """
    X = np.ascontiguousarray(X)
    Y = empty((matrix.shape[0], X.shape[1]), X.dtype)
    arrays = matrix.indptr, matrix.indices, matrix.data, X, B, inverse
    _chebyshev(matrix.nnz * X.shape[1], *arrays, np.array(weights, dtype=X.dtype), step, Y)
    return Y


def jacobi_step(
    matrix: Any,
    X: NDArray[Any],
    B: NDArray[Any],
    inverse: NDArray[Any],
    weights: tuple[float, float, float],
) -> NDArray[Any]:
    """Return X + new·D⁻¹(B − (shift·I + factor·matrix)X), `weights` (shift, factor, new)."""
    shift, factor, new = weights
    return _affinely(matrix, X, (X, B), inverse, (-new * factor, -new * shift, new, 1.0))


def residual(
    matrix: Any, X: NDArray[Any], B: NDArray[Any], shift: float, factor: float
) -> NDArray[Any]:
    """Return B − (shift·I + factor·matrix)X in one pass."""
    return _affinely(matrix, X, (X, B), None, (-factor, -shift, 1.0, 0.0))


def scaled_rows(X: NDArray[Any], by: NDArray[Any]) -> NDArray[Any]:
    """Return diag(by)X."""
    Y = empty(X.shape, X.dtype)
    _scaled(X.size, np.ascontiguousarray(X), by, Y)
    return Y


def add_product(matrix: Any, X: NDArray[Any], Y: NDArray[Any]) -> None:
    """In place Y += matrix @ X, for a matrix of a few entries a row: prolongation from a grid."""
    arrays = matrix.indptr, matrix.indices, matrix.data, X, Y
    _add((matrix.nnz + Y.shape[0]) * X.shape[1], *arrays)
