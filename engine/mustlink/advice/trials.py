"""Candidates of `Auto` fitted to a part of what is known, and priors that they are given."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.advice.auto_input import MOST_PAIRS, AutoInput
from mustlink.advice.candidates import COLUMNS, NCUT, PAIRS, Way, pairs_right
from mustlink.clusterers.clusterer import AUTO
from mustlink.constraints import Constraints
from mustlink.context.workspace import Workspace
from mustlink.core.check import as_points
from mustlink.core.names import estimator_of
from mustlink.core.observe import Recorder
from mustlink.graph import Graph
from mustlink.propagation.columns import TREES, Columns
from mustlink.selection.cluster_count import count_clusters
from mustlink.selection.constrained_fit import USUAL

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_TRIAL_TREES = 50
_HALF_WAY = 0.9  # of LLGC: how far labels travel where that is not chosen
_CHOSEN = {"power", "variant"}  # parameters that a refit would choose again
_MOST = 150  # vectors of a trial, but for many clusters
_VECTORS = 2  # smooth vectors a class beside the columns


class Priors:
    """Priors on a graph of all rows by the parts of ways; kept for the labels asked last."""

    def __init__(
        self, auto: Any, data: AutoInput, graph: Any, recorder: Recorder, *, trial: bool = False
    ) -> None:
        self._trial, self._fitted = trial, dict[str, Any]()
        self.work: Workspace = auto._view(graph, recorder, cost=auto.cost(data.n_classes))
        self._auto, self._data = auto, data
        self._columns: Columns | None = None
        self._made: dict[str, Any] = {}
        self._labels: Any = None

    def of(self, way: Way, labels: Ints) -> tuple[Any, Any]:
        """Distributions (n, K) over the classes of labels (n,), and beliefs (n,)."""
        if self._labels is not labels:
            self._made, self._labels = {}, labels
        for part in way.parts:
            if part not in self._made:
                self._made[part] = self._part(part, labels)
        P = np.mean([self._made[part] for part in way.parts], axis=0)
        total = P.sum(axis=1, keepdims=True)
        graph = self.work.graph
        degrees = graph.degrees if graph.weights is None else graph.degrees / graph.weights
        belief = way.belief * graph.spread(np.nan_to_num(degrees)) * total[:, 0]
        return np.divide(P, total, out=np.zeros_like(P), where=total > 0), belief

    def _part(self, part: str, labels: Ints) -> Any:
        """What one part says of every row, (n, K); rows are 0 where it says nothing."""
        if part == COLUMNS:
            return self._chances(labels)
        if hasattr(estimator_of(part), "_minimises"):  # it spreads labels
            made = self._auto._made(part, self._data)
            made = hastened(made) if self._trial else made
            found = made.fit_on(self.work, labels, self._auto._used_seed, None, None)
            return found.label_distributions_
        return self._clusters(part, labels)

    def _chances(self, labels: Ints) -> Any:
        classes, seed = np.unique(labels[labels >= 0]), self._auto._used_seed
        if self._columns is None:
            p = _VECTORS * classes.size + 2
            self._columns = Columns.of(as_points(self._data.points), self.work, p, seed)
        n_trees = _TRIAL_TREES if self._trial else TREES
        return self._columns.chances(labels, classes, seed, n_trees)

    def _clusters(self, part: str, labels: Ints) -> Any:
        """Shares of the classes among the labels of a node's cluster, 0 where it has none."""
        classes, codes = np.unique(labels, return_inverse=True)
        blind = part == NCUT.method
        if part not in self._fitted:
            made = self._auto._made(part, self._data)
            made.set_params(n_clusters=int(np.count_nonzero(classes >= 0)))
            made = hastened(made, self.work.graph) if self._trial else made
            told = None if blind else labels
            self._fitted[part] = made.fit(self.work.graph, told, observer=self.work.recorder)
        elif not blind:  # what it has chosen stays, which is most of its time
            self._fitted[part].refit(labels, observer=self.work.recorder)
        found = self._fitted[part].labels_
        known = np.flatnonzero((labels >= 0) & (found >= 0))
        votes = np.zeros((int(found.max(initial=0)) + 1, classes.size))
        np.add.at(votes, (found[known], codes[known]), 1)
        votes = votes[:, classes >= 0]
        votes /= np.maximum(votes.sum(axis=1, keepdims=True), 1)
        return np.where(found[:, None] >= 0, votes[np.maximum(found, 0)], 0.0)


def hastened(made: Any, graph: Graph | None = None, n_pairs: int = 0) -> Any:
    """Parameters for a trial: what takes longer than all the rest of it is left out.

    No choice by what is held out of those labels that are not held out already; the usual subspace,
    with a vector for every ten pairs, to some extent: many are not kept within a few vectors.
    """
    own = made.get_params()
    if own.get("alpha") == AUTO:
        made.set_params(alpha=_HALF_WAY)
    if "subspace" in own and graph is not None:
        p = max(USUAL * made.n_clusters, min(n_pairs // 10, _MOST))
        made.set_params(subspace=max(made.n_clusters, 2, min(p, graph.n_nodes // 4)))
    return made


class Trials:
    """Fits to a part of what is known of a graph, and what they predict of the rest."""

    def __init__(self, auto: Any, data: AutoInput, recorder: Recorder) -> None:
        self._auto, self._data, self._recorder = auto, data, recorder
        self._priors = Priors(auto, data, data.graph, recorder, trial=True)
        self._fold: Any = None
        self._made: dict[str, Any] = {}

    def right(self, way: Way, fold: Any) -> Floats:
        """Whether every label held out is predicted; of pairs how far they all are."""
        if self._data.kind == PAIRS:
            found = self._fitted(way.method, fold.kept)
            agreement = pairs_right(found.labels_[fold.nodes], fold.both, fold.given)
            held = fold.both.n_constraints - fold.given.n_constraints
            return np.full(max(min(held, MOST_PAIRS), 1), agreement)
        labels = self._data.labels
        if self._fold is None or self._fold[0] is not fold:
            known = labels.copy()
            known[fold] = -1
            self._fold = fold, known
        known = self._fold[1]
        prior, belief = self._data.prior, self._data.belief
        if way.parts:
            prior, belief = self._priors.of(way, known)
        made = hastened(self._auto._made(way.method, self._data))
        made.fit_on(self._priors.work, known, self._auto._used_seed, prior, belief)
        return np.asarray(made.labels_[fold] == labels[fold], dtype=np.float64)

    def _fitted(self, method: str, known: Constraints) -> Any:
        """A clusterer fitted to some of the constraints, the first time in a usual subspace.

        Then refitted: what it has chosen stays, and that is most of its time.
        """
        if method in self._made:
            return self._made[method].refit(constraints=known, observer=self._recorder)
        made = self._auto._made(method, self._data).set_params(n_clusters=self._k)
        hastened(made, self._priors.work.graph, len(known.merged[0]))
        self._made[method] = made.fit(self._data.graph, constraints=known, observer=self._recorder)
        chosen = {name: made.report_.choices.get(name) for name in _CHOSEN & set(made.get_params())}
        made.set_params(**{name: one for name, one in chosen.items() if one is not None})
        return made

    @cached_property
    def _k(self) -> int:
        """K as it is named, else of the classes, else counted on the graph."""
        named, classes = self._auto.n_clusters, self._data.n_classes
        if isinstance(named, int):
            return named
        if classes is not None and classes > 1:
            return classes
        return count_clusters(self._priors.work, self._auto._used_seed, self._data.known).k
