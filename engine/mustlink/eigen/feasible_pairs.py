"""WD14's feasible set: pairs of the pencil with λ > 0, by the solver that suits its size."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from mustlink.eigen.arpack import OutOfTimeError, shift_invert_pencil
from mustlink.eigen.nested_iteration import guard
from mustlink.eigen.pencil import Pencil, PencilSolution, dense_pencil
from mustlink.eigen.pencil_lobpcg import leading_pencil
from mustlink.eigen.plain_solve import is_small
from mustlink.eigen.problem import DENSE, Solution, Solving, stage
from mustlink.eigen.smooth_subspace import smooth_basis
from mustlink.eigen.solver import grids_of, laplacian_of, smallest_pairs
from mustlink.errors import InputError
from mustlink.result import Convergence
from mustlink.space import Block
from mustlink.workspace import Workspace

_LEAST_BLOCKS = 9  # of LOBPCG for a pencil, at least: X, P, W and their products with both sides
_MANY = 60  # feasible pairs up to which all of them are computed


def feasible_pairs(
    pencil: Pencil,
    k: int,
    how: Solving = DENSE,
    work: Workspace | None = None,
    start: Block | None = None,
) -> tuple[PencilSolution, Convergence]:
    """Pairs with λ > 0 and ‖v‖² = vol (WD14 Alg. 1 lines 8 and 9): all, where few or m is small.

    With thousands of them (small or negative β) the leading 3K + 10 by 1/λ. Without `work`, inside
    a subspace, LAPACK it is.
    """
    if how.solver == "lanczos":
        raise InputError('solver: "lanczos" has no form for the pencil; use "shift-invert"')
    if (
        work is None
        or how.solver == "dense"
        or (how.solver == "auto" and is_small(pencil.laplacian))
    ):
        with stage(work, "pencil"):
            solution = dense_pencil(pencil)
            residuals = pencil.residuals(solution.vectors, solution.lam)
        return solution, Convergence("dense", "direct", 0, residuals, 1e-8)
    grids = grids_of(work)
    m = pencil.laplacian.size
    room = m - pencil.laplacian.null.n_components - 1
    feasible = pencil.n_feasible()
    few = feasible is not None and feasible <= max(_MANY, 4 * k)
    wanted = min(max(feasible, 1) if few and feasible is not None else 3 * k + 10, room)
    tol = pencil_tolerance(m) if how.tol is None else how.tol
    width = wanted + guard(wanted)
    blocks = _LEAST_BLOCKS * (4 if work.single else 8) * m * width
    work.recorder.budget.ask(blocks, f"{width} vectors of the full problem on {m} nodes")
    with stage(work, "pencil"):
        if how.solver == "shift-invert":
            most = 10 * how.max_iter
            with suppress(OutOfTimeError):  # LOBPCG has its start to give
                return shift_invert_pencil(
                    pencil,
                    grids,
                    wanted,
                    tol=tol,
                    max_iter=most,
                    seed=how.seed,
                    deadline=how.deadline,
                )
        return leading_pencil(pencil, grids, wanted, how, tol=tol, start=start)


def pencil_tolerance(n: int) -> float:
    """Residual ‖L̄v − λBv‖/‖L̄v‖ asked for when the caller names none: 1e-8, 1e-3 from 20,000 on."""
    return 1e-8 if n <= 20_000 else 1e-3


def unconstrained(k: int, how: Solving, work: Workspace) -> Solution:
    """Q = 0: the pencil is L̄v = −λβv with β < 0, that is the K − 1 smoothest vectors beside z.

    Components come first, as vectors of cost 0.
    """
    laplacian = laplacian_of(work)
    found = smallest_pairs(work, k - 1, solver=how.solver, tol=how.tol, seed=how.seed)
    had = found.convergence
    basis = smooth_basis(laplacian, found.values, found.vectors, had.residuals)
    parts = basis.p - found.values.size
    values = np.concatenate([np.zeros(parts), found.values])[: k - 1]
    V = basis.space.columns(basis.vectors, slice(1, 1 + values.size))
    basis.space.blend(V, np.sqrt(laplacian.volume))
    convergence = replace(had, residuals=basis.residuals[: values.size])
    return Solution(V, values, values * laplacian.volume, 0.0, 0.0, convergence)
