"""Families that minimise a penalised Rayleigh quotient: (aL̄ + bU)v = θMv, the smallest θ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.penalized import (
    PenalizedProblem,
    ReducedProblem,
    dense_smallest_penalized,
    smallest_penalized,
)
from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.eigen.solver import default_tolerance, grids_of, is_small
from mustlink.errors import InputError
from mustlink.kernels.blocks import combine
from mustlink.operators.laplacian import Block
from mustlink.result import Convergence
from mustlink.selection.family import Embedded, Family, Reduced, Solving
from mustlink.workspace import Workspace

Floats = NDArray[np.float64]
SOLVERS = ("auto", "dense", "lobpcg")


@dataclass(frozen=True, eq=False)
class PenalizedFamily(Family):
    """`weights(value)` are a and b; `columns` vectors are wanted.

    With `normalized` U is divided by λ_max − λ_min, inside the subspace by that of its projection:
    few constraints on many nodes hardly show in smooth vectors, and γ must mean the same there.
    Vectors are orthonormal in the metric of the problem, or have vᵀv = vol if `to_volume`.
    """

    problem: PenalizedProblem = field(kw_only=True)
    columns: int = field(kw_only=True)
    weights: Callable[[float], tuple[float, float]] = field(kw_only=True)
    normalized: bool = field(default=False, kw_only=True)
    to_volume: bool = field(default=False, kw_only=True)

    @property
    def acts(self) -> bool:
        """Whether the penalty has an entry."""
        update = self.problem.mass_update
        return not (self.problem.penalty.is_zero and (update is None or update.is_zero))

    def reduce(self, basis: SmoothBasis) -> ReducedPenalized:
        """BᵀUB and BᵀMB once, for all p and values."""
        return ReducedPenalized(self, ReducedProblem(basis, self.problem))

    def exact(
        self, value: float, solving: Solving, work: Workspace, start: Block | None = None
    ) -> Embedded:
        """All nodes: LAPACK for small graphs, LOBPCG with multigrid otherwise."""
        if solving.solver not in SOLVERS:
            raise InputError(
                f'solver: "{solving.solver}" is not for penalised problems; use "lobpcg" or "auto"'
            )
        laplacian = self.problem.laplacian
        a, b = self.scaled(value, self.problem.penalty.spread if self.normalized else 1.0)
        small = is_small(laplacian) or 5 * self.columns >= laplacian.size
        if solving.solver == "dense" or (solving.solver == "auto" and small):
            with work.recorder.stage("eigenvectors"):
                theta, V = dense_smallest_penalized(self.problem, self.columns, a, b)
                residuals = self.problem.residuals(V, theta, a, b)
            convergence = Convergence("dense", "direct", 0, residuals, 1e-8)
        else:
            grids = None if self.problem.linked else grids_of(work)
            tol = penalized_tolerance(laplacian.size) if solving.tol is None else solving.tol
            with work.recorder.stage("eigenvectors"):
                found = smallest_penalized(
                    self.problem,
                    grids,
                    self.columns,
                    (a, b),
                    tol=tol,
                    max_iter=solving.max_iter,
                    seed=solving.seed,
                    start=start,
                )
            theta, V, convergence = found.values, found.vectors, found.convergence
        V = self.finished(V)
        cost = np.einsum("ij,ij->j", V, laplacian.apply(V))
        return Embedded(V, theta, cost, value, 1.0, None, convergence)

    def finished(self, V: Block) -> Block:
        """Vectors with their sign and length: the largest entry is positive, else it is a whim."""
        sign = np.sign(V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])])
        if self.to_volume:
            sign *= np.sqrt(self.problem.laplacian.volume) / np.linalg.norm(V, axis=0)
        return V * sign

    def scaled(self, value: float, spread: float) -> tuple[float, float]:
        """The weights a and b for one value."""
        a, b = self.weights(value)
        return a, b / spread if spread > 0 else 0.0


@dataclass(frozen=True, eq=False)
class ReducedPenalized(Reduced):
    """The penalised problem in span{z, V_p}. Cost O(p³ + mpK)."""

    family: PenalizedFamily
    reduced: ReducedProblem

    def solve(self, p: int, value: float) -> tuple[Block, Floats]:
        """Up to `columns` vectors, and their θ in place of costs."""
        theta, C = self._pairs(p, value)
        return C, theta

    def embed(self, p: int, value: float) -> Embedded:
        """V (m, r) in the nodes."""
        family, basis = self.family, self.reduced.basis
        p = min(p, basis.p)
        theta, C = self._pairs(p, value)
        V = combine(basis.vectors[:, : p + 1], np.ascontiguousarray(C))
        V = family.finished(V)
        sharp = float(basis.residuals.max(initial=0))
        convergence = Convergence("smooth subspace", "direct", 0, basis.residuals[:p], sharp)
        smooth = np.concatenate([[0.0], basis.stiffness[:p]])
        cost = smooth @ C**2 / (C**2).sum(axis=0) * np.einsum("ij,ij->j", V, V)
        return Embedded(V, theta, cost, value, 1.0, p, convergence)

    def _pairs(self, p: int, value: float) -> tuple[Floats, Block]:
        family = self.family
        a, b = family.scaled(value, self.reduced.spread(p) if family.normalized else 1.0)
        return self.reduced.solve(p, family.columns, a, b)


def penalized_tolerance(n: int) -> float:
    """Residual asked for when the caller names none: 1e-8, 1e-5 from 20,000, 1e-4 from 200,000.

    A tenth of what the graph's own vectors need: a weak penalty shows in the residual late.
    """
    return max(1e-8, default_tolerance(n) / 10)
