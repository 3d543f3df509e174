"""New points or nodes for a fitted estimator: the grown graph, and what was told of its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from mustlink.check import as_points
from mustlink.constraints import Constraints
from mustlink.eigen.grown_vectors import extend_vectors
from mustlink.errors import InputError
from mustlink.estimator import GraphEstimator
from mustlink.graph import Graph
from mustlink.graph.forms import unwrapped
from mustlink.graph.graph import joined_nodes
from mustlink.neighbours.joined_points import joined_points
from mustlink.observe import Recorder
from mustlink.workspace import Workspace


def grown(estimator: GraphEstimator, X: Any, recorder: Recorder) -> Workspace:
    """The view of a fitted estimator's graph with new points (m, d) joined, or nodes (m, n + m).

    `graph_` and the points are those of all rows then; vectors are extended. Raises InputError.
    """
    before = estimator.graph_
    if not isinstance(before, Graph):
        raise InputError("add: the graph of this fit is on disk; fit again")
    if estimator._points is None:
        with recorder.stage("joining nodes"):
            graph = joined_nodes(before, unwrapped(X))
    else:
        X = estimator._as_fitted(X)
        new, points = as_points(X), as_points(estimator._points)
        validate_data(estimator, X, reset=False, skip_check_array=True)
        with recorder.stage("joining points"):
            graph = joined_points(before, points, new)
        estimator._points = np.concatenate([points, new.astype(points.dtype, copy=False)])
    weights = getattr(estimator, "_row_weights", None)
    if weights is not None:
        weights = np.append(weights, np.ones(graph.n_rows - weights.size))
        estimator._row_weights = weights
    work = estimator._view(graph, recorder, row_weights=weights)
    extend_vectors(before, work)
    estimator.graph_ = graph
    return work


def told_of_all(known: Constraints | None, n: int, y: Any, more: Constraints | None) -> Constraints:
    """What was told of the first rows, as constraints on n; with labels (m,) of the new, and more.

    Raises InputError.
    """
    found = Constraints.none(n) if known is None else _wider(known, n)
    if y is not None:
        new = np.asarray(y)
        m = n - (0 if known is None else known.n_nodes)
        if new.shape != (m,):
            raise InputError(f"y: shape {new.shape} for {m} new rows; give one label for each")
        found = found + Constraints.from_labels(np.append(np.full(n - m, -1), new))
    return found if more is None else found + more


def _wider(known: Constraints, n: int) -> Constraints:
    """The same statements about the first of n rows."""
    said = known.statements
    more = n - said.n_nodes
    labels = None if said.labels is None else np.append(said.labels, np.full(more, -1))
    soft = said.soft
    if soft is not None:
        indptr = np.append(soft.indptr, np.full(more, soft.indptr[-1], soft.indptr.dtype))
        soft = sp.csr_matrix((soft.data, soft.indices, indptr), shape=(n, n))
    believed = said.soft_labels
    if believed is not None:
        rows = np.zeros((more, believed.values.shape[1]))
        believed = replace(
            believed,
            values=np.vstack([believed.values, rows]),
            belief=np.append(believed.belief, np.zeros(more)),
        )
    wider = replace(said, n_nodes=n, labels=labels, soft=soft, soft_labels=believed)
    return known._like(wider)


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
