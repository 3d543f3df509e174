"""Neighbours on the part of a grid that a mask leaves, as the rows of a sparse matrix."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop

Floats = NDArray[np.float64]
Numbers = NDArray[np.integer[Any]]


@loop()
def _count(number: Any, at: Any, ahead: Any, counts: Any) -> None:
    for i in nb.prange(at.size):
        for k in range(ahead.size):
            if number[at[i] + ahead[k]] >= 0:
                counts[i] += 1


@loop()
def _fill(
    number: Any,
    at: Any,
    ahead: Any,
    X: Any,
    far: Any,
    twice: Any,
    ends: Any,
    columns: Any,
    out: Any,
) -> None:
    for i in nb.prange(at.size):
        p = ends[i]
        for k in range(ahead.size):
            j = number[at[i] + ahead[k]]
            if j >= 0:
                squared = 0.0
                for c in range(X.shape[1]):
                    step = X[i, c] - X[j, c]
                    squared += step * step
                columns[p] = j
                out[p] = -squared / twice - far[k]
                p += 1


def neighbours_among(
    inside: NDArray[np.bool_],
    ahead: list[tuple[int, ...]],
    far: list[float],
    X: Floats,
    sigma: float,
) -> tuple[Floats, Numbers, Numbers]:
    """Data, indices and indptr of the pairs of places of a mask (…) that a step or its back joins.

    Data are −|x_i − x_j|²/(2σ²) − far, X (n, c). Places are numbered in row-major order; steps
    `ahead` are later in it, in that order themselves, and reach 1 along every axis at most.
    """
    padded = np.pad(inside, 1)
    n = X.shape[0]
    kind: Any = np.int32 if 2 * len(ahead) * n < 2**31 else np.int64
    at = np.flatnonzero(padded)
    number = np.full(padded.size, -1, dtype=kind)
    number[at] = np.arange(n, dtype=kind)
    strides = np.array(padded.strides, dtype=np.int64) // padded.itemsize
    flat = np.array(ahead, dtype=np.int64).reshape(len(ahead), inside.ndim) @ strides
    both, lengths = np.concatenate([-flat[::-1], flat]), np.concatenate([far[::-1], far])
    work = n * both.size
    counts = np.zeros(n, dtype=kind)
    _count(work, number, at, both, counts)
    ends = np.zeros(n + 1, dtype=kind)
    np.cumsum(counts, out=ends[1:])
    out: Floats = np.empty(int(ends[-1]))
    columns: Numbers = np.empty(out.size, dtype=kind)
    _fill(work, number, at, both, X, lengths, 2 * sigma**2, ends, columns, out)
    return out, columns, ends
