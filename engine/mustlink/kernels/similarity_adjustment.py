"""Similarities adjusted by propagated constraints (FLI11 eq. 9)."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop


@loop()
def _adjust(weights: Any, beliefs: Any, out: Any) -> None:
    for e in nb.prange(weights.size):
        f = min(1.0, max(-1.0, beliefs[e]))
        w = weights[e]
        out[e] = 1.0 - (1.0 - f) * (1.0 - w) if f >= 0.0 else (1.0 + f) * w


def adjust(weights: NDArray[np.float64], beliefs: NDArray[np.float64]) -> NDArray[np.float64]:
    """w* = 1 − (1 − F)(1 − w) where F >= 0, (1 + F)w where F < 0; both (e,), w in [0, 1].

    F is cut to [-1, 1], so that w* stays in [0, 1]. Source: FLI11 eq. 9. Cost: one pass.
    """
    out = np.empty(weights.size, dtype=weights.dtype)
    _adjust(weights.size, weights, beliefs, out)
    return out
