"""The graph that `affinity` of an estimator names: of points, or of a matrix that is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.stage_cache import StageCache
from mustlink.core.check import check_choice
from mustlink.core.observe import Recorder
from mustlink.errors import InputError
from mustlink.graph.forms import graph_of_connectivity, graph_of_distances, is_connectivity
from mustlink.graph.graph import Graph
from mustlink.graph.shares import Shares
from mustlink.graph.weights import WEIGHTS, rbf_graph
from mustlink.neighbors.distances import POINTS, as_rows, resolved_metric
from mustlink.neighbors.knn import knn_graph
from mustlink.neighbors.points_by_rows import DistinctRows, is_rows
from mustlink.neighbors.representatives import Representatives, representative_graph
from mustlink.neighbors.tasks import WorkerRows, on_workers

PRECOMPUTED = ("precomputed", "precomputed_nearest_neighbors")  # scikit-learn's names
AFFINITIES = (*POINTS, "rbf", *PRECOMPUTED)


def affinity_graph(
    X: Any,
    recorder: Recorder,
    *,
    affinity: str,
    n_neighbors: int,
    metric: Any,
    weights: str,
    representatives: int | None = None,
    duplicates: str = "merge",
    **search: Any,
) -> Graph:
    """Points (n, d) or a matrix (n, n) as a graph, see `GraphEstimator`; raises InputError.

    `search` is for `knn_graph`, where equal rows are one node unless `duplicates` says otherwise.
    """
    if affinity == "precomputed":
        return _matrix_graph(X, recorder)
    if affinity == "precomputed_nearest_neighbors":
        check_choice(weights, WEIGHTS, "weights")
        with recorder.stage("weights"):
            return graph_of_distances(X, weights)
    if affinity == "auto" and sp.issparse(X) and len(set(getattr(X, "shape", ()))) == 1:
        raise InputError(
            'affinity: X is a square sparse matrix; say affinity="precomputed" if it is a graph, '
            'or affinity="knn" if its rows are points'
        )
    if affinity == "rbf":
        with recorder.stage("rbf graph"):
            return rbf_graph(X)
    if representatives is not None:
        how: dict[str, Any] = {
            "metric": resolved_metric(metric, X),
            "random_state": search["random_state"],
        }
        executor = search.get("executor")
        source = on_workers(X, executor)
        if executor is not None and not isinstance(source, WorkerRows):
            recorder.note(
                "representatives: all rows are read in this process; workers read those of an HDF5 "
                "or .npy file, none left out"
            )
        return representative_graph(source, representatives, recorder=recorder, **how)
    return knn_graph(
        X,
        n_neighbors,
        metric=metric,
        weights=weights,
        observer=recorder,
        duplicates=duplicates,
        **search,
    )


def cached_graph(
    X: Any,
    weights: NDArray[np.float64] | None,
    made_by: dict[str, Any],
    cache: StageCache,
    **search: Any,
) -> Graph:
    """`affinity_graph`, or what an earlier run kept of it; rows of weight 0 are nodes apart.

    `weights` (n,) of the rows, None: 1 each; `made_by` are the parameters of the graph.
    """
    recorder, keeper = cache.recorder, cache.keeper
    counted = None
    made_by = {key: one for key, one in made_by.items() if one is not None}
    is_given = made_by["affinity"] in PRECOMPUTED  # the caller has it
    by_shares = "representatives" in made_by
    if weights is not None and not weights.all():
        silent = int(np.count_nonzero(weights == 0))
        noun = "row has" if silent == 1 else "rows have"
        recorder.note(f"sample_weight: {silent} {noun} weight 0 and no part in the problem")
        if not (is_given or by_shares):  # nor are they neighbours
            counted = np.flatnonzero(weights)
    others: tuple[Any, ...] = () if counted is None else (counted,)
    others += () if search.get("executor") is None else ("tasks",)
    depends = (made_by, search["random_state"], search["memory"], *others)
    name = cache.name_of("graph", cache.source, *depends)
    make = partial(
        affinity_graph,
        X if counted is None else _some_rows(X, counted),
        recorder,
        **made_by,
        **search,
        keeper=None if counted is not None else keeper,  # which knows all rows only
        scratch=cache.scratch,
    )
    if by_shares:
        graph = cached_shares(on_workers(X, search.get("executor")), make, name, cache)
    else:
        graph = make() if is_given else cache.cached("graph", name, make, (Graph,))
    if counted is not None:
        graph = graph.beside(counted, n_rows(X))
    graph.derived.origin = None if recorder.left_out else name  # which is that of the whole one
    return graph


def cached_shares(X: Any, make: Callable[[], Graph], name: str | None, cache: StageCache) -> Graph:
    """A graph of representatives, of which all but the points is kept."""

    def over(source: Any, found: Graph) -> Graph:
        assert found.shares is not None
        if found.shares.near is not None:
            return found
        return replace(found, shares=replace(found.shares, points=source))

    kinds = (Graph, Shares, Representatives)
    found = cache.cached("graph", name, lambda: over(None, make()), kinds)
    return over(X, found)


def _matrix_graph(X: Any, recorder: Recorder) -> Graph:
    """An affinity (n, n), or scikit-learn's neighbours of ones, with a note."""
    with recorder.stage("checking the graph"):
        directed = is_connectivity(X)
        graph = graph_of_connectivity(X) if directed else Graph.from_affinity(X)
    if directed:
        recorder.note(
            f"affinity: {graph.info['n_neighbors']} neighbours in every row and not "
            "symmetric, taken for a kneighbors_graph A: (A + A.T) / 2 is clustered"
        )
    return graph


def n_rows(X: Any) -> int:
    """Rows of what a caller gives."""
    if isinstance(X, Graph):
        return X.n_rows
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    return int(shape[0]) if shape else 0


def _some_rows(X: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of points, read when needed, where these are."""
    return DistinctRows(X, rows) if is_rows(X) else as_rows(X)[rows]
