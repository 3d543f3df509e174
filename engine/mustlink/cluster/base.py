"""What all clusterers share: input to graph, labels back to the caller's nodes, the report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin

from mustlink.check import (
    as_labels,
    as_random_state,
    check_choice,
    check_n_clusters,
    check_n_jobs,
)
from mustlink.constraints import Constraints
from mustlink.errors import InputError
from mustlink.graph import Graph, knn_graph, rbf_graph
from mustlink.observe import Observer, Recorder
from mustlink.operators.laplacian import NormalizedLaplacian

Ints = NDArray[np.int64]
AFFINITIES = ("knn", "rbf", "precomputed")
_GIANT = 0.95  # share of the nodes in one cluster that a person should look at
ISOLATED = ("drop", "assign")


@dataclass(eq=False, repr=False)
class GraphClusterer(ClusterMixin, BaseEstimator):
    """Base of the estimators: their common parameters, and what every fit begins and ends with.

    A subclass is a dataclass too: its fields are its parameters, which scikit-learn reads from the
    constructor, and nothing else happens there.
    """

    n_clusters: int = 8
    _: KW_ONLY
    affinity: str = "knn"
    n_neighbors: int = 15
    metric: str = "euclidean"
    weights: str = "local"
    isolated: str = "drop"
    random_state: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None) -> GraphClusterer:
        """Set `labels_`; subclasses do."""
        raise NotImplementedError

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Ints:
        """`fit(X, y, ...)`, then `labels_`; scikit-learn's own would leave the labels `y` out."""
        self.fit(X, y, **options)
        found: Ints = self.labels_
        return found

    def _seed(self) -> int:
        """One integer for everything random in this fit."""
        return int(as_random_state(self.random_state).integers(2**31))

    def _graph(self, X: Any, recorder: Recorder, seed: int) -> Graph:
        """Points, a matrix or a Graph as a Graph; raises InputError."""
        check_choice(self.affinity, AFFINITIES, "affinity")
        check_choice(self.isolated, ISOLATED, "isolated")
        if isinstance(X, Graph):
            return X
        if self.affinity == "precomputed":
            with recorder.stage("checking the graph"):
                return Graph.from_affinity(X)
        if sp.issparse(X):
            raise InputError(
                'affinity: X is a sparse matrix; say affinity="precomputed" if it is a graph, '
                "or give points as a dense array"
            )
        if self.affinity == "rbf":
            with recorder.stage("rbf graph"):
                return rbf_graph(X)
        return knn_graph(
            X,
            self.n_neighbors,
            metric=self.metric,
            weights=self.weights,
            random_state=seed,
            n_jobs=self.n_jobs,
            observer=recorder,
        )

    def _side_information(self, n: int, y: Any, constraints: Constraints | None) -> Constraints:
        """Labels `y` (-1 = unknown) and constraints together."""
        found = Constraints.none(n)
        if isinstance(y, Constraints):
            raise InputError("y: Constraints given; pass them as constraints=")
        if y is not None:
            found = found + Constraints.from_labels(as_labels(y, n))
        if constraints is not None:
            if not isinstance(constraints, Constraints):
                raise InputError(
                    f"constraints: {type(constraints).__name__} given; make them by "
                    "Constraints.from_pairs, from_labels, from_graph or from_matrix"
                )
            constraints.require_nodes(n)
            found = constraints if found.is_empty else found + constraints
        return found

    def _check_clusters(self, graph: Graph) -> int:
        """K, checked against the nodes that can be clustered at all."""
        k = check_n_clusters(self.n_clusters, graph.n_nodes)
        linked = int(np.count_nonzero(graph.degrees))
        if k > linked:
            raise InputError(
                f"n_clusters: {k} clusters asked for, but only {linked} of {graph.n_nodes} nodes "
                "have an edge; ask for fewer"
            )
        return k

    def _labels(self, laplacian: NormalizedLaplacian, found: Ints, recorder: Recorder) -> Ints:
        """Labels in the caller's order; isolated nodes -1, or in the largest cluster."""
        labels = np.full(laplacian.n_nodes, -1, dtype=np.int64)
        labels[laplacian.nodes] = found
        largest = np.bincount(found).max() / found.size
        if largest > _GIANT and self.n_clusters < 1 / (1 - _GIANT):
            recorder.note(
                f"one cluster holds {largest:.1%} of the nodes, the others are small groups on its "
                "rim; look before relying on it"
            )
        count = np.unique(found).size
        if count < self.n_clusters:
            recorder.note(
                f"only {count} of {self.n_clusters} clusters have nodes: the vectors tell no more "
                "groups apart; ask for fewer clusters or give more constraints"
            )
        alone = laplacian.n_nodes - laplacian.size
        if alone:
            if self.isolated == "assign":
                labels[labels < 0] = int(np.bincount(found).argmax())
            done = "put in the largest cluster" if self.isolated == "assign" else "labelled -1"
            noun = "node has" if alone == 1 else "nodes have"
            recorder.note(f"{alone} {noun} no edge and cannot be clustered: {done}")
        return labels


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Run with at most n_jobs threads of our own (None: all), and one inside BLAS.

    Our kernels and row-block products split the work; see `kernels.tall` for why BLAS does not.
    """
    from threadpoolctl import threadpool_limits

    wanted = check_n_jobs(n_jobs)
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(before if wanted is None else min(wanted, before))
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        numba.set_num_threads(before)


def check_tolerance(tol: float | None) -> None:
    """Raise InputError unless tol is None or a positive number."""
    if tol is not None and not 0 < float(tol) < np.inf:
        raise InputError(f"tol: {tol} is no residual to reach; give a number above 0, such as 1e-4")


def as_recorder(observer: Observer | Recorder | None) -> Recorder:
    """The caller's observer wrapped for measuring, or the recorder itself."""
    return observer if isinstance(observer, Recorder) else Recorder(observer)
