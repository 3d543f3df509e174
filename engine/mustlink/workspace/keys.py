"""Keys of what iterations find: when a kept solution is what a fresh one would be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from mustlink.graph.derived import Key

Value = TypeVar("Value")


@dataclass(frozen=True)
class SolutionKey(Key[Value]):
    """Key of `count` vectors found by an iteration, or of what is made of them.

    A kept solution serves where a fresh one would be the same: asked of the same solver with the
    same tolerance, seed and budget, and either allowed as many steps or converged in fewer than
    are allowed now. A longer one serves by its beginning, which is at least as sharp.
    """

    solver: str
    tol: float
    max_iter: int
    seed: int
    budget: int | None
    count: int

    def serves(self, asked: Self, value: Value) -> bool:
        """Whether a kept solution is what a fresh one would be."""
        same = replace(self, max_iter=asked.max_iter, count=asked.count) == asked
        return same and self.count >= asked.count and self._steps_suit(asked, value)

    def identity(self) -> Self:
        """All but the steps allowed: those that were needed are in the value."""
        return replace(self, max_iter=0)

    def _steps_suit(self, asked: Self, value: Any) -> bool:
        reached = value.convergence
        counted = reached.iterations > 0 or reached.reason == "direct"  # ARPACK tells no steps
        if counted and reached.converged.all():
            return bool(reached.iterations <= asked.max_iter)
        return self.max_iter == asked.max_iter
