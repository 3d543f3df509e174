"""Stabilised bi-conjugate gradients on blocks: nonsymmetric systems, many right-hand sides."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustlink.linear.cg import Map
from mustlink.result import Convergence
from mustlink.space import Block, Dots, LocalSpace, Space

_LOST = 1e-14  # cosine below which two vectors count as orthogonal: a breakdown
_FRESH = 5  # starts from the true residual before a column is given up


def block_bicgstab(
    A: Map,
    B: Block,
    *,
    tol: float,
    max_iter: int = 1000,
    precondition: Map | None = None,
    space: Space | None = None,
) -> tuple[Block, Convergence]:
    """Solve AX = B, (m, b), A nonsymmetric and nonsingular, to ‖b − Ax‖ <= tol·‖b‖ each.

    Every column has its own scalars; finished columns leave the block. `precondition` acts from
    the right, so residuals are those of the given system. A column that breaks down starts again
    from where it is; one that cannot go on from there is reported as it stands, reason
    "breakdown". Residuals of the result are computed anew, not those of the recursion. `space` is
    where B lives, if not in an array.
    Cost per step: two products and two preconditioners for the unfinished columns, two more
    products in all. Source: van der Vorst 1992.
    """
    space = LocalSpace(B.shape[0]) if space is None else space
    K = precondition or (lambda V: V)
    X = space.zeros(B.shape[1])
    length = space.norms(B)
    size = np.where(length == 0, np.inf, length)
    R = space.copy(B, np.float64)
    residuals = length / size
    active, steps = np.flatnonzero(residuals > tol), 0
    for _ in range(_FRESH):
        if not active.size or steps >= max_iter:
            break
        goal = size[active] * tol
        steps = _run(space, (A, K), X, space.columns(R, active), active, goal, (steps, max_iter))
        R = space.copy(B, np.float64)
        space.blend(R, 1.0, (A(X), -1.0))
        before, residuals = residuals, space.norms(R) / size
        # The recursion drifts from the true residual; where that still falls, go on from it.
        active = np.flatnonzero((residuals > tol) & (residuals < 0.5 * before))
    left = ~(residuals <= tol)
    reason = "tolerance" if not left.any() else "max_iter" if steps >= max_iter else "breakdown"
    return X, Convergence("block BiCGSTAB", reason, steps, residuals, tol)


def _run(
    space: Space,
    maps: tuple[Map, Map],
    X: Block,
    R: Block,
    active: NDArray[np.int64],
    goal: NDArray[np.float64],
    budget: tuple[int, int],
) -> int:
    """Improve the columns `active` of X, residuals R, in place until ‖r‖ <= goal; steps so far."""
    (A, K), (steps, max_iter) = maps, budget
    shadow, P, V = space.copy(R), space.zeros(R.shape[1]), space.zeros(R.shape[1])
    rho, alpha, omega = np.ones((3, active.size))
    again, square = np.zeros(active.size, dtype=bool), space.dots(R, R)
    length = np.sqrt(square)  # of the shadow
    while active.size and steps < max_iter:
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
        again = flat | still
        # Neither direction moves it right after a fresh start: nothing else to try.
        stuck = flat & still & lost
        omega = np.where(omega == 0, 1.0, omega)
        going = ~(np.sqrt(square) <= goal) & ~stuck & np.isfinite(square)
        if not going.all():
            active, goal, again, square = active[going], goal[going], again[going], square[going]
            rho, alpha, omega, length = rho[going], alpha[going], omega[going], length[going]
            shadow, R, P, V = (space.columns(Z, going) for Z in (shadow, R, P, V))
    return steps


def _tilted(space: Space, R: Block) -> Block:
    """R turned by 45° in a random direction: R itself is what has just been of no use."""
    noise = space.combine(space.normals(1, 0), np.ones((1, R.shape[1])))
    squares, across = space.sums(Dots(R, R), Dots(noise, R))
    squares = np.maximum(squares, 1e-300)
    space.blend(noise, 1.0, (R, -across / squares))
    space.blend(noise, np.sqrt(squares / np.maximum(space.dots(noise, noise), 1e-300)), (R, 1.0))
    return noise
