"""Neighbours that somebody has already: lists, distances or ones become a graph, weighted as ours.

faiss, pynndescent and scikit-learn give lists (n, k); scikit-learn and scanpy sparse matrices, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.check import check_choice, check_positive
from mustlink.errors import InputError
from mustlink.graph.graph import Graph
from mustlink.graph.weights import (
    WEIGHTS,
    local_scales,
    mean_distance,
    neighbour_affinity,
)

_BLOCK = 1 << 20  # entries of lists looked at in one go

Lists = tuple[NDArray[np.int32], NDArray[np.floating]]


def graph_from_neighbors(
    indices: Any, distances: Any, *, weights: str = "local", sigma: float | None = None
) -> Graph:
    """Graph of neighbour lists that are there: `indices` (n, k) from 0, `distances` (n, k).

    Arrays of faiss, pynndescent, scikit-learn's `kneighbors` or scipy's `cKDTree.query`, memory
    maps and HDF5 datasets, which are read by blocks. W = (A + Aᵀ)/2 with A_ij = w(d_ij) as
    `knn_graph` makes it: `weights` "local", "gaussian" (`sigma`) or "connectivity". Lists are put
    in order. No neighbour is -1, or an infinite distance. Where rows list themselves, that place
    is none of the k, and a row that does not, as among copies of a point, loses its last.
    faiss's `IndexFlatL2` gives squares: pass their root.

    Components are not joined, as there are no points. Distances keep single precision. Raises
    InputError. Cost O(n k log k), the lists once more and W.
    """
    check_choice(weights, WEIGHTS, "weights")
    scale = None if sigma is None else check_positive(sigma, "sigma")
    J = _as_lists(indices, "indices", "iu", "whole numbers from 0, -1 for none")
    d = _as_lists(distances, "distances", "iuf", "real numbers")
    if tuple(J.shape) != tuple(d.shape):
        raise InputError(
            f"distances: shape {tuple(d.shape)}, but indices have {tuple(J.shape)}; give one for "
            "each neighbour"
        )
    found, lengths = _checked(J, d)
    return _graph_of(found, lengths, weights, scale)


def _as_lists(lists: Any, where: str, kinds: str, wanted: str) -> Any:
    """An array, or what is read like one, of shape (n, k) and of these kinds; InputError."""
    found = lists if hasattr(lists, "shape") and hasattr(lists, "dtype") else np.asarray(lists)
    if len(found.shape) != 2 or 0 in found.shape:
        raise InputError(f"{where}: shape {tuple(found.shape)}; give a row of k a point, (n, k)")
    if found.dtype.kind not in kinds:
        raise InputError(f"{where}: type {found.dtype} given; give {wanted}")
    return found


def _checked(indices: Any, distances: Any) -> Lists:
    """Lists in order without a row's own number, -1 and Inf where there is none; InputError."""
    n, k = (int(size) for size in indices.shape)
    single = distances.dtype in (np.float32, np.float16)
    nodes, lengths = np.empty((n, k), np.int32), np.empty((n, k), np.float32 if single else float)
    own = falling = rising = False
    step = max(1, _BLOCK // k)
    for a in range(0, n, step):
        part = slice(a, min(a + step, n))
        J, d = np.asarray(indices[part]), np.asarray(distances[part], dtype=lengths.dtype)
        rows = np.arange(a, part.stop)[:, None]
        there = (J >= 0) & ~np.isposinf(d)
        for wrong, what in (
            ((J < -1) | ((n <= J) & there), f"there are {n} points; number them 0, 1, 2 …"),
            (np.isnan(d) & there, "its distance is NaN; give -1 where there is no neighbour"),
            ((d < 0) & there, "its distance is below 0; give distances, not similarities"),
        ):
            if wrong.any():
                i, j = (int(at[0]) for at in np.nonzero(wrong))
                raise InputError(f"indices: row {a + i} lists {J[i, j]}: {what}")
        falls, rises = d[:, 1:] < d[:, :-1], d[:, 1:] > d[:, :-1]
        both = there[:, 1:] & there[:, :-1]
        falling = falling or bool((falls & both).any())
        rising = rising or bool((rises & both).any())
        is_own = rows == J
        own = own or bool((is_own & there).any())
        J = np.where(there & ~is_own, J, -1).astype(np.int32)
        d = np.where(J >= 0, d, np.inf)
        order = np.lexsort((J, d), axis=1)
        nodes[part], lengths[part] = (np.take_along_axis(one, order, 1) for one in (J, d))
        by_number = np.sort(J, axis=1)
        twice = (by_number[:, 1:] == by_number[:, :-1]) & (by_number[:, 1:] >= 0)
        if twice.any():
            i, j = (int(at[0]) for at in np.nonzero(twice))
            raise InputError(
                f"indices: row {a + i} lists {by_number[i, j]} twice; give every neighbour once"
            )
    if falling and not rising:
        raise InputError(
            "distances: fall along every row, as similarities do; give distances, such as "
            "sqrt(2 - 2 cos)"
        )
    if own:
        nodes, lengths = nodes[:, :-1], lengths[:, :-1]
    if not (nodes >= 0).any():
        raise InputError(f"indices: {n} points but no neighbour; nothing to cluster")
    return np.ascontiguousarray(nodes), np.ascontiguousarray(lengths)


def _graph_of(
    indices: NDArray[np.int32],
    distances: NDArray[np.floating],
    weights: str,
    sigma: float | None = None,
) -> Graph:
    """The graph of lists (n, k) in order."""
    scale: NDArray[np.float64] | float = 1.0
    if weights == "local":
        scale = local_scales(distances)
    elif weights == "gaussian":
        scale = mean_distance(distances) if sigma is None else sigma
    W = neighbour_affinity(indices, distances, weights, scale)
    info = {"kind": "kneighbors", "n_neighbors": indices.shape[1], "weights": weights}
    return Graph.from_affinity(W, info)


# --- Sparse matrices that scikit-learn and scanpy make: ones or distances, a row a point


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
    return _graph_of(indices, distances, weights)


def _lists(D: sp.csr_matrix) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Neighbour lists (n, k), ascending, -1 and Inf where a row has fewer, no point its own."""
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
