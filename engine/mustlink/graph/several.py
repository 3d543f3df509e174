"""Several graphs of the same nodes as one: a walk that changes between them.

The walk of graph v is at node i with probability π_v(i) = d_v(i)/vol_v. A walker that is on graph v
with probability w_v π_v(i)/Σ_u w_u π_u(i) when at i walks on the sum of the graphs, each divided by
its volume (Zhou & Burges 2007, for undirected graphs):

    W = Σ_v c_v W_v,   c_v = (w_v/vol_v) / Σ_u (w_u/vol_u)

The unit of a graph's weights, or how many neighbours it has, do not count; c sums to 1, so that
weights stay in [0, 1] where they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.check import numeric_array
from mustlink.constraints import Constraints
from mustlink.errors import InputError
from mustlink.graph.graph import Graph
from mustlink.graph.multiplicity import fold
from mustlink.graph.network_objects import unwrapped

Floats = NDArray[np.float64]
WORDS = ("auto", "equal")
_MORE = 8  # times the entries of a graph that it may have where its equal rows are apart


@dataclass(frozen=True, eq=False)
class Views:
    """What is fitted, `first`, and other graphs of its nodes; `known` is what is said of these."""

    first: Any
    others: tuple[Graph, ...]
    known: Callable[[Graph], Constraints]


def several(X: Any, graphs: Any, known: Callable[[Graph], Constraints]) -> Any:
    """X with other graphs of its nodes; X itself where there are none. Raises InputError.

    `graphs` are Graphs, affinities (n, n) or network objects; where X is None the first of them
    takes its place. Errors number them, X being 0.
    """
    if graphs is None:
        return X
    if isinstance(graphs, Graph) or sp.issparse(graphs) or not isinstance(graphs, Sequence):
        raise InputError(f"graphs: {type(graphs).__name__} given; give a list of graphs")
    found = []
    for number, given in enumerate(graphs, 0 if X is None else 1):
        one = unwrapped(given)
        try:
            found.append(one if isinstance(one, Graph) else Graph.from_affinity(one))
        except InputError as error:
            points = len(set(getattr(one, "shape", ()))) == 2
            cure = "; knn_graph(X) makes a graph of points" if points else ""
            raise InputError(f"graphs: number {number}: {error}{cure}") from None
    if X is None and not found:
        raise InputError("graphs: the list is empty, and X is None; give at least one graph")
    return Views(found[0], tuple(found[1:]), known) if X is None else Views(X, tuple(found), known)


def check_graph_weights(wanted: Any, count: int) -> Floats | str:
    """One of the words, or weights (count,) >= 0 that sum to 1; raises InputError."""
    where = "graph_weights"
    if isinstance(wanted, str):
        if wanted not in WORDS:
            raise InputError(f'{where}: "{wanted}" given; give "auto", "equal" or numbers')
        return wanted
    found = np.asarray(numeric_array(wanted, where), dtype=np.float64)
    if found.shape != (count,):
        noun = "graph" if count == 1 else "graphs"
        raise InputError(f"{where}: shape {found.shape} for {count} {noun}; give one weight each")
    if not np.isfinite(found).all() or (found < 0).any() or not found.any():
        raise InputError(f"{where}: {found.tolist()} given; at least 0, finite, not all 0")
    found = found / found.max()  # whose sum could overflow
    return np.asarray(found / found.sum())


def on_same_nodes(graphs: Sequence[Graph]) -> list[Graph]:
    """The graphs with the same nodes: where equal rows are one in some only, rows are nodes.

    Raises InputError for another number of rows, rows that count differently, and where too many
    rows are equal.
    """
    first = graphs[0]
    for number, one in enumerate(graphs):
        if one.n_rows != first.n_rows:
            raise InputError(
                f"graphs: number {number} has {one.n_rows} nodes, the first {first.n_rows}; give "
                "graphs of the same nodes, in the same order"
            )
    if all(_equal(one.rows, first.rows) and _equal(one.weights, first.weights) for one in graphs):
        return list(graphs)
    apart = [_of_rows(one, number) for number, one in enumerate(graphs)]
    counts = [one.weights for one in apart if one.weights is not None]
    if not counts:
        return apart
    if not all(_equal(one, counts[0]) for one in counts):
        raise InputError("graphs: rows count differently in them; give sample_weight to fit alone")
    return [one.weighing(counts[0]) if one.weights is None else one for one in apart]


def sum_of(graphs: Sequence[Graph], weights: Floats, why: str) -> Graph:
    """W = Σ_v c_v W_v of graphs with the same nodes, `weights` (V,) summing to 1; `why` is told.

    Raises InputError where no graph of weight above 0 has an edge. Cost O(Σ nnz).
    """
    volumes = np.array([one.volume for one in graphs])
    there = (volumes > 0) & (weights > 0)
    if not there.any():
        raise InputError("graphs: those of weight above 0 have no edge; nothing to cluster")
    share = np.zeros(len(graphs))
    share[there] = weights[there] / (volumes[there] / volumes[there].max())
    share /= share.sum()
    total: Any = None
    for one, c in zip(graphs, share.tolist(), strict=True):
        if c > 0:
            part = one.affinity if c == 1.0 else one.affinity * c
            total = part if total is None else total + part
    W = sp.csr_matrix(total)
    if W.indices.dtype != np.int32 and max(W.nnz, W.shape[0]) < 2**31:
        parts = W.data, W.indices.astype(np.int32), W.indptr.astype(np.int32)
        W = sp.csr_matrix(parts, shape=W.shape)
    used = [one for one, acts in zip(graphs, there.tolist(), strict=True) if acts]
    told = {
        **_info_of(used),
        "graphs": [str(one.info.get("kind")) for one in graphs],
        "graph_weights": [round(w, 4) for w in weights.tolist()],
        "why": why,
    }
    return replace(graphs[0], affinity=W, info=told)


def _info_of(used: Sequence[Graph]) -> dict[str, Any]:
    """What is told of all graphs alike; those of one kind make a graph of this kind."""
    first = used[0].info
    shared = {
        name: value
        for name, value in first.items()
        if all(repr(one.info.get(name)) == repr(value) for one in used)
    }
    # What was given has nodes that hang on by one edge, whatever else joins them.
    kind = "precomputed" if any(one.is_network for one in used) else "several"
    if "kind" in shared and "n_neighbors" in first:
        shared["n_neighbors"] = max(one.info["n_neighbors"] for one in used)
    return {"kind": kind, **shared}


def _equal(one: Any, other: Any) -> bool:
    """Whether two arrays, or None, are the same."""
    if one is None or other is None:
        return one is other
    return bool(np.array_equal(one, other))


def _of_rows(graph: Graph, number: int) -> Graph:
    """The graph in which every row is a node: what is between two nodes is between their copies."""
    if graph.rows is None:
        return graph
    rows, counts = graph.rows, graph.row_weights()
    W = graph.affinity
    if graph.weights is not None:
        there = graph.weights > 0
        W = fold(W, np.divide(1.0, graph.weights, out=np.zeros(graph.n_nodes), where=there))
    copies = np.bincount(rows, minlength=graph.n_nodes).astype(np.float64)
    pattern = sp.csr_matrix((np.ones(W.nnz), W.indices, W.indptr), shape=W.shape)
    entries = float(np.dot(copies, np.asarray(pattern @ copies)))
    if entries > _MORE * max(W.nnz, 1):
        raise InputError(
            f"graphs: rows that are equal are one node in number {number} and not in others, and "
            'too many are; make all graphs by knn_graph(…, duplicates="keep")'
        )
    shape = rows.size, graph.n_nodes
    P = sp.csr_matrix((np.ones(rows.size, W.dtype), rows, np.arange(rows.size + 1)), shape=shape)
    found = sp.csr_matrix(P @ W @ P.T)
    found.sort_indices()
    plain = replace(graph, affinity=found, weights=None, rows=None)
    counted = counts is not None and bool((counts != 1.0).any())
    return plain.weighing(counts) if counts is not None and counted else plain
