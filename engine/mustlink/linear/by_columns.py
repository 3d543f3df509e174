"""Many right-hand sides solved some at a time: the iteration's own blocks stay narrow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mustlink.deadline import NEVER, Deadline
from mustlink.result import Convergence

Block = NDArray[np.float64]
TOGETHER = 32  # columns; a product takes as long for each of them as for one of more

# B (m, c), who hears which part is done, and when it shall be -> X (m, c) and how it was found
Solve = Callable[[Block, Callable[[float], None], Deadline], tuple[Block, Convergence]]


def by_columns(
    solve: Solve, B: Block, advance: Callable[[float], None], deadline: Deadline = NEVER
) -> tuple[Block, Convergence]:
    """X (m, b) with `solve` of at most 32 columns of B (m, b) at a time.

    For solvers whose columns do not disturb each other: X is the same. `advance` hears the part of
    all columns that is done; every column has its share of the time.
    """
    width = B.shape[1]
    if width <= TOGETHER:
        return solve(B, advance, deadline)
    X, found = np.empty_like(B), []
    for first in range(0, width, TOGETHER):
        last = min(first + TOGETHER, width)
        on_part = partial(_report, advance, first / width, (last - first) / width)
        until = deadline.share((last - first) / (width - first))
        X[:, first:last], one = solve(np.ascontiguousarray(B[:, first:last]), on_part, until)
        found.append(one)
    worst = max(found, key=lambda one: (not one.converged.all(), one.iterations))
    residuals = np.concatenate([one.residuals for one in found])
    return X, replace(worst, residuals=residuals)


def _report(advance: Callable[[float], None], before: float, share: float, done: float) -> None:
    advance(before + share * done)
