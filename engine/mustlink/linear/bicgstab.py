"""Stabilised bi-conjugate gradients on blocks: nonsymmetric systems, many right-hand sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustlink.deadline import NEVER, Deadline
from mustlink.linear.cg import LEAST, Map
from mustlink.result import Convergence
from mustlink.space import Block, Dots, LocalSpace, Space
from mustlink.stopping import (
    BREAKDOWN,
    MAX_ITER,
    STAGNATED,
    TIME_LIMIT,
    TOLERANCE,
    Stagnation,
)

_LOST = 1e-14  # cosine below which two vectors count as orthogonal: a breakdown
_WINDOW, _FACTOR = 100, 0.9  # see `Stagnation`
_FRESH = 5  # starts from the true residual before a column is given up


def block_bicgstab(
    A: Map,
    B: Block,
    *,
    tol: float,
    max_iter: int = 1000,
    precondition: Map | None = None,
    space: Space | None = None,
    on_step: Callable[[float], None] | None = None,
    deadline: Deadline = NEVER,
) -> tuple[Block, Convergence]:
    """Solve AX = B, (m, b), A nonsymmetric and nonsingular, to ‖b − Ax‖ <= tol·‖b‖ each.

    Every column has its own scalars; finished columns leave the block. `precondition` acts from
    the right, so residuals are those of the given system. A column that breaks down starts again
    from where it is, at most five times, and so does one whose residual has not fallen for 100
    steps. One that cannot go on from there is reported as it was at its best start, reason
    "stagnated" or "breakdown". Residuals of the result are computed anew, not those of the
    recursion. `on_step` hears the largest residual so far reached after every step, `space` is
    where B lives, if not in an array. At the `deadline`, but after five steps at least, columns
    are left as they are.
    Cost per step: two products and two preconditioners for the unfinished columns, two more
    products in all. Source: van der Vorst 1992.
    """
    space = LocalSpace(B.shape[0]) if space is None else space
    X = space.zeros(B.shape[1])
    length = space.norms(B)
    size = np.where(length == 0, np.inf, length)
    R = space.copy(B, np.float64)
    residuals = length / size
    run = _Run(space, A, precondition or (lambda V: V), deadline, on_step)
    active, steps, stagnated = np.flatnonzero(residuals > tol), 0, False
    for _ in range(_FRESH):
        if not active.size or steps >= max_iter or (steps and deadline.is_over):
            break
        change, watch, steps = run(space.columns(R, active), size[active], tol, (steps, max_iter))
        stagnated |= bool(watch.stagnated.any())
        space.blend(change, 1.0, (space.columns(X, active), 1.0))
        left = space.columns(B, active)
        space.blend(left, 1.0, (A(change), -1.0))
        found = space.norms(left) / size[active]
        better = found < residuals[active]  # never NaN
        space.blend(X, 0.0, (space.columns(change, better), 1.0), columns=active[better])
        space.blend(R, 0.0, (space.columns(left, better), 1.0), columns=active[better])
        before, residuals[active[better]] = residuals.copy(), found[better]
        # The recursion drifts from the true residual; where that still falls, go on from it.
        active = np.flatnonzero((residuals > tol) & (residuals < 0.5 * before))
    if (residuals <= tol).all():
        reason = TOLERANCE
    elif deadline.is_over:
        reason = TIME_LIMIT
    elif steps >= max_iter:
        reason = MAX_ITER
    else:
        reason = STAGNATED if stagnated else BREAKDOWN
    return X, Convergence("block BiCGSTAB", reason, steps, residuals, tol)


@dataclass(frozen=True, eq=False)
class _Run:
    """The iteration between two starts: the product, its preconditioner, and who follows."""

    space: Space
    A: Map
    K: Map
    deadline: Deadline
    on_step: Callable[[float], None] | None

    def __call__(
        self, R: Block, unit: NDArray[np.float64], tol: float, budget: tuple[int, int]
    ) -> tuple[Block, Stagnation, int]:
        """Changes of X that bring R down to tol·unit each, how they went, the steps so far."""
        space, A, K, (steps, max_iter) = self.space, self.A, self.K, budget
        X, active, goal = space.zeros(R.shape[1]), np.arange(R.shape[1]), unit * tol
        residuals = space.norms(R) / unit
        watch = Stagnation(active.size, _WINDOW, _FACTOR)
        watch.update(residuals)
        shadow, P, V = space.copy(R), space.zeros(R.shape[1]), space.zeros(R.shape[1])
        rho, alpha, omega = np.ones((3, active.size))
        again, square = np.zeros(active.size, dtype=bool), space.dots(R, R)
        length = np.sqrt(square)  # of the shadow
        while active.size and steps < max_iter:
            if steps >= LEAST and self.deadline.is_over:
                break
            following = space.dots(shadow, R)
            lost = again | (abs(following) <= _LOST * length * np.sqrt(square))
            if lost.any():
                turned = _tilted(space, space.columns(R, lost))
                space.blend(shadow, 0.0, (turned, 1.0), columns=np.flatnonzero(lost))
                square_shadow, following = space.sums(Dots(shadow, shadow), Dots(shadow, R))
                length = np.sqrt(square_shadow)
            beta = np.where(lost, 0.0, following / rho * (alpha / omega))
            space.blend(P, beta, (R, 1.0), (V, -beta * omega))
            rho = following
            KP = K(P)
            V = A(KP)
            across, size = space.sums(Dots(shadow, V), Dots(V, V))
            flat = abs(across) <= _LOST * length * np.sqrt(size)
            alpha = np.where(flat, 0.0, rho / np.where(flat, 1.0, across))
            square = space.lessen(R, V, alpha)
            KS = K(R)
            T = A(KS)
            size, along = space.sums(Dots(T, T), Dots(T, R))
            still = abs(along) <= _LOST * np.sqrt(size * square)
            omega = np.where(still, 0.0, along / np.where(still, 1.0, size))
            space.blend(X, 1.0, (KP, alpha), (KS, omega), columns=active)
            square = space.lessen(R, T, omega)
            steps += 1
            residuals[active] = np.sqrt(square) / unit[active]
            stagnated = watch.update(residuals)[active]
            if self.on_step is not None:
                self.on_step(watch.worst)
            again = flat | still
            # Neither direction moves it right after a fresh start: nothing else to try.
            stuck = flat & still & lost
            omega = np.where(omega == 0, 1.0, omega)
            going = ~(np.sqrt(square) <= goal) & ~stuck & ~stagnated & np.isfinite(square)
            if not going.all():
                active, goal, again = active[going], goal[going], again[going]
                square = square[going]
                rho, alpha, omega, length = rho[going], alpha[going], omega[going], length[going]
                shadow, R, P, V = (space.columns(Z, going) for Z in (shadow, R, P, V))
        return X, watch, steps


def _tilted(space: Space, R: Block) -> Block:
    """R turned by 45° in a random direction: R itself is what has just been of no use."""
    noise = space.combine(space.normals(1, 0), np.ones((1, R.shape[1])))
    squares, across = space.sums(Dots(R, R), Dots(noise, R))
    squares = np.maximum(squares, 1e-300)
    space.blend(noise, 1.0, (R, -across / squares))
    space.blend(noise, np.sqrt(squares / np.maximum(space.dots(noise, noise), 1e-300)), (R, 1.0))
    return noise
