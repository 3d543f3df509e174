"""The short edges that join the components of a neighbour graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mustlink.graph.graph import renumber_by_size
from mustlink.neighbors.distances import AnyRows
from mustlink.neighbors.points_by_rows import Prepared, gather

_WORK = 4e9  # cost of one round of bridge search, in multiplications
_PASSES = 32  # what comparing one distance costs beside computing it, in multiplications
_QUERIES = 4096  # nodes that search per round, shared by the components
_CELLS = 1 << 22  # coordinates of a block, held at once


def bridging_edges(
    points: NDArray[np.floating] | Prepared | AnyRows,
    labels: NDArray[np.integer],
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """C - 1 short edges that join C components: pairs (C-1, 2) and Euclidean lengths (C-1,).

    Points (n, d) in memory, or prepared rows that are read a few times in blocks.

    Borůvka's rounds: every component but the largest looks for its nearest node outside, the
    edges found are taken shortest first where they join two components. Exact while all
    pairs fit in a fixed amount of work; beyond it, samples of both sides are compared and the best
    pair is improved by alternating nearest-node steps. At most log2(C) rounds.
    """
    labels = renumber_by_size(labels)
    pairs: list[NDArray[np.int64]] = []
    lengths: list[NDArray[np.float64]] = []
    X = points if isinstance(points, Prepared | AnyRows) else np.asarray(points)
    while labels.max(initial=0) > 0:
        found, dist = _nearest_outside(X, labels, rng)
        taken, merged = _join(found, dist, labels)
        pairs.append(found[taken])
        lengths.append(dist[taken])
        labels = renumber_by_size(merged[labels])
    if not pairs:
        return np.empty((0, 2), dtype=np.int64), np.empty(0)
    return np.concatenate(pairs), np.concatenate(lengths)


def _join(
    found: NDArray[np.int64], dist: NDArray[np.float64], labels: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Edges that join two components, shortest first, and the new group of each component."""
    parent = np.arange(int(labels.max()) + 1)

    def root(c: int) -> int:
        while parent[c] != c:
            parent[c] = parent[parent[c]]
            c = int(parent[c])
        return c

    taken = []
    for e in np.lexsort((found[:, 1], found[:, 0], dist)):
        a, b = root(int(labels[found[e, 0]])), root(int(labels[found[e, 1]]))
        if a != b:
            parent[max(a, b)] = min(a, b)
            taken.append(int(e))
    return np.array(taken, dtype=np.int64), np.array([root(c) for c in range(parent.size)])


def _nearest_outside(
    X: NDArray[np.floating] | Prepared | AnyRows,
    labels: NDArray[np.int32],
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """For each component 1 … C-1 a short edge to another component: pairs (C-1, 2), lengths."""
    n, d = X.shape
    if isinstance(X, AnyRows):
        d = X.width
    count = int(labels.max())
    small = np.flatnonzero(labels > 0)
    cost = d + _PASSES
    exact = small.size * n * cost <= _WORK
    queries = small if exact else _sample_each(small, labels, max(1, _QUERIES // count), rng)
    room = int(_WORK / (queries.size * cost))
    others = np.arange(n)
    if not exact and room < n:
        others = np.sort(rng.choice(n, size=max(room, 1000), replace=False))
        if np.all(labels[others] == labels[others[0]]):  # every component needs a choice
            others = np.union1d(others, np.unique(labels, return_index=True)[1])
    if isinstance(X, AnyRows):
        near, dist = _closest_rows(X, labels, queries, others)
    else:
        near, dist = _closest(X, labels, queries, others)
    best = _best_per_component(labels[queries], dist, count)
    pairs = np.stack([queries[best], near[best]], axis=1)
    if isinstance(X, AnyRows):
        return pairs, dist[best]
    if not exact:
        targets = np.arange(n) if count * n * cost <= _WORK else others
        for _ in range(2):
            pairs = _improve(X, labels, pairs, targets)
    return pairs, _lengths(X, pairs)


def _sample_each(
    nodes: NDArray[np.int64], labels: NDArray[np.int32], share: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """At most `share` random nodes of every component."""
    order = nodes[rng.permutation(nodes.size)]
    order = order[np.argsort(labels[order], kind="stable")]
    own = labels[order]
    place = np.arange(own.size) - np.searchsorted(own, own, side="left")
    return np.sort(order[place < share])


def _closest(
    X: NDArray[np.floating] | Prepared,
    labels: NDArray[np.int32],
    queries: NDArray[np.int64],
    others: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """For each query the nearest of `others` in another component, with the squared distance."""
    from mustlink.kernels.nearest_lists import nearest_outside

    near = np.zeros(queries.size, dtype=np.int64)
    best = np.full(queries.size, np.inf)
    Q, own = gather(X, queries).astype(np.float64), labels[queries]
    for nodes, rows in _pieces(X, others):
        place, value = nearest_outside(rows, labels[nodes], Q, own)
        better = value < best
        near[better], best[better] = nodes[place[better]], value[better]
    return near, best


def _closest_rows(
    X: AnyRows, labels: NDArray[np.int32], queries: NDArray[np.int64], others: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """As `_closest`, with distances of another kind."""
    near = np.zeros(queries.size, dtype=np.int64)
    best = np.full(queries.size, np.inf)
    step = max(1, _CELLS // others.size)
    base = X if others.size == X.shape[0] else X.take(others)
    for a in range(0, queries.size, step):
        some = queries[a : a + step]
        D = X.take(some).between(base)
        D[labels[some][:, None] == labels[others]] = np.inf
        at = D.argmin(axis=1)
        near[a : a + step], best[a : a + step] = others[at], D[np.arange(some.size), at]
    return near, best


def _pieces(
    X: NDArray[np.floating] | Prepared, nodes: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.floating]]]:
    """Ascending nodes in pieces with their rows; all of those in memory are not copied."""
    if isinstance(X, np.ndarray) and nodes.size == X.shape[0]:
        yield nodes, X
        return
    lean = 8 if isinstance(X, Prepared) else 1  # rows are read because memory is scarce
    step = max(1, _CELLS // lean // X.shape[1])
    for start in range(0, nodes.size, step):
        part = nodes[start : start + step]
        yield part, gather(X, part)


def _best_per_component(
    owner: NDArray[np.int32], dist: NDArray[np.float64], count: int
) -> NDArray[np.int64]:
    """Position of the smallest distance of each owner 1 … count."""
    order = np.lexsort((dist, owner))
    return order[np.searchsorted(owner[order], np.arange(1, count + 1))]


def _improve(
    X: NDArray[np.floating] | Prepared,
    labels: NDArray[np.int32],
    pairs: NDArray[np.int64],
    others: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Replace the inner end by its component's node nearest to the outer end, then the outer."""
    from mustlink.kernels.nearest_lists import nearest_inside

    better = pairs.copy()
    ends = gather(X, pairs[:, 1]).astype(np.float64)
    edge = np.full(int(labels.max()) + 1, -1)
    edge[labels[pairs[:, 0]]] = np.arange(pairs.shape[0])
    least = np.full(pairs.shape[0], np.inf)
    own = np.arange(X.shape[0]) if isinstance(X, np.ndarray) else np.flatnonzero(edge[labels] >= 0)
    for nodes, rows in _pieces(X, own):
        place, dist = nearest_inside(rows, edge[labels[nodes]], ends)
        closer = dist < least
        better[closer, 0], least[closer] = nodes[place[closer]], dist[closer]
    near, dist = _closest(X, labels, better[:, 0], others)
    closer = dist < _lengths(X, better) ** 2
    better[closer, 1] = near[closer]
    return better


def _lengths(X: NDArray[np.floating] | Prepared, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Euclidean lengths of edges."""
    gap = gather(X, pairs[:, 0]).astype(np.float64) - gather(X, pairs[:, 1])
    return np.sqrt(np.einsum("ij,ij->i", gap, gap))
