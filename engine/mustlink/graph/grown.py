"""A given graph with new nodes: their edges to the nodes that are there, and to each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mustlink.check import as_affinity
from mustlink.check.arrays import as_csr, positive
from mustlink.errors import InputError
from mustlink.graph.graph import Graph
from mustlink.graph.multiplicity import fold


def joined_nodes(graph: Graph, rows: Any) -> Graph:
    """The graph of n nodes with m more, of which `rows` (m, n + m) are the edges; InputError.

    Columns from n on are the new nodes, of which edges are told at both ends. Weights are in the
    units of the graph as it was fitted. Cost: one pass over the edges.
    """
    kind = graph.info.get("kind")
    if kind != "precomputed" or graph.rows is not None:
        raise InputError(f"add: nodes cannot be joined to a graph of kind {kind!r}; fit again")
    n = graph.n_nodes
    B = positive(as_csr(rows, "add"), "add")
    m = B.shape[0]
    if m == 0 or B.shape[1] != n + m:
        raise InputError(
            f"add: shape {B.shape} for {m} new nodes beside {n}; give a row of edges for each new "
            f"node, ({m}, {n + m}), the new nodes last"
        )
    if np.diff(B.indptr).min(initial=1) == 0:
        empty = int(np.argmin(np.diff(B.indptr)))
        raise InputError(f"add: new node {empty} has no edge; leave it out")
    if "scaled" in graph.info:  # as `graph.weight_range` did with the others
        B = B.copy()
        B.data = np.ldexp(B.data, graph.info["scaled"])
    C = B[:, n:]
    if C.nnz:
        C = as_affinity(C, "add: edges between new nodes")
    B = B[:, :n].astype(graph.affinity.dtype)
    W: Any = sp.bmat([[graph.affinity, B.T], [B, C.astype(B.dtype)]], format="csr")
    W.sort_indices()
    weights = None
    if graph.weights is not None:
        weights = np.append(graph.weights, np.ones(m))
        ends = np.append(np.ones(n), np.zeros(m))  # edges among old nodes are folded already
        outer: Any = sp.csr_matrix(W - sp.diags_array(ends) @ W @ sp.diags_array(ends))
        W = sp.csr_matrix(W - outer + fold(outer, weights))
    added = int(graph.info.get("added", 0)) + m
    return Graph(sp.csr_matrix(W), {**graph.info, "added": added}, weights)
