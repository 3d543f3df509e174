"""New points: what their nearest fitted points have, averaged or put to the vote."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mustlink.graph.weights import local_scales
from mustlink.neighbours.exact import nearest_points
from mustlink.neighbours.knn import prepared_pair

_BLOCK = 1 << 16  # new points at a time

Points = NDArray[np.floating]
Counts = NDArray[np.float64] | None  # what the fitted points count, (n,); None: 1 each
Weighted = tuple[slice, NDArray[np.int32], NDArray[np.float64]]


def _neighbours(
    points: Points, new: Points, n_neighbors: int, metric: str, counts: Counts
) -> Iterator[Weighted]:
    """Blocks of new points: nearest fitted points j and c_j w_j, w_j = exp(−d_j²/s²), (b, k) each.

    c_j are the counts, s is the distance to the 7th neighbour. Where a new point is a fitted one,
    only that counts. Cost O(q n d), exact.
    """
    base, queries = prepared_pair(points, new, metric)
    k = min(n_neighbors, base.shape[0])
    for start in range(0, queries.shape[0], _BLOCK):
        part = slice(start, min(start + _BLOCK, queries.shape[0]))
        indices, distances = nearest_points(base, queries[part], k)
        d = distances.astype(np.float64)
        s = local_scales(d)[:, None]
        gap = (d - d[:, :1]) * (d + d[:, :1])  # the nearest weighs 1, however far it is
        weights = np.exp(-gap / s**2)
        known = (base[indices[:, 0]] == queries[part]).all(axis=1)
        weights[known, 1:] = 0.0
        if counts is not None:
            weights *= counts[indices]
        yield part, indices, weights


def neighbour_mean(
    points: Points,
    values: NDArray[np.floating],
    new: Points,
    n_neighbors: int,
    metric: str,
    counts: Counts = None,
) -> NDArray[np.float64]:
    """Σ_j w_j c_j v_j / Σ_j w_j c_j (q, K) over the nearest of the fitted points, values (n, K)."""
    found = np.empty((new.shape[0], values.shape[1]))
    for part, indices, weights in _neighbours(points, new, n_neighbors, metric, counts):
        mean = np.einsum("ij,ijk->ik", weights, values[indices].astype(np.float64, copy=False))
        found[part] = mean / weights.sum(axis=1, keepdims=True)
    return found


def neighbour_vote(
    points: Points,
    labels: NDArray[np.integer],
    new: Points,
    n_neighbors: int,
    metric: str,
    counts: Counts = None,
) -> NDArray[np.int64]:
    """The label (q,) with the largest Σ_j w_j c_j among the nearest; of equals, the smallest."""
    numbers, codes = np.unique(labels, return_inverse=True)
    codes = codes.ravel()
    found = np.empty(new.shape[0], dtype=np.int64)
    for part, indices, weights in _neighbours(points, new, n_neighbors, metric, counts):
        rows, k = indices.shape
        cells = np.repeat(np.arange(rows), k) * numbers.size + codes[indices].ravel()
        votes = np.bincount(cells, weights.ravel(), minlength=rows * numbers.size)
        found[part] = numbers[votes.reshape(rows, numbers.size).argmax(axis=1)]
    return found
