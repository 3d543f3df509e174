"""Several graphs of the same nodes as one: a walk that changes between them.

The walk of graph v is at node i with probability π_v(i) = d_v(i)/vol_v. A walker that is on graph v
with probability w_v π_v(i)/Σ_u w_u π_u(i) when at i walks on the sum of the graphs, each divided by
its volume (Zhou & Burges 2007, for undirected graphs):

    W = Σ_v c_v W_v,   c_v = (w_v/vol_v) / Σ_u (w_u/vol_u)

The unit of a graph's weights, or how many neighbours it has, do not count; c sums to 1, so that
weights stay in [0, 1] where they were.

Without given weights, graphs weigh as they tell pairs apart. A graph ranks pairs by the
walks between their ends, k_ij = Σ_t α^t (P^t D^-1)_ij with P = D^-1W. It is right in A of the cases
where a must-link ranks above a cannot-link (the area under the ROC curve, beliefs counted), and
weighs A/(1 − A) − 1: its odds, less those of a coin. Constraints are no part of a graph, so all of
them judge it. Without constraints each graph is judged by the edges of the others, against the same
nodes joined at random. Of two graphs it cannot be said which one is wrong: they weigh the same.

Chosen on mfeat (6 tables), 3sources, NGs (3 each) and amazon_photo (links, words), each with and
without a graph of noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.constraints.pairs import Floats, Ints, upper_entries
from mustlink.core.check import check_graph_weights
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink.graph.forms import unwrapped
from mustlink.graph.graph import Graph, fold

VIEW, VIEW_OF_X = "view", "X"  # key of a graph's info that has its name, and that of X itself
_MORE = 8  # times the entries of a graph that it may have where its equal rows are apart


@dataclass(frozen=True, eq=False)
class Views:
    """What is fitted, `first`, other graphs of its nodes, and what is `known` of these."""

    first: Any
    others: tuple[Graph, ...]
    known: Callable[[Graph], Constraints]


def several(X: Any, graphs: Any, known: Callable[[Graph], Constraints]) -> Any:
    """X with other graphs of its nodes. Raises InputError.

    `graphs` are Graphs, affinities (n, n) or network objects; where X is None the first of them
    takes its place. Errors number them, X being 0.
    """
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
    """W = Σ_v c_v W_v of graphs with the same nodes, `weights` (V,) summing to 1; `why` is info.

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
    names = names_of(graphs)
    info = {
        **_info_of(used),
        "graphs": [str(one.info.get("kind")) for one in graphs],
        **({"views": names} if names else {}),
        "graph_weights": [round(w, 4) for w in weights.tolist()],
        "why": why,
    }
    return replace(graphs[0], affinity=W, info=info)


def names_of(graphs: Sequence[Graph]) -> list[str]:
    """What the graphs of views are called; none where there are no views."""
    there = any(VIEW in one.info for one in graphs)
    return [str(one.info.get(VIEW, VIEW_OF_X)) for one in graphs] if there else []


def _info_of(used: Sequence[Graph]) -> dict[str, Any]:
    """Info that all graphs share; those of one kind make a graph of this kind."""
    first = used[0].info
    shared = {
        name: value
        for name, value in first.items()
        if name != VIEW and all(repr(one.info.get(name)) == repr(value) for one in used)
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
    """`rows_as_nodes`; raises InputError where rows are too many."""
    found = rows_as_nodes(graph)
    if found is None:
        raise InputError(
            f"graphs: rows that are equal are one node in number {number} and not in others, and "
            'too many are; make all graphs by knn_graph(…, duplicates="keep")'
        )
    return found


def rows_as_nodes(graph: Graph) -> Graph | None:
    """The graph in which every row is a node: what is between two nodes is between their copies.

    None where it would have eight times as many entries.
    """
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
        return None
    shape = rows.size, graph.n_nodes
    P = sp.csr_matrix((np.ones(rows.size, W.dtype), rows, np.arange(rows.size + 1)), shape=shape)
    found = sp.csr_matrix(P @ W @ P.T)
    found.sort_indices()
    plain = replace(graph, affinity=found, weights=None, rows=None)
    counted = counts is not None and bool((counts != 1.0).any())
    return plain.weighing(counts) if counts is not None and counted else plain


_SOURCES = 128  # nodes from which walks start
_AT_ONCE = 16  # of them
_STEPS, _ALPHA = 24, 0.95
_FEWEST = 10  # must-links, and cannot-links, below which they say too little
_STORED = 24  # bytes of a weight of a sum of two, and of the sum before
_FEW = 1 << 18  # entries up to which scipy, half as fast, need not load a compiler


class Judged(NamedTuple):
    """Weights (V,) that sum to 1, and why."""

    weights: Floats
    why: str


def judged_weights(
    graphs: Sequence[Graph], known: Constraints, seed: int, recorder: Recorder
) -> Judged:
    """Weights of graphs with the same nodes by what is known of these; see above.

    Cost: 24 products of every graph with a block of 128 columns, 16 at a time; without constraints
    once for every other graph.
    """
    count = len(graphs)
    equal = np.full(count, 1.0 / count)
    rng = np.random.default_rng(seed)
    pairs, beliefs = _sampled(known, rng)
    if graphs[0].rows is not None:
        pairs = graphs[0].rows[pairs].astype(np.int64)
    apart = pairs[:, 0] != pairs[:, 1]
    pairs, beliefs = pairs[apart], beliefs[apart]
    least = float(min(np.count_nonzero(beliefs > 0), np.count_nonzero(beliefs < 0)))
    few = least < _FEWEST
    if count == 1 or (few and count == 2):
        why = "equal: without constraints it cannot be said which of two graphs is wrong"
        return Judged(equal, "one graph" if count == 1 else why)
    if recorder.deadline.is_over:
        recorder.skip_for_time("graphs were not compared, they weigh the same")
        return Judged(equal, "equal: no time to compare them")
    with recorder.stage("weights of the graphs") as advance:
        if few:
            right, of = _agreement(graphs, seed, advance), "the others' edges above random pairs"
        else:
            right, of = np.empty(count), "must-links above cannot-links"
            for v, graph in enumerate(graphs):
                right[v] = _smoothed(_area(walks_between(graph, pairs), beliefs), least)
                advance((v + 1) / count)
    odds = np.maximum(right / (1.0 - right) - 1.0, 0.0)
    shares = ", ".join(f"{share:.1%}" for share in right)
    if not odds.any():
        return Judged(equal, f"equal: none ranks {of} more often than chance ({shares})")
    return Judged(odds / odds.sum(), f"odds above chance; {of} are ranked in {shares} of the cases")


def one_of(graph: Graph, views: Views, wanted: Any, seed: int, recorder: Recorder) -> Graph:
    """A graph and the others of its nodes as one, their weights `wanted` or judged; InputError."""
    graphs = on_same_nodes([graph, *views.others])
    names = names_of(graphs)
    weights, why = check_graph_weights(wanted, len(graphs), names), "given"
    if isinstance(weights, str):
        equal = weights == "equal"
        weights = np.full(len(graphs), 1.0 / len(graphs))
        if not equal:
            weights, why = judged_weights(graphs, views.known(graph), seed, recorder)
    recorder.budget.ask(_STORED * sum(one.affinity.nnz for one in graphs), "the sum of the graphs")
    found = sum_of(graphs, weights, why)
    shown = [f"{w:.3g}" for w in found.info["graph_weights"]]
    shown = [f"{name} {w}" for name, w in zip(names, shown, strict=True)] if names else shown
    listed = ", ".join(shown)
    recorder.note(f"{len(graphs)} graphs of the same nodes are one, weights {listed}: {why}")
    return found


def walks_between(graph: Graph, pairs: Ints) -> Floats:
    """What walks k (m,) join the ends of pairs (m, 2) of nodes, 0 where none of 24 steps do."""
    from mustlink.kernels.spmm import spmm

    W, degrees = graph.affinity, graph.degrees
    inverse = np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0)
    sources, column = np.unique(pairs[:, 0], return_inverse=True)
    column, found = np.asarray(column).ravel(), np.zeros(len(pairs))
    product = spmm if W.nnz > _FEW else lambda W, X: W @ X
    for first in range(0, sources.size, _AT_ONCE):
        own = sources[first : first + _AT_ONCE]
        start = np.zeros((W.shape[0], own.size), dtype=W.dtype)
        start[own, np.arange(own.size)] = inverse[own]
        step, X = (_ALPHA * inverse[:, None]).astype(W.dtype), start
        for _ in range(_STEPS):
            X = step * product(W, X) + start
        here = (column >= first) & (column < first + _AT_ONCE)
        found[here] = X[pairs[here, 1], column[here] - first]
    return found


def _sampled(known: Constraints, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Some of the constraints: pairs (m, 2) from at most 128 nodes, and beliefs (m,)."""
    kinds: list[tuple[Ints, Floats]] = []
    if known.shares is not None:
        own = rng.permutation(np.flatnonzero(known.shares.known))[:_SOURCES]
        i, j = np.triu_indices(own.size, 1)
        (within, between), shares = known.label_weights, known.shares.at(own)
        same = (shares.values[i] * shares.values[j]).sum(axis=1)
        belief = shares.belief[i] * shares.belief[j] * (within * same - between * (1.0 - same))
        kinds.append((np.column_stack([own[i], own[j]]), belief))
    elif known.labels is not None:
        own = rng.permutation(np.flatnonzero(known.labels >= 0))[:_SOURCES]
        i, j = np.triu_indices(own.size, 1)
        same = known.labels[own[i]] == known.labels[own[j]]
        within, between = known.label_weights
        kinds.append((np.column_stack([own[i], own[j]]), np.where(same, within, -between)))
    if known.pairs.size:
        kinds.append(_some(*known.merged, rng))
    if known.soft is not None:
        i, j, values = upper_entries(known.soft)
        kinds.append(_some(np.column_stack([i, j]), values, rng))
    if not kinds:
        return np.empty((0, 2), dtype=np.int64), np.empty(0)
    return np.concatenate([one[0] for one in kinds]), np.concatenate([one[1] for one in kinds])


def _some(pairs: Ints, beliefs: Floats, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Half as many pairs of each kind as walks may start from."""
    chosen = [
        rng.permutation(np.flatnonzero(kind))[: _SOURCES // 2]
        for kind in (beliefs > 0, beliefs < 0)
    ]
    rows = np.concatenate(chosen)
    return pairs[rows], beliefs[rows]


def _agreement(
    graphs: Sequence[Graph], seed: int, advance: Callable[[float], None]
) -> NDArray[np.float64]:
    """How each graph ranks edges of every other above the same nodes joined at random, (V,)."""
    count, right = len(graphs), np.zeros(len(graphs))
    for u, other in enumerate(graphs):
        rng = np.random.default_rng(seed)  # of every graph the same, whatever their order
        W = other.affinity
        linked = np.flatnonzero(np.diff(W.indptr))
        own = rng.permutation(linked)[:_SOURCES]
        length = W.indptr[own + 1] - W.indptr[own]
        near = W.indices[W.indptr[own] + (rng.random(own.size) * length).astype(np.int64)]
        ends = np.concatenate([near, rng.permutation(near)])
        pairs = np.column_stack([np.tile(own, 2), ends]).astype(np.int64)
        beliefs = np.repeat([1.0, -1.0], own.size)
        for v, graph in enumerate(graphs):
            if v != u:
                area = _area(walks_between(graph, pairs), beliefs) if own.size else 0.5
                right[v] += _smoothed(area, own.size) / (count - 1)
            advance((u * count + v + 1) / count**2)
    return right


def _area(scores: Floats, beliefs: Floats) -> float:
    """Share of the pairs of a must-link and a cannot-link that are in this order, ties ½."""
    level: Any = np.unique(scores, return_inverse=True)[1]
    must = np.bincount(level, np.maximum(beliefs, 0.0))
    cannot = np.bincount(level, np.maximum(-beliefs, 0.0), minlength=must.size)
    below = np.cumsum(cannot) - cannot / 2
    return float(must @ below / (must.sum() * cannot.sum()))


def _smoothed(area: float, n: float) -> float:
    """The share with one case more, half right: of n that are all right the odds are 2n + 1."""
    return (area * n + 0.5) / (n + 1.0)
