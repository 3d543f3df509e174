"""What a fit is given: how large it is, views of its rows, labels and constraints of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.constraints.constraints import among
from mustlink.context.method_cost import Cost, FitInput, Size
from mustlink.context.stage_cache import StageCache
from mustlink.core.check import as_integer, as_labels, as_points, encoded, refuse_row_numbers
from mustlink.core.observe import Recorder
from mustlink.core.resources import AUTO
from mustlink.errors import InputError, OutOfMemoryError
from mustlink.graph import Graph
from mustlink.graph.disk_graph import DiskGraph
from mustlink.graph.forms import on_both_sides, unwrapped
from mustlink.graph.graph import as_sample_weight
from mustlink.graph.several import VIEW, VIEW_OF_X, Views, rows_as_nodes
from mustlink.neighbors.affinities import PRECOMPUTED, cached_graph, n_rows
from mustlink.neighbors.distances import POINTS, as_rows, bytes_of_rows, search_bytes
from mustlink.neighbors.points_by_rows import count_distinct, is_rows
from mustlink.preprocessing.mixed import prepared_points

_DOUBLES, _COPIES = 4, 12  # bytes more of a double, and while neighbours of such points are found


def input_of(
    X: Any, others: Any, affinity: str, n_neighbors: Any, metric: Any = "auto"
) -> tuple[FitInput, int, int] | None:
    """What a fit is given, X and other graphs, its bytes in memory, and those of copies.

    None where X has no size. Errors in what is given are those of the fit.
    """
    if isinstance(X, Views):
        X, others = X.first, X.others
    found = [X, *(others if isinstance(others, list | tuple) else ())]
    first, *more = [one for one in found if one is not None] or [None]
    nnz, in_memory = 0, 0
    for one in more:
        weights, n_bytes = _weights_of(one)
        nnz, in_memory = nnz + weights, in_memory + n_bytes
    if isinstance(first, Graph | DiskGraph) or affinity not in POINTS:
        weights, n_bytes = _weights_of(first)
        n = int(getattr(first, "n_nodes", 0) or (getattr(first, "shape", None) or (0,))[0])
        weights = n * n if affinity == "rbf" and not isinstance(first, Graph) else weights
        return (FitInput(n, nnz + weights), in_memory + n_bytes, 0) if n else None
    shape = tuple(getattr(first, "shape", ()))
    if len(shape) != 2 or not all(shape) or not isinstance(n_neighbors, int):
        return None
    n, d = (int(size) for size in shape)
    if searched := search_bytes(first, metric, n_neighbors):
        held = bytes_of_rows(first) or 4 * n * d
        given = FitInput(n, nnz, -(-held // (4 * n)), n_neighbors, n, False, searched=searched)
        return given, in_memory + held, 0
    in_file = is_rows(first)
    single = in_file or getattr(first, "dtype", None) == np.float32
    numbers = 0 if single else n * d
    k = max(1, min(n_neighbors, n - 1))
    given = FitInput(n, nnz, d, k, n, in_file, beside=_DOUBLES * numbers)
    in_memory += 0 if in_file else int(getattr(first, "nbytes", 8 * n * d))
    return given, in_memory, _COPIES * numbers


def _weights_of(one: Any) -> tuple[int, int]:
    """Stored weights of a graph or a matrix, and its bytes in memory."""
    if isinstance(one, DiskGraph):
        return one.n_entries, 0
    matrix: Any = one.affinity if isinstance(one, Graph) else one
    stored = getattr(matrix, "nnz", None)
    if stored is not None:
        return int(stored), 12 * int(stored)
    weights = int(np.prod(getattr(matrix, "shape", ()) or (0,)))
    return weights, int(getattr(matrix, "nbytes", 0))


def check_points(estimator: Any, X: Any, held: int, cost: Cost) -> None:
    """Raise InputError where points are too many for the memory, whatever their graph."""
    budget, shape = estimator._budget, tuple(getattr(X, "shape", ()))
    is_points = estimator.affinity in POINTS and len(shape) == 2
    if budget is None or not is_points or search_bytes(X, estimator.metric, 1):
        return
    if estimator._n_representatives(X) is not None:
        return
    room, k = budget - held, as_integer(estimator.n_neighbors, "n_neighbors", 1)

    def size(n: int) -> Size:
        return Size(n, n * min(k, n - 1), 4)

    if cost.least_memory(size(shape[0])) > room:  # equal rows are one node
        cost.check(size(count_distinct(X)), room, single=True)


def bytes_of(*arrays: Any) -> int:
    """Bytes of the arrays among some values."""
    return sum(one.nbytes for one in arrays if isinstance(one, np.ndarray))


def graph_of_points(graph: Any, X: Any) -> Graph:
    """A neighbour graph of points X (n, d) that was made before, checked; raises InputError."""
    graph = Graph.from_affinity(graph) if sp.issparse(graph) else unwrapped(graph)
    if not isinstance(graph, Graph):
        raise InputError(f"graph: {type(graph).__name__} given; give a Graph or sparse matrix")
    if graph.n_rows != n_rows(X):
        raise InputError(f"graph: {graph.n_rows} nodes, but X has {n_rows(X)} points")
    return graph


# --- Labels and constraints


def side_information(
    graph: Graph | DiskGraph,
    y: Any,
    constraints: Constraints | None,
    recorder: Recorder | None = None,
    *,
    needed: bool = True,
    prior: Any = None,
    belief: Any = None,
) -> Constraints:
    """Labels `y` (n,) and constraints together; raises InputError, warns where they are empty.

    Of a bipartite graph `y` may be of the rows alone. Unless they are `needed` none may be given;
    without a recorder there are no warnings. `prior` (n, K) has a column for each class of the
    labels, in their order, or for class 0, 1 and so on.
    """
    if y is not None and not isinstance(y, Constraints):
        refuse_blind_scoring(y)
        y = on_both_sides(y, graph)
    found = known_of(graph.n_rows, y, constraints)
    if prior is not None:
        as_many = np.ndim(prior) == 2 and np.shape(prior)[1] == found.classes.size
        columns = found.classes if as_many else None
        found = found + Constraints.from_soft_labels(prior, belief, classes=columns)
    elif belief is not None:
        raise InputError("belief: no prior that it is a belief in; give prior (n, K) as well")
    is_given = y is not None or constraints is not None or prior is not None
    if recorder is not None and (needed or is_given):
        warn_if_empty(found, recorder, is_given=is_given)
    return found


def known_of(n: int, y: Any, constraints: Constraints | None) -> Constraints:
    """Labels `y` (n,) and constraints of n rows together; raises InputError."""
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
            "Constraints.from_pairs, from_labels, from_soft_labels, from_graph or from_matrix"
        )
    constraints.require_nodes(n)
    return constraints if found.is_empty else found + constraints


def warn_if_empty(known: Constraints, recorder: Recorder, *, is_given: bool) -> None:
    """Warn of no constraints, and of those that one cluster of all nodes keeps."""
    if not is_given:
        recorder.warn(
            "labels, constraints: neither is given; the graph alone was clustered; give some "
            "(mustlink ask says which), or take NCut (-m ncut) where nothing will be known"
        )
    elif known.is_empty:
        recorder.warn(
            f"labels, constraints: none of the {known.n_nodes} nodes has any, or all weigh 0; the "
            "graph alone was clustered"
        )
    elif known.kind == "labels" and known.labels is not None and known.classes.size == 1:
        recorder.warn(
            "labels: all are of one class, which one cluster of all nodes keeps; label nodes of "
            "other classes"
        )


# --- of the rows that were fitted, and of those that are added


def with_added(known: Constraints | None, n: int, y: Any, more: Constraints | None) -> Constraints:
    """What is known of the first of n rows, with labels `y` (m,) of the new ones, and `more`.

    Raises InputError.
    """
    before = np.arange(0 if known is None else known.n_nodes)
    found = Constraints.none(n) if known is None else among(known, before, n)
    if y is not None:
        labels = labels_of_all(np.full(before.size, -1), y, n - before.size)
        found = found + Constraints.from_labels(labels)
    return found if more is None else found + more


def labels_of_all(given: NDArray[Any], y: Any, m: int) -> NDArray[Any]:
    """Labels given before, and those (m,) of new rows: unknown where left out. InputError."""
    names = given.dtype.kind in "OUS"
    unknown: Any = "" if names and all(isinstance(one, str) for one in given.tolist()) else -1
    new = np.full(m, unknown, dtype=given.dtype if names else np.int64) if y is None else y
    new = np.asarray(new)
    if new.shape != (m,):
        raise InputError(f"y: shape {new.shape} for {m} new rows; give one label for each")
    both = [given.tolist(), new.tolist()]
    return np.array(both[0] + both[1], dtype=object) if names else np.concatenate([given, new])


# --- Searches of scikit-learn that would score against unknown labels
#
# Its metrics, as scoring="adjusted_rand_score", take -1 for one more class: a search then prefers
# what agrees with the unknown, without a warning. A scorer is never shown to the estimator: all
# that can be done is to look for the search on the stack while a fold is fitted.


_SEARCH = ("sklearn.model_selection._validation", "_fit_and_score")


def refuse_blind_scoring(y: Any) -> None:
    """Raise InputError if scikit-learn will score this fit by a metric on unknown labels.

    Labels `y` (n,) of the fit; nothing happens where all are known, in fits outside of a search,
    and with scorers that are no metric, such as `ConstraintScorer` and the estimator's own `score`.
    """
    frame = sys._getframe(1) if _unknown(y) else None
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == _SEARCH:
            search = frame.f_locals
            held, names = _unknown(search["y"], search["test"]), _metrics(search["scorer"])
            if held and names:
                raise InputError(
                    f"scoring: {names[0]} takes unknown labels for a class, and {held} of those "
                    "held out are unknown; use scoring=mustlink.ConstraintScorer(), or "
                    "cv=mustlink.ConstraintKFold(Constraints.from_labels(y)), whose test parts are "
                    "labelled nodes only"
                )
            return
        frame = frame.f_back


def _unknown(y: Any, rows: Any = slice(None)) -> int:
    """How many of the labels are unknown."""
    if y is None:
        return 0
    codes = np.asarray(encoded(y, "y")[0])[rows]
    return int(np.count_nonzero(codes == -1))


def _metrics(scorer: Any) -> list[str]:
    """Names of the metrics that a scorer, or a set of them, computes."""
    some = scorer if isinstance(scorer, dict) else getattr(scorer, "_scorers", {"": scorer})
    found = [getattr(one, "_score_func", None) for one in some.values()]
    return [str(getattr(one, "__name__", one)) for one in found if one is not None]


# --- Several kinds of columns of the same rows, each with the distance that suits it: views
#
# Text and numbers, two embeddings, a table and links: no distance compares them together. Each view
# becomes a graph of its own, as `affinity` says, and their sum, weighed by what is known, is the
# graph of the fit (`graph.several`).

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
    rows = {name: _rows_of(estimator, name, one, recorder) for name, one in given.items()}
    _check_numbers_of_rows(X, rows)
    _allow(estimator, X, rows, recorder)
    seed, cache, found = estimator._seed(), StageCache(recorder, estimator._kept_in), []
    for name, one in rows.items():
        try:
            graph = _graph_of(estimator, one, sample_weight, seed, cache)
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
            if _affinity(estimator, rows) not in PRECOMPUTED:
                how = None if estimator.preprocessing is None else AUTO  # transformers are for X
                rows, _ = prepared_points(rows, own, how)
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
    estimator: Any, given: Any, sample_weight: Any, seed: int, cache: StageCache
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
        some = _with_neighbours(rows, weights, made_by["metric"], cache.recorder)
        rows = rows if some is None else rows[some]
    search = {"n_jobs": estimator.n_jobs, "memory": estimator._budget, "random_state": seed}
    alone = StageCache(cache.recorder)  # names of what a keeper has are of the rows X

    def make() -> Graph:
        graph = rows_as_nodes(cached_graph(rows, None, made_by, alone, **search))
        if graph is None:  # equal rows that are too many to be joined each with each
            graph = cached_graph(rows, None, {**made_by, "duplicates": "keep"}, alone, **search)
        return graph if some is None else _among(graph, some, n)

    name = cache.name_of("view", VIEW, rows, some, made_by, seed, estimator._budget)
    graph = cache.cached("graph of a view", name, make, (Graph,))
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
