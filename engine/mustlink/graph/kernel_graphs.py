"""The full Gaussian affinity of small point sets, and neighbour graphs that scikit-learn made.

The first is that of the papers' experiments; the others have ones or distances, a row a point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.check import as_points, check_positive
from mustlink.errors import InputError
from mustlink.graph.graph import Graph
from mustlink.graph.weights import FLOOR, local_scales, mean_distance, neighbour_affinity

LARGEST = 20_000  # nodes; 4·10⁸ entries


def rbf_graph(points: Any, sigma: float | None = None) -> Graph:
    """Complete graph W_ij = exp(-|x_i - x_j|²/(2σ²)), W_ii = 0, entries at least 1e-8.

    Without `sigma`, σ² is the mean variance of the features, so that standardised features give
    σ = 1 (WHC11 §5, FLI11 §5). For at most 20,000 points: 12 n² bytes. Raises InputError.
    """
    X = as_points(points).astype(np.float64)
    n, exponent = X.shape[0], -int(np.frexp(np.abs(X).max())[1])
    X = np.ldexp(X, exponent)  # squares of values of any size fit
    if not 2 <= n <= LARGEST:
        advice = "use affinity='knn'" if n > LARGEST else "give at least 2"
        raise InputError(f"points: {n} given, affinity='rbf' takes 2 to {LARGEST}; {advice}")
    if sigma is None:
        spread = float(np.sqrt(X.var(axis=0).mean()))
        sigma = spread if spread > 0 else float(np.ldexp(1.0, exponent))
    else:
        sigma = float(np.ldexp(check_positive(sigma, "sigma"), exponent))
    X -= X.mean(axis=0)
    norms = np.einsum("ij,ij->i", X, X)
    data = np.empty((n, n - 1))
    indices = np.empty((n, n - 1), dtype=np.int32)
    nodes = np.arange(n, dtype=np.int32)
    block = max(1, (1 << 22) // n)
    for start in range(0, n, block):
        rows = np.arange(start, min(start + block, n))
        squared = np.maximum(norms[rows, None] + norms - 2 * (X[rows] @ X.T), 0.0)
        weights = np.maximum(np.exp(squared / (-2 * sigma * sigma)), FLOOR)
        off = nodes[None, :] != rows[:, None]
        data[rows] = weights[off].reshape(rows.size, n - 1)
        indices[rows] = np.broadcast_to(nodes, off.shape)[off].reshape(rows.size, n - 1)
    indptr = np.arange(0, n * (n - 1) + 1, n - 1, dtype=np.int64)
    _mirror(data)
    W = sp.csr_matrix((data.ravel(), indices.ravel(), indptr), shape=(n, n))
    return Graph(W, {"kind": "rbf", "sigma": float(np.ldexp(sigma, -exponent))})


def _mirror(data: np.ndarray) -> None:
    """Make the off-diagonal array (n, n-1) exactly symmetric: block products round differently."""
    n = data.shape[0]
    for i in range(1, n):
        data[i, :i] = data[np.arange(i), i - 1]


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
