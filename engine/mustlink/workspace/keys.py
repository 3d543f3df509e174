"""Keys of what iterations find: when a kept solution is what a fresh one would be."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from mustlink.graph.derived import Key
from mustlink.stopping import TIME_LIMIT

Value = TypeVar("Value")


@dataclass(frozen=True)
class SolutionKey(Key[Value]):
    """Key of `count` vectors found by an iteration, or of what is made of them.

    A kept solution serves where a fresh one would be the same: asked of the same solver with the
    same tolerance, seed and budget, and either allowed as many steps or converged in fewer than
    are allowed now. A longer one serves by its beginning, which is at least as sharp.
    One that a time `limit`, in seconds, cut short serves where no more time is given.
    """

    solver: str
    tol: float
    max_iter: int
    seed: int
    budget: int | None
    count: int
    limit: float = field(default=math.inf, kw_only=True)

    def serves(self, asked: Self, value: Value) -> bool:
        """Whether a kept solution is what a fresh one would be."""
        same = replace(self, max_iter=asked.max_iter, count=asked.count, limit=asked.limit) == asked
        return same and self.count >= asked.count and self._steps_suit(asked, value)

    def identity(self) -> Self:
        """All but the steps and the time allowed: those that were needed are in the value."""
        return replace(self, max_iter=0, limit=math.inf)

    def _steps_suit(self, asked: Self, value: Any) -> bool:
        reached = value.convergence
        if reached.reason == TIME_LIMIT:
            return asked.limit <= self.limit
        counted = reached.iterations > 0 or reached.reason == "direct"  # ARPACK tells no steps
        if counted and reached.converged.all():
            return bool(reached.iterations <= asked.max_iter)
        return self.max_iter == asked.max_iter
