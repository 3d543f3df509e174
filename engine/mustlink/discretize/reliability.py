"""How often answers were right beside how sure they were: a reliability table and its error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

BINS = 15  # as Guo, Pleiss, Sun & Weinberger (2017) take them


@dataclass(frozen=True)
class Reliability:
    """Answers by their confidence in equal bins of [0, 1], those with an answer, from below.

    `low` is where a bin of width `width` begins, `count` how many answers are in it, `share` their
    share of the weight of all, `sure` the mean of their confidence, `right` the share that is
    right.
    """

    width: float
    low: tuple[float, ...]
    count: tuple[int, ...]
    share: tuple[float, ...]
    sure: tuple[float, ...]
    right: tuple[float, ...]

    @classmethod
    def of(
        cls, sure: NDArray[Any], right: NDArray[Any], weight: Any = None, bins: int = BINS
    ) -> Self:
        """The table of answers (m,): confidence in [0, 1], whether right, what each counts."""
        weight = np.ones(len(sure)) if weight is None else np.asarray(weight, dtype=np.float64)
        place = np.minimum((np.asarray(sure) * bins).astype(np.int64), bins - 1)
        count = np.bincount(place, minlength=bins)
        mass = np.bincount(place, weight, bins)
        full = np.flatnonzero(mass > 0)
        mean = [np.bincount(place, weight * v, bins)[full] / mass[full] for v in (sure, right)]
        return cls(
            1.0 / bins,
            tuple((full / bins).tolist()),
            tuple(count[full].tolist()),
            tuple((mass[full] / mass.sum()).tolist()),
            *(tuple(one.tolist()) for one in mean),
        )

    @property
    def error(self) -> float:
        """The expected calibration error Σ_b share_b |sure_b − right_b|."""
        rows = zip(self.share, self.sure, self.right, strict=True)
        return float(sum(share * abs(sure - right) for share, sure, right in rows))

    def rows(self) -> list[dict[str, float]]:
        """The bins as plain values, for a file or a table."""
        names = ("low", "count", "share", "sure", "right")
        columns = zip(self.low, self.count, self.share, self.sure, self.right, strict=True)
        return [dict(zip(names, row, strict=True)) for row in columns]
