"""`suggest`: look at the data and what is known, then apply the table of rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from mustlink.advice.agreement import Comparison, look_at_side
from mustlink.advice.baseline import baseline
from mustlink.advice.column_choice import NOT_CHANGED, choose_columns
from mustlink.advice.data_warnings import doubts
from mustlink.advice.graph_look import (
    DEFAULT_CLUSTERS,
    count_of_graph,
    kind_of_graph,
    look_at_graph,
)
from mustlink.advice.metric import choose_metric
from mustlink.advice.needs import doubt_memory, needs
from mustlink.advice.observations import Coordinates, Count, Known, Links, Seen
from mustlink.advice.points_look import look_at_points, row_numbers
from mustlink.advice.rules import applied
from mustlink.advice.sample import is_square, readable, sampled_rows, take
from mustlink.advice.suggestion import Suggestion
from mustlink.check import as_integer, as_random_state, check_n_clusters
from mustlink.constraints import Constraints
from mustlink.cost.process_memory import parse_size
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.graph.network_objects import unwrapped
from mustlink.kernels.threads import threads
from mustlink.labels import as_labels, encoded, refuse_row_numbers
from mustlink.neighbours import knn_graph
from mustlink.observe import Observer, Recorder, recorded
from mustlink.preparation.prepared_rows import PreparedRows
from mustlink.preparation.survey import without
from mustlink.selection.cluster_count import enough_pairs

_NEIGHBORS = 15


def suggest(
    X: Any,
    y: Any = None,
    constraints: Constraints | None = None,
    *,
    n_clusters: int | None = None,
    graph: Any = None,
    memory: int | str | None = None,
    feature_names: Sequence[str] | None = None,
    random_state: Any = None,
    observer: Observer | Recorder | None = None,
) -> Suggestion:
    """Look at data and side information and name a method, parameters and the reasons.

    `X` are points (n, d), also rows that are read by blocks, a square sparse affinity, or a Graph;
    `graph` a Graph of these points, which is looked at instead of one of a sample. `y` (n,) labels,
    numbers with -1 for unknown or names of classes, `constraints` as of the clusterers. Without
    `n_clusters` K is the number of classes among the labels, else counted as clusterers do with
    n_clusters="auto". `memory`, as "2GB", goes into the parameters and is compared with what the
    method needs. `feature_names` (d,), those of a data frame by default, are what reasons call
    columns.

    Of more than some thousand points a sample is looked at: the same `random_state` (None: 0) gives
    the same suggestion. Labels are held out of fits to a sample, see `baseline`; all of the data is
    fitted nowhere. Raises InputError. Cost: at most a few seconds for a million points, O(n + nnz)
    for graphs, where clusters of a network are counted ten seconds or more.
    """
    recorder = recorded(observer)
    rng = as_random_state(0 if random_state is None else random_state)
    given = None if memory is None else parse_size(memory)
    changes: tuple[str, ...] = ()
    X = unwrapped(X)
    is_graph = isinstance(X, Graph) or is_square(X)
    if is_graph and graph is not None:
        raise InputError("graph: X is a graph itself; leave graph out, or give points as X")
    with threads(None):
        if is_graph:
            with recorder.stage("checking the graph"):
                data = X if isinstance(X, Graph) else Graph.from_affinity(X)
            known = _known(data.n_nodes, y, constraints)
            seen = _seen_graph(data, known, n_clusters, rng, recorder)
        else:
            names = getattr(X, "columns", ()) if feature_names is None else feature_names
            points, missing = readable(X)
            known = _known(int(points.shape[0]), y, constraints)
            columns = tuple(str(name) for name in names)
            seen, changes, points = _seen_points(
                points, columns, known, n_clusters, graph, rng, recorder
            )
            if missing:
                steps = replace(seen.preparation, impute="mean")
                seen = replace(seen, preparation=steps)
                changes = ("cells without a value are filled with means", *changes)
    seen = replace(seen, memory=given)
    rule, parameters = applied(seen)
    if seen.kind != "points":
        parameters = {**parameters, "affinity": "precomputed"}
    elif seen.metric != "euclidean":
        parameters = {**parameters, "metric": seen.metric}
    if memory is not None:
        parameters = {**parameters, "memory": memory}
    need = needs(seen, rule.method, parameters)
    reasons = [rule.reason(seen), *_count_reason(seen, parameters)]
    reasons += [seen.metric_reason] if seen.metric_reason else []
    reasons += changes
    made = Suggestion(
        method=rule.method,
        parameters=parameters,
        reasons=tuple(reasons),
        alternatives=rule.otherwise,
        doubts=(*doubt_memory(seen, need), *doubts(seen)),
        rule=rule.name,
        peak_bytes=need.peak,
        seen=seen,
    )
    if is_graph or known.kind != "labels" or known.classes.size < 2:
        return made
    with threads(None), recorder.stage("labels held out"):
        method = made.estimator()
        method = method[-1] if isinstance(method, Pipeline) else method  # points are prepared
        found = baseline(points, known.labels, method, random_state=rng)
    doubted = () if found is None or found.doubt is None else (found.doubt,)
    return replace(made, baseline=found, doubts=(*doubted, *made.doubts))


def _known(n: int, y: Any, constraints: Constraints | None) -> Constraints:
    """Labels and constraints together, checked; raises InputError."""
    found = Constraints.none(n)
    if isinstance(y, Constraints):
        raise InputError("y: Constraints given; pass them as constraints=")
    if y is not None:
        labels = as_labels(encoded(y, "y")[0], n)
        refuse_row_numbers(labels, "y")
        found = found + Constraints.from_labels(labels)
    if constraints is None:
        return found
    if not isinstance(constraints, Constraints):
        raise InputError(
            f"constraints: {type(constraints).__name__} given; make them by "
            "Constraints.from_pairs, from_labels, from_graph or from_matrix"
        )
    constraints.require_nodes(n)
    return constraints if found.is_empty else found + constraints


def _seen_points(
    points: Any,
    columns: tuple[str, ...],
    known: Constraints,
    n_clusters: int | None,
    graph: Any,
    rng: np.random.Generator,
    recorder: Recorder,
) -> tuple[Seen, tuple[str, ...], Any]:
    """What is seen, why columns are prepared, if they are, and the points as they are then."""
    n, d = (int(size) for size in points.shape)
    if columns and len(columns) != d:
        raise InputError(f"feature_names: {len(columns)} given for {d} columns; give one a column")
    with recorder.stage("looking at the points"):
        rows = sampled_rows(points, rng)
        X = take(points, rows)
        numbers = row_numbers(X, n) if graph is None else ()
        coordinates = look_at_points(without(X, numbers))
    with recorder.stage("looking at the side information"):
        comparison = Comparison(known, rng)
        side = replace(look_at_side(known), repeated=comparison.repeated(points))
        steps, fitted, changes = NOT_CHANGED
        if graph is None:
            steps, fitted, changes = choose_columns(
                points, X, coordinates, comparison, columns, numbers
            )
        if fitted is not None:
            points, X = PreparedRows(points, fitted, None), fitted.transform(X)
        metric, why, agreement = choose_metric(points, coordinates, comparison)
        side = replace(side, agreement=agreement, compared=comparison.size)
    seed = int(rng.integers(2**31 - 1))
    if graph is not None:
        own = graph if isinstance(graph, Graph) else Graph.from_affinity(graph)
        if own.n_nodes != n:
            raise InputError(
                f"graph: {own.n_nodes} nodes for {n} points; give that of these points"
            )
    elif n < 2:
        raise InputError("points: one point given; there is nothing to cluster")
    else:
        with recorder.stage("neighbours in the sample"):
            own = knn_graph(
                X, min(_NEIGHBORS, len(X) - 1), metric=metric, connect=False, random_state=seed
            )
    with recorder.stage("looking at the graph"):
        links = look_at_graph(own)
    count = _count(n, n_clusters, side, own, seed, recorder)
    seen = _seen("points", (n, d, len(rows)), (metric, why), coordinates, links, side, count)
    return replace(seen, preparation=steps, columns=columns), changes, points


def _seen_graph(
    data: Graph,
    known: Constraints,
    n_clusters: int | None,
    rng: np.random.Generator,
    recorder: Recorder,
) -> Seen:
    n = data.n_nodes
    seed = int(rng.integers(2**31))  # as clusterers draw theirs first: they count the same
    with recorder.stage("looking at the graph"):
        links = look_at_graph(data)
        kind = kind_of_graph(data, links)
    with recorder.stage("looking at the side information"):
        comparison = Comparison(known, rng)
        side = replace(
            look_at_side(known), agreement=comparison.with_graph(data), compared=comparison.size
        )
    count = _count(n, n_clusters, side, data, seed, recorder)
    return _seen(kind, (n, 0, n), ("euclidean", ""), None, links, side, count)


def _seen(
    kind: str,
    sizes: tuple[int, int, int],
    metric: tuple[str, str],
    coordinates: Coordinates | None,
    links: Links,
    known: Known,
    count: Count,
) -> Seen:
    n, d, sampled = sizes
    return Seen(kind, n, d, sampled, *metric, coordinates, links, known, count)


def _count(
    n: int, given: int | None, side: Known, graph: Graph, seed: int, recorder: Recorder
) -> Count:
    """K as given, by the classes, or by the spectrum."""
    if given is not None:
        return Count(check_n_clusters(as_integer(given, "n_clusters", 2), n), "given")
    if side.classes >= 2:
        return Count(side.classes, "labels")
    if enough_pairs(side.must, side.cannot):
        return Count(DEFAULT_CLUSTERS, "later")
    with recorder.stage("spectrum"):
        return count_of_graph(graph, seed)


def _count_reason(seen: Seen, parameters: dict[str, Any]) -> list[str]:
    """Where K comes from, where it is a parameter that nobody gave."""
    count = seen.count
    if "n_clusters" not in parameters or count.source in ("given", "default", "later"):
        return []
    if count.source == "labels":
        return [f"labels are of {count.k} classes: n_clusters={count.k}"]
    of = "" if seen.kind != "points" else f" in the graph of {seen.sampled:,} points"
    return [f"{count.reason}{of}: n_clusters={count.k}"]
