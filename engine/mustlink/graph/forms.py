"""What is a graph in another form: rectangular matrices, and networks of other libraries.

With degrees T, as they are or regularised, [[0, M], [Mᵀ, 0]] scaled by T^-½ on both sides has the
eigenpairs ±σ, (u, ±v)/√2 of the singular triplets of T_r^-½ M T_c^-½: what clusters a graph by its
eigenvectors clusters both sides of M by its singular vectors (Dhillon 2001), and whatever takes a
graph takes M.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.check import as_csr, positive
from mustlink.errors import InputError
from mustlink.graph.disk_graph import DiskGraph
from mustlink.graph.graph import Graph, within_range


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
_UNDIRECTED = {
    "networkx": "G.to_undirected()",
    "igraph": "G.as_undirected(combine_edges='sum')",
}


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
