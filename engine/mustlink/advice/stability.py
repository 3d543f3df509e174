"""How stable clusters are: fitted again to a graph that lacks a part of its edges.

Clusters that the data have are found again without some of the evidence; those that a method makes
where there are none are not. Of draws b = 1, …, B of a graph without a share of its edges

    stability of the clustering   mean over b of the adjusted Rand index of labels and labels_b
    stability of cluster c        mean over b of max_c' |c ∩ c'| / |c ∪ c'|,  c' a cluster of b

With half of the edges clusters of overlapping blobs have 0.95 and more at the right K; with one too
many one has 0.45, and uniform points have 0.5 to 0.8.
Source: Hennig 2007, Cluster-wise assessment of cluster stability, with edges for rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from mustlink.advice.observations import Coordinates, Known, are_counts, take
from mustlink.constraints import Constraints
from mustlink.core.check import as_integer, as_random_state, check_share
from mustlink.core.observe import Unheard
from mustlink.core.state import check_is_fitted
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.neighbors.points_by_rows import is_rows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stability:
    """`ari` (B,) of labels and those of every draw, and `clusters` (K,), see the module.

    `clusters` is NaN for a number that no row has.
    """

    ari: Floats
    clusters: Floats

    @property
    def mean(self) -> float:
        """That of the clustering."""
        return float(self.ari.mean())


def stability(
    est: Any, n_draws: int = 5, share: float = 0.5, random_state: Any = 0, observer: Any = None
) -> Stability:
    """How far a fitted clusterer finds the same clusters without a `share` of the edges.

    Every draw leaves out other edges, each with this chance, and fits an estimator with the same
    parameters and K to the rest, with all that is known. `est` does not change. Cost: `n_draws`
    fits, and a copy of the graph. Raises InputError.
    """
    from sklearn.metrics import adjusted_rand_score

    check_is_fitted(est)
    n_draws, share = as_integer(n_draws, "n_draws", 1), check_share(share, "share")
    est = vars(est).get("estimator_", est)  # of Auto the method that answers
    graph = getattr(est, "graph_", None)
    if not isinstance(graph, Graph) or not hasattr(est, "_twin"):
        raise InputError(
            f"stability: {type(est).__name__} has no graph in memory to leave edges out of; fit a "
            "clusterer to a graph that fits into memory"
        )
    rng, labels = as_random_state(random_state), est.labels_
    known = est.constraints_
    ari, overlaps = np.empty(n_draws), []
    for draw in range(n_draws):
        rest = without_edges(graph, share, int(rng.integers(2**31)))
        found = _fitted(est, rest, known, Unheard() if observer is None else observer)
        ari[draw] = adjusted_rand_score(labels, found)
        overlaps.append(_overlaps(labels, found))
    return Stability(ari, np.mean(overlaps, axis=0))


def without_edges(graph: Graph, share: float, seed: int) -> Graph:
    """The graph without a share of its edges, in the expectation; nodes stay, loops as well."""
    W = sp.triu(graph.affinity, 1, format="coo")
    keep = np.random.default_rng(seed).random(W.nnz) >= share
    half = sp.coo_matrix((W.data[keep], (W.row[keep], W.col[keep])), W.shape).tocsr()
    rest = sp.csr_matrix(half + half.T + sp.diags_array(graph.affinity.diagonal()))
    rest.eliminate_zeros()
    return replace(graph, affinity=rest)


def _fitted(est: Any, graph: Graph, known: Any, observer: Any) -> Ints:
    twin = est._twin().set_params(random_state=est._used_seed, time_limit=None)
    takes = signature(twin.fit).parameters
    if known.is_empty or not est._informed:
        twin.fit(graph, observer=observer)
    elif "constraints" in takes:
        twin.fit(graph, constraints=known, observer=observer)
    else:
        twin.fit(graph, known.labels, observer=observer)
    labels: Ints = twin.labels_
    return labels


def _overlaps(labels: Ints, found: Ints) -> Floats:
    """Largest Jaccard index of every cluster (K,) with one of the clusters found."""
    both = (labels >= 0) & (found >= 0)
    k, m = int(labels.max(initial=-1)) + 1, int(found.max(initial=-1)) + 1
    shared = np.zeros((k, m))
    np.add.at(shared, (labels[both], found[both]), 1.0)
    own = np.bincount(labels[labels >= 0], minlength=k)
    theirs = np.bincount(found[found >= 0], minlength=m)
    union = own[:, None] + theirs - shared
    best = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0).max(1, initial=0.0)
    return np.where(own > 0, best, np.nan)


# --- The profile of labels and pairs, and how far they agree with the data

_COMPARED = 1000  # labelled nodes, or pairs, at most
_LEAST_PAIRS = 5  # of each sign
_LEAST_LABELS = 6
_TELLING = 12  # labels from which one value a class in a column is hardly chance


def look_at_side(known: Constraints) -> Known:
    """Numbers of labels and pairs, and contradictions. Cost O(n + m log m)."""
    labels = known.labels
    sizes = np.empty(0, dtype=np.int64)
    if labels is not None:
        sizes = np.unique(labels[labels >= 0], return_counts=True)[1]
    belief = known.merged[1]
    found = known.contradictions() if known.pairs.size else ()
    return Known(
        labelled=int(sizes.sum()),
        classes=int(sizes.size),
        least=int(sizes.min()) if sizes.size else 0,
        most=int(sizes.max(initial=0)),
        must=int((belief > 0).sum()),
        cannot=int((belief < 0).sum()),
        nodes=int(known.nodes.size),
        soft=known.soft is not None,
        contradictions=len(found),
        contradiction=str(found[0]) if found else "",
    )


class Comparison:
    """A sample of the labelled nodes and pairs of some side information.

    `labelled` (l,) and their `classes` (l,), of classes with two labels or more; `pairs` (m, 2) and
    `must` (m,) whether they are must-links.
    """

    def __init__(self, known: Constraints, rng: np.random.Generator) -> None:
        self.labelled = np.empty(0, dtype=np.int64)
        self.classes = np.empty(0, dtype=np.int64)
        if known.labels is not None:
            at = np.flatnonzero(known.labels >= 0)
            own, inverse, counts = np.unique(
                known.labels[at], return_inverse=True, return_counts=True
            )
            at = at[counts[inverse] >= 2] if own.size > 1 else at[:0]
            if at.size > _COMPARED:
                at = np.sort(rng.choice(at, _COMPARED, replace=False))
            self.labelled, self.classes = at, known.labels[at]
        pairs, belief = known.merged
        some = np.flatnonzero(belief != 0)
        if some.size > _COMPARED:
            some = np.sort(rng.choice(some, _COMPARED, replace=False))
        self.pairs, self.must = pairs[some], belief[some] > 0

    @property
    def by_labels(self) -> bool:
        """Whether there are labels enough to compare."""
        return self.labelled.size >= _LEAST_LABELS

    @property
    def by_pairs(self) -> bool:
        """Whether there are pairs enough, of both signs."""
        return min(int(self.must.sum()), int((~self.must).sum())) >= _LEAST_PAIRS

    @property
    def size(self) -> int:
        """Labelled nodes, or pairs, that are compared."""
        return self.labelled.size if self.by_labels else len(self.must) if self.by_pairs else 0

    def with_points(self, points: Any, metric: str) -> float | None:
        """Agreement with distances between points; None where there is too little to compare."""
        if not (self.by_labels or self.by_pairs):
            return None
        nodes, ends = self.labelled, self.pairs
        if not self.by_labels:
            nodes, ends = np.unique(self.pairs, return_inverse=True)
        X = take(points, nodes).astype(np.float64)
        if metric == "cosine":
            X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
        else:
            X -= X.mean(axis=0)
        if self.by_labels:
            norms = np.einsum("ij,ij->i", X, X)
            return _nearest_agree(norms[:, None] + norms - 2 * X @ X.T, self.classes)
        i, j = ends.reshape(-1, 2).T
        nearness = -np.square(X[i] - X[j]).sum(axis=1)
        return float(roc_auc_score(self.must, nearness))  # chance that a must-link is nearer

    def repeated(self, points: Any) -> tuple[int, ...]:
        """Columns with one value a class, different between classes. Cost O(d l log l)."""
        if self.labelled.size < _TELLING:
            return ()
        X, codes = take(points, self.labelled), np.unique(self.classes, return_inverse=True)[1]
        k = int(codes.max()) + 1

        def is_one(column: NDArray[np.floating[Any]]) -> bool:
            values, own = np.unique(column, return_inverse=True)
            return values.size == k and np.unique(own * k + codes).size == k

        return tuple(at for at in range(X.shape[1]) if is_one(X[:, at]))


def _nearest_agree(distance: Floats, classes: Ints) -> float | None:
    """Share of nodes whose nearest other node is of their class; ties count by halves and so on.

    Nodes to which all others are equally far do not count.
    """
    D = np.array(distance, dtype=np.float64)
    np.fill_diagonal(D, np.inf)
    least = D.min(axis=1)
    telling = np.where(np.isfinite(D), D, -np.inf).max(axis=1) > least
    if np.count_nonzero(telling) < _LEAST_LABELS:
        return None
    nearest = D[telling] <= least[telling, None]
    same = nearest & (classes[telling][:, None] == classes)
    return float(np.mean(same.sum(axis=1) / nearest.sum(axis=1)))


# --- Which distance: by agreement with labels or pairs, else by the values


_BETTER = 0.03  # agreement by which cosine must win
_ENOUGH = 50  # labelled nodes or pairs
_ROWS = 1 << 15


def choose_metric(
    points: Any, coordinates: Coordinates, comparison: Comparison
) -> tuple[str, str, float | None]:
    """The metric, why if it is not Euclidean, and the agreement of labels or pairs with it."""
    plain = comparison.with_points(points, "euclidean")
    enough = plain is not None and comparison.size >= _ENOUGH
    if not (enough or are_counts(coordinates, points.shape[1])):
        return "euclidean", "", plain
    n, rows = int(points.shape[0]), _ROWS if is_rows(points) else len(points)
    if not all(np.asarray(points[a : a + rows]).any(axis=1).all() for a in range(0, n, rows)):
        return "euclidean", "", plain  # a row of zeros has no direction
    turned = comparison.with_points(points, "cosine")
    reason = (
        f"{coordinates.zeros:.0%} of the values are 0, none is negative, as in counts of words: "
        'angles tell more than distances, metric="cosine"'
    )
    if enough and plain is not None and turned is not None:
        if turned < plain + _BETTER:
            return "euclidean", "", plain
        what = "label" if comparison.by_labels else "pair"
        reason = (
            f"angles between points agree with {turned:.0%} of the {comparison.size} {what}s "
            f'compared, distances with {plain:.0%}: metric="cosine"'
        )
    return "cosine", reason, turned
