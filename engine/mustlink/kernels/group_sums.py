"""Sums of rows by group, and their transpose: rows handed out by group."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop
from mustlink.kernels.spare import empty


@nb.njit(cache=True, nogil=True)
def _add(X: Any, groups: Any, scale: Any, out: Any) -> None:
    for i in range(X.shape[0]):
        g = groups[i]
        v = scale[i]
        for c in range(X.shape[1]):
            out[g, c] += v * X[i, c]


@loop()
def _hand_out(C: Any, groups: Any, scale: Any, out: Any) -> None:
    for i in nb.prange(out.shape[0]):
        g = groups[i]
        v = scale[i]
        for c in range(out.shape[1]):
            out[i, c] = v * C[g, c]


def group_sums(
    X: NDArray[Any], groups: NDArray[Any], count: int, scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Row g: the sum of scale_i·X_i over the rows i with groups_i = g, (count, b), double.

    One thread: sums come in the order of the rows.
    """
    out = np.zeros((count, X.shape[1]))
    _add(X, groups, scale, out)
    return out


def hand_out(
    C: NDArray[np.float64], groups: NDArray[Any], scale: NDArray[np.float64], dtype: Any
) -> NDArray[Any]:
    """Row i: scale_i·C[groups_i], (n, b)."""
    out = empty((groups.size, C.shape[1]), dtype)
    _hand_out(out.size, np.ascontiguousarray(C, dtype=np.float64), groups, scale, out)
    return out
