"""The model in a result file: saved, loaded; and points that it does not hold."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mustlink
from mustlink.clusterers.clusterer import GraphClusterer
from mustlink.clusterers.label_clusters import LabelClusters
from mustlink.core.names import ESTIMATORS, estimator_of
from mustlink.core.state import chosen, unbound
from mustlink.errors import InputError
from mustlink.persistence import model
from mustlink.propagation.propagator import Propagator, call_classes
from mustlink_io.formats import results
from mustlink_io.hdf5 import model_tree, store, writing
from mustlink_io.hdf5.locks import locked
from mustlink_io.jobs.carried import Carried
from mustlink_io.jobs.diagnostics import content_of, findings_of
from mustlink_io.jobs.points import points_of
from mustlink_io.jobs.run import result_of


def save_model(
    estimator: Any, path: str | Path, *, data: bool = True, beside: Carried | None = None
) -> None:
    """Write a fitted estimator as `mustlink cluster` or `propagate` would, with the model.

    `beside` is what the file that it came from says and the estimator does not know. See
    `GraphEstimator.save`; written whole or not at all. Raises InputError.
    """
    names = getattr(chosen(estimator), "_class_names", None)
    beside = Carried(classes=dict(enumerate(names or ()))) if beside is None else beside
    beside.prepare(chosen(estimator))
    tree = model.state_of(estimator, data=data)
    writing.check_output(path)
    estimator = chosen(estimator)
    content, findings = beside.beside(estimator, *_answers(estimator))
    method = {"method": type(estimator).__name__}
    parameters = {**method, **tree["parameters"], **beside.parameters}
    shown = result_of(estimator, findings, content, estimator.report_, parameters, beside.inputs)
    with locked(str(path)):
        writing.write(path, {**content, **shown.content()}, model_tree.writer(tree))


def load_model(path: str | Path, data: Any = None, *, light: bool = False) -> Any:
    """The estimator in a file, see `mustlink.load`; raises InputError.

    A `light` one imports scikit-learn, which takes longer than most refits, where something needs
    it alone.
    """
    with store.open_h5(path) as file:
        tree = model_tree.read(file, model.RECORDS)
    if tree is None:
        raise InputError(
            f"{path}: has no model; est.save writes one, and mustlink cluster and propagate do, "
            "but with --no-model, on disk or on ranks"
        )
    name = tree.get("class")
    kinds: dict[Any, Any] = {"Auto": mustlink.Auto, "LabelClusters": LabelClusters}
    if name in ESTIMATORS:
        kinds[name] = estimator_of(name)
    try:
        make = unbound if light else None
        estimator = model.restored(tree, kinds, data, make)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    fitted = chosen(estimator)
    if isinstance(fitted._points, dict):
        theirs = None if data is None else fitted._as_fitted(data)
        fitted._points = points_of(fitted._points, Path(path), theirs)
    if isinstance(fitted, Propagator) and np.asarray(fitted.classes_).dtype.kind == "i":
        names = _names_in(path)
        if names and set(fitted.classes_.tolist()) <= set(names):
            call_classes(fitted, names)
    return estimator


def load_called(path: str | Path, data: Any = None) -> Any:
    """`load_model`, clusters called as the file says: what a person gets from `mustlink.load`."""
    estimator = load_model(path, data)
    if isinstance(chosen(estimator), GraphClusterer) and not estimator.cluster_names_:
        names, there = _names_in(path), set(np.unique(estimator.labels_).tolist())
        estimator.name_clusters({number: names[number] for number in there & set(names)})
    return estimator


def _names_in(path: str | Path) -> dict[int, str]:
    with store.open_h5(path) as file:
        return results.names_in(file, "/class_names", "/classes")


def _answers(estimator: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Answers of a fitted estimator as entries of its file, and what is found out about them.

    Classes with names are numbered in their order.
    """
    if isinstance(estimator, GraphClusterer):
        known, names = estimator.constraints_, estimator.cluster_names_
        side = None if known.is_empty else known
        more = {}
        if names:
            most = int(estimator.labels_.max()) + 1
            more = {"/class_names": [names.get(number, "") for number in range(most)]}
        return content_of(estimator, side) | more, findings_of(estimator, side)
    if not isinstance(estimator, Propagator):
        return content_of(estimator, None), {}
    classes, labels = np.asarray(estimator.classes_), np.asarray(estimator.given_labels_)
    if classes.dtype.kind == "i":
        return content_of(estimator, labels), findings_of(estimator, labels)
    numbered, labels = copy(estimator), _numbers(classes, labels)
    numbered.classes_ = np.arange(classes.size)
    numbered.labels_ = _numbers(classes, estimator.labels_)
    more = {"/class_names": [str(name) for name in classes]}
    return content_of(numbered, labels) | more, findings_of(numbered, labels)


def _numbers(names: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Places of labels among the sorted names; -1 for what is none."""
    place = {name: code for code, name in enumerate(names.tolist())}
    return np.array([place.get(label, -1) for label in labels.tolist()], dtype=np.int64)
