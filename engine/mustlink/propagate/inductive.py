"""New points: the answers of their nearest neighbours, averaged."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.check import as_points
from mustlink.errors import InputError
from mustlink.graph.exact import nearest_points
from mustlink.graph.knn import prepared_pair
from mustlink.graph.weights import local_scales

_BLOCK = 1 << 16  # new points at a time


def neighbour_mean(
    points: NDArray[np.floating],
    values: NDArray[np.float64],
    new: Any,
    n_neighbors: int,
    metric: str,
) -> NDArray[np.float64]:
    """Σ_j w_j v_j / Σ_j w_j (q, K) over the nearest fitted points j, w_j = exp(−d_j²/s²).

    s is the distance to the 7th neighbour. Neighbours without an answer (zero rows) do not
    count. Cost O(q n d), exact.
    """
    X = as_points(new)
    if X.shape[1] != points.shape[1]:
        raise InputError(
            f"predict: points of {X.shape[1]} coordinates, but {points.shape[1]} were fitted"
        )
    base, queries = prepared_pair(points, X, metric)
    k = min(n_neighbors, base.shape[0])
    found = np.empty((X.shape[0], values.shape[1]))
    for start in range(0, X.shape[0], _BLOCK):
        part = slice(start, start + _BLOCK)
        indices, distances = nearest_points(base, queries[part], k)
        d = distances.astype(np.float64)
        s = local_scales(d)[:, None]
        gap = (d - d[:, :1]) * (d + d[:, :1])  # the nearest weighs 1, however far it is
        mean = np.einsum("ij,ijk->ik", np.exp(-gap / s**2), values[indices])
        found[part] = mean / np.maximum(mean.sum(axis=1, keepdims=True), 1e-300)
    return found
