"""Conjugate gradients on blocks: many right-hand sides share every product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mustlink.context.method_cost import TOGETHER
from mustlink.core.observe import NEVER, Deadline
from mustlink.core.result import MAX_ITER, STAGNATED, TIME_LIMIT, TOLERANCE, Convergence, Stagnation
from mustlink.operators.protocol import Preconditioner
from mustlink.space import Block, LocalSpace, Space

Map = Callable[[Block], Block]
Advance = Callable[[float], None]
WINDOW, FACTOR = 200, 0.9  # see `Stagnation`; pauses of up to 118 steps were measured
LEAST = 5  # steps that are taken whatever the time: none is no answer
_GROWN = 1.1  # times the least residual from which the steps up to that are worth repeating


def block_cg(
    A: Map,
    B: Block,
    *,
    tol: float,
    max_iter: int = 500,
    precondition: Preconditioner | None = None,
    project: Map | None = None,
    on_step: Callable[[float], None] | None = None,
    space: Space | None = None,
    deadline: Deadline = NEVER,
) -> tuple[Block, Convergence]:
    """Solve AX = B, (m, b), A symmetric positive (semi)definite, to ‖b − Ax‖ <= tol·‖b‖ each.

    Every column has its own step lengths; finished columns leave the block. `project` maps onto
    the range of a singular A and is applied to B and to every preconditioned residual. `on_step`
    gets the largest residual so far reached after every step, which never grows; `space` is where
    B lives, if not in an array.

    A column whose residual has not fallen by a tenth for 200 steps leaves as stagnated, one along
    which A is not positive at once. Where the residual has meanwhile grown, as it does for a
    right-hand side outside the range of A, the steps up to its least are taken again: the answer is
    the best iterate, and nothing but scalars is kept for it. At the `deadline`, after five steps at
    least, all columns leave as they are: for a definite A the error in its norm always falls.
    Cost per step: one product and one preconditioner for the unfinished columns, three
    reductions. Source: Hestenes & Stiefel 1952.
    """
    space = LocalSpace(B.shape[0]) if space is None else space
    run = _Run(space, A, precondition or (lambda V: V), project or (lambda V: V), tol, deadline)
    ended = run(B, np.full(B.shape[1], max_iter), on_step)
    X, residuals = ended.X, ended.residuals
    missed = ~(residuals <= tol)
    if not missed.any():
        reason = TOLERANCE
    elif ended.out_of_time:
        reason = TIME_LIMIT
    else:
        reason = STAGNATED if ended.stuck[missed].all() else MAX_ITER
    grown = np.flatnonzero(missed & ended.stuck & ~(residuals <= _GROWN * ended.watch.best))
    if grown.size and not ended.out_of_time:
        again = run(space.columns(B, grown), ended.watch.best_step[grown], None)
        space.blend(X, 0.0, (again.X, 1.0), columns=grown)
        residuals[grown] = again.residuals
    return X, Convergence("block CG", reason, ended.steps, residuals, tol)


@dataclass(eq=False)
class _Ended:
    """Iterates X (m, b), their residuals (b,), which columns could not go on, and the steps."""

    X: Block
    residuals: NDArray[np.float64]
    watch: Stagnation
    stuck: NDArray[np.bool_]
    steps: int = 0
    out_of_time: bool = False


@dataclass(frozen=True, eq=False)
class _Run:
    """The iteration: a product, what goes with it, and when a column is done."""

    space: Space
    A: Map
    precondition: Preconditioner
    project: Map
    tol: float
    deadline: Deadline

    def __call__(
        self, B: Block, most: NDArray[np.int64], on_step: Callable[[float], None] | None
    ) -> _Ended:
        """From X = 0 until all columns are done; none takes more than `most` steps."""
        space, A = self.space, self.A
        R = self.project(space.copy(B, np.float64))
        X = space.zeros(B.shape[1])
        length, given = space.norms(R, B)
        # A column that `project` leaves nothing of is solved by 0; its rounding is no right side.
        size = np.where(length <= 1e-15 * given, np.inf, length)
        residuals = length / size
        watch = Stagnation(residuals.size, WINDOW, FACTOR)
        watch.update(residuals)
        ended = _Ended(X, residuals, watch, np.zeros(residuals.size, dtype=bool))
        active = np.flatnonzero((residuals > self.tol) & (most > 0))
        R = space.columns(R, active)
        Z = self.project(self.precondition(R))
        P = space.copy(Z)
        rz = space.dots(R, Z)
        while active.size and not (ended.steps >= LEAST and self.deadline.is_over):
            AP = A(P)
            stiffness = space.dots(P, AP)
            # Where A is not positive along p no step is defined.
            alpha = rz / np.where(stiffness > 0, stiffness, np.nan)
            sound = np.isfinite(alpha)
            alpha[~sound] = 0.0
            space.blend(X, 1.0, (P, alpha), columns=active)
            residuals[active] = np.sqrt(space.lessen(R, AP, alpha)) / size[active]
            ended.steps += 1
            stuck = ~sound | watch.update(residuals)[active]
            ended.stuck[active] = stuck
            if on_step is not None:
                on_step(watch.worst)
            going = (residuals[active] > self.tol) & (ended.steps < most[active]) & ~stuck
            if not going.all():
                active, rz = active[going], rz[going]
                R, P = (space.columns(V, going) for V in (R, P))
            if active.size == 0:
                break
            Z = self.project(self.precondition(R))
            following = space.dots(R, Z)
            space.blend(P, following / rz, (Z, 1.0))
            rz = following
        ended.out_of_time = active.size > 0
        return ended


def silent(_: float) -> None:
    """An `advance` that reports nothing."""


def cg_by_columns(
    A: Map,
    B: Block,
    *,
    tol: float,
    max_iter: int,
    advance: Advance = silent,
    deadline: Deadline = NEVER,
    together: int = TOGETHER,
    precondition: Preconditioner | None = None,
    project: Map | None = None,
) -> tuple[Block, Convergence]:
    """`block_cg` of at most `together` columns of B (m, b) at a time: its blocks stay narrow.

    Columns do not disturb each other: X is the same for every number. `advance` gets the part of
    all columns that is done; every column has its share of the time.
    """
    width = B.shape[1]

    def part(first: int, last: int) -> tuple[Block, Convergence]:
        share = (last - first) / max(width, 1)
        return block_cg(
            A,
            np.ascontiguousarray(B[:, first:last]),
            tol=tol,
            max_iter=max_iter,
            precondition=precondition,
            project=project,
            on_step=lambda worst: advance(first / max(width, 1) + share * done(worst, tol)),
            deadline=deadline.share((last - first) / max(width - first, 1)),
        )

    if width <= together:
        return part(0, width)
    X, result = np.empty(B.shape), []
    for first in range(0, width, together):
        last = min(first + together, width)
        X[:, first:last], one = part(first, last)
        result.append(one)
    worst = max(result, key=lambda one: (not one.converged.all(), one.iterations))
    residuals = np.concatenate([one.residuals for one in result])
    return X, replace(worst, residuals=residuals)


def done(residual: float, tol: float, first: float = 1.0) -> float:
    """Share of the way from `first` to `tol`: residuals fall geometrically."""
    fallen = np.log(max(residual / first, 1e-300))
    return float(np.clip(fallen / np.log(min(tol / first, 0.5)), 0.0, 1.0))


def towards(tol: float, advance: Advance) -> Callable[[float], None]:
    """A function of residuals that reports the share of the way from the first of them to `tol`."""
    first: float | None = None

    def on_step(residual: float) -> None:
        nonlocal first
        first = residual if first is None else first
        if first > tol:
            advance(done(residual, tol, first))

    return on_step
