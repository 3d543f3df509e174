"""Vector work of block iterations, column by column and in one pass: every column has its scalars.

Sums do not depend on the number of threads, and are double for single precision, too.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import SMALL, loop
from mustlink.kernels.spare import empty

Block = NDArray[np.float64]
Scalars = NDArray[np.float64]
_ROWS = 1 << 14  # rows per partial sum: fixed, so that sums come out the same for any threads


@loop(fastmath=True)
def _dots(X: Any, Y: Any, rows: Any, partial: Any) -> None:
    n, width = X.shape
    for part in nb.prange(partial.shape[0]):
        for i in range(part * rows, min((part + 1) * rows, n)):
            for c in range(width):
                partial[part, c] += nb.float64(X[i, c]) * nb.float64(Y[i, c])


@loop(fastmath=True)
def _one(out: Any, b: Any, U: Any, u: Any, columns: Any) -> None:
    width = u.size
    for i in nb.prange(out.shape[0]):
        for c in range(width):
            at = columns[c]
            out[i, at] = b[c] * out[i, at] + u[c] * U[i, c]


@loop(fastmath=True)
def _two(out: Any, b: Any, U: Any, u: Any, V: Any, v: Any, columns: Any) -> None:
    width = u.size
    for i in nb.prange(out.shape[0]):
        for c in range(width):
            at = columns[c]
            out[i, at] = b[c] * out[i, at] + u[c] * U[i, c] + v[c] * V[i, c]


@loop(fastmath=True)
def _lessen(X: Any, V: Any, a: Any, rows: Any, R: Any, partial: Any) -> None:
    n, width = R.shape
    for part in nb.prange(partial.shape[0]):
        for i in range(part * rows, min((part + 1) * rows, n)):
            for c in range(width):
                r = X[i, c] - a[c] * V[i, c]
                R[i, c] = r
                partial[part, c] += r * r


@nb.njit(cache=True, nogil=True, fastmath=True, parallel=True)
def _along(v: Any, X: Any, rows: Any, partial: Any) -> None:
    n, width = X.shape
    for part in nb.prange(partial.shape[0]):
        for i in range(part * rows, min((part + 1) * rows, n)):
            for c in range(width):
                partial[part, c] += v[i] * X[i, c]


@loop()  # one way for few rows and for many: they come out the same wherever a block is divided
def _without(X: Any, v: Any, a: Any, out: Any) -> None:
    n, width = X.shape
    for i in nb.prange(n):
        for c in range(width):
            out[i, c] = X[i, c] - v[i] * a[c]


@loop()
def _peaks(X: Any, rows: Any, partial: Any) -> None:
    n, width = X.shape
    for part in nb.prange(partial.shape[0]):
        for i in range(part * rows, min((part + 1) * rows, n)):
            for c in range(width):
                x, peak = nb.float64(X[i, c]), partial[part, c]
                partial[part, c] = x if abs(x) > abs(peak) else peak


def _partial(X: Block) -> Block:
    return np.zeros((max(1, -(-X.shape[0] // _ROWS)), X.shape[1]))


def _total(partial: Block) -> Scalars:
    if len(partial) == 1:  # as on every small problem
        return partial[0]
    return np.asarray(partial.sum(axis=0), dtype=np.float64)


def dots(X: Block, Y: Block) -> Scalars:
    """Inner products column by column of two blocks (n, b)."""
    partial = _partial(X)
    _dots(X.size, X, Y, _ROWS, partial)
    return _total(partial)


def blend(
    out: Block,
    keep: Scalars,
    terms: list[tuple[Block, Scalars]],
    columns: NDArray[np.int64],
) -> None:
    """In place out[:, columns] = out[:, columns]·diag(keep) + Σ V·diag(a), one or two terms."""
    work = (1 + len(terms)) * out.shape[0] * keep.size
    kernel = _one if len(terms) == 1 else _two
    kernel(work, out, keep, *(part for term in terms for part in term), columns)


def lessen(X: Block, V: Block, a: Scalars, out: Block) -> Scalars:
    """Write out = X − V·diag(a), where `out` may be X; returns the squared lengths of columns."""
    partial = _partial(X)
    _lessen(2 * X.size, X, V, a, _ROWS, out, partial)
    return _total(partial)


def along(v: Scalars, X: Block) -> Scalars:
    """vᵀX (b,) for one vector v (n,)."""
    if X.size < SMALL:
        return np.asarray(v @ X, dtype=np.float64)
    partial = _partial(X)
    _along(v, X, _ROWS, partial)
    return _total(partial)


def without(X: Block, v: Scalars, a: Scalars) -> Block:
    """X − vaᵀ for one vector v (n,) and a (b,), in X's precision."""
    out = empty(X.shape, X.dtype)
    _without(X.size, X, v, a, out)
    return out


def peaks(X: Block) -> Scalars:
    """The entry of largest magnitude of every column, (b,); of equal ones the first."""
    partial = _partial(X)
    _peaks(X.size, X, _ROWS, partial)
    return np.asarray(
        partial[np.abs(partial).argmax(axis=0), np.arange(X.shape[1])], dtype=np.float64
    )
