"""The end of an iteration that misses its tolerance and no longer progresses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TOLERANCE, MAX_ITER = "tolerance", "max_iter"
STAGNATED, TIME_LIMIT = "stagnated", "time limit"


class Stagnation:
    """Residuals of an iteration, one a column, and which of them have stopped falling.

    A column has stagnated when its least residual has not fallen to `factor` of its value within
    the last `window` steps. Krylov methods may pause for many steps and fall again, so that the
    window is wide: solvers document their window and the longest pause that was measured.
    """

    def __init__(self, columns: int, window: int, factor: float = 0.9) -> None:
        self.window, self.factor = window, factor
        self.best = np.full(columns, np.inf)
        self.best_step = np.zeros(columns, dtype=np.int64)
        self._mark = np.full(columns, np.inf)  # what the residual must fall below
        self._since = np.zeros(columns, dtype=np.int64)
        self._step = -1

    def update(self, residuals: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Take the residuals (columns,) after one more step; True where they have stagnated."""
        self._step += 1
        better = residuals < self.best  # never of NaN
        self.best[better] = residuals[better]
        self.best_step[better] = self._step
        falls = self.best <= self._mark
        self._since = np.where(falls, 0, self._since + 1)
        self._mark[falls] = self.factor * self.best[falls]
        return self.stagnated

    @property
    def stagnated(self) -> NDArray[np.bool_]:
        """Which columns have not progressed for a window."""
        return self._since >= self.window

    @property
    def worst(self) -> float:
        """The largest of the least residuals: it never grows."""
        return float(self.best.max(initial=0.0))
