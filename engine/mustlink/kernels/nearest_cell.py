"""From a near centre to the nearest, by way of the centres around each."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

_FAST = {"reassoc", "contract", "nsz", "nnan", "ninf"}  # finite input; sums in any order


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def go_on(
    X: Any, middle: Any, at: Any, around: Any, gaps: Any, found: Any, squared: Any, first: int,
    stop: int,
) -> None:  # fmt: skip
    """Move the points first:stop of X (m, d) from centres `found` (m,) on to nearer ones.

    Centres are `at` (C, d) about `middle` (d,); `around` each are others (C, A), `gaps` (C, A)
    away, ascending; `squared` (m,) are the lengths in the end. Where x is |x - a| from a centre,
    and r from the nearest it has met, none that is nearer lies |x - a| + r from a or farther.
    """
    d = X.shape[1]
    x = np.empty(d, np.float32)
    for i in range(first, stop):
        for c in range(d):
            x[c] = X[i, c] - middle[c]
        best = found[i]
        least = _squared(x, at[best])
        while True:
            a = best
            own = np.sqrt(least)
            bound = own + own
            for s in range(around.shape[1]):
                if gaps[a, s] >= bound:
                    break
                value = _squared(x, at[around[a, s]])
                if value < least:
                    least, best = value, around[a, s]
                    bound = own + np.sqrt(value)
            if best == a:
                break
        found[i], squared[i] = best, least


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def _squared(x: Any, y: Any) -> Any:
    total = np.float32(0.0)
    for c in range(x.size):
        gap = x[c] - y[c]
        total += gap * gap
    return total
