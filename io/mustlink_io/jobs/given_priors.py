"""Prior knowledge from files beside the data: of the nodes that are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.observe import Recorder
from mustlink_io import formats

Floats = NDArray[np.float64]


def load_believed(
    prior: str,
    belief: float | str | None,
    data: formats.Data,
    labels: formats.Labels,
    source: str,
    recorder: Recorder,
) -> tuple[Floats, Floats]:
    """Distributions (n, K) over the classes of the kept `labels`, and beliefs (n,).

    Where nothing is said of a node its belief is 0. `source` is the file of the data. Raises
    InputError.
    """
    P = formats.load_prior(prior, data.n_rows, _called(labels)[1], data.names)
    u = _beliefs(1.0 if belief is None else belief, data, source)
    if data.kept is not None:
        P, u = P[data.kept], u[data.kept]
    silent = _silent(P, prior, recorder)
    return np.where(silent[:, None], 0.0, P), np.where(silent, 0.0, u)


def load_soft_labels(
    text: str,
    belief: float | str | None,
    data: formats.Data,
    labels: formats.Labels | None,
    source: str,
    recorder: Recorder,
) -> Constraints:
    """Distributions over the classes of the labels, or over as many as there are columns.

    As constraints on all rows of the data, see `Constraints.from_soft_labels`. Raises InputError.
    """
    classes, called = (None, None) if labels is None else _called(labels)
    P = formats.load_prior(text, data.n_rows, called, data.names)
    _silent(P, text, recorder)
    u = None if belief is None else _beliefs(belief, data, source)
    return Constraints.from_soft_labels(P, u, classes=classes)


def _called(labels: formats.Labels) -> tuple[list[int], list[str]]:
    """Numbers of the classes that labels have, and how they are called."""
    classes = np.unique(labels.codes[labels.codes >= 0]).tolist()
    words = labels.classes
    return classes, [str(one) if words is None else words[one] for one in classes]


def _beliefs(belief: float | str, data: formats.Data, source: str) -> Floats:
    """One number a row, (n,)."""
    if isinstance(belief, str):
        return formats.load_beliefs(belief, data.n_rows, data.names, source)
    return np.full(data.n_rows, belief)


def _silent(P: Floats, where: str, recorder: Recorder) -> NDArray[np.bool_]:
    """Rows of which nothing is said, (n,); tells how many."""
    silent = np.isnan(P[:, 0])
    if silent.any():
        recorder.note(f"{where}: says nothing of {int(silent.sum()):,} of {silent.size:,} nodes")
    return silent


def told_of_prior(
    P: Floats, belief: Floats, labels: NDArray[np.int64], estimator: Any
) -> dict[str, Any]:
    """Of how many nodes without a label something was believed, and how many are as it says."""
    asked = (belief > 0) & (labels < 0)
    likeliest = np.asarray(estimator.classes_)[P[asked].argmax(axis=1)]
    kept = int((np.asarray(estimator.labels_)[asked] == likeliest).sum())
    mean = float(belief[asked].mean()) if asked.any() else 0.0
    return {"n_believed": int(asked.sum()), "mean_belief": mean, "n_as_believed": kept}
