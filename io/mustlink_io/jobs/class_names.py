"""Names of nodes and classes that go with an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink_io import formats


def names_content(
    data: formats.Data, labels: formats.Labels | None, estimator: Any
) -> dict[str, Any]:
    """Names of nodes and of classes as entries of the result file, where there are some."""
    found: dict[str, Any] = {}
    called = data.stored_names if data.names is None else data.names
    if called is not None:
        found["/names"] = called.texts
    if labels is None or labels.classes is None:
        return found
    if hasattr(estimator, "label_distributions_"):
        return {**found, "/class_names": [labels.classes[at] for at in estimator.classes_]}
    named = dict(enumerate(labels.classes))
    clusters = np.asarray(estimator.labels_)
    found["/class_names"] = of_clusters(clusters, labels.codes, named, estimator.report_.n_clusters)
    return {**found, "/constraints/class_names": labels.classes}


def with_class_names(outcome: dict[str, Any], labels: formats.Labels | None) -> dict[str, Any]:
    """What a run found out, with names of classes beside the labels that were not kept."""
    if labels is None or labels.classes is None:
        return outcome
    return with_names(outcome, dict(enumerate(labels.classes)))


def with_names(outcome: dict[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """The same with `names` of the classes by their numbers."""
    asked = outcome.get("constraints")
    if asked is None:
        return outcome
    named = {
        key: [{**row, "class_name": names.get(row["class"])} for row in asked[key]]
        for key in ("strays", "overruled")
        if key in asked
    }
    return {**outcome, "constraints": {**asked, **named}}


def of_clusters(
    found: NDArray[Any], given: NDArray[Any], names: Mapping[int, str], n_clusters: int
) -> list[str]:
    """The class that most labelled nodes of every cluster have, empty where none has a label.

    Clusters `found` (n,) and labels `given` (n,), -1 for none.
    """
    known = (given >= 0) & (found >= 0)
    size = int(given.max(initial=-1)) + 2
    n_clusters = max(n_clusters, int(found.max(initial=-1)) + 1)  # numbers may have gaps
    votes = np.bincount(found[known] * size + given[known], minlength=n_clusters * size)
    votes = votes.reshape(n_clusters, size)
    most = np.where(votes.any(axis=1), votes.argmax(axis=1), -1)
    return [names.get(number, "") for number in most.tolist()]
