"""Least squares on the simplex for small matrices: weights of linear neighbourhoods."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

_ROUNDING = 64 * np.finfo(np.float64).eps


@nb.njit(cache=True, nogil=True)
def cholesky_solve(C: Any, chosen: Any, m: Any, factor: Any, out: Any) -> bool:
    """Solve C[S, S] v = 1 for the first m indices S of `chosen`: v in `out`, False if C[S, S] <= 0.

    `factor` is scratch of at least (m, m).
    """
    for a in range(m):
        for b in range(a + 1):
            total = C[chosen[a], chosen[b]]
            for c in range(b):
                total -= factor[a, c] * factor[b, c]
            if a > b:
                factor[a, b] = total / factor[b, b]
            elif total <= 0.0:
                return False
            else:
                factor[a, a] = np.sqrt(total)
    for a in range(m):
        total = 1.0
        for c in range(a):
            total -= factor[a, c] * out[c]
        out[a] = total / factor[a, a]
    for a in range(m - 1, -1, -1):
        total = out[a]
        for c in range(a + 1, m):
            total -= factor[c, a] * out[c]
        out[a] = total / factor[a, a]
    return True


@nb.njit(cache=True, nogil=True)
def simplex_minimum(
    C: Any, m: Any, w: Any, chosen: Any, factor: Any, trial: Any, slope: Any
) -> None:
    """Minimise wᵀCw over w >= 0, Σw = 1, for the leading m x m block of C, positive definite.

    Wolfe's active set: the index of steepest descent joins the chosen ones, the minimum over
    their affine hull is taken, and where that leaves the simplex the first weight to vanish goes
    out. The value falls at every step, so no set returns and the end is the exact minimum:
    (Cw)_j >= wᵀCw up to rounding, with equality where w_j > 0. `w` (m,) is the answer; `chosen`,
    `trial`, `slope` (m,) and `factor` (m, m) are scratch. Some m steps of at most m³/6 operations.
    Source: Wolfe 1976, Finding the nearest point in a polytope.
    """
    first, largest = 0, 0.0
    for a in range(m):
        w[a] = 0.0
        largest = max(largest, C[a, a])
        if C[a, a] < C[first, first]:
            first = a
    w[first] = 1.0
    chosen[0] = first
    count = 1
    for a in range(m):
        slope[a] = C[a, first]
    best = C[first, first]
    while True:
        entering = 0
        for a in range(m):
            if slope[a] < slope[entering]:
                entering = a
        if slope[entering] >= best - _ROUNDING * largest:
            return
        chosen[count] = entering
        count = _descend(C, count + 1, w, chosen, factor, trial)
        value = 0.0
        for a in range(m):
            total = 0.0
            for b in range(count):
                total += C[a, chosen[b]] * w[chosen[b]]
            slope[a] = total
            value += w[a] * total
        if value >= best:  # nothing left but rounding
            return
        best = value


@nb.njit(cache=True, nogil=True)
def _descend(C: Any, count: Any, w: Any, chosen: Any, factor: Any, trial: Any) -> int:
    """Move w to the minimum over the affine hull of the chosen, dropping those that vanish."""
    while cholesky_solve(C, chosen, count, factor, trial):
        total = 0.0
        for a in range(count):
            total += trial[a]
        step, leaving = 1.0, -1
        for a in range(count):
            trial[a] /= total
            if trial[a] <= 0.0:
                at = w[chosen[a]]
                reach = at / (at - trial[a]) if at > 0.0 else 0.0
                if reach < step:
                    step, leaving = reach, a
        for a in range(count):
            at = w[chosen[a]]
            w[chosen[a]] = trial[a] if leaving < 0 else max(0.0, at + step * (trial[a] - at))
        if leaving < 0:
            return count
        w[chosen[leaving]] = 0.0
        count -= 1
        for a in range(leaving, count):
            chosen[a] = chosen[a + 1]
    return count
