"""Prior knowledge from files beside the data: of the nodes that are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    classes = np.unique(labels.codes[labels.codes >= 0]).tolist()
    called = [str(one) if labels.classes is None else labels.classes[one] for one in classes]
    P = formats.load_prior(prior, data.n_rows, called, data.names)
    u = (
        np.full(data.n_rows, 1.0 if belief is None else belief)
        if not isinstance(belief, str)
        else (formats.load_beliefs(belief, data.n_rows, data.names, source))
    )
    if data.kept is not None:
        P, u = P[data.kept], u[data.kept]
    silent = np.isnan(P[:, 0])
    if silent.any():
        recorder.note(f"{prior}: says nothing of {int(silent.sum()):,} of {silent.size:,} nodes")
    return np.where(silent[:, None], 0.0, P), np.where(silent, 0.0, u)


def told_of_prior(
    P: Floats, belief: Floats, labels: NDArray[np.int64], estimator: Any
) -> dict[str, Any]:
    """Of how many nodes without a label something was believed, and how many are as it says."""
    asked = (belief > 0) & (labels < 0)
    likeliest = np.asarray(estimator.classes_)[P[asked].argmax(axis=1)]
    kept = int((np.asarray(estimator.labels_)[asked] == likeliest).sum())
    mean = float(belief[asked].mean()) if asked.any() else 0.0
    return {"n_believed": int(asked.sum()), "mean_belief": mean, "n_as_believed": kept}
