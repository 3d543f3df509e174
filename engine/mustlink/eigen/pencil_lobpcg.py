"""The exact pencil at scale: leading pairs of S_B w = μL̄w by LOBPCG, preconditioned by AMG(L̄)."""

from __future__ import annotations

import numpy as np

from mustlink.eigen.lobpcg import Lobpcg, lobpcg
from mustlink.eigen.nested_iteration import Grids, guard, nested_start
from mustlink.eigen.pencil import Pencil, PencilSolution, finish
from mustlink.eigen.problem import Solving
from mustlink.eigen.ritz import rayleigh_ritz
from mustlink.result import Convergence
from mustlink.space import Block


def leading_pencil(
    pencil: Pencil,
    grids: Grids,
    k: int,
    how: Solving,
    *,
    tol: float,
    start: Block | None = None,
) -> tuple[PencilSolution, Convergence]:
    """The k pairs of largest μ, the feasible ones among them finished to (λ, v).

    `start` (m, ·) are directions worth beginning with; smooth vectors and responses of the graph
    to the constraints, L̄⁺Q̄x, are always added. Residuals are those of the full pencil.
    """
    laplacian = pencil.laplacian
    room = laplacian.space.size - laplacian.null.n_components
    b = min(k + guard(k), room)
    X = _start_block(pencil, grids, b, how.seed, start)
    rule = Lobpcg(
        min(k, b),
        tol,
        how.max_iter,
        largest=True,
        norm_A=pencil.norm,
        relative=True,
        deadline=how.deadline,
    )
    found = lobpcg(
        pencil.schur,
        X,
        rule,
        M=pencil.metric,
        precondition=grids.cycle(),
        project=pencil.project,
        space=laplacian.space,
    )
    feasible = pencil.n_feasible()
    complete = feasible is not None and feasible <= found.values.size
    solution = finish(pencil, found.values, found.vectors, complete)
    residuals = pencil.residuals(solution.vectors, solution.lam)
    convergence = Convergence(
        "lobpcg", found.convergence.reason, found.convergence.iterations, residuals, tol
    )
    return solution, convergence


def _start_block(pencil: Pencil, grids: Grids, b: int, seed: int, start: Block | None) -> Block:
    """B directions: given ones, smooth ones, responses to the constraints, random ones."""
    laplacian, space = pencil.laplacian, pencil.laplacian.space
    smooth = nested_start(laplacian, grids, b, seed)
    noise = space.normals(b, seed + 1)
    parts = [smooth, grids.cycle()(noise)]
    space.blend(noise, 1.0, (smooth, 1.0))
    parts.insert(1, grids.cycle()(laplacian.null.project(pencil.Q.apply(noise))))
    del smooth, noise  # blocks as wide as all vectors: as few at a time as can be
    if start is not None:
        parts.insert(0, start)
    for i in range(len(parts)):
        parts[i] = pencil.project(parts[i])
        space.blend(parts[i], 1.0 / np.maximum(space.norms(parts[i]), 1e-300))
    # Rayleigh-Ritz in their span picks the b most promising.
    images = [pencil.schur(X) for X in parts], [laplacian.apply(X) for X in parts]
    _, C = rayleigh_ritz(space, parts, *images, count=b, largest=True)
    del images
    return space.combine(parts, C)
