"""The vector work of a block Krylov method in one pass each, sums free of the number of threads."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop

Block = NDArray[np.float64]
_ROWS = 1 << 14  # rows per partial sum: fixed, so that sums come out the same for any threads


@loop(fastmath=True)
def _dots(X: Any, Y: Any, rows: Any, partial: Any) -> None:
    n, width = X.shape
    for part in nb.prange(partial.shape[0]):
        for i in range(part * rows, min((part + 1) * rows, n)):
            for c in range(width):
                partial[part, c] += X[i, c] * Y[i, c]


@loop(fastmath=True)
def _descend(
    X: Any, R: Any, P: Any, AP: Any, alpha: Any, columns: Any, rows: Any, partial: Any
) -> None:
    n, width = R.shape
    for part in nb.prange(partial.shape[0]):
        for i in range(part * rows, min((part + 1) * rows, n)):
            for c in range(width):
                X[i, columns[c]] += alpha[c] * P[i, c]
                r = R[i, c] - alpha[c] * AP[i, c]
                R[i, c] = r
                partial[part, c] += r * r


@loop(fastmath=True)
def _direct(Z: Any, P: Any, beta: Any) -> None:
    width = P.shape[1]
    for i in nb.prange(P.shape[0]):
        for c in range(width):
            P[i, c] = Z[i, c] + beta[c] * P[i, c]


def _partial(X: Block) -> Block:
    return np.zeros((max(1, -(-X.shape[0] // _ROWS)), X.shape[1]))


def dots(X: Block, Y: Block) -> NDArray[np.float64]:
    """Inner products column by column of two blocks (n, b)."""
    partial = _partial(X)
    _dots(X.size, X, Y, _ROWS, partial)
    return np.asarray(partial.sum(axis=0), dtype=np.float64)


def descend(
    X: Block,
    R: Block,
    P: Block,
    AP: Block,
    alpha: NDArray[np.float64],
    columns: NDArray[np.int64],
) -> NDArray[np.float64]:
    """In place X[:, columns] += P·diag(alpha), R −= AP·diag(alpha); squared norms of R (b,)."""
    partial = _partial(R)
    _descend(4 * R.size, X, R, P, AP, alpha, columns, _ROWS, partial)
    return np.asarray(partial.sum(axis=0), dtype=np.float64)


def direct(Z: Block, P: Block, beta: NDArray[np.float64]) -> None:
    """In place P = Z + P·diag(beta)."""
    _direct(2 * P.size, Z, P, beta)
