"""Weights between clusters, of a block of rows of a graph."""

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
                found[g, h] += data[q]


def cluster_links(block: Any, clusters: Any, found: Any) -> None:
    """In place found (K, K) += Σ w_ij over the rows i of a block, by clusters (n,) of i and j."""
    _links(block.indptr, block.indices, block.data, block.first, clusters, found)
