"""The profile of labels and pairs, and how far they agree with the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from mustlink.advice.observations import Coordinates, Floats, Known, are_counts, take
from mustlink.constraints import Constraints
from mustlink.neighbors.points_by_rows import is_rows

_COMPARED = 1000  # labelled nodes, or pairs, at most
_LEAST_PAIRS = 5  # of each sign
_LEAST_LABELS = 6
_TELLING = 12  # labels from which one value a class in a column is hardly chance
Ints = NDArray[np.int64]


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
        per_node=belief.size / known.n_nodes,
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

        def is_one(column: Floats) -> bool:
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
