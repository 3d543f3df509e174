"""Weights between clusters, and how many edges have them, of a block of rows of a graph."""

from __future__ import annotations

from typing import Any

import numba as nb


@nb.njit(cache=True, nogil=True)
def _links(indptr: Any, indices: Any, data: Any, first: Any, clusters: Any, found: Any) -> None:
    for r in range(indptr.size - 1):
        g = clusters[first + r]
        for q in range(indptr[r], indptr[r + 1]):
            h = clusters[indices[q]]
            if g >= 0 and h >= 0:
                found[0, g, h] += data[q]
                found[1, g, h] += 1.0


def cluster_links(rows: Any, clusters: Any, found: Any, first: int = 0) -> None:
    """In place found (2, K, K) += Σ w_ij and Σ 1 over the entries of rows `first` and on.

    `rows` have indptr, indices and data; by clusters (n,) of i and j, -1 for none.
    """
    _links(rows.indptr, rows.indices, rows.data, first, clusters, found)
