"""New points: what their nearest fitted points have, averaged or put to the vote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.graph.graph import Graph
from mustlink.graph.weights import local_scales
from mustlink.kernels.blocks import row_slices
from mustlink.neighbours.exact import nearest_points
from mustlink.neighbours.knn import prepared_pair

_BLOCK = 1 << 16  # new points at a time

Points = NDArray[np.floating]
Weighted = tuple[slice, NDArray[np.int32], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class NewPoints:
    """New points (q, d) beside fitted ones (m, d), which are distinct.

    `rows` (m,) are those of the fitted among the caller's n and `counts` (m,) what they count;
    None: all of them, and all count 1.
    """

    new: Points
    fitted: Points
    n_neighbors: int
    metric: str
    rows: NDArray[np.int64] | None = None
    counts: NDArray[np.float64] | None = None

    @classmethod
    def beside(
        cls, points: Points, graph: Graph, new: Points, n_neighbors: int, metric: str
    ) -> NewPoints:
        """Beside points (n, d) and their graph: equal rows are one neighbour, which counts them."""
        if graph.rows is None and graph.weights is None:
            return cls(new, points, n_neighbors, metric)
        weights = np.ones(graph.n_nodes) if graph.weights is None else graph.weights
        rows, counts = graph.first_rows[weights > 0], weights[weights > 0]
        return cls(new, points[rows], n_neighbors, metric, rows, counts)

    def mean(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """Σ_j w_j c_j v_j / Σ_j w_j c_j (q, K) over the nearest, of values (n, K) of all rows."""
        found = np.empty((self.new.shape[0], values.shape[1]))
        for part, block in self.means(values):
            found[part] = block
        return found

    def means(self, values: NDArray[np.floating]) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """The rows of `mean` by blocks of some MB: which, and their values (b, K)."""
        values = self._of(values)
        for part, indices, weights in self._neighbours():
            total = weights.sum(axis=1, keepdims=True)
            for rows in row_slices(total.size, values.shape[1]):
                found = np.zeros((indices[rows].shape[0], values.shape[1]))
                for place in range(indices.shape[1]):
                    found += weights[rows, place, None] * values[indices[rows, place]]
                yield slice(part.start + rows.start, part.start + rows.stop), found / total[rows]

    def vote(self, labels: NDArray[np.integer]) -> NDArray[np.int64]:
        """The label (q,) with the largest Σ_j w_j c_j, of labels (n,); of equals, the smallest."""
        numbers, codes = np.unique(self._of(labels), return_inverse=True)
        codes = codes.ravel()
        found = np.empty(self.new.shape[0], dtype=np.int64)
        for part, indices, weights in self._neighbours():
            own = codes[indices]
            votes = np.zeros(weights.shape)  # of each neighbour's label, however many there are
            for place in range(indices.shape[1]):
                votes += np.where(own == own[:, [place]], weights[:, [place]], 0.0)
            most = votes == votes.max(axis=1, keepdims=True)
            found[part] = numbers[np.where(most, own, numbers.size).min(axis=1)]
        return found

    def _of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the fitted points, of those of all rows (n, …)."""
        return values if self.rows is None else values[self.rows]

    def _neighbours(self) -> Iterator[Weighted]:
        """Blocks of new points: nearest fitted points j and c_j w_j, w_j = exp(−d_j²/s²), (b, k).

        c_j are the counts, s is the distance to the 7th neighbour. Where a new point is a fitted
        one, only that counts. Cost O(q n d), exact.
        """
        base, queries = prepared_pair(self.fitted, self.new, self.metric)
        k = min(self.n_neighbors, base.shape[0])
        for start in range(0, queries.shape[0], _BLOCK):
            part = slice(start, min(start + _BLOCK, queries.shape[0]))
            indices, distances = nearest_points(base, queries[part], k)
            d = distances.astype(np.float64)
            s = local_scales(d)[:, None]
            gap = (d - d[:, :1]) * (d + d[:, :1])  # the nearest weighs 1, however far it is
            weights = np.exp(-gap / s**2)
            known = (base[indices[:, 0]] == queries[part]).all(axis=1)
            weights[known, 1:] = 0.0
            if self.counts is not None:
                weights *= self.counts[indices]
            yield part, indices, weights
