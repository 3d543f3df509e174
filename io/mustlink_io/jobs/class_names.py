"""Names of nodes and classes that go with an answer."""

from __future__ import annotations

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
        names = [labels.classes[at] for at in np.asarray(estimator.classes_)]
    else:
        names = _of_clusters(np.asarray(estimator.labels_), labels, estimator.report_.n_clusters)
    return {**found, "/class_names": names}


def with_class_names(outcome: dict[str, Any], labels: formats.Labels | None) -> dict[str, Any]:
    """What a run found out, with names of classes beside the labels that were not kept."""
    asked = outcome.get("constraints")
    if asked is None or labels is None or labels.classes is None:
        return outcome
    names = labels.classes
    named = {
        key: [{**row, "class_name": names[row["class"]]} for row in asked[key]]
        for key in ("strays", "overruled")
        if key in asked
    }
    return {**outcome, "constraints": {**asked, **named}}


def _of_clusters(found: NDArray[Any], labels: formats.Labels, n_clusters: int) -> list[str]:
    """The class that most labelled nodes of every cluster have, empty where none has a label."""
    known = (labels.codes >= 0) & (found >= 0)
    names = np.array([*(labels.classes or ()), ""], dtype=object)
    size = len(names)
    n_clusters = max(n_clusters, int(found.max(initial=-1)) + 1)  # numbers may have gaps
    votes = np.bincount(found[known] * size + labels.codes[known], minlength=n_clusters * size)
    votes = votes.reshape(n_clusters, size)
    return list(names[np.where(votes.any(axis=1), votes.argmax(axis=1), size - 1)])
