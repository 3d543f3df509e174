"""Penalised spectral problems: (aL̄ + bU)v = θMv, the smallest θ, U acting on few nodes.

Every constrained method that minimises a Rayleigh quotient has this form, with a penalty U of the
constraints, and M = diag(m) + (a second local matrix); only the pencil of WD14, indefinite, needs
`eigen.pencil`. Where θ may be as small as 10⁻⁷ the problem is turned round,
−Mv = σ(aL̄ + bU + μM)v with σ = −1/(θ + μ): its wanted end is the far one, and relative accuracy
comes by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from mustlink.eigen.penalized_lobpcg import smallest_penalized
from mustlink.eigen.plain_solve import is_small
from mustlink.eigen.problem import DENSE, Floats, Problem, Solution, Solving, stage
from mustlink.eigen.sharpness import SINGLE_TOL, default_tolerance
from mustlink.eigen.smooth_subspace import SmoothBasis, dense_operator
from mustlink.eigen.solver import grids_of
from mustlink.eigen.wide_spectrum import NOISE, is_definite, smallest_quotients
from mustlink.errors import InputError
from mustlink.numeric import dense_algebra
from mustlink.operators.constraint_operator import ConstraintOperator
from mustlink.result import Convergence, EigenResult
from mustlink.space import Block, Space, Vector
from mustlink.workspace import Workspace

_SOLVERS = ("auto", "dense", "lobpcg")


@dataclass(frozen=True, eq=False)
class PenalizedProblem(Problem):
    """L̄, U and M of one method; `weights(value)` are a and b, `columns` vectors are wanted.

    `mass` is the diagonal (m,) of M or a matrix as an operator, None for 1; `mass_update` what M
    has beside it. With `normalized` U is divided by λ_max − λ_min, in a subspace by that of its
    projection: few constraints on many nodes hardly show in smooth vectors, and γ must mean the
    same there. Vectors are orthonormal in the metric of the problem, or have vᵀv = vol if
    `to_volume`.

    `without_constant`: z = D^½1/√vol is in the null space of both sides and left out.
    `positive`: aL̄ + bU is positive semidefinite. `linked`: U is a Laplacian of weighted pairs and
    cliques, which become edges of the graph that the multigrid is made for. With `turned` = μ the
    problem is solved turned round, and its eigenvalues are σ.
    """

    penalty: ConstraintOperator
    columns: int
    weights: Callable[[float], tuple[float, float]] = field(default=lambda _: (1.0, 1.0))
    mass: Vector | ConstraintOperator | None = None
    mass_update: ConstraintOperator | None = None
    normalized: bool = False
    to_volume: bool = False
    without_constant: bool = False
    positive: bool = False
    linked: bool = False
    turned: float | None = None

    @property
    def acts(self) -> bool:
        """Whether the penalty has an entry."""
        update = self.mass_update
        return not (self.penalty.is_zero and (update is None or update.is_zero))

    def restricted(self, basis: SmoothBasis) -> Self:
        """BᵀL̄B, BᵀUB and BᵀMB in the span of a smooth basis B."""
        mass, update = self.mass, self.mass_update
        if mass is not None and not isinstance(mass, ConstraintOperator):
            B, space = basis.vectors, basis.space
            mass = dense_operator(space.gram(B, space.scaled(B, mass)))
        return replace(
            self,
            laplacian=basis.laplacian_inside(tied=False),
            penalty=basis.inside(self.penalty),
            mass=mass,
            mass_update=None if update is None else basis.inside(update),
        )

    def solve(
        self,
        value: float,
        how: Solving,
        work: Workspace | None = None,
        start: Block | None = None,
    ) -> Solution:
        """The `columns` smallest pairs: LAPACK for small problems, LOBPCG with multigrid else."""
        if how.solver not in _SOLVERS and work is not None:
            raise InputError(
                f'solver: "{how.solver}" is not for penalised problems; use "lobpcg" or "auto"'
            )
        laplacian, weights = self.laplacian, self.weights_for(value)
        small = work is None or is_small(laplacian) or 5 * self.columns >= laplacian.size
        if work is None or how.solver == "dense" or (how.solver == "auto" and small):
            with stage(work, "eigenvectors"):
                found = dense_smallest_penalized(self, weights)
        else:
            grids = None if self.linked else grids_of(work)
            n, tol = laplacian.size, how.tol
            tol = penalized_tolerance(n, single=work.single) if tol is None else tol
            with stage(work, "eigenvectors"):
                found = smallest_penalized(
                    self, grids, self.columns, weights, replace(how, tol=tol), start
                )
        V, space = found.vectors, laplacian.space
        space.blend(V, space.signs(V))
        if self.to_volume:
            space.blend(V, np.sqrt(laplacian.volume) / space.norms(V))
        cost = space.dots(V, laplacian.apply(V))
        return Solution(V, found.values, cost, value, 1.0, found.convergence)

    def trial(self, value: float) -> Solution:
        """As `solve` inside a subspace, orthonormal in the metric: so candidates are compared."""
        return replace(self, to_volume=False).solve(value, DENSE)

    def weights_for(self, value: float) -> tuple[float, float]:
        """The weights a and b for one value of the parameter."""
        a, b = self.weights(value)
        if not self.normalized:
            return a, b
        spread = self.penalty.spread
        return a, b / spread if spread > 0 else 0.0

    @property
    def space(self) -> Space:
        """Where its vectors live."""
        found: Space = self.laplacian.space
        return found

    # --- the two sides

    def stiffness(self, X: Block, a: float, b: float) -> Block:
        """(aL̄ + bU)X."""
        Y = self.laplacian.apply(X)
        self.space.blend(Y, a)
        self.penalty.add_to(Y, X, b)
        return Y

    def metric(self, X: Block) -> Block:
        """MX."""
        if isinstance(self.mass, ConstraintOperator):
            Y = self.mass.apply(X)
        else:
            space = self.space
            Y = space.copy(X) if self.mass is None else space.scaled(X, self.mass)
        if self.mass_update is not None:
            self.mass_update.add_to(Y, X)
        return Y

    def left(self, X: Block, a: float, b: float) -> Block:
        """The side without an eigenvalue."""
        if self.turned is None:
            return self.stiffness(X, a, b)
        Y = self.metric(X)
        self.space.blend(Y, -1.0)
        return Y

    def right(self, X: Block, a: float, b: float) -> Block:
        """The side with the eigenvalue, positive definite on what is searched."""
        M = self.metric(X)
        if self.turned is not None:
            self.space.blend(M, self.turned, (self.stiffness(X, a, b), 1.0))
        return M

    @property
    def is_standard(self) -> bool:
        """Whether the right side is the identity."""
        return self.mass is None and self.mass_update is None and self.turned is None

    def project(self, X: Block) -> Block:
        """The part of a block that is searched."""
        if not self.without_constant:
            return X
        z, found = self.constant, self.space.copy(X)
        self.space.subtract(found, z, self.space.gram(z, X))
        return found

    @cached_property
    def constant(self) -> Block:
        """The vector z = D^½1/√vol, (m, 1)."""
        size = np.sqrt(self.laplacian.volume)
        z = self.space.rowwise(lambda root: root / size, self.laplacian.root_degree)
        return self.space.column(z)

    def residuals(self, V: Block, theta: Floats, a: float, b: float) -> Floats:
        """‖left v − θ right v‖ over ‖v‖, or over ‖θ right v‖ if turned: whoever found v."""
        right, gap, space = self.right(V, a, b), self.left(V, a, b), self.space
        space.blend(right, theta)
        space.blend(gap, 1.0, (right, -1.0))
        gap, size = space.norms(gap, V if self.turned is None else right)
        with np.errstate(invalid="ignore"):  # Inf / Inf is no residual that is small
            return np.asarray(gap / size)


def dense_smallest_penalized(
    problem: PenalizedProblem, weights: tuple[float, float]
) -> EigenResult:
    """The smallest pairs, orthonormal in the metric of the right side, by LAPACK. Cost O(m³)."""
    a, b = weights
    m = problem.laplacian.size
    eye = np.eye(m)
    N = dense_algebra.orthogonal(problem.constant, complete=True)[:, 1:]
    N = N if problem.without_constant else eye
    k = min(problem.columns, N.shape[1])
    A, M = (_inside(N, side(eye, a, b)) for side in (problem.left, problem.right))
    if problem.turned is None or is_definite(M, cut=NOISE, relative=True):
        right = None if problem.is_standard else M
        theta, Y = dense_algebra.eigh(A, right, subset=(0, k - 1))
    else:  # Laplacians of links 10²⁰ times as strong as edges cannot be added up
        alone = replace(problem, mass_update=None), replace(problem, mass=np.zeros(m))
        lower = [_inside(N, one.metric(eye)) for one in alone]
        upper = [_inside(N, problem.stiffness(eye, *one)) for one in ((a, 0.0), (0.0, b))]
        rho, Y = smallest_quotients(upper, lower, k)
        theta, Y = -1.0 / (rho + problem.turned), Y / np.sqrt(rho + problem.turned)
    V = N @ Y
    residuals = problem.residuals(V, theta, a, b)
    return EigenResult(theta, V, Convergence("dense", "direct", 0, residuals, 1e-8))


def _inside(N: Block, A: Block) -> Block:
    """NᵀAN, symmetric."""
    A = N.T @ A @ N
    return np.asarray((A + A.T) / 2, dtype=np.float64)


def penalized_tolerance(n: int, *, single: bool = False) -> float:
    """Residual asked for when the caller names none: 1e-8, 1e-5 from 20,000, 1e-4 from 200,000.

    A tenth of what the graph's own vectors need: a weak penalty shows in the residual late.
    At least 1e-6 in single precision.
    """
    return max(SINGLE_TOL if single else 1e-8, default_tolerance(n) / 10)
