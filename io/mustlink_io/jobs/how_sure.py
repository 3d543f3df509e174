"""What a result tells of how sure its answers are, and of how often such answers were right."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.propagate.held_out import AnswerCalibration
from mustlink.selection.calibration import Calibration


def mean_confidence(
    sure: NDArray[Any], labels: NDArray[Any], given: NDArray[np.int64] | None = None
) -> float:
    """The mean (n,) over nodes that have an answer and no label, over all answers without such."""
    there = labels >= 0
    guessed = there if given is None else there & (given < 0)
    return float(sure[guessed if guessed.any() else there].mean())


def told_of_confidence(
    sure: NDArray[Any],
    labels: NDArray[Any],
    given: NDArray[np.int64] | None,
    by: Calibration | AnswerCalibration,
) -> dict[str, Any]:
    """The mean confidence of the answers, and what it is calibrated by."""
    mean = mean_confidence(sure, labels, given)
    return {"mean_confidence": mean, "calibration": told_of_calibration(by)}


def told_of_calibration(by: Calibration | AnswerCalibration) -> dict[str, Any]:
    """Its parameters, how much was held out, and the reliability table of that."""
    if isinstance(by, Calibration):
        found: dict[str, Any] = {**by.trust._asdict(), "n_pairs": by.n_pairs}
    else:
        found = {"intercept": by.intercept, "slope": by.slope, "n_pairs": 0}
    found["n_labels"] = by.n_labels
    if by.reliability is not None:
        table = by.reliability
        found |= {"error": table.error, "width": table.width, "reliability": table.rows()}
    return found
