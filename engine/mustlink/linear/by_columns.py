"""Many right-hand sides solved some at a time: the iteration's own blocks stay narrow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.method_cost import TOGETHER
from mustlink.deadline import NEVER, Deadline
from mustlink.result import Convergence

Block = NDArray[np.float64]
Advance = Callable[[float], None]
# B (m, c), who hears which part is done, and when it shall be -> X (m, c) and how it was found
Solve = Callable[[Block, Advance, Deadline], tuple[Block, Convergence]]


def by_columns(
    solve: Solve,
    B: Block,
    advance: Advance,
    deadline: Deadline = NEVER,
    together: int = TOGETHER,
) -> tuple[Block, Convergence]:
    """X (m, b) with `solve` of at most `together` columns of B (m, b) at a time.

    For solvers whose columns do not disturb each other: X is the same for every number. `advance`
    hears the part of all columns that is done; every column has its share of the time.
    """
    width = B.shape[1]
    if width <= together:
        return solve(B, advance, deadline)
    X, found = np.empty_like(B), []
    for first in range(0, width, together):
        last = min(first + together, width)
        on_part = partial(_report, advance, first / width, (last - first) / width)
        until = deadline.share((last - first) / (width - first))
        X[:, first:last], one = solve(np.ascontiguousarray(B[:, first:last]), on_part, until)
        found.append(one)
    worst = max(found, key=lambda one: (not one.converged.all(), one.iterations))
    residuals = np.concatenate([one.residuals for one in found])
    return X, replace(worst, residuals=residuals)


def _report(advance: Advance, before: float, share: float, done: float) -> None:
    advance(before + share * done)


def silent(_: float) -> None:
    """Nobody hears."""


def done(residual: float, tol: float, first: float = 1.0) -> float:
    """Share of the way from `first` to `tol`: residuals fall geometrically."""
    fallen = np.log(max(residual / first, 1e-300))
    return float(np.clip(fallen / np.log(min(tol / first, 0.5)), 0.0, 1.0))


def towards(tol: float, advance: Advance) -> Callable[[float], None]:
    """A listener to residuals, which tells the share of the way from the first of them to `tol`."""
    first: float | None = None

    def hear(residual: float) -> None:
        nonlocal first
        first = residual if first is None else first
        if first > tol:
            advance(done(residual, tol, first))

    return hear
