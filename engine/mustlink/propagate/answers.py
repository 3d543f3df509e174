"""What can be asked of a propagator once it is fitted: classes of new points, a score, names."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mustlink.errors import InputError
from mustlink.estimator import GraphEstimator
from mustlink.graph.bipartite import on_both_sides
from mustlink.growing import grown, labels_of_all
from mustlink.labels import encoded, named
from mustlink.observe import recorded
from mustlink.operators.laplacian import Block
from mustlink.propagate.prior import GivenPrior
from mustlink.state import before, fits_again


@dataclass(eq=False, repr=False)
class Answers(ClassifierMixin, GraphEstimator):
    """Base of the propagators: `classes_` (K,), `labels_` (n,), `label_distributions_` (n, K)."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of new points (q, d): the largest entry of `predict_proba`, as in `labels_`."""
        new = self._new_points(X)
        best = np.empty(new.new.shape[0], dtype=np.int64)
        for part, mean in new.means(self.label_distributions_):  # (q, K) may be large
            P = _shares(mean)
            best[part] = np.where(P.any(axis=1), P.argmax(axis=1), -1)
        return named(self.classes_, best)

    def predict_proba(self, X: Any) -> Block:
        """Distributions (q, K) of new points: the mean of their neighbours', as harmonic values.

        p(x) = Σ_j w_j p_j / Σ_j w_j over the `n_neighbors` nearest fitted points, w_j =
        exp(−d_j²/s²), s the distance of the 7th; a fitted point keeps its own. Neighbours without
        an answer do not count; where there is no other, p is 0. Cost O(q n d).
        """
        check_is_fitted(self)
        return _shares(self._new_points(X, self.classes_.size).mean(self.label_distributions_))

    def decision_function(self, X: Any = None) -> Block:
        """Scores F before they are shares: of fitted rows (n, K), or of new points X (q, K).

        They are what the method's equation gives for one-hot labels, of either sign where it has a
        balance, before `class_mass` and `refine`: where neither acts, `labels_` is the largest of a
        row, among the classes with a label in the node's component. Of two classes the second's
        less the first's, (n,) or (q,): AB09's f for labels −1 and 1. New points get the mean of
        their neighbours' as by `predict_proba`. 0 where nothing was spread to.
        """
        check_is_fitted(self)
        scores, place = self._scores  # of nodes (m, K), and the node of every row, or -1
        F = np.zeros((place.size, self.classes_.size))
        there = place >= 0
        F[there] = scores[place[there]]
        if X is not None:
            F = self._new_points(X, self.classes_.size).mean(F)
        return F if self.classes_.size > 2 else F[:, 1] - F[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the points X (q, d) whose class is as in `y` (q,); unknown ones do not count."""
        codes, _ = encoded(y, "y")
        known = np.asarray(codes) != -1
        if not known.any():
            raise InputError("y: all labels are -1; give some points their class")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        right = self.predict(X)[known] == np.asarray(y)[known]
        return float(np.average(right, weights=weight))

    @fits_again
    def add(self, X: Any, y: Any = None, observer: Any = None) -> Self:
        """Join new points (m, d) to the fitted ones, or nodes by their edges (m, n + m), sparse.

        The rows are n + m then, the new ones last, `y` (m,) their labels, unknown if left out. The
        graph is not searched again, labels are spread anew. Raises InputError, and then nothing has
        changed.
        """
        recorder, had = recorded(observer), before(self)
        with self._running(recorder):
            n = grown(self, X, recorder).graph.n_rows
        given = labels_of_all(had.given_labels_, y, n - len(had.labels_))
        return self.refit(given, observer=recorder)

    @abstractmethod
    def refit(self, y: Any, observer: Any = None) -> Self:
        """Label the rows again from other labels."""

    def _known_as(
        self,
        given: NDArray[np.int64],
        names: NDArray[Any] | None,
        prior: Any = None,
        belief: Any = None,
    ) -> None:
        """Remember what was given: labels (n,), numbers; of classes with names these come back."""
        classes = np.unique(given[given >= 0])
        classes = classes if names is None else names[classes]
        self._given_prior = GivenPrior.of(prior, belief, classes)
        self.given_labels_: Any = on_both_sides(given, self.graph_)
        if names is not None:
            self.given_labels_ = named(names, self.given_labels_)
            self.labels_: Any = named(names, self.labels_)
            self.classes_: Any = names[self.classes_]

    @property
    def transduction_(self) -> Any:
        """`labels_` under scikit-learn's name."""
        return self.labels_


def _shares(mean: Block) -> Block:
    return mean / np.maximum(mean.sum(axis=1, keepdims=True), 1e-300)


def call_classes(estimator: Any, names: Mapping[int, str]) -> None:
    """Give the classes of a fitted propagator, which are numbers, names: as if labels had them."""
    called = np.array([names.get(at, "") for at in range(int(estimator.classes_.max()) + 1)])
    made, prior = estimator._calibrated, estimator._given_prior
    estimator._known_as(estimator.given_labels_, called)
    if prior is not None:
        estimator._given_prior = replace(prior, classes=called[prior.classes])
    if made is not None:
        estimator._calibrated = estimator.labels_, made[1]
