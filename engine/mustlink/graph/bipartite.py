"""Rectangular matrices as graphs: rows and columns are nodes, and entries join one with another.

With degrees T, as they are or regularised, [[0, M], [Mᵀ, 0]] scaled by T^-½ on both sides has the
eigenpairs ±σ, (u, ±v)/√2 of the singular triplets of T_r^-½ M T_c^-½: what clusters a graph by its
eigenvectors clusters both sides of M by its singular vectors (Dhillon 2001), and whatever takes a
graph takes M.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.check import as_csr, positive
from mustlink.errors import InputError
from mustlink.graph.graph import Graph, within_range
from mustlink.graph.stored import StoredGraph


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
    W, told = within_range(W)
    return Graph(W, {"kind": "bipartite", **(info or {}), "sides": (n, m), **told})


def sides_of(graph: Graph | StoredGraph) -> tuple[int, int] | None:
    """Rows and columns of the matrix that a graph is of, None for any other graph."""
    found = graph.info.get("sides")
    return None if found is None else (int(found[0]), int(found[1]))


def on_both_sides(y: Any, graph: Graph | StoredGraph) -> Any:
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
