"""What is a graph in another form: lists of neighbours, rectangular matrices, networks.

Neighbours that somebody has already become a graph weighted as ours: faiss, pynndescent and
scikit-learn give lists (n, k); scikit-learn and scanpy sparse matrices, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.check import as_csr, check_choice, check_positive, positive
from mustlink.errors import InputError
from mustlink.graph.disk_graph import DiskGraph
from mustlink.graph.graph import Graph, within_range
from mustlink.graph.weights import WEIGHTS, local_scales, mean_distance, neighbour_affinity

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


# --- What is a graph in another form: rectangular matrices, and networks of other libraries
#
# With degrees T, as they are or regularised, [[0, M], [Mᵀ, 0]] scaled by T^-½ on both sides has the
# eigenpairs ±σ, (u, ±v)/√2 of the singular triplets of T_r^-½ M T_c^-½: what clusters a graph by
# its eigenvectors clusters both sides of M by its singular vectors (Dhillon 2001), and whatever
# takes a graph takes M.


def bipartite_graph(M: Any, info: Mapping[str, Any] | None = None) -> Graph:
    """The graph of n + m nodes, the n rows of M first, then its m columns: W = [[0, M], [Mᵀ, 0]].

    M (n, m) is sparse or dense, entries >= 0: documents and words, users and what they bought. Any
    method takes the graph; labels and constraints number column j as n + j, and labels of the n
    rows alone will do. What was fitted has `row_labels_` (n,) and `column_labels_` (m,) beside
    `labels_` (n + m,). Rows and columns without an entry are nodes without an edge. Cost: one
    transpose of M. Raises InputError.
    """
    found = positive(as_csr(M, "M"), "M")
    n, m = found.shape
    if found.nnz == 0:
        raise InputError(f"M: shape ({n}, {m}) but no entry; nothing to cluster")
    back = found.T.tocsr()
    index = np.dtype(np.int32 if max(n + m, 2 * found.nnz) < 2**31 else np.int64)
    indices = np.concatenate([found.indices.astype(index) + index.type(n), back.indices])
    indptr = np.concatenate([found.indptr.astype(index), back.indptr[1:].astype(index) + found.nnz])
    W = sp.csr_matrix(
        (np.concatenate([found.data, back.data]), indices.astype(index, copy=False), indptr),
        shape=(n + m, n + m),
    )
    W.has_canonical_format = True
    W, changes = within_range(W)
    return Graph(W, {"kind": "bipartite", **(info or {}), "sides": (n, m), **changes})


def sides_of(graph: Graph | DiskGraph) -> tuple[int, int] | None:
    """Rows and columns of the matrix that a graph is of, None for any other graph."""
    found = graph.info.get("sides")
    return None if found is None else (int(found[0]), int(found[1]))


def on_both_sides(y: Any, graph: Graph | DiskGraph) -> Any:
    """Labels of all nodes: those of the rows of a bipartite graph get unknown columns.

    Whatever else they are, they stay as they are.
    """
    sides = sides_of(graph)
    if y is None or sides is None:
        return y
    rows: NDArray[Any] = np.asarray(y)
    if rows.shape != sides[:1]:
        return y
    if rows.dtype.kind == "b":
        rows = rows.astype(np.int64)
    unknown: Any = "" if rows.dtype.kind in "US" else -1
    return np.concatenate([rows, np.full(sides[1], unknown, dtype=rows.dtype)])


# --- Networks as networkx, igraph and scikit-network hold them, edge weights included
#
# None of them is imported here: an object is known by the module of its class.


_WEIGHT = "weight"  # the attribute of edges that all three agree on
_UNDIRECTED = {"networkx": "G.to_undirected()", "igraph": "G.as_undirected(combine_edges='sum')"}


def unwrapped(X: Any) -> Any:
    """A network of networkx, igraph or scikit-network as a Graph, anything else as it is.

    Nodes are numbered as the library lists them (`list(G)`, `G.vs`, rows of `adjacency`); edges
    weigh what their attribute "weight" says, 1 without it, and parallel edges their sum. Raises
    InputError for directed networks. Cost O(nodes + edges), at the pace of that library's lists.
    """
    library, adjacency = _adjacency(X)
    if library is None:
        return X
    if library in _UNDIRECTED and X.is_directed():
        raise InputError(
            f"X: a directed {library} graph; cluster it by DISIM, or pass {_UNDIRECTED[library]} "
            "where directions do not matter"
        )
    return Graph.from_affinity(adjacency())


def arcs_of(X: Any) -> sp.csr_matrix:
    """A (n, n) of a directed graph, A_ij the weight from i to j: a matrix or a network object.

    Undirected networks have every edge in both directions. Raises InputError for what is not
    square, not finite, negative or without an edge.
    """
    if isinstance(X, Graph):
        raise InputError("X: a Graph has no directions; give the adjacency matrix (n, n)")
    A = positive(as_csr(_adjacency(X)[1](), "X"), "X")
    if A.shape[0] != A.shape[1]:
        raise InputError(
            f"X: shape {A.shape} is not square; where rows and columns are of two kinds, fit "
            "bipartite_graph(M) by NCut"
        )
    if A.nnz == 0:
        raise InputError(f"X: {A.shape[0]} nodes but no edge; nothing to cluster")
    return A


def _adjacency(X: Any) -> tuple[str | None, Callable[[], Any]]:
    """The library whose network X is, None if of none, and how to get its adjacency matrix."""
    module = type(X).__module__.split(".", 1)[0]
    if module == "networkx" and hasattr(X, "adj"):
        return module, lambda: _of_networkx(X)
    if module == "igraph" and hasattr(X, "get_edgelist"):
        return module, lambda: _of_igraph(X)
    if module == "sknetwork":
        return module, lambda: _of_scikit_network(X)
    return None, lambda: X


def _of_networkx(G: Any) -> sp.csr_matrix:
    from networkx import to_scipy_sparse_array

    if len(G) == 0:
        raise InputError("X: a networkx graph without nodes; nothing to cluster")
    try:
        return sp.csr_matrix(to_scipy_sparse_array(G, weight=_WEIGHT, dtype=np.float64))
    except (TypeError, ValueError):
        raise InputError(
            f'X: edges of the networkx graph have a "{_WEIGHT}" that is no number; give numbers, '
            "or take the attribute away"
        ) from None


def _of_igraph(G: Any) -> sp.csr_matrix:
    n, edges = G.vcount(), np.asarray(G.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    weights = np.ones(len(edges))
    if _WEIGHT in G.es.attributes():
        try:
            weights = np.asarray(G.es[_WEIGHT], dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f'X: edges of the igraph graph have a "{_WEIGHT}" that is no number; give numbers, '
                "or take the attribute away"
            ) from None
    i, j = edges.T
    if not G.is_directed():
        apart = i != j  # a loop is one entry of the diagonal
        i, j = np.concatenate([i, j[apart]]), np.concatenate([j, i[apart]])
        weights = np.concatenate([weights, weights[apart]])
    return sp.csr_matrix((weights, (i, j)), shape=(n, n))


def _of_scikit_network(data: Any) -> Any:
    adjacency = getattr(data, "adjacency", None)
    if adjacency is None:
        raise InputError(
            "X: a scikit-network data set without an adjacency matrix; give the matrix that is "
            "meant, such as data.biadjacency"
        )
    return adjacency
