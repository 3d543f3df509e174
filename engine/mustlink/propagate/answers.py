"""What can be asked of a propagator once it is fitted: classes of new points, a score, names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from mustlink.errors import InputError
from mustlink.estimator import GraphEstimator
from mustlink.labels import encoded, named
from mustlink.operators.laplacian import Block


@dataclass(eq=False, repr=False)
class Answers(ClassifierMixin, GraphEstimator):
    """Base of the propagators: `classes_` (K,), `labels_` (n,), `label_distributions_` (n, K)."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of new points (q, d): the largest entry of `predict_proba`, as in `labels_`."""
        P = self.predict_proba(X)
        best = np.where(P.any(axis=1), P.argmax(axis=1), -1)
        return named(self.classes_, best)

    def predict_proba(self, X: Any) -> Block:
        """Distributions (q, K) of new points: the mean of their neighbours', as harmonic values.

        p(x) = Σ_j w_j p_j / Σ_j w_j over the `n_neighbors` nearest fitted points, w_j =
        exp(−d_j²/s²), s the distance of the 7th; a fitted point keeps its own. Neighbours without
        an answer do not count; where there is no other, p is 0. Cost O(q n d).
        """
        mean = self._new_points(X).mean(self.label_distributions_)
        return mean / np.maximum(mean.sum(axis=1, keepdims=True), 1e-300)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the points X (q, d) whose class is as in `y` (q,); unknown ones do not count."""
        codes, _ = encoded(y, "y")
        known = np.asarray(codes) != -1
        if not known.any():
            raise InputError("y: all labels are -1; give some points their class")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        right = self.predict(X)[known] == np.asarray(y)[known]
        return float(np.average(right, weights=weight))

    def _rename(self, names: NDArray[Any]) -> None:
        """Numbers of classes back to their names."""
        self.labels_: Any = named(names, self.labels_)
        self.classes_: Any = names[self.classes_]

    @property
    def transduction_(self) -> Any:
        """`labels_` under scikit-learn's name."""
        return self.labels_
