"""Generalised label propagation (AB09 §3): one problem behind all methods of this package.

    min fᵀMf + Σ_i w_i (f_i − y_i)²    subject to f_i = y_i on clamped nodes, f ⟂ Δ

A method is a choice of the energy M, of the weights w (soft labels) or clamped nodes (ε = 0), and
of Δ. All classes are solved at once, one column each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.eigen.solver import DENSE_BELOW
from mustlink.linear.amg import Hierarchy, build_hierarchy
from mustlink.linear.cg import Map, block_cg
from mustlink.linear.smoothed import build_smoothed, has_wide_weights
from mustlink.observe import Recorder
from mustlink.operators.laplacian import Block, GroundedLaplacian, NormalizedLaplacian
from mustlink.result import Convergence

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SOLVERS = ("auto", "dense", "cg")
_JACOBI = 0.005  # share of the diagonal that is added everywhere, from which no multigrid is needed


class Energy(Protocol):
    """A symmetric positive semidefinite form fᵀMf on m nodes."""

    @property
    def scale(self) -> Floats:
        """Positive numbers (m,) comparable with diag(M); systems are scaled by them."""

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b)."""

    def preconditioner(self, free: Ints, weight: Floats) -> Map | None:
        """Symmetric positive map ≈ (M + diag(weight))⁻¹ on the rows `free`; None for diagonal."""


@dataclass(frozen=True, eq=False)
class LaplacianEnergy:
    """γ·Σ_ij ½W_ij (f_i − f_j)²: M = γ(D − W), or γL̄ = γ(I − D^-½WD^-½) (AB09 eq. 1, 4)."""

    laplacian: NormalizedLaplacian
    normalized: bool = False
    factor: float = 1.0

    @property
    def scale(self) -> Floats:
        """γd, or γ."""
        root = self.laplacian.root_degree
        return np.full(root.size, self.factor) if self.normalized else self.factor * root**2

    @property
    def null_vector(self) -> Floats:
        """Mv = 0: v = 1, or D^½1."""
        root = self.laplacian.root_degree
        return root if self.normalized else np.ones_like(root)

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b)."""
        if self.normalized:
            return self.factor * self.laplacian.apply(X)
        root = self.laplacian.root_degree[:, None]
        return self.factor * root * self.laplacian.apply(root * X)

    def preconditioner(self, free: Ints, weight: Floats) -> Map | None:
        """A multigrid cycle of M + diag(weight) without the other rows and columns."""
        total = self.scale[free] + weight
        if float((weight / total).min(initial=1.0)) >= _JACOBI:
            return None
        ratio = np.sqrt(self.scale[free] / total)
        cycle = grids_of_grounded(
            grounded(self.laplacian.S, free, ratio, np.sqrt(total) * self.null_vector[free])
        ).cycle()
        inverse = 1.0 / np.sqrt(total)[:, None]
        return lambda X: inverse * cycle(inverse * X)


def grounded(S: sp.csr_matrix, free: Ints, ratio: Floats, null: Floats) -> GroundedLaplacian:
    """I − RSR on the rows `free`, R = diag(ratio) <= 1; `null` spans what is smooth."""
    if free.size < S.shape[0]:
        S = S[free][:, free]
    data = S.data * ratio[S.indices] * np.repeat(ratio, np.diff(S.indptr))
    return GroundedLaplacian(sp.csr_matrix((data, S.indices, S.indptr), shape=S.shape), null)


def grids_of_grounded(operator: GroundedLaplacian) -> Hierarchy:
    """Its multigrid: plain aggregation, or smoothed for weights of many orders of magnitude."""
    return (build_smoothed if has_wide_weights(operator) else build_hierarchy)(operator)


@dataclass(frozen=True)
class Solving:
    """How a system is solved: by LAPACK or conjugate gradients, to which relative residual."""

    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 1000

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
    `clamped`, `weight` and Δ = `balance` default to nothing. The free system must be definite:
    some label in every component. Cost: about 15 multigrid cycles, or some hundred products where
    the weights are large everywhere.
    """
    m = Y.shape[0]
    held = np.empty(0, dtype=np.int64) if clamped is None else clamped
    is_free = np.ones(m, dtype=bool)
    is_free[held] = False
    free = np.flatnonzero(is_free)
    w = np.zeros(m) if weight is None else weight
    B = w[:, None] * Y
    if held.size:
        fixed = np.where(is_free[:, None], 0.0, Y)
        B = B - energy.apply(fixed)
    if balance is not None:
        B = np.column_stack([B, balance])
    X, convergence = solve(energy, B[free], free, w[free], recorder, solving)
    if balance is not None:
        response, X = X[:, -1], X[:, :-1]
        inside = balance[free]
        X = X - np.outer(response, (inside @ X) / (inside @ response))
    F = np.array(Y, dtype=np.float64)
    F[free] = X
    return F, convergence


def solve(
    energy: Energy,
    B: Block,
    free: Ints,
    weight: Floats,
    recorder: Recorder,
    solving: Solving,
) -> tuple[Block, Convergence]:
    """Solve (M + diag(weight)) X = B on the rows `free`, (f, b)."""
    m, tol = energy.scale.size, solving.tolerance(energy.scale.size)
    A = _restricted(energy.apply, m, free, weight)
    if free.size == 0 or solving.is_dense(m):
        with recorder.stage("propagating"):
            return _dense(A, B, tol)
    with recorder.stage("multigrid set-up"):
        cycle = energy.preconditioner(free, weight)
    scale = 1.0 / np.sqrt(energy.scale[free] + weight)[:, None]
    with recorder.stage("propagating") as advance:
        X, convergence = block_cg(
            lambda V: scale * A(scale * V),
            scale * B,
            tol=tol,
            max_iter=solving.max_iter,
            precondition=None if cycle is None else (lambda V: cycle(V / scale) / scale),
            on_step=lambda worst: advance(done(worst, tol)),
        )
    return scale * X, convergence


def done(residual: float, tol: float) -> float:
    """Share of the way from 1 to `tol`: residuals fall geometrically."""
    return float(np.clip(np.log(max(residual, 1e-300)) / np.log(min(tol, 0.5)), 0.0, 1.0))


def _restricted(apply: Map, m: int, free: Ints, weight: Floats) -> Callable[[Block], Block]:
    """X -> ((M + diag(weight)) X) on the rows `free`."""
    if free.size == m:
        return lambda X: apply(X) + weight[:, None] * X

    def inner(X: Block) -> Block:
        whole = np.zeros((m, X.shape[1]))
        whole[free] = X
        found: Any = apply(whole)[free] + weight[:, None] * X
        return found

    return inner


def _dense(A: Map, B: Block, tol: float) -> tuple[Block, Convergence]:
    if B.shape[0] == 0:
        return B, Convergence("LAPACK", "direct", 0, np.zeros(B.shape[1]), tol)
    whole = A(np.eye(B.shape[0]))
    X = sla.solve((whole + whole.T) / 2, B, assume_a="pos")
    size = np.maximum(np.linalg.norm(B, axis=0), 1e-300)
    residuals = np.linalg.norm(B - whole @ X, axis=0) / size
    # A direct solve has no tolerance to miss; what it left is reported as it is.
    return X, Convergence("LAPACK", "direct", 0, residuals, max(tol, float(residuals.max())))
