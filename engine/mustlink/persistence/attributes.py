"""Attributes of a fitted estimator, each with what it must be where it comes from a file.

What a model file says is believed only where the engine could have written it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from mustlink.clusterers.clusterer import GraphClusterer
from mustlink.clusterers.propagated_constraints import Adjustment
from mustlink.constraints import Constraints
from mustlink.core.result import Report
from mustlink.discretize.memberships import Calibration
from mustlink.errors import InputError
from mustlink.estimators.graph_estimator import GraphEstimator
from mustlink.graph import Graph
from mustlink.lyapunov.fields import NewEdges
from mustlink.lyapunov.sources import Sources
from mustlink.preprocessing.fitted import Fitted
from mustlink.preprocessing.mixed import KINDS, FittedTable
from mustlink.propagation.held_out import AnswerCalibration
from mustlink.propagation.prior import GivenPrior, Prior
from mustlink.selection.held_out import SelectedModel

Check = Callable[[str, Any, Graph], None]
_MOST = 2**31  # of a seed, a count of columns or of names
_MOST_NUMBERS = 1_000_000  # beyond the rows: clusters have numbers, of which new ones are made


def check_attributes(estimator: GraphEstimator, found: Mapping[str, Any], graph: Graph) -> None:
    """Raise InputError for an attribute that no fit sets, or that could not be such a one."""
    for name, value in found.items():
        refuse(name not in _CHECKS, name)
        _CHECKS[name](name, value, graph)
    refuse(not isinstance(found.get("report_"), Report), "report_")
    if isinstance(estimator, GraphClusterer):
        refuse("labels_" not in found, "labels_")
        check_numbers("labels_", found["labels_"], graph)
    made = found.get("_calibrated")
    clusters = isinstance(estimator, GraphClusterer)
    refuse(isinstance(made, AnswerCalibration if clusters else Calibration), "_calibrated")
    if isinstance(made, AnswerCalibration):
        refuse((made.intercept is None) != (made.slope is None), "_calibrated")
    if "classes_" in found and "label_distributions_" in found:
        shape = found["label_distributions_"].shape
        refuse(shape != (graph.n_rows, found["classes_"].size), "label_distributions_")


def damaged(what: str) -> InputError:
    """The error where a model cannot be as mustlink writes it."""
    return InputError(f"model: damaged: {what} cannot be as mustlink writes it; save it anew")


def refuse(is_wrong: bool, what: str) -> None:
    """Raise InputError where something is wrong."""
    if is_wrong:
        raise damaged(what)


def check_rows(name: str, value: Any, graph: Graph) -> None:
    """Raise InputError unless an attribute has a finite row for each of the graph's."""
    refuse(not isinstance(value, np.ndarray) or value.ndim < 1, name)
    refuse(value.shape[0] != graph.n_rows, name)
    if value.dtype.kind == "f":
        refuse(not np.isfinite(value).all(), name)


def check_numbers(name: str, value: Any, graph: Graph) -> None:
    """Raise InputError unless integers (n,) can be numbers of clusters: -1, or not far beyond."""
    check_rows(name, value, graph)
    refuse(value.dtype != np.int64 or value.ndim != 1, name)
    refuse(
        bool(value.size) and not -1 <= value.min() <= value.max() < graph.n_rows + _MOST_NUMBERS,
        name,
    )


def _weights(name: str, value: Any, graph: Graph) -> None:
    if value is not None:
        check_rows(name, value, graph)
        refuse(value.ndim != 1 or value.dtype != np.float64 or bool((value < 0).any()), name)


def _column(name: str, value: Any, graph: Graph) -> None:
    refuse(not isinstance(value, np.ndarray) or value.ndim != 1, name)
    refuse(value.dtype.kind == "f" and not np.isfinite(value).all(), name)


def _whole(name: str, value: Any, graph: Graph) -> None:
    refuse(not isinstance(value, int) or not 0 <= value < max(_MOST, graph.n_rows**2), name)


def _share(name: str, value: Any, graph: Graph) -> None:
    refuse(type(value) is not float or not 0 <= value <= 1, name)


def _either(*kinds: type) -> Check:
    def check(name: str, value: Any, graph: Graph) -> None:
        refuse(value is not None and not isinstance(value, kinds), name)

    return check


def _names(name: str, value: Any, graph: Graph) -> None:
    if value is None:
        return
    texts = isinstance(value, Mapping) and all(isinstance(one, str) for one in value.values())
    refuse(not texts or not all(isinstance(one, int) and one >= 0 for one in value), name)


def _texts(name: str, value: Any, graph: Graph) -> None:
    _either(tuple)(name, value, graph)
    refuse(not all(isinstance(one, str) for one in value or ()), name)


def _parts(name: str, value: Any, graph: Graph) -> None:
    _either(tuple)(name, value, graph)
    for one in value or ():
        refuse(not isinstance(one, tuple) or len(one) != 3, name)
        refuse(not isinstance(one[0], str) or not isinstance(one[1], int), name)
        if not isinstance(one[2], SelectedModel):
            check_numbers(name, one[2], graph)


def _told(name: str, value: Any, graph: Graph) -> None:
    _either(Constraints)(name, value, graph)
    refuse(value is not None and value.n_nodes != graph.n_rows, name)


def _prior(name: str, value: Any, graph: Graph) -> None:
    _either(GivenPrior)(name, value, graph)
    if value is not None:
        refuse(not isinstance(value.classes, np.ndarray) or value.classes.ndim != 1, name)
        check_rows(name, value.values, graph)
        check_rows(name, value.belief, graph)
        Prior.of_rows(value.values, value.belief, graph.n_rows, value.classes.size)


def _scores(name: str, value: Any, graph: Graph) -> None:
    refuse(not isinstance(value, tuple) or len(value) != 2, name)
    scores, place = value
    refuse(not isinstance(scores, np.ndarray) or scores.ndim != 2, name)
    check_rows(name, place, graph)
    refuse(place.dtype.kind != "i" or place.ndim != 1, name)
    refuse(not -1 <= place.min() <= place.max() < len(scores), name)


def _preparation(name: str, value: Any, graph: Graph) -> None:
    _either(Fitted, FittedTable)(name, value, graph)
    if value is None:
        return
    if isinstance(value, FittedTable):
        for one in value.columns:
            refuse(one.kind not in KINDS or not one.scale > 0, name)
            refuse(not np.isfinite([one.centre, one.scale, one.fill]).all(), name)
        refuse(not value.n_features_out, name)
        return
    d, own = value.n_features_in, [at for at, _ in value.categories]
    refuse(d < 1 or not all(0 <= at < d for at in own) or len(set(own)) < len(own), name)
    columns = value.dropped
    refuse(columns.dtype.kind != "i" or columns.ndim != 1, name)
    refuse(columns.size > 0 and not 0 <= columns.min() <= columns.max() < d, name)
    sized = [(value.fill, d), (value.centre, value.n_features_out)]
    for one, size in [*sized, (value.scale, value.n_features_out)]:
        refuse(one.shape not in ((0,), (size,)) or not np.isfinite(one).all(), name)
    refuse(value.centre.size != value.scale.size or bool((value.scale == 0).any()), name)
    refuse(any(values.ndim != 1 for _, values in value.categories), name)


def _arcs(name: str, value: Any, graph: Graph) -> None:
    refuse(not isinstance(value, tuple) or len(value) != 2, name)
    A, counts = value
    refuse(not isinstance(A, sp.csr_matrix) or A.shape != (graph.n_rows, graph.n_rows), name)
    check_csr(name, A)
    _weights(name, counts, graph)


def _sources(name: str, value: Any, graph: Graph) -> None:
    refuse(not isinstance(value, tuple) or len(value) != 2, name)
    Y, parameter = value
    refuse(not isinstance(Y, Sources) or not isinstance(parameter, float), name)
    for M in (Y.B, Y.C):
        refuse(not isinstance(M, sp.csr_matrix | sp.csc_matrix), name)
        check_csr(name, M)
    linked = int(np.count_nonzero(graph.degrees))
    refuse(Y.B.shape[0] != linked or Y.C.shape != (Y.B.shape[1],) * 2, name)


def _moved(name: str, value: Any, graph: Graph) -> None:
    refuse(not isinstance(value, Adjustment) or not isinstance(value.new, NewEdges), name)
    refuse(value.beliefs.shape != (graph.affinity.nnz,), name)
    linked, new = int(np.count_nonzero(graph.degrees)), value.new
    refuse(not new.first.shape == new.second.shape == new.beliefs.shape, name)
    for ends in (new.first, new.second):
        wrong = ends.dtype.kind != "i" or ends.ndim != 1
        refuse(wrong or (ends.size > 0 and not 0 <= ends.min() <= ends.max() < linked), name)


def _hierarchy(name: str, value: Any, graph: Graph) -> None:
    if value is None:
        return
    refuse(not isinstance(value, tuple) or len(value) != 3, name)
    linkage, leaves, groups = value
    check_numbers(name, leaves, graph)
    refuse(not isinstance(groups, np.ndarray) or groups.dtype != np.int64, name)
    refuse(groups.ndim != 1 or groups.size == 0 or leaves.max() >= groups.size, name)
    _column(name, groups, graph)
    refuse(not 0 <= groups.min() <= groups.max() < graph.n_rows + _MOST_NUMBERS, name)
    refuse(not isinstance(linkage, np.ndarray) or linkage.shape != (groups.size - 1, 4), name)
    from scipy.cluster.hierarchy import is_valid_linkage  # imports scipy.spatial

    refuse(groups.size > 1 and not is_valid_linkage(linkage), name)


def check_csr(name: str, M: Any) -> None:
    """Raise InputError unless a sparse matrix points where there are rows and columns."""
    refuse(M.indices.dtype.kind != "i" or M.indptr.dtype.kind != "i", name)
    refuse(M.data.dtype.kind not in "fi" or not M.data.ndim == M.indices.ndim == 1, name)
    try:
        M.check_format(full_check=True)
    except ValueError:
        refuse(True, name)
    refuse(not np.isfinite(M.data).all(), name)


_CHECKS: dict[str, Check] = {
    "labels_": check_rows,
    "sending_labels_": check_numbers,
    "receiving_labels_": check_numbers,
    "embedding_": check_rows,
    "propagated_": check_rows,
    "label_distributions_": check_rows,
    "confidence_": check_rows,
    "classes_": _column,
    "given_labels_": _column,
    "eigenvalues_": _column,
    "singular_values_": _column,
    "costs_": _column,
    "feature_names_in_": _column,
    "report_": _either(Report),
    "n_features_in_": _whole,
    "_used_seed": _whole,
    "_amount": _whole,
    "_pull": _share,
    "_first_new": _whole,
    "_acted": _either(bool),
    "_counted": _either(str),
    "_asked": _either(dict),
    "_choice": _either(SelectedModel),
    "_preparation": _preparation,
    "_calibrated": _either(Calibration, AnswerCalibration),
    "_believes": _either(bool),  # of files that do not have the prior itself
    "_given_prior": _prior,
    "_names": _names,
    "_parts": _parts,
    "_class_names": _texts,
    "_given": _told,
    "_row_weights": _weights,
    "_scores": _scores,
    "_arcs": _arcs,
    "_sources": _sources,
    "_moved": _moved,
    "_F": _either(),
    "_hierarchy": _hierarchy,
}
