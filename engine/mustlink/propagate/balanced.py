"""Generalised label propagation orthogonal to some vectors, by iterations that never leave them.

The response of M to Δ, from which the multipliers could be had, may take many times as many steps:
it lies along all that M hardly sees.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mustlink.deadline import Deadline
from mustlink.linear.by_columns import by_columns, done
from mustlink.linear.cg import Map, block_cg
from mustlink.observe import Recorder
from mustlink.operators.laplacian import Block
from mustlink.propagate.energies import Energy, Floats, Ints, System
from mustlink.propagate.glp import Solving
from mustlink.result import Convergence

_DEPENDENT = 1e-12  # singular value of columns of length 1 below which they say the same


def propagate_within(
    energy: Energy,
    Y: Block,
    clamped: Ints,
    weight: Floats,
    delta: Block,
    recorder: Recorder,
    solving: Solving,
) -> tuple[Block, Convergence]:
    """`glp.propagate` with ΔᵀF = 0 for columns Δ (m, r), by projected conjugate gradients.

    On the free rows F = F₀ + G, F₀ the least with the right products with Δ, G ⟂ Δ.
    """
    free = np.setdiff1d(np.arange(energy.size), clamped)
    tol = solving.tolerance(energy.size)
    fixed = np.zeros_like(Y)
    fixed[clamped] = Y[clamped]
    with recorder.stage("multigrid set-up"):
        system = energy.system(free, weight[free])
    scale = system.scale[:, None]
    U, sizes, V = np.linalg.svd(scale * delta[free], full_matrices=False)
    there = sizes > _DEPENDENT * sizes.max(initial=0.0)
    U, sizes, V = U[:, there], sizes[there], V[there]

    def project(X: Block) -> Block:
        found: Block = X - U @ (U.T @ X)
        return found

    start = U @ ((V @ (-delta.T @ fixed)) / sizes[:, None])
    B = scale * ((weight[:, None] * Y - energy.apply(fixed))[free]) - system.apply(start)

    Z, convergence = projected(system, project, B, tol, recorder, solving)
    F = fixed
    F[free] = scale * (start + Z)
    return F, convergence


def projected(
    system: System, project: Map, B: Block, tol: float, recorder: Recorder, solving: Solving
) -> tuple[Block, Convergence]:
    """PAX = PB for X = PX (m, b), P the projection: conjugate gradients that never leave it."""

    def part(
        C: Block, advance: Callable[[float], None], until: Deadline
    ) -> tuple[Block, Convergence]:
        return block_cg(
            lambda X: project(system.apply(X)),
            C,
            tol=tol,
            max_iter=solving.max_iter,
            precondition=system.precondition,
            project=project,
            on_step=lambda worst: advance(done(worst, tol)),
            deadline=until,
        )

    with recorder.stage("propagating") as advance:
        return by_columns(part, B, advance, solving.deadline, solving.together)
