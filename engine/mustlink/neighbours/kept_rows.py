"""The graph of points that memory does not hold: on disk, and there for a later run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scipy.sparse as sp

from mustlink.check import as_integer
from mustlink.cost.method_cost import RESERVE, Cost
from mustlink.cost.stored_cost import StoredCost, least_of_points
from mustlink.graph.graph import Graph
from mustlink.graph.stored import StoredGraph
from mustlink.neighbours.equal_rows import count_distinct
from mustlink.neighbours.points_by_rows import is_rows
from mustlink.neighbours.stored_knn import stored_knn_graph
from mustlink.observe import Recorder
from mustlink.workspace.shelf import Shelf

_STAGE = "graph on disk"
_COUNTED = 160  # bytes a row: equal rows are counted where there is ample room for it


def graph_where_short(
    estimator: Any,
    X: Any,
    recorder: Recorder,
    cost: Cost,
    on_disk: Callable[[int, int], StoredCost],
    seed: int,
) -> Any:
    """X, or the graph of points (n, d) on disk where the estimator's memory holds none of it.

    `cost` is what the fit takes in memory, `on_disk(n, nnz)` what it takes there; it raises
    InputError for what does not run there; `seed` is that of the whole fit. Raises InputError.
    """
    budget, shape = estimator._budget, tuple(getattr(X, "shape", ()))
    is_points = estimator.affinity == "knn" and len(shape) == 2 and not sp.issparse(X)
    if budget is None or not is_points or isinstance(X, Graph | StoredGraph):
        return X
    n, d = shape
    k = min(as_integer(estimator.n_neighbors, "n_neighbors", 1), n - 1)
    if least_of_points(cost, n, d, k) <= budget:
        return X
    if _COUNTED * n <= budget and least_of_points(cost, count_distinct(X), d, k) <= budget:
        return X  # equal rows are one node
    on_disk(n, n * k).check(budget)
    made_by = {name: getattr(estimator, name) for name in ("n_neighbors", "metric", "weights")}
    recorder.keep_within(budget, 0 if is_rows(X) else getattr(X, "nbytes", 0))
    limits = {"n_jobs": estimator.n_jobs, "memory": budget - RESERVE}  # for who writes the rows
    search = {"random_state": seed, **limits}
    return kept_rows(X, made_by, Shelf(recorder, estimator._keeper), **search)


def kept_rows(X: Any, made_by: dict[str, Any], shelf: Shelf, **search: Any) -> StoredGraph:
    """The graph of points (n, d) by `stored_knn_graph`, or what an earlier run kept of it.

    `made_by` are the parameters of the graph, `search` those of the search. Equal rows are nodes of
    their own. Without a keeper it lies in temporary files. Raises InputError.
    """
    depends = made_by, search["random_state"], search["memory"]
    name = shelf.name_of(_STAGE, shelf.source, *depends)
    how = {name: made_by[name] for name in ("n_neighbors", "metric", "weights")}
    given = {**how, **search, "observer": shelf.recorder, "scratch": shelf.scratch}
    return shelf.kept_graph(
        _STAGE, name, lambda write: stored_knn_graph(X, **given, write=write).graph
    )
