"""Generalised label propagation (AB09 §3): one problem behind all methods of this package.

    min fᵀMf + Σ_i w_i (f_i − y_i)²    subject to f_i = y_i on clamped nodes, f ⟂ Δ

A method is a choice of the energy M, of the weights w (soft labels) or clamped nodes (ε = 0), and
of Δ. All classes are solved at once, one column each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.method_cost import TOGETHER
from mustlink.deadline import NEVER, Deadline
from mustlink.eigen.plain_solve import DENSE_BELOW
from mustlink.errors import NumericalError
from mustlink.linear.by_columns import Advance, by_columns, done
from mustlink.linear.cg import Map, block_cg
from mustlink.linear.deflated_polynomial import DeflatedPolynomial, solve_deflated
from mustlink.linear.laplacian_solve import EXACT, by_elimination, solve_laplacian
from mustlink.numeric import dense_algebra
from mustlink.observe import Recorder
from mustlink.operators.laplacian import Block
from mustlink.propagate.energies import Energy, LaplacianEnergy, restricted
from mustlink.result import Convergence

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SOLVERS = ("auto", "dense", "cg")
_SINGULAR = 2e-16  # reciprocal condition number from which LAPACK's answer has no digit
_ILL = 1e-7  # and from which it may lack the seventh, where there is a better way
_DEPENDENT = 1e-13  # share of the largest response to Δ below which another is rounding


@dataclass(frozen=True)
class Solving:
    """How a system is solved: by LAPACK or conjugate gradients, to which residual, until when.

    Conjugate gradients take `together` columns at most at a time.
    """

    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 1000
    deadline: Deadline = NEVER
    together: int = TOGETHER

    def is_dense(self, m: int) -> bool:
        """Whether LAPACK solves it: up to 1,000 nodes unless told otherwise."""
        return self.solver == "dense" or (self.solver == "auto" and m <= DENSE_BELOW)

    def tolerance(self, m: int) -> float:
        """1e-10 up to 20,000 nodes, 1e-6 above; or what the caller asked for."""
        return self.tol if self.tol is not None else 1e-10 if m <= 20_000 else 1e-6


def propagate(
    energy: Energy,
    Y: Block,
    recorder: Recorder,
    solving: Solving,
    *,
    clamped: Ints | None = None,
    weight: Floats | None = None,
    balance: Floats | None = None,
) -> tuple[Block, Convergence]:
    """Minimiser F (m, K) of the problem above for targets Y (m, K), column by column.

    Stationarity on the free rows is (M + diag(w))f = wy + μΔ − M_fc y_c, with μ such that f ⟂ Δ
    (AB09 eq. 11, 38, 40; the right-hand side Δ is one more column of the same block solve).
    `clamped`, `weight` and Δ = `balance`, (m,) or columns, default to nothing. The free system must
    be definite: some label in every component. Cost: about 15 multigrid cycles, or some hundred
    products where the weights are large everywhere.
    """
    m = Y.shape[0]
    held = np.empty(0, dtype=np.int64) if clamped is None else clamped
    is_free = np.ones(m, dtype=bool)
    is_free[held] = False
    free = np.flatnonzero(is_free)
    w = np.zeros(m) if weight is None else weight
    recorder.budget.ask(2 * Y.nbytes, f"equations for {Y.shape[1]} classes on {m} nodes")
    B = w[:, None] * Y
    if held.size:
        for first in range(0, Y.shape[1], solving.together):
            part = slice(first, first + solving.together)
            B[:, part] -= energy.apply(np.where(is_free[:, None], 0.0, Y[:, part]))
    if balance is not None:
        B = np.column_stack([B, balance])
    B = B[free]
    X, convergence = solve(energy, B, free, w[free], recorder, solving)
    del B
    if balance is not None:
        response, X = X[:, Y.shape[1] :], X[:, : Y.shape[1]]
        delta = balance.reshape(m, -1)
        excess = delta[free].T @ X + delta[held].T @ Y[held]
        X = X - response @ _multipliers(delta[free].T @ response, excess)
    F = np.array(Y, dtype=np.float64)
    F[free] = X
    return F, convergence


def _multipliers(across: Floats, excess: Block) -> Block:
    """ΔᵀA⁻¹Δ's inverse times `excess`, without what is rounding or said by another column of Δ."""
    values, V = dense_algebra.eigh((across + across.T) / 2)
    there = values > _DEPENDENT * max(float(values.max(initial=0.0)), 0.0)
    V = V[:, there]
    found: Block = V @ ((V.T @ excess) / values[there, None])
    return found


def solve(
    energy: Energy,
    B: Block,
    free: Ints,
    weight: Floats,
    recorder: Recorder,
    solving: Solving,
) -> tuple[Block, Convergence]:
    """Solve (M + diag(weight)) X = B on the rows `free`, (f, b)."""
    tol = solving.tolerance(energy.size)
    if free.size == 0 or solving.is_dense(energy.size):
        with recorder.stage("propagating"):
            is_graph = isinstance(energy, LaplacianEnergy)
            ill = _ILL if is_graph else _SINGULAR
            found = _dense(restricted(energy, free, weight), B, tol, ill)
            if found is not None:
                return found
            if not isinstance(energy, LaplacianEnergy):
                raise NumericalError("graph: a linear system of all nodes is singular to rounding")
            operator, scale = energy.grounded(free, weight)
            X, told = by_elimination(operator, scale[:, None] * B, tol=EXACT)
            worst = float(told.residuals.max(initial=0.0))
            return scale[:, None] * X, replace(told, reason="direct", tolerance=max(tol, worst))
    if isinstance(energy, LaplacianEnergy):
        energy = energy.knowing_vectors(weight)
    with recorder.stage("multigrid set-up"):
        system = energy.system(free, weight)
    scale = system.scale[:, None]
    together, until = solving.together, solving.deadline
    how: Any = {
        "tol": tol,
        "max_iter": solving.max_iter,
        "precondition": system.precondition,
    }
    with recorder.stage("propagating") as advance:
        B = scale * B
        if system.laplacian is not None:
            how |= {"advance": advance, "deadline": until, "budget": recorder.budget}
            if isinstance(system.precondition, DeflatedPolynomial):
                del how["precondition"]
                how["tol"] = system.precondition.tolerance(tol) if solving.tol is None else tol
                X, convergence = solve_deflated(system.precondition, B, together=together, **how)
            else:
                X, convergence = solve_laplacian(system.laplacian, B, together=together, **how)
        else:

            def part(C: Block, advance: Advance, until: Deadline) -> tuple[Block, Convergence]:
                told: Any = lambda worst: advance(done(worst, tol))  # noqa: E731
                return block_cg(system.apply, C, on_step=told, deadline=until, **how)

            X, convergence = by_columns(part, B, advance, until, together)
        X *= scale
        return X, convergence


def _dense(A: Map, B: Block, tol: float, ill: float) -> tuple[Block, Convergence] | None:
    """By LAPACK; None where the matrix is too near a singular one for that."""
    if B.shape[0] == 0:
        return B, Convergence("LAPACK", "direct", 0, np.zeros(B.shape[1]), tol)
    whole = A(np.eye(B.shape[0]))
    try:
        factored = dense_algebra.Definite(whole)
    except NumericalError:
        return None
    if factored.rcond < ill:
        return None
    X = factored.solve(B)
    size = np.maximum(np.linalg.norm(B, axis=0), 1e-300)
    residuals = np.linalg.norm(B - whole @ X, axis=0) / size
    # A direct solve has no tolerance to miss; what it left is reported as it is.
    return X, Convergence("LAPACK", "direct", 0, residuals, max(tol, float(residuals.max())))
