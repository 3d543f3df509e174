"""Weights of edges by the values at their two ends."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop

Floats = NDArray[np.float64]


@loop()
def _over_lengths(
    data: Any, indices: Any, indptr: Any, f: Any, scale: Any, least: Any, out: Any
) -> None:
    for i in nb.prange(indptr.size - 1):
        for p in range(indptr[i], indptr[i + 1]):
            step = f[i] - f[indices[p]]
            out[p] = scale * data[p] / np.sqrt(step * step + least * least)


def over_lengths(W: Any, f: Floats, scale: float, least: float) -> Floats:
    """Data of a CSR matrix, scale·w_ij / √((f_i − f_j)² + least²), in one pass."""
    out = np.empty(W.data.size)
    _over_lengths(out.size, W.data, W.indices, W.indptr, f, float(scale), float(least), out)
    return out
