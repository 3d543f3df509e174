"""The vector work of stabilised bi-conjugate gradients, in one pass for every step."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop

Block = NDArray[np.float64]
Scalars = NDArray[np.float64]
_ROWS = 1 << 14  # rows per partial sum: fixed, so that sums come out the same for any threads


def _partial(X: Block) -> Block:
    return np.zeros((max(1, -(-X.shape[0] // _ROWS)), X.shape[1]))


@loop(fastmath=True)
def _turn(P: Any, R: Any, V: Any, beta: Any, omega: Any, rows: Any, parts: Any) -> None:
    n, width = P.shape
    for part in nb.prange(parts):
        for i in range(part * rows, min((part + 1) * rows, n)):
            for c in range(width):
                P[i, c] = R[i, c] + beta[c] * (P[i, c] - omega[c] * V[i, c])


@loop(fastmath=True)
def _lessen(R: Any, V: Any, alpha: Any, rows: Any, partial: Any) -> None:
    n, width = R.shape
    for part in nb.prange(partial.shape[0]):
        for i in range(part * rows, min((part + 1) * rows, n)):
            for c in range(width):
                r = R[i, c] - alpha[c] * V[i, c]
                R[i, c] = r
                partial[part, c] += r * r


@loop(fastmath=True)
def _advance(
    X: Any, KP: Any, KS: Any, alpha: Any, omega: Any, columns: Any, rows: Any, parts: Any
) -> None:
    n, width = KP.shape
    for part in nb.prange(parts):
        for i in range(part * rows, min((part + 1) * rows, n)):
            for c in range(width):
                X[i, columns[c]] += alpha[c] * KP[i, c] + omega[c] * KS[i, c]


def turn(P: Block, R: Block, V: Block, beta: Scalars, omega: Scalars) -> None:
    """P <- R + β(P − ωV), column by column; blocks (n, b)."""
    _turn(P.size, P, R, V, beta, omega, _ROWS, _partial(P).shape[0])


def lessen(R: Block, V: Block, alpha: Scalars) -> Scalars:
    """R <- R − αV; returns the squared lengths of the columns."""
    partial = _partial(R)
    _lessen(R.size, R, V, alpha, _ROWS, partial)
    return np.asarray(partial.sum(axis=0), dtype=np.float64)


def advance(
    X: Block,
    KP: Block,
    KS: Block,
    alpha: Scalars,
    omega: Scalars,
    columns: NDArray[np.int64],
) -> None:
    """X[:, columns] <- X[:, columns] + αKP + ωKS."""
    _advance(KP.size, X, KP, KS, alpha, omega, columns, _ROWS, _partial(KP).shape[0])
