"""The nearest rows of other groups than one's own, and of a given group."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.blocks import workers

_ROWS = 64  # that every query is compared with before the next query: they stay in the cache
_TASK = 1 << 24  # operations of a task: some milliseconds
_FAST = {"reassoc", "contract", "nsz"}  # sums in any order, but the same one always


@nb.njit(cache=True, nogil=True, fastmath=_FAST, inline="always")
def _squared_gap(X: Any, i: int, Q: Any, q: int) -> float:
    total = 0.0
    for c in range(Q.shape[1]):
        gap = X[i, c] - Q[q, c]
        total += gap * gap
    return total


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def _outside(
    X: Any, group: Any, Q: Any, own: Any, first: int, last: int, near: Any, best: Any
) -> None:
    for start in range(first, last, _ROWS):
        for q in range(own.size):
            for i in range(start, min(start + _ROWS, last)):
                if group[i] != own[q]:
                    value = _squared_gap(X, i, Q, q)
                    if value < best[q]:
                        best[q], near[q] = value, i


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def _inside(X: Any, group: Any, Q: Any, near: Any, best: Any) -> None:
    for i in range(X.shape[0]):
        q = group[i]
        if q >= 0:
            value = _squared_gap(X, i, Q, q)
            if value < best[q]:
                best[q], near[q] = value, i


Found = tuple[NDArray[np.int64], NDArray[np.float64]]


def nearest_outside(
    X: NDArray[Any], group: NDArray[np.integer], Q: NDArray[np.float64], own: NDArray[np.integer]
) -> Found:
    """For each of Q (m, d) the nearest row of X (n, d) of another group than `own` (m,).

    `group` (n,) are those of the rows. Returns rows (m,) and squared distances (m,), Inf and row 0
    where there is none; of equally near rows the first. Cost: n·m·d operations.
    """
    n = X.shape[0]
    step = max(_ROWS, _TASK // max(Q.size, 1))

    def part(first: int) -> Found:
        near, best = _nothing(own.size)
        _outside(X, group, Q, own, first, min(first + step, n), near, best)
        return near, best

    if n <= step:
        return part(0)
    near, best = _nothing(own.size)
    with ThreadPoolExecutor(workers()) as pool:
        for some, values in pool.map(part, range(0, n, step)):  # in order: the first of equal ones
            better = values < best
            near[better], best[better] = some[better], values[better]
    return near, best


def nearest_inside(X: NDArray[Any], group: NDArray[np.integer], Q: NDArray[np.float64]) -> Found:
    """For each of Q (m, d) the nearest row of X (n, d) of its group, its number in Q.

    `group` (n,), -1 for rows of none of them; else as `nearest_outside`. Cost: n·d operations.
    """
    near, best = _nothing(Q.shape[0])
    _inside(X, group, Q, near, best)
    return near, best


def _nothing(count: int) -> Found:
    return np.zeros(count, dtype=np.int64), np.full(count, np.inf)
