"""What all estimators share: their graph parameters, input to graph, threads, progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from mustlink.check import as_random_state, check_choice, check_n_jobs
from mustlink.errors import InputError
from mustlink.graph import Graph, knn_graph, rbf_graph
from mustlink.observe import Observer, Recorder

AFFINITIES = ("knn", "rbf", "precomputed")


@dataclass(eq=False, repr=False)
class GraphEstimator(BaseEstimator):
    """Base of the estimators: a subclass is a dataclass too, its fields are its parameters.

    scikit-learn reads them from the constructor, and nothing else happens there.
    """

    _: KW_ONLY
    affinity: str = "knn"
    n_neighbors: int = 15
    metric: str = "euclidean"
    weights: str = "local"
    random_state: Any = None
    n_jobs: int | None = None

    def _seed(self) -> int:
        """One integer for everything random in this fit."""
        return int(as_random_state(self.random_state).integers(2**31))

    def _graph(self, X: Any, recorder: Recorder, seed: int) -> Graph:
        """Points, a matrix or a Graph as a Graph; raises InputError."""
        check_choice(self.affinity, AFFINITIES, "affinity")
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


def check_tolerance(tol: float | None, where: str = "tol") -> None:
    """Raise InputError unless tol is None or a positive number."""
    if tol is not None and not 0 < float(tol) < np.inf:
        raise InputError(
            f"{where}: {tol} is no residual to reach; give a number above 0, such as 1e-4"
        )


def as_recorder(observer: Observer | Recorder | None) -> Recorder:
    """The caller's observer wrapped for measuring, or the recorder itself."""
    return observer if isinstance(observer, Recorder) else Recorder(observer)
