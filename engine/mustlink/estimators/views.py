"""Several kinds of columns of the same rows, each with the distance that suits it: views.

Text and numbers, two embeddings, a table and links: no distance compares them together. Each view
becomes a graph of its own, as `affinity` says, and their sum, weighed by what is known, is the
graph of the fit (`graph.several`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.stage_cache import StageCache
from mustlink.core.check import as_points
from mustlink.core.observe import Recorder
from mustlink.core.resources import AUTO
from mustlink.errors import InputError, OutOfMemoryError
from mustlink.graph import Graph
from mustlink.graph.disk_graph import DiskGraph
from mustlink.graph.forms import unwrapped
from mustlink.graph.several import VIEW, VIEW_OF_X, rows_as_nodes
from mustlink.graph.structure import as_sample_weight
from mustlink.neighbors.affinities import PRECOMPUTED, kept_graph, n_rows
from mustlink.neighbors.distances import POINTS, as_rows, bytes_of_rows
from mustlink.preprocessing.mixed import prepared_points

_MADE_BY = ("n_neighbors", "metric", "weights")
_EDGE = 24  # bytes of a weight while a list of neighbours becomes a graph


def graphs_of_views(
    estimator: Any, X: Any, graphs: Any, views: Any, recorder: Recorder, sample_weight: Any = None
) -> Any:
    """The graphs that `views` become, or `graphs` where there are none; raises InputError.

    `views` has rows (n, d) by name: arrays, sparse rows, tables, or a Graph that was made before.
    Beside X, which is the first then, one is enough. Each is searched as X would be, with
    `metric`; where X is a matrix, rows of a view that is not square are points. Equal rows are
    nodes apart, as they are not equal in every view; sparse rows without an entry, which have no
    direction, have no neighbours in this one. Cost: a neighbour search for each.
    """
    if views is None:
        return graphs
    if graphs is not None:
        raise InputError('graphs: views are given, too; put graphs among them: {"links": graph}')
    given = _checked(views, least=2 if X is None else 1)
    if estimator.representatives is not None:
        raise InputError("representatives: several views have none; leave one of both out")
    X = unwrapped(X)
    rows = {name: _rows_of(estimator, name, one, recorder) for name, one in given.items()}
    _check_numbers_of_rows(X, rows)
    _allow(estimator, X, rows, recorder)
    seed, shelf, found = estimator._seed(), StageCache(recorder, estimator._keeper), []
    for name, one in rows.items():
        try:
            graph = _graph_of(estimator, one, sample_weight, seed, shelf)
        except OutOfMemoryError:
            raise
        except InputError as error:
            raise InputError(f"views: {name}: {error}") from None
        by = graph.info.get("metric", graph.info["kind"])
        recorder.note(f"view {name}: {graph.n_rows:,} rows, {by}")
        found.append(_called(graph, name))
    return found


def _checked(views: Any, least: int) -> Mapping[str, Any]:
    """Views by name, as many as make sense; raises InputError."""
    if not isinstance(views, Mapping):
        raise InputError(
            f'views: {type(views).__name__} given; give rows by name: {{"text": A, "numbers": B}}'
        )
    wrong = next((name for name in views if not isinstance(name, str) or not name.strip()), None)
    if wrong is not None or VIEW_OF_X in views:
        raise InputError(f"views: {wrong or VIEW_OF_X!r} is no name for a view; give another text")
    if len(views) < least:
        only = "none" if not views else f"one only ({next(iter(views))})"
        raise InputError(f"views: {only}; give another, or its rows as X without views")
    return views


def _rows_of(estimator: Any, name: str, given: Any, recorder: Recorder) -> Any:
    """Points, sparse rows, a matrix or a Graph of one view, tables prepared; raises InputError."""
    own = Recorder()
    try:
        rows = unwrapped(given)
        if isinstance(rows, DiskGraph):
            raise InputError("a graph on disk; give one that is in memory")
        if not isinstance(rows, Graph):
            rows = rows if hasattr(rows, "shape") else as_points(rows, "rows")
            if len(rows.shape) != 2 or 0 in rows.shape:
                shape = tuple(rows.shape)
                raise InputError(
                    f"shape {shape} given; a view has rows and columns, or leave it out"
                )
            is_graph = _affinity(estimator, rows) in PRECOMPUTED
            how = None if estimator.preprocessing is None else AUTO  # transformers are for X
            rows, _ = prepared_points(rows, own, how, is_graph=is_graph)
    except InputError as error:
        raise InputError(f"views: {name}: {error}") from None
    for note in own.notes:
        recorder.note(f"view {name}: {note}")
    return rows


def _check_numbers_of_rows(X: Any, rows: Mapping[str, Any]) -> None:
    """Raise InputError where views, and X, are not of as many rows."""
    counts = {} if X is None else {VIEW_OF_X: int(getattr(X, "n_rows", 0)) or n_rows(X)}
    counts |= {name: n_rows(one) for name, one in rows.items()}
    first, n = next(iter(counts.items()))
    for name, count in counts.items():
        if count != n:
            raise InputError(
                f"views: {name} has {count} rows, {first} {n}; give all columns of the same rows, "
                "in the same order"
            )


def _allow(estimator: Any, X: Any, rows: Mapping[str, Any], recorder: Recorder) -> None:
    """Decide what memory="auto" is, by the largest view beside what the others take; InputError."""
    all_rows = [*rows.values()] if X is None else [X, *rows.values()]
    k = estimator.n_neighbors

    def taken(one: Any) -> int:
        if isinstance(one, Graph | DiskGraph):
            return 12 * int(one.affinity.nnz if isinstance(one, Graph) else one.n_entries)
        return bytes_of_rows(one) + _EDGE * n_rows(one) * (k if isinstance(k, int) else 1)

    largest = max(all_rows, key=taken)
    others = sum(map(taken, all_rows)) - taken(largest)
    estimator._allow(largest, estimator.cost(), beside=others)
    recorder.keep_to(estimator._allowance, sum(map(bytes_of_rows, all_rows)))


def _graph_of(
    estimator: Any, given: Any, sample_weight: Any, seed: int, shelf: StageCache
) -> Graph:
    """The graph of one view, every row a node, or what an earlier run kept of it; InputError."""
    if isinstance(given, Graph):
        return given
    affinity, n = _affinity(estimator, given), n_rows(given)
    rows = as_rows(given) if affinity in POINTS else given
    made_by = {"affinity": affinity, **{name: getattr(estimator, name) for name in _MADE_BY}}
    some = None
    if affinity in POINTS:
        weights = None if sample_weight is None else as_sample_weight(sample_weight, n)
        some = _with_neighbours(rows, weights, made_by["metric"], shelf.recorder)
        rows = rows if some is None else rows[some]
    search = {"n_jobs": estimator.n_jobs, "memory": estimator._budget, "random_state": seed}
    alone = StageCache(shelf.recorder)  # names of what a keeper has are of the rows X

    def make() -> Graph:
        graph = rows_as_nodes(kept_graph(rows, None, made_by, alone, **search))
        if graph is None:  # equal rows that are too many to be joined each with each
            graph = kept_graph(rows, None, {**made_by, "duplicates": "keep"}, alone, **search)
        return graph if some is None else _among(graph, some, n)

    name = shelf.name_of("view", VIEW, rows, some, made_by, seed, estimator._budget)
    graph = shelf.kept("graph of a view", name, make, (Graph,))
    graph.derived.origin = name
    return graph


def _affinity(estimator: Any, rows: Any) -> str:
    """What `affinity` says of one view."""
    is_square = len(set(rows.shape)) == 1
    return str(estimator.affinity if is_square or estimator.affinity not in PRECOMPUTED else "knn")


def _with_neighbours(
    rows: Any, weights: NDArray[np.float64] | None, metric: Any, recorder: Recorder
) -> NDArray[np.int64] | None:
    """Rows that count and, where they are sparse, have a direction; None where all do."""
    matrix: Any = rows
    there = np.ones(matrix.shape[0], dtype=bool) if weights is None else weights > 0
    if metric == AUTO and sp.issparse(rows):
        full = np.diff(matrix.indptr) > 0
        empty = int(np.count_nonzero(there & ~full))
        if empty and full.any():
            recorder.note(f"views: {empty:,} rows without an entry have no neighbours in one")
            there &= full
    return None if there.all() else np.flatnonzero(there).astype(np.int64)


def _among(graph: Graph, some: NDArray[np.int64], n: int) -> Graph:
    """The graph of n rows, `some` of which are the nodes of this one; the others have no edge."""
    W = graph.affinity
    counts = np.zeros(n + 1, dtype=W.indptr.dtype)
    counts[some + 1] = np.diff(W.indptr)
    parts = W.data, some.astype(W.indices.dtype)[W.indices], np.cumsum(counts, dtype=counts.dtype)
    return replace(graph, affinity=sp.csr_matrix(parts, shape=(n, n)))


def _called(graph: Graph, name: str) -> Graph:
    """The graph with the name of its view."""
    found = replace(graph, info={**graph.info, VIEW: name})
    found.derived.origin = graph.derived.origin
    return found
