"""Neighbour graphs that others made: scikit-learn's, of ones or of distances, one row a point."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.graph.graph import Graph
from mustlink.graph.weights import local_scales, mean_distance, neighbour_affinity


def is_connectivity(matrix: Any) -> bool:
    """Whether this is `kneighbors_graph(X, k)`: sparse ones, k in every row, not symmetric."""
    if not sp.issparse(matrix):
        return False
    given: Any = matrix
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        return False
    A = given.tocsr()
    if A.nnz == 0 or A.data.dtype.kind not in "biuf" or not (A.data == 1).all():
        return False
    return bool(np.ptp(np.diff(A.indptr)) == 0) and bool((A != A.T).nnz)


def graph_of_connectivity(matrix: Any) -> Graph:
    """W = (A + Aᵀ)/2 of neighbours A (n, n) CSR: a pair that lists each other counts double."""
    A = sp.csr_matrix(matrix, dtype=np.float64)
    k = int(A.indptr[1] - A.indptr[0])
    return Graph.from_affinity((A + A.T) * 0.5, {"kind": "kneighbors", "n_neighbors": k})


def graph_of_distances(matrix: Any, weights: str) -> Graph:
    """Graph of the distances (n, n) that every row stores to its neighbours, weighted as ours.

    What `kneighbors_graph(X, k, mode="distance")`, `KNeighborsTransformer` and the precomputed
    graphs of other programs hold. Rows may be of different length; a point's distance to itself
    does not count. `weights` as in `knn_graph`. Raises InputError. Cost O(nnz log k).
    """
    where = "affinity"
    if not sp.issparse(matrix):
        raise InputError(
            f"{where}: precomputed_nearest_neighbors wants a sparse matrix of distances, as "
            "kneighbors_graph makes; a dense one is affinity='precomputed'"
        )
    given: Any = matrix
    D = sp.csr_matrix(given)
    n, m = D.shape
    if n != m:
        raise InputError(f"{where}: shape ({n}, {m}) is not square; give one row per point")
    if D.data.dtype.kind not in "iuf" or not np.isfinite(D.data).all() or (D.data < 0).any():
        raise InputError(
            f"{where}: distances are finite and not negative; check how they were made"
        )
    indices, distances = _lists(D)
    if indices.shape[1] == 0:
        raise InputError(f"{where}: {n} points but no neighbour; nothing to cluster")
    scale: NDArray[np.float64] | float = 1.0
    if weights == "local":
        scale = local_scales(distances)
    elif weights == "gaussian":
        scale = mean_distance(distances)
    W = neighbour_affinity(indices, distances, weights, scale)
    info = {"kind": "kneighbors", "n_neighbors": indices.shape[1], "weights": weights}
    return Graph.from_affinity(W, info)


def _lists(D: sp.csr_matrix) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Neighbour lists (n, k), ascending, -1 and Inf where a row has fewer, nobody its own."""
    n = D.shape[0]
    rows = np.repeat(np.arange(n), np.diff(D.indptr))
    other = D.indices != rows
    rows, columns, lengths = rows[other], D.indices[other], D.data[other].astype(np.float64)
    order = np.lexsort((lengths, rows))
    rows, columns, lengths = rows[order], columns[order], lengths[order]
    counts = np.bincount(rows, minlength=n)
    k = int(counts.max(initial=0))
    place = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    indices = np.full((n, k), -1, dtype=np.int32)
    distances = np.full((n, k), np.inf)
    indices[rows, place], distances[rows, place] = columns, lengths
    return indices, distances
