"""Conjugate gradients on blocks: many right-hand sides share every product."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

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
    R = project(np.array(B, dtype=np.float64))
    X = np.zeros_like(R)
    size = np.linalg.norm(R, axis=0)
    # A column that `project` leaves nothing of is solved by 0; its rounding is no right-hand side.
    size[size <= 1e-15 * np.linalg.norm(B, axis=0)] = np.inf
    residuals = np.linalg.norm(R, axis=0) / size
    active = np.flatnonzero(residuals > tol)
    R = R[:, active]
    P = Z = project(precondition(R))
    rz = _dots(R, Z)
    steps = 0
    while active.size and steps < max_iter:
        AP = A(P)
        alpha = rz / _dots(P, AP)
        X[:, active] += alpha * P
        R = R - alpha * AP
        residuals[active] = np.linalg.norm(R, axis=0) / size[active]
        steps += 1
        if on_step is not None:
            on_step(float(residuals.max()))
        going = residuals[active] > tol
        if not going.all():
            active, R, P, rz = active[going], R[:, going], P[:, going], rz[going]
        if active.size == 0:
            break
        Z = project(precondition(R))
        following = _dots(R, Z)
        P = Z + (following / rz) * P
        rz = following
    reason = "tolerance" if active.size == 0 else "max_iter"
    return X, Convergence("block CG", reason, steps, residuals, tol)


def _dots(X: Block, Y: Block) -> NDArray[np.float64]:
    """Inner products column by column."""
    return np.einsum("ij,ij->j", X, Y)


def jacobi(diagonal: NDArray[np.float64]) -> Map:
    """Diagonal preconditioner X -> D⁻¹X; zero entries of D are left out."""
    inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal != 0)
    return lambda X: inverse[:, None] * X
