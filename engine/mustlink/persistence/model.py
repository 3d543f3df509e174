"""A fitted estimator as a tree of plain values, arrays and records, and the estimator of a tree.

A tree may come from anywhere: whatever indexes an array in the engine is checked before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from mustlink.clusterers.propagated_constraints import Adjustment
from mustlink.constraints import Constraints
from mustlink.constraints.closure import ConstraintData
from mustlink.constraints.label_groups import SoftLabels
from mustlink.context.stage_cache import RegularizedKey, Workspace, digest
from mustlink.core.check import as_affinity, as_csr, as_points
from mustlink.core.observe import StageRecord
from mustlink.core.result import Convergence, EigenResult, Report
from mustlink.core.state import check_is_fitted, chosen, found_by_fit
from mustlink.discretize.memberships import Calibration, MembershipExponents, Reliability
from mustlink.discretize.merge_tree import MergeTree
from mustlink.eigen.memory_work import OrderKey, SpanKey, laplacian_of
from mustlink.eigen.plain_solve import PairsKey
from mustlink.eigen.smooth_subspace import BasisKey, CarriedKey, SmoothBasis
from mustlink.errors import InputError
from mustlink.estimators.graph_estimator import GraphEstimator
from mustlink.graph import Graph
from mustlink.graph.graph import Derived
from mustlink.graph.shares import Shares
from mustlink.lyapunov.fields import NewEdges
from mustlink.lyapunov.sources import Sources
from mustlink.neighbors.distances import as_rows
from mustlink.neighbors.representatives import Representatives
from mustlink.persistence.attributes import check_attributes, check_csr, damaged, refuse
from mustlink.preprocessing.fitted import Fitted
from mustlink.preprocessing.mixed import FittedTable, TableColumn
from mustlink.propagation.held_out import AnswerCalibration
from mustlink.propagation.prior import GivenPrior
from mustlink.selection.held_out import SelectedModel

_BASIS = ("whole", "values", "residuals", "n_ties")
VERSION = 1  # raised when a tree is written that an older reader would take wrongly
_WIDE = 512  # bytes of a name; of wider ones an array has references
_WRITTEN: tuple[type, ...] = (
    Adjustment,
    AnswerCalibration,
    BasisKey,
    Calibration,
    CarriedKey,
    SelectedModel,
    Convergence,
    EigenResult,
    Fitted,
    FittedTable,
    TableColumn,
    ConstraintData,
    NewEdges,
    PairsKey,
    Reliability,
    Report,
    Representatives,
    SoftLabels,
    Sources,
    StageRecord,
    MembershipExponents,
)
RECORDS: dict[str, type] = {one.__name__: one for one in _WRITTEN}  # by their names in a file
# Not results: stores, workers, and what is made again on demand.
_PASSING = {"_kept_in", "_searches", "_cut_on_disk", "_convergence", "_of_fit", "classifier_"}
_PASSING |= {"_allowed", "_represented"}
# What an estimator knows that chose another one, with the types of it.
_OF_CHOICE: dict[str, Any] = {
    "candidates_": list,
    "method_": str,
    "classes_": np.ndarray | None,
    "_known": str,
    "_amount": int,
    "_used_seed": int,
}


def state_of(
    estimator: Any, *, data: bool = True, points: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A fitted estimator as a tree; without `data` points and graph by their digest only.

    `points` tell where the points are, where that is another file.
    Raises InputError for what is not fitted, has its graph on disk, or has parameters that are no
    plain values or arrays.
    """
    if not isinstance(estimator, GraphEstimator):
        kind = type(estimator).__name__
        raise InputError(f"save: {kind} has no model file; save what clusters or propagates")
    check_is_fitted(estimator)
    if chosen(estimator) is not estimator:
        own = vars(type(estimator)) | vars(estimator)  # not what it has of the chosen one
        return {
            **state_of(chosen(estimator), data=data, points=points),
            "chosen_by": {
                "class": type(estimator).__name__,
                "parameters": _parameters(estimator),
                "state": {name: _out(own.get(name)) for name in _OF_CHOICE},
            },
        }
    graph = estimator.graph_
    if not isinstance(graph, Graph):
        raise InputError(
            "save: the graph of this fit is on disk, and a model holds it in memory; fit in "
            "memory, or let mustlink cluster or propagate write the answers"
        )
    params = estimator.get_params(deep=False)
    state = {
        name: _out(value)
        for name, value in vars(estimator).items()
        if name not in params and name not in _PASSING | {"graph_", "_points"}
    }
    if "_F" in state:
        state["_F"] = None  # made on demand
    if "_hierarchy" in state:
        tree = estimator._hierarchy
        current = tree is not None and tree.labels is estimator.labels_
        state["_hierarchy"] = (tree.linkage, tree.leaves, tree.groups) if current else None
    state["_names"] = tuple((state.get("_names") or {}).items())
    if state.get("_calibrated") is not None:
        labels, found = estimator._calibrated
        state["_calibrated"] = found if labels is estimator.labels_ else None
    where = estimator._points if points is None else points
    return {
        "version": VERSION,
        "class": type(estimator).__name__,
        "parameters": _parameters(estimator),
        "state": state,
        "graph": _graph_out(graph, data=data),
        "derived": _derived_out(graph),
        "points": None if where is None else _points_out(where, data=data),
    }


def restored(
    tree: Any, kinds: Mapping[str, Any], data: Any = None, make: Callable[..., Any] | None = None
) -> Any:
    """The estimator of a tree, of one of the `kinds` by name, which `make` makes, if it is given.

    `data` are points or a graph where the tree has digests only.

    Raises InputError.
    """
    refuse(not isinstance(tree, Mapping) or not isinstance(tree.get("version"), int), "its head")
    if tree["version"] > VERSION:
        raise InputError(
            f"model: version {tree['version']} is newer than this program's ({VERSION}); update "
            "mustlink"
        )
    name, params, state = (tree.get(part) for part in ("class", "parameters", "state"))
    refuse(not isinstance(name, str) or name not in kinds, "its class")
    kind: Any = kinds[str(name)]
    refuse(not isinstance(kind, type) or not issubclass(kind, GraphEstimator), "its class")
    refuse(not isinstance(params, Mapping) or not isinstance(state, Mapping), "its parameters")
    assert isinstance(params, Mapping)
    assert isinstance(state, Mapping)
    refuse(set(params) != set(kind._get_param_names()), "its parameters")
    estimator = kind(**params) if make is None else make(kind, **params)
    graph = _graph_in(tree.get("graph"), data)
    estimator.graph_ = graph
    found = {name: _in(value) for name, value in state.items()}
    names = found.get("_names")  # of clusters by number: pairs, as JSON's keys are text
    pairs = names if isinstance(names, tuple) else (None,)
    fine = all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs)
    refuse(not fine, "names of clusters")
    found["_names"] = dict(pairs)
    check_attributes(estimator, found, graph)
    for attribute, value in found.items():
        setattr(estimator, attribute, value)
    if found.get("_calibrated") is not None:
        estimator._calibrated = (estimator.labels_, found["_calibrated"])
    if found.get("_hierarchy") is not None:
        linkage, leaves, groups = found["_hierarchy"]
        estimator._hierarchy = MergeTree(linkage, leaves, groups, estimator.labels_)
    _restore_derived(graph, tree.get("derived"))
    estimator._points = _points_in(tree.get("points"), data, graph)
    if graph.shares is not None and graph.shares.near is None:
        estimator.graph_ = replace(graph, shares=replace(graph.shares, points=estimator._points))
    found_by_fit(estimator, *found, "graph_", "_points")
    by = tree.get("chosen_by")
    return estimator if by is None else _chosen_by(by, estimator, kinds, make)


def _chosen_by(
    tree: Any, fitted: Any, kinds: Mapping[str, Any], make: Callable[..., Any] | None
) -> Any:
    """The estimator that chose a fitted one; raises InputError."""
    refuse(not isinstance(tree, Mapping) or tree.get("class") not in kinds, "its choice")
    kind, params, state = kinds[tree["class"]], tree.get("parameters"), tree.get("state")
    refuse(not hasattr(kind, "homes") or not isinstance(params, Mapping), "its choice")
    refuse(set(params) != set(kind._get_param_names()), "its parameters")
    refuse(not isinstance(state, Mapping) or set(state) != set(_OF_CHOICE), "its choice")
    found = {name: _in(value) for name, value in state.items()}
    for name, wanted in _OF_CHOICE.items():
        refuse(not isinstance(found[name], wanted), name)
    rows = found["candidates_"]
    refuse(not all(isinstance(row, Mapping) and "chosen" in row for row in rows), "candidates_")
    refuse(isinstance(found["classes_"], np.ndarray) and found["classes_"].ndim != 1, "classes_")
    found |= {"estimator_": fitted}
    estimator = kind(**params) if make is None else make(kind, **params)
    for name, value in found.items():
        if value is not None:
            setattr(estimator, name, value)
    found_by_fit(estimator, *found)
    return estimator


def _parameters(estimator: Any) -> dict[str, Any]:
    params = estimator.get_params(deep=False)
    return {name: _parameter(name, params[name]) for name in sorted(params)}


def _parameter(name: str, value: Any) -> Any:
    """A parameter as a plain value or an array; InputError for anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str | np.ndarray):
        return value
    if isinstance(value, list | tuple) and all(
        isinstance(one, bool | int | float | str) for one in value
    ):
        return value
    if isinstance(value, Mapping) and all(isinstance(one, str) for one in value):  # by view
        return {one: _parameter(f"{name} of {one}", of) for one, of in value.items()}
    raise InputError(
        f"save: {name} is a {type(value).__name__}, which a file cannot hold without code; set it "
        "to a plain value first: set_params"
    )


def _out(value: Any) -> Any:
    if isinstance(value, Constraints):
        return {"statements": value.statements, "hard": value.hard}
    if isinstance(value, np.ndarray) and value.dtype.kind in "OUS":
        names, codes = np.unique(value, return_inverse=True)
        return {"texts": names.tolist(), "kind": value.dtype.str, "codes": codes.astype(np.int64)}
    if isinstance(value, GivenPrior):
        return {"values": value.values, "belief": value.belief, "classes": _out(value.classes)}
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(_out(part) for part in value)
    return value


def _in(value: Any) -> Any:
    if isinstance(value, Mapping) and set(value) == {"statements", "hard"}:
        return _constraints_in(value["statements"], value["hard"])
    if isinstance(value, Mapping) and set(value) == {"values", "belief", "classes"}:
        return GivenPrior(value["values"], value["belief"], _in(value["classes"]))
    if isinstance(value, Mapping) and set(value) == {"texts", "kind", "codes"}:
        return _texts_in(value["texts"], value["kind"], value["codes"])
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(_in(part) for part in value)
    return value


def _texts_in(texts: Any, kind: Any, codes: Any) -> Any:
    plain = isinstance(texts, list) and all(isinstance(x, bool | int | float | str) for x in texts)
    refuse(not plain or not isinstance(codes, np.ndarray) or codes.dtype.kind != "i", "names")
    refuse(not isinstance(kind, str) or kind[:2] not in ("|O", "<U", ">U", "|S"), "names")
    refuse(bool(codes.size) and not 0 <= codes.min() <= codes.max() < len(texts), "names")
    names = np.array(texts, dtype=object)
    try:
        dtype: Any = np.dtype(kind)
        if dtype.itemsize > _WIDE:  # not believed: 20 bytes would become gigabytes
            sizes = [len(str(one)) for one in texts]
            most = sum(sizes) + _WIDE // 4 * codes.size  # one long name for every row is no less
            dtype = kind[:2] if max(sizes) * max(codes.size, len(texts)) <= most else object
        return names.astype(dtype)[codes]
    except (TypeError, ValueError, OverflowError):
        raise damaged("names") from None


def _constraints_in(data: Any, hard: Any) -> Constraints:
    """Constraints made again of their statements, which are checked as a caller's are."""
    refuse(not isinstance(data, ConstraintData), "the constraints")
    assert isinstance(data, ConstraintData)
    n, label_weights = data.n_nodes, data.label_weights
    refuse(len(label_weights) != 2 or min(label_weights) < 0, "the constraints")
    if data.pairs.size:
        Constraints.from_pairs(data.pairs, data.belief, n_nodes=n)
    if data.labels is not None:
        Constraints.from_labels(data.labels)
    if data.soft is not None:
        Constraints.from_matrix(data.soft)
    sizes = [len(one) for one in (data.labels,) if one is not None]
    sizes += [data.soft.shape[0]] if data.soft is not None else []
    if data.soft_labels is not None:
        soft = data.soft_labels
        Constraints.from_soft_labels(soft.values[soft.known], None, classes=soft.classes)
        sizes += [len(soft.values), len(soft.belief)]
    refuse(any(size != n for size in sizes), "the constraints")
    found = Constraints._made(data)
    return found if hard is None else found.closure(hard=hard)


def _graph_out(graph: Graph, *, data: bool) -> dict[str, Any]:
    found = {
        "affinity": graph.affinity,
        "info": dict(graph.info),
        "weights": graph.weights,
        "rows": graph.rows,
    }
    if (own := graph.shares) is not None:
        parts = ("finder", "first", "near", "shares", "counted")
        found["shares"] = {name: getattr(own, name) for name in parts}
    if data:
        return found
    return {"digest": digest(graph.affinity), **found, "affinity": None}


def _graph_in(tree: Any, data: Any) -> Graph:
    refuse(not isinstance(tree, Mapping) or not isinstance(tree.get("info"), Mapping), "its graph")
    W, weights, rows = (tree.get(part) for part in ("affinity", "weights", "rows"))
    if W is None:
        W = _same_graph(tree.get("digest"), data)
    refuse(not isinstance(W, sp.csr_matrix) or W.dtype.kind != "f", "its graph")
    check_csr("its graph", W)
    W = _checked(W)
    n = W.shape[0]
    if weights is not None:
        ok = isinstance(weights, np.ndarray) and weights.shape == (n,) and weights.dtype == float
        refuse(not ok or not (np.isfinite(weights) & (weights >= 0)).all(), "its graph")
    if rows is not None:
        ok = isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in "iu"
        refuse(not ok, "its graph")
        apart = np.unique(rows)
        every = apart.size == n or tree.get("shares") is not None
        refuse(not every or (rows.size > 0 and not 0 <= apart[0] <= apart[-1] < n), "its graph")
    return Graph(W, tree["info"], weights, rows, _shares_in(tree.get("shares"), rows, n))


def _shares_in(tree: Any, rows: Any, p: int) -> Shares | None:
    """Shares of p nodes in the rows; where they are not held the points follow."""
    if tree is None:
        return None
    refuse(not isinstance(tree, Mapping) or rows is None or p == 0, "its representatives")
    finder, first, near, shares, counted = (
        tree.get(name) for name in ("finder", "first", "near", "shares", "counted")
    )
    refuse(not isinstance(finder, Representatives), "its representatives")
    assert isinstance(finder, Representatives)
    C, n, r = finder.centres, rows.size, finder.nearest
    fine = isinstance(C, np.ndarray) and C.ndim == 2 and len(C) == p and C.dtype == np.float32
    fine = fine and isinstance(r, int) and 1 <= r <= p and finder.metric in ("euclidean", "cosine")
    fine = fine and isinstance(finder.unit, float) and 0 < finder.unit < np.inf
    fine = fine and (finder.shift is None or np.shape(finder.shift) == C.shape[1:])
    fine = fine and (finder.limits is None or np.shape(finder.limits) == (p,))
    fine = fine and _within(first, (p,), n)
    if near is not None or shares is not None:
        fine = fine and _within(near, (n, r), p) and isinstance(shares, np.ndarray)
        fine = fine and shares.shape == (n, r) and bool(((shares >= 0) & (shares <= 1)).all())
    if counted is not None:
        fine = fine and isinstance(counted, np.ndarray) and counted.shape == (n,)
    refuse(not fine, "its representatives")
    return Shares(n, first, finder, near, shares, None, counted)


def _within(numbers: Any, shape: tuple[int, ...], count: int) -> bool:
    """Whether this is an array of a shape that numbers what there are so many of."""
    if not isinstance(numbers, np.ndarray) or numbers.shape != shape or numbers.dtype.kind != "i":
        return False
    return bool(0 <= numbers.min(initial=0) <= numbers.max(initial=0) < count)


def _checked(W: sp.csr_matrix) -> sp.csr_matrix:
    """The matrix as it is, if it is one that the engine works on; raises InputError."""
    try:
        found = Graph.from_affinity(W).affinity if W.nnz else W
    except InputError:
        raise damaged("its graph") from None
    same = found.nnz == W.nnz and np.array_equal(found.indices, W.indices)
    refuse(not same or not np.array_equal(found.data, W.data), "its graph")
    return W


def _same_graph(wanted: Any, data: Any) -> sp.csr_matrix:
    if data is None:
        raise InputError(
            "load: the graph is not in the file, only its digest; give it: load(path, data=graph)"
        )
    W = data.affinity if isinstance(data, Graph) else as_affinity(data)
    if digest(W) != wanted:
        raise InputError("load: data are another graph than the one that was fitted")
    return W


def _points_out(points: Any, *, data: bool) -> Any:
    where = getattr(points, "reference", points)  # of points that stay in a file
    if isinstance(where, Mapping):
        return dict(where)
    X = as_rows(points)
    return X if data else {"digest": digest(X), "shape": list(X.shape)}


def _points_in(tree: Any, data: Any, graph: Graph) -> Any:
    if tree is None:
        return None
    if sp.issparse(tree):
        matrix: Any = tree
        refuse(matrix.shape[0] != graph.n_rows, "its points")
        return as_csr(matrix, "model: its points")
    if isinstance(tree, np.ndarray):
        refuse(tree.ndim != 2 or tree.dtype.kind != "f" or len(tree) != graph.n_rows, "its points")
        return as_points(tree, "model: its points")
    return tree


# --- What was derived from a graph: order, and vectors that took long
#
# Laplacians and grids are made again: that is quick, and the same bits.


def _derived_out(graph: Graph) -> list[dict[str, Any]]:
    """Results kept with a graph, those of degrees that were regularised with their τ."""
    found = list(_of(graph.derived, 0.0))
    for key, derived in graph.derived.of(RegularizedKey):
        found += _of(derived, key.tau)
    return found


def _of(derived: Derived, tau: float) -> Iterator[dict[str, Any]]:
    for _, order in derived.of(OrderKey):
        yield {"tau": tau, "order": order}
    for key, pairs in derived.of(PairsKey):
        yield {"tau": tau, "key": key, "pairs": pairs}
    for kind in (BasisKey, CarriedKey):
        for one, basis in derived.of(kind):
            yield {"tau": tau, "key": one} | {name: getattr(basis, name) for name in _BASIS}


def _restore_derived(graph: Graph, entries: Any) -> None:
    """Put what `_derived_out` made back to the graph; raises InputError for what cannot be so."""
    refuse(not isinstance(entries, list), "what was derived from the graph")
    by_tau = sorted((one for one in entries if isinstance(one, dict)), key=_tau)
    refuse(len(by_tau) != len(entries), "what was derived from the graph")
    for one in by_tau:
        if "order" in one:
            _put_order(graph, one["order"])
    for one in by_tau:
        if "order" not in one:
            _put_vectors(Workspace(graph, tau=_tau(one)), one)


def _tau(entry: dict[str, Any]) -> float:
    tau = entry.get("tau")
    if not isinstance(tau, int | float) or not 0 <= tau < np.inf:
        raise damaged("what was derived from the graph")
    return float(tau)


def _put_order(graph: Graph, order: Any) -> None:
    n = graph.n_nodes
    is_one = isinstance(order, np.ndarray) and order.shape == (n,) and order.dtype == np.int64
    refuse(not is_one or not np.array_equal(np.sort(order), np.arange(n)), "the order of the nodes")
    graph.derived.put(OrderKey(None), order)


def _put_vectors(work: Workspace, entry: dict[str, Any]) -> None:
    key = entry.get("key")
    kind = PairsKey if "pairs" in entry else (BasisKey, CarriedKey)
    refuse(not isinstance(key, kind), "its eigenvectors")
    assert isinstance(key, PairsKey | BasisKey)
    laplacian = laplacian_of(Workspace(work.graph, tau=work.tau, single=bool(key.single)))
    m = laplacian.size
    if isinstance(key, PairsKey):
        pairs = entry["pairs"]
        refuse(not isinstance(pairs, EigenResult), "its eigenvectors")
        _check_block(pairs.values, pairs.vectors, m, 0)
        work.derived.put(key, pairs)
        return
    whole, values, residuals, n_ties = (cast(Any, entry.get(name)) for name in _BASIS)
    _check_block(values, whole, m, 1)
    refuse(not isinstance(residuals, np.ndarray) or residuals.shape > values.shape, "its basis")
    refuse(not isinstance(n_ties, int) or not 0 <= n_ties <= values.size, "its basis")
    plain = laplacian_of(Workspace(work.graph, single=bool(key.single)))
    work.derived.put(key, SmoothBasis(plain, whole, values, residuals, n_ties))
    if key.solver in ("lobpcg", "chebyshev"):
        work.derived.put(SpanKey(key.single), key.solver)


def _check_block(values: Any, vectors: Any, m: int, more: int) -> None:
    """Values (p,) and vectors (m, p + more) that are numbers."""
    arrays = isinstance(values, np.ndarray) and isinstance(vectors, np.ndarray)
    refuse(not arrays, "its eigenvectors")
    refuse(values.dtype != np.float64 or vectors.dtype.kind != "f", "its eigenvectors")
    refuse(vectors.ndim != 2 or values.ndim != 1, "its eigenvectors")
    refuse(vectors.shape != (m, values.size + more), "its eigenvectors")
    refuse(not np.isfinite(values).all() or not np.isfinite(vectors).all(), "its eigenvectors")
