"""Conjugate gradients on blocks: many right-hand sides share every product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.operators.protocol import Preconditioner
from mustlink.result import Convergence
from mustlink.space import Block, LocalSpace, Space, Vector

Map = Callable[[Block], Block]


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
) -> tuple[Block, Convergence]:
    """Solve AX = B, (m, b), A symmetric positive (semi)definite, to ‖b − Ax‖ <= tol·‖b‖ each.

    Every column has its own step lengths; finished columns leave the block. `project` maps onto
    the range of a singular A and is applied to B and to every preconditioned residual. `on_step`
    hears the largest residual after every step; `space` is where B lives, if not in an array.
    Cost per step: one product and one preconditioner for the unfinished columns, three
    reductions. Source: Hestenes & Stiefel 1952.
    """
    space = LocalSpace(B.shape[0]) if space is None else space
    project = project or (lambda V: V)
    precondition = precondition or (lambda V: V)
    R = project(space.copy(B, np.float64))
    X = space.zeros(B.shape[1])
    length, given = space.norms(R, B)
    # A column that `project` leaves nothing of is solved by 0; its rounding is no right-hand side.
    size = np.where(length <= 1e-15 * given, np.inf, length)
    residuals = length / size
    active = np.flatnonzero(residuals > tol)
    R = space.columns(R, active)
    Z = project(precondition(R))
    P = space.copy(Z)
    rz = space.dots(R, Z)
    steps = 0
    while active.size and steps < max_iter:
        AP = A(P)
        alpha = rz / space.dots(P, AP)
        space.blend(X, 1.0, (P, alpha), columns=active)
        residuals[active] = np.sqrt(space.lessen(R, AP, alpha)) / size[active]
        steps += 1
        if on_step is not None:
            on_step(float(residuals.max()))
        going = residuals[active] > tol
        if not going.all():
            active, rz = active[going], rz[going]
            R, P = (space.columns(V, going) for V in (R, P))
        if active.size == 0 or steps == max_iter:
            break
        Z = project(precondition(R))
        following = space.dots(R, Z)
        space.blend(P, following / rz, (Z, 1.0))
        rz = following
    reason = "tolerance" if active.size == 0 else "max_iter"
    return X, Convergence("block CG", reason, steps, residuals, tol)


def jacobi(diagonal: Vector, space: Space | None = None) -> Preconditioner:
    """Diagonal preconditioner X -> D⁻¹X; zero entries of D are left out."""
    space = LocalSpace(len(diagonal)) if space is None else space
    inverse = space.rowwise(_inverse, diagonal)
    return lambda X: space.scaled(X, inverse)


def _inverse(d: NDArray[Any]) -> NDArray[Any]:
    return np.divide(1.0, d, out=np.zeros_like(d), where=d != 0)
