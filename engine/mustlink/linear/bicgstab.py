"""Stabilised bi-conjugate gradients on blocks: nonsymmetric systems, many right-hand sides."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.bicgstab_steps import advance, lessen, turn
from mustlink.kernels.cg_steps import dots
from mustlink.linear.cg import Map
from mustlink.operators.laplacian import Block
from mustlink.result import Convergence

_LOST = 1e-14  # cosine below which two vectors count as orthogonal: a breakdown
_FRESH = 5  # starts from the true residual before a column is given up


def block_bicgstab(
    A: Map,
    B: Block,
    *,
    tol: float,
    max_iter: int = 1000,
    precondition: Map | None = None,
) -> tuple[Block, Convergence]:
    """Solve AX = B, (m, b), A nonsymmetric and nonsingular, to ‖b − Ax‖ <= tol·‖b‖ each.

    Every column has its own scalars; finished columns leave the block. `precondition` acts from
    the right, so residuals are those of the given system. A column that breaks down starts again
    from where it is; one that cannot go on from there is reported as it stands, reason
    "breakdown". Residuals of the result are computed anew, not those of the recursion.
    Cost per step: two products and two preconditioners for the unfinished columns, two more
    products in all. Source: van der Vorst 1992.
    """
    K = precondition or (lambda V: V)
    X = np.zeros_like(B, dtype=np.float64)
    size = np.linalg.norm(B, axis=0)
    size[size == 0] = np.inf
    R = np.array(B, dtype=np.float64)
    residuals = np.linalg.norm(R, axis=0) / size
    active, steps = np.flatnonzero(residuals > tol), 0
    for _ in range(_FRESH):
        if not active.size or steps >= max_iter:
            break
        steps = _run(A, K, X, R[:, active], active, size[active] * tol, (steps, max_iter))
        R = B - A(X)
        before, residuals = residuals, np.linalg.norm(R, axis=0) / size
        # The recursion drifts from the true residual; where that still falls, go on from it.
        active = np.flatnonzero((residuals > tol) & (residuals < 0.5 * before))
    left = ~(residuals <= tol)
    reason = "tolerance" if not left.any() else "max_iter" if steps >= max_iter else "breakdown"
    return X, Convergence("block BiCGSTAB", reason, steps, residuals, tol)


def _run(
    A: Map,
    K: Map,
    X: Block,
    R: Block,
    active: NDArray[np.int64],
    goal: NDArray[np.float64],
    budget: tuple[int, int],
) -> int:
    """Improve the columns `active` of X, residuals R, in place until ‖r‖ <= goal; steps so far."""
    steps, max_iter = budget
    R = np.ascontiguousarray(R)
    shadow, P, V = R.copy(), np.zeros_like(R), np.zeros_like(R)
    rho, alpha, omega = np.ones((3, active.size))
    again, square = np.zeros(active.size, dtype=bool), dots(R, R)
    length = np.sqrt(square)  # of the shadow
    while active.size and steps < max_iter:
        following = dots(shadow, R)
        lost = again | (abs(following) <= _LOST * length * np.sqrt(square))
        if lost.any():
            shadow[:, lost] = _tilted(R[:, lost])
            length = np.sqrt(dots(shadow, shadow))
            following = dots(shadow, R)
        beta = np.where(lost, 0.0, following / rho * (alpha / omega))
        turn(P, R, V, beta, omega)
        rho = following
        KP = K(P)
        V = A(KP)
        across = dots(shadow, V)
        flat = abs(across) <= _LOST * length * np.sqrt(dots(V, V))
        alpha = np.where(flat, 0.0, rho / np.where(flat, 1.0, across))
        square = lessen(R, V, alpha)
        KS = K(R)
        T = A(KS)
        size, along = dots(T, T), dots(T, R)
        still = abs(along) <= _LOST * np.sqrt(size * square)
        omega = np.where(still, 0.0, along / np.where(still, 1.0, size))
        advance(X, KP, KS, alpha, omega, active)
        square = lessen(R, T, omega)
        steps += 1
        again = flat | still
        # Neither direction moves it right after a fresh start: nothing else to try.
        stuck = flat & still & lost
        omega = np.where(omega == 0, 1.0, omega)
        going = ~(np.sqrt(square) <= goal) & ~stuck & np.isfinite(square)
        if not going.all():
            active, goal, again, square = active[going], goal[going], again[going], square[going]
            rho, alpha, omega, length = rho[going], alpha[going], omega[going], length[going]
            shadow, R, P, V = (np.ascontiguousarray(Z[:, going]) for Z in (shadow, R, P, V))
    return steps


def _tilted(R: Block) -> Block:
    """R turned by 45° in a random direction: R itself is what has just been of no use."""
    noise = np.random.default_rng(0).standard_normal((R.shape[0], 1))
    squares = np.maximum(dots(R, R), 1e-300)
    noise = noise - R * (noise.T @ R / squares)
    return np.asarray(R + noise * np.sqrt(squares / np.maximum(dots(noise, noise), 1e-300)))
