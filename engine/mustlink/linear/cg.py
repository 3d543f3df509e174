"""Conjugate gradients on blocks: many right-hand sides share every product."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.cg_steps import descend, direct, dots
from mustlink.operators.laplacian import Block
from mustlink.result import Convergence

Map = Callable[[Block], Block]


def block_cg(
    A: Map,
    B: Block,
    *,
    tol: float,
    max_iter: int = 500,
    precondition: Map | None = None,
    project: Map | None = None,
    on_step: Callable[[float], None] | None = None,
) -> tuple[Block, Convergence]:
    """Solve AX = B, (m, b), A symmetric positive (semi)definite, to ‖b − Ax‖ <= tol·‖b‖ each.

    Every column has its own step lengths; finished columns leave the block. `project` maps onto
    the range of a singular A and is applied to B and to every preconditioned residual. `on_step`
    hears the largest residual after every step. Cost per step: one product and one
    preconditioner for the unfinished columns.
    Source: Hestenes & Stiefel 1952.
    """
    project = project or (lambda V: V)
    precondition = precondition or (lambda V: V)
    R = np.ascontiguousarray(project(np.array(B, dtype=np.float64)))
    X = np.zeros_like(R)
    size = np.sqrt(dots(R, R))
    # A column that `project` leaves nothing of is solved by 0; its rounding is no right-hand side.
    size[size <= 1e-15 * np.linalg.norm(B, axis=0)] = np.inf
    residuals = np.sqrt(dots(R, R)) / size
    active = np.flatnonzero(residuals > tol)
    R = np.ascontiguousarray(R[:, active])
    Z = project(precondition(R))
    P = np.array(Z)
    rz = dots(R, Z)
    steps = 0
    while active.size and steps < max_iter:
        AP = A(P)
        squares = descend(X, R, P, AP, rz / dots(P, AP), active)
        residuals[active] = np.sqrt(squares) / size[active]
        steps += 1
        if on_step is not None:
            on_step(float(residuals.max()))
        going = residuals[active] > tol
        if not going.all():
            active, rz = active[going], rz[going]
            R, P = (np.ascontiguousarray(V[:, going]) for V in (R, P))
        if active.size == 0 or steps == max_iter:
            break
        Z = project(precondition(R))
        following = dots(R, Z)
        direct(Z, P, following / rz)
        rz = following
    reason = "tolerance" if active.size == 0 else "max_iter"
    return X, Convergence("block CG", reason, steps, residuals, tol)


def jacobi(diagonal: NDArray[np.float64]) -> Map:
    """Diagonal preconditioner X -> D⁻¹X; zero entries of D are left out."""
    inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal != 0)
    return lambda X: inverse[:, None] * X
