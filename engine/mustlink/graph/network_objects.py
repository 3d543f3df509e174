"""Networks as networkx, igraph and scikit-network hold them, edge weights included.

None of them is imported here: an object is known by the module of its class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mustlink.check import as_csr, positive
from mustlink.errors import InputError
from mustlink.graph.graph import Graph

_WEIGHT = "weight"  # the attribute of edges that all three agree on


def unwrapped(X: Any) -> Any:
    """A network of networkx, igraph or scikit-network as a Graph, anything else as it is.

    Nodes are numbered as the library lists them (`list(G)`, `G.vs`, rows of `adjacency`); edges
    weigh what their attribute "weight" says, 1 without it, and parallel edges their sum. Raises
    InputError for directed networks. Cost O(nodes + edges), at the pace of that library's lists.
    """
    module = type(X).__module__.split(".", 1)[0]
    if module == "networkx" and hasattr(X, "adj"):
        if X.is_directed():
            raise _directed("networkx", "G.to_undirected()")
        return Graph.from_affinity(_of_networkx(X))
    if module == "igraph" and hasattr(X, "get_edgelist"):
        if X.is_directed():
            raise _directed("igraph", "G.as_undirected(combine_edges='sum')")
        return Graph.from_affinity(_of_igraph(X))
    if module == "sknetwork":
        return Graph.from_affinity(_of_scikit_network(X))
    return X


def arcs_of(X: Any) -> sp.csr_matrix:
    """A (n, n) of a directed graph, A_ij the weight from i to j: a matrix or a network object.

    Undirected networks have every edge in both directions. Raises InputError for what is not
    square, not finite, negative or without an edge.
    """
    if isinstance(X, Graph):
        raise InputError("X: a Graph has no directions; give the adjacency matrix (n, n)")
    module = type(X).__module__.split(".", 1)[0]
    if module == "networkx" and hasattr(X, "adj"):
        X = _of_networkx(X)
    elif module == "igraph" and hasattr(X, "get_edgelist"):
        X = _of_igraph(X)
    elif module == "sknetwork":
        X = _of_scikit_network(X)
    A = positive(as_csr(X, "X"), "X")
    if A.shape[0] != A.shape[1]:
        raise InputError(
            f"X: shape {A.shape} is not square; where rows and columns are of two kinds, fit "
            "bipartite_graph(M) by NCut"
        )
    if A.nnz == 0:
        raise InputError(f"X: {A.shape[0]} nodes but no edge; nothing to cluster")
    return A


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


def _directed(library: str, cure: str) -> InputError:
    return InputError(
        f"X: a directed {library} graph; cluster it by DISIM, or pass {cure} where directions do "
        "not matter"
    )
