"""Candidates of `Auto` fitted to a part of what is known, and what they predict of the rest."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.advice.auto_input import MOST_PAIRS, AutoInput
from mustlink.advice.candidates import PAIRS, Way, pairs_right
from mustlink.clusterers.label_clusters import Priors, hastened
from mustlink.constraints import Constraints
from mustlink.core.observe import Recorder
from mustlink.discretize.cuts import ClusterSums
from mustlink.selection.cluster_count import count_clusters

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_CHOSEN = {"power", "variant"}  # parameters that a refit would choose again


class Trials:
    """Fits to a part of what is known of a graph, and what they predict of the rest."""

    def __init__(self, auto: Any, data: AutoInput, recorder: Recorder) -> None:
        self._auto, self._data, self._recorder = auto, data, recorder
        self._work = auto._view(data.graph, recorder, cost=auto.cost(data.n_classes))
        self._priors = Priors(auto, self._work, data.points, auto._used_seed, trial=True)
        self._fold: Any = None
        self._made: dict[str, Any] = {}

    def right(self, way: Way, fold: Any) -> tuple[Floats, Floats]:
        """Whether every label held out is predicted, and how it counts; of pairs how far all are.

        Labels may be as many of every class where rows are not: one of class c counts n_c/l_c, n_c
        of all answers and l_c of the labels are c.
        """
        if self._data.kind == PAIRS:
            found = self._fitted(way, fold.kept).labels_
            agreement = pairs_right(found[fold.nodes], fold.both, fold.given)
            held = fold.both.n_constraints - fold.given.n_constraints
            found_right = np.full(max(min(held, MOST_PAIRS), 1), agreement)
            return found_right, np.ones_like(found_right)
        labels = self._data.labels
        if self._fold is None or self._fold[0] is not fold:
            known = labels.copy()
            known[fold] = -1
            self._fold = fold, known
        own, answers = labels[fold], self._answers(way, self._fold[1])
        k = labels.max() + 1
        sizes, counts = (np.bincount(x[x >= 0], minlength=k) for x in (answers, labels))
        return np.asarray(answers[fold] == own, dtype=np.float64), sizes[own] / counts[own]

    def nats(self, way: Way) -> float:
        """What the answers by all labels tell about the edges, `ClusterSums.nats`."""
        graph = self._work.graph
        answers = self._answers(way, self._data.labels)[graph.first_rows].astype(np.int64)
        sizes = np.bincount(answers[answers >= 0], minlength=1).astype(np.float64)
        weights, edges = graph.cluster_weights(answers, sizes.size)
        return ClusterSums(weights, edges, sizes).nats

    def _answers(self, way: Way, known: Ints) -> Ints:
        """Classes (n,) by some of the labels (n,), -1 where none reaches."""
        prior, belief = self._data.prior, self._data.belief
        if way.parts:
            prior, belief = self._priors.of(way.parts, way.belief, known)
        made = hastened(self._auto._made(way, self._data))
        found: Ints = made.fit_on(self._work, known, self._auto._used_seed, prior, belief).labels_
        return found

    def _fitted(self, way: Way, known: Constraints) -> Any:
        """A clusterer fitted to some of the constraints, the first time in a usual subspace.

        Then refitted: what it has chosen stays, and that is most of its time.
        """
        if way.name in self._made:
            return self._made[way.name].refit(constraints=known, observer=self._recorder)
        made = self._auto._made(way, self._data, spreads=bool(way.parts))
        if way.parts:
            return made.run_on(self._work, known, self._auto._used_seed, self._priors)
        made.set_params(n_clusters=self._k)
        hastened(made, self._work.graph, len(known.merged[0]))
        self._made[way.name] = made.fit(
            self._data.graph, constraints=known, observer=self._recorder
        )
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
        return count_clusters(self._work, self._auto._used_seed, self._data.known).k
