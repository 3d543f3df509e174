"""Does the graph help? Labels held out, predicted by a method and by three rivals without a graph.

1-NN takes the class of the nearest labelled point, seeded k-means starts at the means of the
classes (Basu, Banerjee & Mooney 2002), extra trees are fitted to the labelled points (Geurts, Ernst
& Wehenkel 2006). All take a sample of the points, so that the cost is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from mustlink.advice.observations import RUN, Floats, readable, some_rows, take
from mustlink.context.method_cost import sample_rows
from mustlink.core.check import as_labels, as_random_state, encoded
from mustlink.core.observe import Unheard
from mustlink.discretize.assign import dealt, seeded_kmeans
from mustlink.errors import MustlinkError
from mustlink.graph import Graph
from mustlink.kernels.threads import threads
from mustlink.neighbors import knn_graph
from mustlink.neighbors.distances import POINTS
from mustlink.neighbors.points_by_rows import is_rows
from mustlink.propagation.propagator import Propagator

Ints = NDArray[np.int64]

_LABELS = 600  # at most
_FOLDS = 3
_LEAST = 6  # labels held out for a comparison
_TREES = 50
_CHANCE = 0.05  # of a false warning, over the three rivals together
_ALL_KNOWN = 0.5  # share of labelled points above which unlabelled ones are too few to learn from

NEAREST, SEEDED, TREES = "1-NN", "seeded k-means", "extra trees"


@dataclass(frozen=True)
class Baseline:
    """Shares of `held_out` labels that methods predict rightly, on `sampled` points.

    `method` was fitted to the neighbour graph of the sample, `right` maps it (as "ours") and its
    rivals to shares; "ours" is missing where it could not be fitted. `chance` is the probability
    that a rival no better than ours is right so much more often where they differ (sign test).
    `single` classes have one label, which is never held out. `better` names the rival that is
    better beyond chance, `doubt` is a warning of it.
    """

    method: str
    held_out: int
    sampled: int
    single: int
    right: Mapping[str, float]
    chance: Mapping[str, float]
    better: str | None = None

    @property
    def doubt(self) -> str | None:
        """Why the graph should not be relied on, where a rival is better beyond chance."""
        if self.better is None:
            return None
        rival, ours = self.right[self.better], self.right["ours"]
        advice = {
            SEEDED: 'clusters are round, start from the labels (init="labels")',
            NEAREST: "near points are of one class, a classifier will do",
            TREES: "distances hide the classes, prepare the columns or use a classifier",
        }[self.better]
        return (
            f"{self.better} on the points: {rival:.0%} of {self.held_out} held-out labels right, "
            f"{self.method} on the graph: {ours:.0%} (on a sample of {self.sampled:,} points; so "
            f"much by chance in {_percent(self.chance[self.better])} of cases): {advice}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "doubt": self.doubt}


def baseline(X: Any, y: Any, estimator: Any, *, random_state: Any = None) -> Baseline | None:
    """Compare an estimator of labels with rivals without a graph, on labels held out.

    Every label of points X (n, d), also rows read by blocks, is held out once, in three stratified
    parts; `y` (n,) has -1 for unknown. The estimator, fitted or not, is cloned and fitted to the
    neighbour graph of a sample of 1,500 points (30 a class, at most 6,000) with the labelled ones,
    at most 600; its choices (subspace, parameter) stay. The class of a cluster is that of most of
    its labels. None for graphs, for fewer clusters than classes, and where fewer than six labels
    can be held out.
    The same `random_state` (None: 0) gives the same. Raises InputError. Cost: three such fits.
    """
    if isinstance(X, Graph) or sp.issparse(X):  # rivals know dense columns
        return None
    points, _ = readable(X)
    labels = as_labels(encoded(y, "y")[0], int(points.shape[0]))
    rng = as_random_state(0 if random_state is None else random_state)
    rows, known = _sample(labels, is_rows(points), rng)
    if known.size == 0:
        return None
    classes, codes = np.unique(labels[known], return_inverse=True)
    fold = dealt(codes, rng, _FOLDS)
    held = int(np.count_nonzero(fold >= 0))
    k = estimator.get_params().get("n_clusters")
    if isinstance(k, int | np.integer) and k < classes.size:
        return None
    if classes.size < 2 or held < _LEAST or known.size > _ALL_KNOWN * rows.size:
        return None
    S = take(points, rows).astype(np.float64)
    y_sample, fold_of = np.full((2, rows.size), -1, dtype=np.int64)
    y_sample[np.searchsorted(rows, known)] = codes
    fold_of[np.searchsorted(rows, known)] = fold
    seed = int(rng.integers(2**31 - 1))
    right = _judged(S, y_sample, fold_of, Ours(estimator, S, classes.size, seed), seed)
    method = getattr(estimator, "method", type(estimator).__name__)  # that spreads labels
    return _compared(method, right, rows.size, codes)


def _sample(labels: Ints, by_runs: bool, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Rows of the sample, and those of them with a label; both ascending.

    `by_runs`: short runs of neighbouring rows, which are faster to read from a file.
    """
    known = np.flatnonzero(labels >= 0)
    if known.size > _LABELS:
        known = np.sort(rng.choice(known, _LABELS, replace=False))
    classes = np.unique(labels[known]).size
    some = sample_rows(labels.size, classes)
    others = some_rows(labels.size, some, by_runs and labels.size > RUN * some, rng)
    others = others[labels[others] < 0]
    return np.union1d(others, known).astype(np.int64), known


def _judged(S: Floats, y: Ints, fold: Ints, ours: Ours, seed: int) -> dict[str, NDArray[np.bool_]]:
    """Whether every held-out label is predicted rightly, by method."""
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.neighbors import KNeighborsClassifier

    found: dict[str, list[NDArray[np.bool_]]] = {}
    with threads(1):
        for part in range(_FOLDS):
            held = np.flatnonzero(fold == part)
            train = np.where(fold == part, -1, y)
            own = np.flatnonzero(train >= 0)
            answers = {
                "ours": ours.answer(train, held),
                NEAREST: KNeighborsClassifier(1).fit(S[own], train[own]).predict(S[held]),
                SEEDED: seeded_kmeans(S, train, int(y.max()) + 1, seed)[held],
                TREES: ExtraTreesClassifier(_TREES, random_state=seed)
                .fit(S[own], train[own])
                .predict(S[held]),
            }
            for name, answer in answers.items():
                if answer is not None:
                    found.setdefault(name, []).append(answer == y[held])
    # A method that fails for some of the parts is left out.
    whole = {name: parts for name, parts in found.items() if len(parts) == _FOLDS}
    return {name: np.concatenate(parts) for name, parts in whole.items()}


def _compared(
    method: str, right: Mapping[str, NDArray[np.bool_]], sampled: int, codes: Ints
) -> Baseline:
    from scipy.stats import binomtest

    shares = {name: float(kept.mean()) for name, kept in right.items()}
    held = next(iter(right.values())).size
    chance = {}
    if "ours" in right:
        for name, kept in right.items():
            more = int(np.count_nonzero(kept & ~right["ours"]))
            less = int(np.count_nonzero(right["ours"] & ~kept))
            if name != "ours":
                test = binomtest(more, more + less, alternative="greater") if more + less else None
                chance[name] = 1.0 if test is None else float(test.pvalue)
    sure = [name for name, p in chance.items() if p < _CHANCE / len(chance)]
    best = max(sure, key=shares.__getitem__, default=None)
    single = int(np.count_nonzero(np.bincount(codes) == 1))
    return Baseline(method, held, sampled, single, shares, chance, best)


def _percent(p: float) -> str:
    return f"{p:.1%}" if p >= 1e-3 else "less than 0.1%"


# --- The method itself on the graph of a sample


class Ours:
    """An estimator with its parameters and choices, on the graph of a sample."""

    def __init__(self, estimator: Any, S: NDArray[Any], n_classes: int, seed: int) -> None:
        """Clone an estimator, fitted or not, for points S (s, d) of so many classes."""
        self._made = clone(estimator)
        given = self._made.get_params()
        changed = {"random_state": seed, "memory": None, "n_jobs": 1}
        report = getattr(estimator, "report_", None)
        chosen = {} if report is None else report.choices
        k = given.get("n_clusters")
        if k == "auto":  # as many as the fit has, or classes
            k = changed["n_clusters"] = n_classes if report is None else report.n_clusters
        if given.get("subspace") == "auto":
            p = chosen.get("subspace", 4 * int(k or n_classes))
            changed["subspace"] = p if p == "exact" else max(2, min(int(p), len(S) // 4))
        for name in {"beta", "gamma", "assign"} & set(chosen):
            if given.get(name) == "auto":
                changed[name] = chosen[name]
        self._made.set_params(**changed)
        self._S = S
        if hasattr(self._made, "_columns_of"):  # a prior may be made of columns
            self._made._columns_of = S
        self._graph: Graph | None = None
        if given["affinity"] in POINTS:
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


def _classes_of(clusters: Ints, train: Ints) -> Ints:
    """The class of most labels of every node's cluster (n,), -1 where it has none."""
    known = (train >= 0) & (clusters >= 0)
    count = np.zeros((int(clusters.max(initial=0)) + 1, int(train.max()) + 1), dtype=np.int64)
    np.add.at(count, (clusters[known], train[known]), 1)
    classes = np.where(count.any(axis=1), count.argmax(axis=1), -1)
    return np.where(clusters >= 0, classes[np.maximum(clusters, 0)], -1)
