"""Points and the view of their graph, for methods that are given both, or make one of the other."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from mustlink.check import as_points
from mustlink.cost.method_cost import Cost
from mustlink.errors import InputError
from mustlink.estimator import GraphEstimator
from mustlink.graph import Graph
from mustlink.graph.forms import unwrapped
from mustlink.graph.several import Views
from mustlink.graph.stored import StoredGraph
from mustlink.graph.structure import as_sample_weight
from mustlink.neighbours.points_by_rows import is_rows
from mustlink.observe import Recorder
from mustlink.workspace import Workspace
from mustlink.workspace.shelf import Shelf


def points_and_view(
    estimator: GraphEstimator,
    X: Any,
    graph: Any,
    recorder: Recorder,
    seed: int,
    *,
    sample_weight: Any,
    cost: Cost,
    needs_points: bool,
    beside: int = 0,
) -> tuple[Any, Workspace]:
    """Points, where there are any, and the fit's view of the graph; raises InputError.

    Points on disk stay there unless they are needed. `graph` is one of the points, made before;
    `beside` the bytes that are held for the fit beside the points.
    """
    views, graph = X, unwrapped(graph)
    X = unwrapped(X.first if isinstance(X, Views) else X)
    is_graph = isinstance(X, Graph | StoredGraph) or estimator.affinity == "precomputed"
    if is_graph and graph is not None:
        raise InputError("graph: X is a graph already; give points as X, or one graph only")
    if is_graph and needs_points:
        raise InputError(
            f"{type(estimator).__name__}: fits neighbourhoods of points, but only a graph was "
            "given; pass the points as X (and the graph as graph=)"
        )
    if graph is None:
        built = estimator._work(views, recorder, seed, sample_weight, cost, beside)
        if is_graph or (is_rows(X) and not needs_points):
            return (None if is_graph else X), built  # read when `predict` asks for them
        return as_points(X), built
    if sp.issparse(graph):
        graph = Graph.from_affinity(graph)
    if not isinstance(graph, Graph):
        raise InputError(f"graph: {type(graph).__name__} given; give a Graph or sparse matrix")
    estimator._remember(X)
    points = as_points(X)
    if points.shape[0] != graph.n_rows:
        raise InputError(f"graph: {graph.n_rows} nodes, but X has {points.shape[0]} points")
    weights, shelf = (
        as_sample_weight(sample_weight, graph.n_rows),
        Shelf(recorder, estimator._keeper),
    )
    graph = estimator._joined(graph, views, seed, recorder, shelf)
    graph = estimator._weighing(graph, weights, shelf)
    return points, estimator._view(graph, recorder, points.nbytes + beside, weights, cost)
