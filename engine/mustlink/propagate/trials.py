"""Trials of ways to spread labels, some of which are kept back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mustlink.observe import Recorder
from mustlink.operators.laplacian import Block
from mustlink.propagate.glp import Ints, Solving
from mustlink.propagate.solution import Solution
from mustlink.propagate.task import Task
from mustlink.propagate.told import Told
from mustlink.workspace import Workspace

ROUGH = Solving("cg", 1e-3)  # which class is the largest is known long before the values


class Way(Protocol):
    """A propagator with all decided."""

    refine: Any

    def _solve(self, task: Task) -> Solution: ...

    def _answer(self, task: Task, solution: Solution) -> Block: ...

    def get_params(self) -> dict[str, Any]:
        """All parameters."""


@dataclass(frozen=True, eq=False)
class Trials:
    """What is needed to spread a part of the labels."""

    work: Workspace
    told: Told
    classes: Ints
    seed: int
    together: int

    def of(self, ways: Sequence[Way]) -> Callable[[Ints], list[NDArray[np.bool_]]]:
        """Which labels of a fold every way answers right without them."""
        return lambda fold: self._right(ways, fold)

    def _right(self, ways: Sequence[Way], fold: Ints) -> list[NDArray[np.bool_]]:
        task = self._task(fold)
        solved: dict[str, Solution] = {}
        found = []
        for way in ways:
            name = repr({**way.get_params(), "refine": None})
            if name not in solved:
                solved[name] = way._solve(task)
            P = task.laplacian.leave(way._answer(task, solved[name]))[fold]
            right = self.classes[P.argmax(axis=1)] == self.told.nodes[fold]
            found.append(right & P.any(axis=1))
        return found

    def _task(self, fold: Ints) -> Task:
        """The labels but for those of a fold, whose stages and notes nobody hears."""
        recorder = Recorder(deadline=self.work.recorder.deadline)
        recorder.budget = self.work.recorder.budget
        work = replace(self.work, recorder=recorder)
        solving = replace(ROUGH, together=self.together)
        return Task.of(work, None, self.told.without(fold), self.classes, self.seed, solving)
