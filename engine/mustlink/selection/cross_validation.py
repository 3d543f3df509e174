"""Choosing parameters by held-out constraints, with scikit-learn's `GridSearchCV`.

    search = GridSearchCV(
        CSP(n_clusters=10).set_fit_request(constraints=True),
        {"beta": [0.1, 0.5], "n_neighbors": [10, 15, 20]},
        scoring=ConstraintScorer(),
        cv=ConstraintKFold(known),
    ).fit(X, constraints=known)

`sklearn.set_config(enable_metadata_routing=True)` lets the constraints through; labels `y` need no
routing. Every fold clusters the points without those of some constraints and predicts these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mustlink.constraints import Constraints
from mustlink.core.check import as_integer, as_random_state
from mustlink.core.labels import as_labels, encoded
from mustlink.discretize.satisfaction import satisfaction
from mustlink.errors import InputError

if TYPE_CHECKING:
    from sklearn.utils.metadata_routing import MetadataRequest

Ints = NDArray[np.int64]


def constraint_satisfaction_score(labels: Any, constraints: Constraints) -> float:
    """Share of the constraints that labels (n,) keep, weighted by |belief|; 1 without any.

    Must-links in one cluster and cannot-links in two, each pair once; a node labelled -1 is in
    no cluster. Raises InputError.
    """
    return satisfaction(labels, constraints)["kept_weighted"]


class ConstraintScorer:
    """A scorer for `GridSearchCV` and `cross_val_score`: `constraint_satisfaction_score` of points.

    They are clustered by `estimator.predict`. What should be kept are `constraints`, which
    metadata routing brings (see the module), labels `y`, -1 for unknown, or both.
    """

    def __call__(
        self, estimator: Any, X: Any, y: Any = None, constraints: Constraints | None = None
    ) -> float:
        """Share of the constraints among points X (q, d) that are kept."""
        found = estimator.predict(X)
        known = Constraints.none(len(found)) if constraints is None else constraints
        if y is not None:
            known = known + Constraints.from_labels(as_labels(encoded(y, "y")[0], len(found)))
        if constraints is None and y is None:
            raise InputError(
                "scoring: neither labels nor constraints to score by; give y, or let constraints "
                "through by sklearn.set_config(enable_metadata_routing=True)"
            )
        return constraint_satisfaction_score(found, known)

    def get_metadata_routing(self) -> MetadataRequest:
        """Tell scikit-learn that constraints are wanted."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self)
        request.score.add_request(param="constraints", alias=True)
        return request

    def __repr__(self) -> str:
        """Name."""
        return "ConstraintScorer()"


class ConstraintKFold:
    """Splits for cross-validation: each time, the nodes of some constraints are held out.

    Nodes joined by constraints stay together, so that few constraints are lost between the parts,
    unless they are more than a fold: then they are dealt one by one. Nodes about which nothing is
    known are in every training part and in no test part.
    """

    def __init__(
        self, constraints: Constraints, n_splits: int = 5, random_state: Any = None
    ) -> None:
        self.constraints = constraints
        self.n_splits = as_integer(n_splits, "n_splits", 2)
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds."""
        return self.n_splits

    def split(
        self, X: Any = None, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[Ints, Ints]]:
        """Nodes to fit and nodes to score, both ascending; raises InputError."""
        nodes, n = self.constraints.nodes, self.constraints.n_nodes
        if nodes.size < 2 * self.n_splits:
            raise InputError(
                f"n_splits: {self.n_splits} folds of {nodes.size} constrained nodes; each needs 2, "
                "ask for fewer"
            )
        fold = self._folds(nodes)
        for number in range(self.n_splits):
            test = nodes[fold == number]
            yield np.setdiff1d(np.arange(n), test), test

    def _folds(self, nodes: Ints) -> Ints:
        """Fold of every constrained node: groups in random order to whoever has fewest."""
        rng = as_random_state(self.random_state)
        group = _groups(self.constraints, nodes)
        large = np.bincount(group)[group] > nodes.size / self.n_splits
        group[large] = group.max() + 1 + np.arange(np.count_nonzero(large))
        group = np.unique(group, return_inverse=True)[1].ravel()
        sizes = np.bincount(group)
        held, fold_of = (
            np.zeros(self.n_splits, dtype=np.int64),
            np.empty(sizes.size, dtype=np.int64),
        )
        for one in rng.permutation(sizes.size):
            fold_of[one] = int(held.argmin())
            held[fold_of[one]] += sizes[one]
        return fold_of[group]


def _groups(known: Constraints, nodes: Ints) -> Ints:
    """Number of the group of every constrained node: those that constraints join are one."""
    n = known.n_nodes
    i, j = known.pairs.T
    if known.labels is not None or known.shares is not None:
        has = known.labels >= 0 if known.shares is None else known.shares.known  # type: ignore[operator]
        labelled = np.flatnonzero(has)
        i = np.concatenate([i, labelled[:-1]])
        j = np.concatenate([j, labelled[1:]])
    joined = sp.csr_matrix((np.ones(i.size), (i, j)), shape=(n, n))
    if known.soft is not None:
        joined = joined + abs(known.soft)
    return connected_components(joined, directed=False)[1][nodes].astype(np.int64)
