"""The K − 1 constrained vectors of WD14, by the exact pencil or in the smooth subspace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.dense import dense_pencil
from mustlink.eigen.leading import leading_pencil
from mustlink.eigen.pencil import Pencil, PencilSolution
from mustlink.eigen.shift_invert import shift_invert_pencil
from mustlink.eigen.smooth import ReducedPencil
from mustlink.eigen.solver import DENSE_BELOW, grids_of, laplacian_of
from mustlink.errors import InfeasibleError, InputError
from mustlink.graph import Graph
from mustlink.kernels.tall import combine
from mustlink.observe import Recorder
from mustlink.operators.constraint import ConstraintOperator
from mustlink.operators.laplacian import Block
from mustlink.result import Convergence

_MANY = 60  # feasible pairs up to which all of them are computed


@dataclass(frozen=True, eq=False)
class Embedded:
    """V (m, r), r <= K − 1, ‖v‖² = vol, in order of cost; λ (r,), cost vᵀL̄v (r,).

    β = `beta`·`unit`, `unit` = λ_{K−1}(Q̄), of the subspace where one was used (`p`).
    """

    vectors: Block
    lam: NDArray[np.float64]
    cost: NDArray[np.float64]
    beta: float
    unit: float
    p: int | None
    convergence: Convergence
    note: str = ""


def fraction_unit(descending: NDArray[np.float64], k: int) -> float:
    """What a fraction β is a fraction of: λ_{K−1}(Q̄), or λ_max where λ_{K−1} is not positive.

    `descending` are eigenvalues of Q̄.
    """
    if descending.size == 0:
        return 0.0
    kth = float(descending[min(k - 2, descending.size - 1)])
    return kth if kth > 1e-12 * abs(float(descending[0])) else float(descending[0])


def admissible(beta: float, unit: float) -> float:
    """Fraction to try where the caller left β open: negative where the unit is no bound."""
    return beta if unit > 0 else -abs(beta)


def check_beta(beta: float, kth: float, largest: float, k: int) -> None:
    """Raise InfeasibleError unless β = beta·unit < λ_{K−1}(Q̄) (WD14 Alg. 1 and 2, line 4)."""
    if kth > 0 and beta >= 1:
        raise InfeasibleError(
            f"beta: {beta:g} leaves no feasible vector; give a fraction below 1 of "
            f"λ_{k - 1}(Q̄) = {kth:.4g}, for example 0.5, or a negative one"
        )
    if kth <= 0 and beta >= 0:
        raise InfeasibleError(
            f"beta: {beta:g} leaves fewer than {k - 1} feasible vectors, λ_{k - 1}(Q̄) being "
            f"{kth:.4g}; give a negative fraction (of λ_max(Q̄) = {largest:.4g}), or constraints "
            "on more clusters"
        )


def smooth_embedding(
    reduced: ReducedPencil, k: int, p: int, beta: float, *, free: bool = False
) -> Embedded:
    """Solve in span{z, V_p}; β is a fraction of λ_{K−1}(Q̄) inside it. Cost O(p³ + mpK).

    With `free`, β was not the caller's choice and gives way where λ_{K−1} is no bound.
    """
    basis = reduced.basis
    p = min(p, basis.p)
    spectrum = reduced.spectrum(p)
    unit = fraction_unit(spectrum, k)
    kth = float(spectrum[min(k - 2, spectrum.size - 1)])
    if kth <= 1e-12 * abs(unit):
        kth = min(kth, 0.0)
        beta = -abs(beta) if free else beta
    check_beta(beta, kth, float(spectrum[0]), k)
    lam, C, cost = reduced.solve(p, beta * unit)
    if free and lam.size == 0 and beta > 0:  # the trivial vector took all that was feasible
        beta = -beta
        lam, C, cost = reduced.solve(p, beta * unit)
    _require(lam.size, beta)
    count = min(k - 1, lam.size)
    C = np.ascontiguousarray(C[:, :count])
    vectors = combine(basis.vectors[:, : p + 1], C)
    convergence = Convergence(
        "smooth subspace", "direct", 0, basis.residuals[:p], float(basis.residuals.max(initial=0))
    )
    return Embedded(
        vectors, lam[:count], cost[:count], beta, unit, p, convergence, _fewer(count, k)
    )


def exact_embedding(
    graph: Graph,
    Q: ConstraintOperator,
    k: int,
    beta: float,
    recorder: Recorder,
    *,
    solver: str = "auto",
    tol: float | None = None,
    max_iter: int = 300,
    seed: int = 0,
    free: bool = False,
) -> Embedded:
    """Solve the paper's full problem; all feasible pairs where there are few or the graph is small.

    With thousands of feasible pairs (small or negative β) the leading ones by 1/λ are computed,
    the cheapest chosen among them, and the note says so.
    """
    laplacian = laplacian_of(graph, recorder)
    kth, largest = Q.kth_largest(k - 1), Q.kth_largest(1)
    unit = kth if kth > 0 else largest
    if free and kth <= 0:
        beta = -abs(beta)
    check_beta(beta, kth, largest, k)
    pencil = Pencil(laplacian, Q, beta * unit)
    if solver == "lanczos":
        raise InputError('solver: "lanczos" has no form for the pencil; use "shift-invert"')
    small = laplacian.size <= DENSE_BELOW
    if solver == "dense" or (solver == "auto" and small):
        with recorder.stage("pencil"):
            solution = dense_pencil(pencil)
            residuals = pencil.residuals(solution.vectors, solution.lam)
        convergence = Convergence("dense", "direct", 0, residuals, 1e-8)
    else:
        solution, convergence = _iterative(pencil, graph, k, recorder, solver, tol, max_iter, seed)
    _require(solution.lam.size, beta)
    chosen = np.argsort(solution.cost, kind="stable")[: k - 1]
    best = solution.cheapest(k - 1)
    notes = [_fewer(best.lam.size, k)]
    if not solution.complete:
        notes.append(
            f"more feasible vectors than can be computed: the {k - 1} cheapest of the leading "
            f"{solution.lam.size} were taken"
        )
    measured = Convergence(
        convergence.solver,
        convergence.reason,
        convergence.iterations,
        convergence.residuals[chosen],
        convergence.tolerance,
    )
    note = "; ".join(text for text in notes if text)
    return Embedded(best.vectors, best.lam, best.cost, beta, unit, None, measured, note)


def pencil_tolerance(n: int) -> float:
    """Residual ‖L̄v − λBv‖/‖L̄v‖ asked for when the caller names none: 1e-8, 1e-3 from 20,000 on."""
    return 1e-8 if n <= 20_000 else 1e-3


def _iterative(
    pencil: Pencil,
    graph: Graph,
    k: int,
    recorder: Recorder,
    solver: str,
    tol: float | None,
    max_iter: int,
    seed: int,
) -> tuple[PencilSolution, Convergence]:
    """Leading pairs by LOBPCG or ARPACK."""
    grids = grids_of(graph, recorder)
    room = pencil.laplacian.size - pencil.laplacian.null.n_components - 1
    feasible = pencil.n_feasible()
    few = feasible is not None and feasible <= max(_MANY, 4 * k)
    wanted = min(max(feasible, 1) if few and feasible is not None else 3 * k + 10, room)
    sharp = pencil_tolerance(pencil.laplacian.size) if tol is None else tol
    with recorder.stage("pencil"):
        if solver == "shift-invert":
            return shift_invert_pencil(
                pencil, grids, wanted, tol=sharp, max_iter=10 * max_iter, seed=seed
            )
        return leading_pencil(pencil, grids, wanted, tol=sharp, max_iter=max_iter, seed=seed)


def _require(found: int, beta: float) -> None:
    if found == 0:
        raise InfeasibleError(
            f"beta: {beta:g} leaves no feasible vector with λ > 0; give a smaller fraction, for "
            f"example {-0.1 if beta >= 0 else 10 * beta:g}, or constraints between clusters"
        )


def _fewer(found: int, k: int) -> str:
    if found >= k - 1:
        return ""
    return f"only {found} of the {k - 1} vectors wanted are feasible; a smaller beta gives more"
