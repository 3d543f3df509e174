"""The method beside its rivals: fitted to the graph of a sample, with what it chose before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mustlink.advice.agreement import Comparison
from mustlink.advice.observations import Coordinates, are_counts
from mustlink.errors import MustlinkError
from mustlink.graph import Graph
from mustlink.neighbours import knn_graph
from mustlink.neighbours.points_by_rows import is_rows
from mustlink.observe import Unheard
from mustlink.propagate.propagator import Propagator

Ints = NDArray[np.int64]


class Ours:
    """An estimator as it was asked for, what it chose kept, on the graph of a sample."""

    def __init__(self, estimator: Any, S: NDArray[Any], n_classes: int, seed: int) -> None:
        """Clone an estimator, fitted or not, for points S (s, d) of so many classes."""
        self._made = clone(estimator)
        given = self._made.get_params()
        changed = {"random_state": seed, "memory": None, "n_jobs": 1}
        chosen = _chosen(estimator)
        k = given.get("n_clusters")
        if k == "auto":  # as many as were found, or as classes will be
            k = changed["n_clusters"] = getattr(_report(estimator), "n_clusters", n_classes)
        if given.get("subspace") == "auto":
            p = chosen.get("subspace", 4 * int(k or n_classes))
            changed["subspace"] = p if p == "exact" else max(2, min(int(p), len(S) // 4))
        for name in {"beta", "gamma", "assign"} & set(chosen):
            if given.get(name) == "auto":
                changed[name] = chosen[name]
        self._made.set_params(**changed)
        self._S = S
        self._graph: Graph | None = None
        if given["affinity"] == "knn":
            n_neighbors = min(int(given["n_neighbors"]), len(S) - 1)
            self._graph = knn_graph(
                S,
                n_neighbors,
                metric=given["metric"],
                weights=given["weights"],
                random_state=seed,
                observer=Unheard(),
                duplicates="merge",  # as in a fit
            )

    def answer(self, train: Ints, held: Ints) -> Ints | None:
        """Class of the held-out points; None where the sample cannot be fitted."""
        est = self._made
        try:
            if isinstance(est, Propagator):
                est.fit(self._S, train, graph=self._graph, observer=Unheard())
                return np.asarray(est.labels_)[held]
            data = self._S if self._graph is None else self._graph
            est.fit(data, train, observer=Unheard())
        except MustlinkError:
            return None
        return _classes_of(np.asarray(est.labels_), train)[held]


def _report(estimator: Any) -> Any:
    """The report of a fitted estimator, None before."""
    return getattr(estimator, "report_", None)


def _chosen(estimator: Any) -> Mapping[str, Any]:
    """What a fitted estimator chose."""
    report = _report(estimator)
    return {} if report is None else report.choices


def _classes_of(clusters: Ints, train: Ints) -> Ints:
    """The class of most labels of every node's cluster (n,), -1 where it has none."""
    known = (train >= 0) & (clusters >= 0)
    count = np.zeros((int(clusters.max(initial=0)) + 1, int(train.max()) + 1), dtype=np.int64)
    np.add.at(count, (clusters[known], train[known]), 1)
    classes = np.where(count.any(axis=1), count.argmax(axis=1), -1)
    return np.where(clusters >= 0, classes[np.maximum(clusters, 0)], -1)


# --- Which distance: by what is known, where it tells, else by what the numbers look like


_BETTER = 0.03  # agreement by which cosine must win
_ENOUGH = 50  # labelled nodes or pairs
_ROWS = 1 << 15


def choose_metric(
    points: Any, coordinates: Coordinates, comparison: Comparison
) -> tuple[str, str, float | None]:
    """The metric, why if it is not Euclidean, and the agreement of what is known with it."""
    plain = comparison.with_points(points, "euclidean")
    words = are_counts(coordinates, points.shape[1])
    if not (words or (plain is not None and comparison.size >= _ENOUGH)):
        return "euclidean", "", plain
    if _has_empty_rows(points):
        return "euclidean", "", plain
    turned = comparison.with_points(points, "cosine")
    if plain is not None and turned is not None and comparison.size >= _ENOUGH:
        if turned < plain + _BETTER:
            return "euclidean", "", plain
        what = "label" if comparison.by_labels else "pair"
        reason = (
            f"angles between points agree with {turned:.0%} of the {comparison.size} {what}s "
            f'compared, distances with {plain:.0%}: metric="cosine"'
        )
        return "cosine", reason, turned
    reason = (
        f"{coordinates.zeros:.0%} of the values are 0, none is negative, as in counts of words: "
        'angles tell more than distances, metric="cosine"'
    )
    return "cosine", reason, turned


def _has_empty_rows(points: Any) -> bool:
    """Whether a row is all zeros and so has no direction. Reads everything."""
    n = int(points.shape[0])
    blocks = (points[a : a + _ROWS] for a in range(0, n, _ROWS)) if is_rows(points) else (points,)
    return any(not np.asarray(block).any(axis=1).all() for block in blocks)
