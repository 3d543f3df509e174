"""Connected components."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

_FEW = 1 << 18  # entries up to which scipy, a fifteenth as fast, need not load a compiler


def component_labels(affinity: sp.csr_matrix) -> NDArray[np.int32]:
    """Component of every node, (n,) int32: 0 is the largest, ties go by the smallest node.

    An isolated node is a component of its own. Cost O(n + nnz), for a few large components O(n).
    """
    if affinity.nnz < _FEW:
        # On a symmetric matrix strong components are the components, found without a transpose.
        # Its entries are not looked at: a single 1 stands for all, or scipy would copy float32.
        ones = np.broadcast_to(np.float64(1.0), affinity.indices.shape)
        pattern = sp.csr_matrix((ones, affinity.indices, affinity.indptr), shape=affinity.shape)
        _, raw = connected_components(pattern, directed=True, connection="strong")
        return renumber_by_size(raw)
    from mustlink.kernels.graph_walk import smallest_members

    first = smallest_members(affinity.indptr, affinity.indices)
    sizes = np.bincount(first, minlength=first.size)
    found = np.flatnonzero(sizes)
    rank = np.empty(first.size, dtype=np.int32)
    rank[found[np.argsort(-sizes[found], kind="stable")]] = np.arange(found.size, dtype=np.int32)
    return rank[first]


def renumber_by_size(labels: NDArray[np.integer]) -> NDArray[np.int32]:
    """Labels from 0 renumbered by falling size, ties by first occurrence."""
    sizes, n = np.bincount(labels), labels.size
    first = np.empty(sizes.size, dtype=np.int64)
    first[labels[::-1]] = np.arange(n - 1, -1, -1)  # of several nodes the last written stays
    found = np.flatnonzero(sizes)
    rank = np.empty(sizes.size, dtype=np.int32)
    rank[found[np.lexsort((first[found], -sizes[found]))]] = np.arange(found.size, dtype=np.int32)
    return rank[labels]
