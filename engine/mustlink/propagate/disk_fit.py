"""A propagator's fit to a graph that stays on disk, where memory does not do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mustlink.cost.method_cost import Cost, Given, StoredCost, home_for
from mustlink.cost.process_memory import size_text
from mustlink.eigen.disk_work import StoredWork
from mustlink.errors import InputError
from mustlink.graph.stored import StoredGraph
from mustlink.labels import as_labels, check_two_classes, labels_of_nodes
from mustlink.neighbours.stored_knn import graph_where_short
from mustlink.observe import Recorder
from mustlink.propagate.glp import Ints
from mustlink.propagate.prior import Prior
from mustlink.propagate.reporting import conclude
from mustlink.propagate.row_fit import check_rows, spread
from mustlink.propagate.told import Told

ON_DISK = "on disk"
_HOME = f"{ON_DISK}, where the graph stays for want of memory"


def fit_on_disk(
    estimator: Any,
    graph: StoredGraph,
    labels: Ints,
    recorder: Recorder,
    seed: int,
    prior: Any = None,
    belief: Any = None,
    given: Mapping[str, Any] | None = None,
) -> None:
    """Set what `Propagator.fit` sets, from a graph that is read by blocks of rows; InputError.

    `given` is what else `fit` was told. `label_distributions_` has its rows on disk: slices of it
    are arrays.
    """
    check_rows(estimator, _HOME, given or {})
    told = _told(graph, as_labels(labels, graph.n_rows, "y"), recorder)
    if prior is not None:
        if graph.copies is not None:
            raise InputError("prior: the graph on disk merges rows; leave it out")
        of_rows = Prior.of_rows(prior, belief, graph.n_rows, told.classes.size)
        told = replace(told, prior=_of_nodes(graph, of_rows))
    estimator.classes_ = told.classes
    recorder.keep_within(estimator._budget)
    if estimator._budget is not None:
        classes = told.classes.size
        cost = StoredCost.of_labels(graph.n_nodes, graph.n_entries, classes)
        cost.check(estimator._budget)
        limit = size_text(estimator._budget)
        recorder.note(f"memory: graph and values stay on disk to stay within {limit}")
    folder = None if estimator._keeper is None else estimator._keeper.scratch
    work = StoredWork(graph, told.classes.size, recorder, folder)
    found = spread(estimator, work, told, graph.info, graph.n_entries, seed)
    P = _with_isolated(work, told, found.distributions)
    alone = work.seen.n_components + work.isolated
    estimator.graph_, estimator._scores = graph, None
    name = f"{type(estimator).__name__}, {ON_DISK}"
    how = found.task, found.solution, found.best, work.leave(P), told, name, alone
    conclude(estimator, *how, advice=found.advice)


def graph_or(
    estimator: Any,
    X: Any,
    recorder: Recorder,
    cost: Cost,
    given: Mapping[str, Any],
    classes: int,
    seed: int,
) -> Any:
    """X, or the graph on disk of points that are too many for memory; raises InputError."""
    if not estimator._by_rows or given["graph"] is not None:
        return X

    def on_disk(n: int, nnz: int) -> StoredCost:
        check_rows(estimator, _HOME, given)
        return StoredCost.of_labels(n, nnz, classes)

    return graph_where_short(estimator, X, recorder, cost, on_disk, seed)


def stays_on_disk(graph: StoredGraph, cost: Cost, budget: int | None) -> bool:
    """Whether a graph on disk is too large for a budget."""
    return home_for(budget, cost, Given(graph.n_nodes, graph.n_entries)).name != "memory"


def _told(graph: StoredGraph, labels: Ints, recorder: Recorder) -> Told:
    """What labels of the caller's rows say of nodes; tells of contradictions."""
    if graph.rows is None and graph.copies is None:
        return Told(labels, labels, None)
    n = graph.n_nodes
    rows = np.arange(n) if graph.rows is None else graph.rows[: graph.n_rows]
    weights = np.ones(rows.size)
    if graph.rows is None and graph.copies is not None:
        weights = np.asarray(graph.copies[:n])
    nodes, doubt = labels_of_nodes(labels, rows, weights, n)
    if doubt:
        recorder.warn(doubt)
    check_two_classes(nodes, "y")
    agree = (labels >= 0) & (labels == nodes[rows])
    counts = np.bincount(rows[agree], weights[agree], n).astype(np.float64)
    return Told(labels, nodes, counts)


def _of_nodes(graph: StoredGraph, prior: Prior) -> Prior:
    """What is believed of rows in the order of the nodes."""
    if graph.rows is None:
        return prior
    row = np.argsort(graph.rows[: graph.n_rows])
    return Prior(prior.values[row], prior.belief[row])


def _with_isolated(work: StoredWork, told: Told, P: Any) -> Any:
    """Distributions in which labelled nodes without an edge keep their own class."""
    alone = np.flatnonzero(told.nodes >= 0)
    degree = work.space.take(work.seen.degrees, alone)
    alone = alone[degree == 0]
    if alone.size:
        rows = (told.nodes[alone, None] == told.classes) * 1.0
        work.space.add_rows(P, alone, rows)
    return P
