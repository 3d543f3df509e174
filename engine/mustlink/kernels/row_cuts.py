"""How much of every node's weight stays inside of its cluster."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.loops import loop

Floats = NDArray[np.float64]


@loop()
def _row_cuts(indptr: Any, indices: Any, data: Any, place: Any, volume: Any, inside: Any) -> None:
    for i in nb.prange(place.size):
        whole, kept, own = 0.0, 0.0, place[i]
        for q in range(indptr[i], indptr[i + 1]):
            whole += data[q]
            if place[indices[q]] == own:
                kept += data[q]
        volume[i], inside[i] = whole, kept


def row_cuts(matrix: sp.csr_matrix, place: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Σ_j w_ij and Σ_j w_ij over j of the same cluster, (n,) each; `place` (n,) are clusters.

    Sums are double whatever the precision of W. Cost: one pass over the matrix.
    """
    volume, inside = np.empty(place.size), np.empty(place.size)
    _row_cuts(matrix.nnz, matrix.indptr, matrix.indices, matrix.data, place, volume, inside)
    return volume, inside
