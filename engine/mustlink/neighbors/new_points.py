"""New points beside fitted ones: what their nearest have, averaged or put to the vote, and edges.

The second half joins them to a neighbour graph that is there, with equal rows counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink.graph.graph import Graph, fold
from mustlink.graph.weights import edge_weights, local_scales
from mustlink.neighbors.exact import nearest_points
from mustlink.neighbors.knn import any_rows
from mustlink.neighbors.points_by_rows import along_the_ground, group_equal_rows, scaled_points

_BLOCK = 1 << 16  # new points at a time
_NEIGHBOUR = 7  # whose distance is a node's scale
_TINY = np.finfo(np.float32).tiny
_ALL = 2e8  # pairs of points up to which all are compared
_LANDMARKS = 4.0  # times √n fitted points that walks begin at
_LEFT = 6  # nodes whose neighbours are looked at
_RANGE = 1 << 12  # nodes looked at at once
_GROUP = 200  # new points that are compared with each other, about

Points = NDArray[np.floating]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Weighted = tuple[slice, NDArray[np.int32], Floats]


@dataclass(frozen=True, eq=False)
class NewPoints:
    """New points (q, d) beside fitted ones (m, d), which are distinct.

    `rows` (m,) are those of the fitted among the caller's n and `counts` (m,) what they count;
    None: all of them, and all count 1.
    """

    new: Points
    fitted: Points
    n_neighbors: int
    metric: Any
    rows: NDArray[np.int64] | None = None
    counts: Floats | None = None

    @classmethod
    def beside(
        cls, points: Points, graph: Graph, new: Points, n_neighbors: int, metric: Any
    ) -> NewPoints:
        """Beside points (n, d) and their graph: equal rows are one neighbour, which counts them."""
        if graph.rows is None and graph.weights is None:
            return cls(new, points, n_neighbors, metric)
        weights = np.ones(graph.n_nodes) if graph.weights is None else graph.weights
        rows, counts = graph.first_rows[weights > 0], weights[weights > 0]
        return cls(new, points[rows], n_neighbors, metric, rows, counts)

    def mean(self, values: NDArray[np.floating]) -> Floats:
        """Σ_j w_j c_j v_j / Σ_j w_j c_j (q, K) over the nearest, of values (n, K) of all rows."""
        found = np.empty((self.new.shape[0], values.shape[1]))
        for part, block in self.means(values):
            found[part] = block
        return found

    def means(self, values: NDArray[np.floating]) -> Iterator[tuple[slice, Floats]]:
        """The rows of `mean` by blocks of some MB: which, and their values (b, K)."""
        from mustlink.kernels.blocks import row_slices

        values = self._of(values)
        for part, indices, weights in self._neighbours():
            total = weights.sum(axis=1, keepdims=True)
            for rows in row_slices(total.size, values.shape[1]):
                found = np.zeros((indices[rows].shape[0], values.shape[1]))
                for place in range(indices.shape[1]):
                    found += weights[rows, place, None] * values[indices[rows, place]]
                yield slice(part.start + rows.start, part.start + rows.stop), found / total[rows]

    def vote(self, labels: NDArray[np.integer]) -> NDArray[np.int64]:
        """The label (q,) with the largest Σ_j w_j c_j, of labels (n,); of equals, the smallest."""
        numbers, codes = np.unique(self._of(labels), return_inverse=True)
        codes = codes.ravel()
        found = np.empty(self.new.shape[0], dtype=np.int64)
        for part, indices, weights in self._neighbours():
            own = codes[indices]
            votes = np.zeros(weights.shape)  # of each neighbour's label, however many there are
            for place in range(indices.shape[1]):
                votes += np.where(own == own[:, [place]], weights[:, [place]], 0.0)
            most = votes == votes.max(axis=1, keepdims=True)
            found[part] = numbers[np.where(most, own, numbers.size).min(axis=1)]
        return found

    def _of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the fitted points, of those of all rows (n, …)."""
        return values if self.rows is None else values[self.rows]

    def _neighbours(self) -> Iterator[Weighted]:
        """Blocks of new points: nearest fitted points j and c_j w_j, w_j = exp(−d_j²/s²), (b, k).

        c_j are the counts, s is the distance to the 7th neighbour. Where a new point is a fitted
        one, only that counts. Cost O(q n d), exact.
        """
        m, q = self.fitted.shape[0], self.new.shape[0]
        join: Any = sp.vstack if sp.issparse(self.fitted) else np.concatenate
        both = join([self.new, self.fitted])  # errors number the rows of the first
        other = any_rows(both, self.metric)
        X: Any = scaled_points(both, self.metric)[0] if other is None else other
        k = min(self.n_neighbors, m)
        for start in range(0, q, _BLOCK):
            part = slice(start, min(start + _BLOCK, q))
            if other is None:
                indices, distances = nearest_points(X[q:], X[part], k)
                known = (X[q:][indices[:, 0]] == X[part]).all(axis=1)
            else:
                indices, distances = other.take(slice(q, q + m)).nearest(other.take(part), k)
                known = distances[:, 0] == 0
            d = distances.astype(np.float64)
            if self.metric == "haversine":
                d = along_the_ground(d)
            none = np.flatnonzero(indices[:, 0] < 0)
            if none.size:
                raise InputError(
                    f"new points: row {start + none[0]} has nothing in common with any fitted one; "
                    "leave it out"
                )
            s = local_scales(d)[:, None]
            gap = (d - d[:, :1]) * (d + d[:, :1])  # the nearest weighs 1, however far it is
            weights = np.exp(-gap / s**2)
            weights[known, 1:] = 0.0
            if self.counts is not None:
                weights *= self.counts[indices]
            yield part, indices, weights


# --- New points joined to a neighbour graph


@dataclass(frozen=True, eq=False)
class _NewNeighbors:
    """Nearest of new points (m,): numbers (m, k), fitted ones first, and lengths (m, k)."""

    nodes: Ints
    lengths: Floats


def joined_points(graph: Graph, points: NDArray[Any], new: NDArray[Any]) -> Graph:
    """The graph of points (n, d) with new ones (m, d) joined to it; InputError.

    A new point gets edges to its `n_neighbors` nearest, as in `knn_graph`, and counts twice where
    it is among theirs. Fitted points keep their edges, also to what is no longer among their
    nearest. Weights are by the scales s_i of the graph as it was; of equal rows one is a node. As
    every new point has an edge to a fitted one, no component is new. Points are found by walks
    along the edges, all are compared where they are few. Cost about O(m k² d) and a pass over W.
    """
    info = graph.info
    if info.get("kind") != "knn":
        raise InputError(
            f"add: points cannot be joined to a graph of kind {info.get('kind')!r}; fit again"
        )
    n, k = graph.n_nodes, int(info["n_neighbors"])
    first = graph.first_rows
    both = np.concatenate([points[first] if graph.rows is not None else points, new])
    X, unit = scaled_points(both, str(info["metric"]))
    equal = group_equal_rows(X[n:])
    queries = X[n:][equal.first]
    counts = np.ones(n) if graph.weights is None else graph.weights
    # A row that counts nothing has no edges: a copy of it is a point of its own.
    found = _nearest(graph.affinity, X[:n], np.flatnonzero(counts > 0), queries, k)
    same = found.lengths[:, 0] == 0
    node = np.where(same, found.nodes[:, 0], n + np.cumsum(~same) - 1)
    grown = np.concatenate([counts, np.zeros(int((~same).sum()))])
    np.add.at(grown, node, equal.counts)
    rows = np.concatenate([np.arange(n) if graph.rows is None else graph.rows, node[equal.nodes]])
    fresh = np.flatnonzero(~same)
    if fresh.size:
        found = _with_each_other(found, queries, fresh, n, k)
        W = _grown(graph.affinity, _added(graph, X[:n], found, n, k, unit, grown), counts, grown)
    else:
        W = fold(graph.affinity, grown / np.where(counts > 0, counts, 1.0))
    plain = bool((grown == 1).all())
    grown_info = {**info, "added": int(info.get("added", 0)) + len(new)}
    alone = plain and graph.rows is None
    return Graph(W, grown_info, None if plain else grown, None if alone else rows)


def _nearest(
    W: sp.csr_matrix, X: NDArray[np.float32], able: Ints, queries: NDArray[np.float32], k: int
) -> _NewNeighbors:
    """About the k nearest of the fitted points that are `able`, of every query."""
    from mustlink.kernels import graph_walk
    from mustlink.kernels.threads import in_threads, workers

    n, m, some = X.shape[0], queries.shape[0], able.size
    k = min(some, k)
    if float(some) * m <= _ALL:
        indices, lengths = nearest_points(X if some == n else X[able], queries, k)
        return _NewNeighbors(able[indices], lengths.astype(np.float64))
    count = min(some, int(_LANDMARKS * np.sqrt(some)))
    landmarks = able[np.linspace(0, some - 1, count).astype(np.int64)]
    nodes, squared = np.empty((m, k), np.int32), np.empty((m, k), np.float32)

    def search(groups: NDArray[np.int64]) -> None:
        stamp, mark = np.full(n, -1, np.int64), 0
        for g in groups:
            some = order[ends[g] : ends[g + 1]]
            Q, near = queries[some], np.empty((some.size, k), np.int32)
            gaps = np.empty((some.size, k), np.float32)
            around = landmarks[start[some[0]]], stamp, mark
            graph_walk.around(X, W.indptr, W.indices, *around, Q, near, gaps)
            mark += 1
            where = Q, _LEFT, stamp, mark
            mark += graph_walk.walk(X, W.indptr, W.indices, *where, near, gaps)
            nodes[some], squared[some] = near, gaps

    start = _nearest_rows(queries, X[landmarks], 1)[:, 0]
    order = np.argsort(start, kind="stable")  # those that begin alike walk alike
    firsts = np.flatnonzero(np.append(True, np.diff(start[order]) != 0))
    ends = np.append(firsts, m)
    in_threads(search, np.array_split(np.arange(firsts.size), workers()))
    return _NewNeighbors(nodes.astype(np.int64), np.sqrt(squared.astype(np.float64)))


def _with_each_other(
    found: _NewNeighbors, queries: NDArray[np.float32], fresh: Ints, n: int, k: int
) -> _NewNeighbors:
    """Lists of the `fresh` new points with those of them that are near, numbered from n.

    Compared are those that have one of their two nearest in common of some of them. The nearest
    fitted one stays in every list.
    """
    from mustlink.kernels.graph_walk import among

    nodes, lengths, Q = found.nodes[fresh], found.lengths[fresh], queries[fresh]
    m = len(Q)
    near, gaps = np.full((m, k), -1, np.int32), np.full((m, k), np.inf, np.float32)
    centres = Q[:: max(1, min(_GROUP, m // 2))]
    nearest = _nearest_rows(Q, centres, min(2, len(centres)))
    owner, member = nearest.ravel(), np.repeat(np.arange(m), nearest.shape[1])
    order = np.argsort(owner, kind="stable")
    for group in np.split(member[order], np.flatnonzero(np.diff(owner[order])) + 1):
        for part in np.array_split(group, -(-group.size // (8 * _GROUP))):
            among(Q, part, near, gaps)
    nodes = np.hstack([nodes, np.where(near >= 0, near + np.int64(n), -1)])
    lengths = np.hstack([lengths, np.sqrt(gaps.astype(np.float64))])
    lengths = np.where(nodes >= 0, lengths, np.inf)
    sorting = lengths.copy()
    sorting[:, 0] = -1.0
    by_length = np.argsort(sorting, axis=1, kind="stable")[:, :k]
    return _NewNeighbors(
        np.take_along_axis(nodes, by_length, 1), np.take_along_axis(lengths, by_length, 1)
    )


def _nearest_rows(Q: NDArray[np.float32], L: NDArray[np.float32], count: int) -> NDArray[np.int32]:
    """The nearest `count` of a few points (l, d) of each of Q (m, d): numbers (m, count)."""
    from mustlink.kernels.threads import workers
    from mustlink.neighbors.cells import centres_about

    middle = L.mean(axis=0, dtype=np.float64).astype(np.float32)
    with ThreadPoolExecutor(workers()) as pool:
        return centres_about(middle, L).nearest(Q, count, pool)


def _added(
    graph: Graph,
    X: NDArray[np.float32],
    found: _NewNeighbors,
    n: int,
    k: int,
    unit: float,
    grown: Floats,
) -> sp.csr_matrix:
    """The edges of new points, (N, N) symmetric: the mean of both directions."""
    info, m = graph.info, found.nodes.shape[0]
    there = found.nodes >= 0
    i = n + np.repeat(np.arange(m), found.nodes.shape[1])[there.ravel()]
    j, d = found.nodes[there], found.lengths[there]
    met = np.unique(j[j < n])
    kind, s, radius = str(info["weights"]), np.ones(n + m), np.zeros(n + m, np.float32)
    s[met], radius[met] = _radii(graph.affinity, X, met, k)
    s[n:] = local_scales(np.sort(found.lengths, axis=1))
    of_all: Any = s if kind == "local" else float(info.get("sigma") or 1.0) * unit
    value = edge_weights(d, i, j, kind, of_all)
    back = d < radius[j]  # whose neighbour the new point is as well
    A = sp.csr_matrix(
        (
            np.concatenate([value, value[back]]),
            (np.concatenate([i, j[back]]), np.concatenate([j, i[back]])),
        ),
        shape=(n + m, n + m),
    )
    S = ((A + A.T) * 0.5).tocsr()
    S.sort_indices()
    return fold(S, grown) if (grown != 1).any() else S


def _radii(
    W: sp.csr_matrix, X: NDArray[np.float32], nodes: Ints, k: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Distances of some nodes (m,) to their 7th neighbour, and to the k-th, by their edges in W."""
    from mustlink.kernels.graph_walk import neighbor_radii
    from mustlink.kernels.threads import in_threads

    scale, last = np.empty(nodes.size, np.float32), np.empty(nodes.size, np.float32)

    def some(part: slice) -> None:
        neighbor_radii(X, W.indptr, W.indices, nodes[part], _NEIGHBOUR, k, scale[part], last[part])

    in_threads(some, [slice(a, a + _RANGE) for a in range(0, nodes.size, _RANGE)])
    return np.sqrt(np.maximum(scale, _TINY)), np.sqrt(last)


def _grown(W: sp.csr_matrix, added: sp.csr_matrix, old: Floats, now: Floats) -> sp.csr_matrix:
    """W of n nodes with the edges of m more; nodes that count more than before have more weight."""
    n, N = W.shape[0], added.shape[0]
    ratio = now[:n] / np.where(old > 0, old, 1.0)
    W = W if (ratio == 1).all() else fold(W, ratio)
    indptr = np.concatenate([W.indptr, np.full(N - n, W.indptr[-1], W.indptr.dtype)])
    wider = sp.csr_matrix((W.data, W.indices, indptr), shape=(N, N))
    return sp.csr_matrix(wider + added.astype(W.dtype))
