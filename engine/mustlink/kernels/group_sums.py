"""Sums of rows by group."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray


@nb.njit(cache=True, nogil=True)
def _add(X: Any, groups: Any, out: Any) -> None:
    for i in range(X.shape[0]):
        g = groups[i]
        for c in range(X.shape[1]):
            out[g, c] += X[i, c]


def group_sums(X: NDArray[Any], groups: NDArray[Any], count: int) -> NDArray[np.float64]:
    """Row g: the sum of the rows of X (n, b) with `groups` (n,) equal to g, (count, b), double."""
    out = np.zeros((count, X.shape[1]))
    _add(X, groups, out)
    return out
