"""How sure the map is: the chance that results have, calibrated now and then."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MORE = 1.1  # times what was known from which it is calibrated anew


class Confidence:
    """Chances that labels are right, of one estimator while it is refitted."""

    def __init__(self) -> None:
        self._last: tuple[int, Any] | None = None  # how much was known, and the calibration by it

    def of(self, estimator: Any, known: int) -> NDArray[np.float64]:
        """Chances (n,), the largest of `membership_`, where so many labels and pairs are known.

        Calibrated by fits to a part of what is known, anew when a tenth more is known.
        """
        if self._last is not None and known <= _MORE * self._last[0]:
            estimator.calibrate(known=self._last[1])
        else:
            self._last = known, estimator.calibration_
        spreads = hasattr(estimator, "given_labels_")  # whose `confidence_` are margins
        return np.asarray(estimator.membership_.max(axis=1) if spreads else estimator.confidence_)


def meaning(estimator: Any) -> str:
    """What the chances are, and by what they are calibrated."""
    by = estimator.calibration_
    held = [(by.n_labels, "labels"), (getattr(by, "n_pairs", 0), "pairs")]
    told = " and ".join(f"{count:,} {what}" for count, what in held if count)
    how = f"calibrated by {told} held out" if told else "not calibrated"
    return f"the chance that a node is where it belongs, {how}"
