"""The nearest of a few centres for every row."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop


@loop()
def _nearest(X: Any, centers: Any, labels: Any) -> None:
    k, width = centers.shape
    for i in nb.prange(X.shape[0]):
        best, at = np.inf, 0
        for g in range(k):
            total = 0.0
            for c in range(width):
                gap = X[i, c] - centers[g, c]
                total += gap * gap
            if total < best:
                best, at = total, g
        labels[i] = at


def nearest_centre(X: NDArray[Any], centers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number (n,) of the centre (k, r) nearest to every row (n, r), of equally near ones the first.

    Distances by differences: no digits are lost far from 0. Cost: n·k·r operations.
    """
    labels = np.empty(X.shape[0], dtype=np.int64)
    centers = np.ascontiguousarray(centers, dtype=np.float64)
    _nearest(X.size * centers.shape[0], np.ascontiguousarray(X), centers, labels)
    return labels
