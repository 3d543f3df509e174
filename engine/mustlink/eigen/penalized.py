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
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints.pairs import NodeMatrix
from mustlink.context.method_cost import n_guard_vectors
from mustlink.context.stage_cache import Workspace
from mustlink.core import dense_algebra
from mustlink.core.dense_algebra import NOISE, is_definite, smallest_quotients
from mustlink.core.result import SINGLE_TOL, Convergence, EigenResult
from mustlink.eigen.lobpcg import Lobpcg, lobpcg, promising
from mustlink.eigen.memory_work import grids_of, is_small
from mustlink.eigen.plain_solve import default_tolerance, nested_start
from mustlink.eigen.smooth_subspace import (
    DENSE,
    EigenOptions,
    EigenSolution,
    Floats,
    Problem,
    SmoothBasis,
    dense_operator,
    stage,
)
from mustlink.errors import InputError
from mustlink.linear.cg import Map
from mustlink.linear.laplacian_solve import LinkedCycle, local_solve
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.operators.constraint_operator import ConstraintOperator, local_operator
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.space import Block, LocalSpace, Space, Vector

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
        how: EigenOptions,
        work: Workspace | None = None,
        start: Block | None = None,
    ) -> EigenSolution:
        """The `columns` smallest pairs: LAPACK for small problems, LOBPCG with multigrid else."""
        if how.solver not in _SOLVERS and work is not None:
            raise InputError(
                f'solver: "{how.solver}" is not for penalised problems; use "lobpcg" or "auto"'
            )
        laplacian, weights = self.laplacian, self.weights_for(value)
        small = work is None or is_small(laplacian) or 5 * self.columns >= laplacian.size
        if work is None or how.solver == "dense" or (how.solver == "auto" and small):
            with stage(work, "eigenvectors"):
                result = dense_smallest_penalized(self, weights)
        else:
            grids = None if self.linked else grids_of(work)
            n, tol = laplacian.size, how.tol
            tol = penalized_tolerance(n, single=work.single) if tol is None else tol
            with stage(work, "eigenvectors"):
                result = smallest_penalized(
                    self, grids, self.columns, weights, replace(how, tol=tol), start
                )
        V, space = result.vectors, laplacian.space
        space.blend(V, space.signs(V))
        if self.to_volume:
            space.blend(V, np.sqrt(laplacian.volume) / space.norms(V))
        cost = space.dots(V, laplacian.apply(V))
        return EigenSolution(V, result.values, cost, value, 1.0, result.convergence)

    def trial(self, value: float) -> EigenSolution:
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
        result: Space = self.laplacian.space
        return result

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
        z, result = self.constant, self.space.copy(X)
        self.space.subtract(result, z, self.space.gram(z, X))
        return result

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
    """The default tolerance of residuals: 1e-8, 1e-5 from 20,000, 1e-4 from 200,000.

    A tenth of what the graph's own vectors need: a weak penalty shows in the residual late.
    At least 1e-6 in single precision.
    """
    return max(SINGLE_TOL if single else 1e-8, default_tolerance(n) / 10)


# --- Penalised problems at scale: LOBPCG, preconditioned on the graph and around the constraints
#
# Everything is verbs but `LinkedCycle` and `local_solve`, which want the nodes in memory: they make
# and factor matrices of the graph.


def smallest_penalized(
    problem: PenalizedProblem,
    grids: Hierarchy | None,
    k: int,
    weights: tuple[float, float],
    how: EigenOptions,
    start: Block | None = None,
) -> EigenResult:
    """The k smallest pairs by LOBPCG, orthonormal in the metric of the right side.

    Preconditioner: the multigrid cycle of L̄, the identity on its null space Z and, for a positive
    penalty, exact solves on the constrained nodes around both; for a linked one, which needs no
    `grids`, the cycle of the graph with the links. `start` are vectors for a nearby parameter.
    Stops at ‖(aL̄ + bU)v − θMv‖ <= tol·‖v‖, and turned round at tol·|σ|·‖right v‖, where μ = 0 is
    solved if the links leave one component, and its σ shifted: beside θ = 10⁻⁷ a μ of 10⁻³ would
    hide the error of v from the residual.
    """
    laplacian = problem.laplacian
    room = laplacian.space.size - int(problem.without_constant)
    block = min(k + n_guard_vectors(k), room)
    shift = 0.0
    if problem.linked:
        cycle = LinkedCycle(laplacian, problem.penalty, *weights)
        precondition: Map = lambda R: problem.project(cycle(R))  # noqa: E731
        if problem.turned and cycle.linked.null.n_components == 1:
            shift, problem = problem.turned, replace(problem, turned=0.0)
    else:
        assert grids is not None
        precondition = _preconditioner(problem, grids, weights)
    starts = [] if start is None else [start]
    starts += _starts(problem, grids, precondition, block, how.seed)
    assert how.tol is not None
    starts = [laplacian.space.copy(problem.project(X)) for X in starts]
    left: Map = lambda V: problem.left(V, *weights)  # noqa: E731
    right: Map = lambda V: problem.right(V, *weights)  # noqa: E731
    result = lobpcg(
        left,
        promising(laplacian.space, starts, left, right, block),
        Lobpcg(
            min(k, block),
            how.tol,
            how.max_iter,
            relative=problem.turned is not None,
            deadline=how.deadline,
        ),
        M=None if problem.is_standard else right,
        precondition=precondition,
        project=problem.project,
        space=laplacian.space,
    )
    residuals = problem.residuals(result.vectors, result.values, *weights)
    convergence = replace(result.convergence, residuals=residuals)
    return EigenResult(result.values / (1.0 - shift * result.values), result.vectors, convergence)


def _preconditioner(
    problem: PenalizedProblem, grids: Hierarchy, weights: tuple[float, float]
) -> Map:
    a, b = weights
    null, penalty, space = problem.laplacian.null, problem.penalty, problem.space
    acts = b != 0.0 and not penalty.is_zero
    if acts:
        grids = grids.knowing(penalty.support, lambda X: penalty.inner(X) * (b / a))
    cycle = grids.cycle()

    def on_graph(R: Block) -> Block:
        smooth = null.project(R)
        result, rest = null.project(cycle(smooth)), space.copy(R)
        space.blend(rest, 1.0, (smooth, -1.0))
        space.blend(rest, 1.0, (result, 1.0 / a))
        return rest

    if not (acts and problem.positive):
        return lambda R: problem.project(on_graph(R))
    local = local_solve(problem.laplacian, problem.penalty, a, b)
    whole = local.around(lambda V: problem.stiffness(V, a, b), on_graph)
    return lambda R: problem.project(whole(R))


def _starts(
    problem: PenalizedProblem, grids: Hierarchy | None, precondition: Map, block: int, seed: int
) -> list[Block]:
    """Null vectors of the largest components, smooth vectors, responses to constraints, noise."""
    laplacian = problem.laplacian
    Z = laplacian.null.columns(np.arange(min(block, laplacian.null.n_components)))
    noise = laplacian.space.normals(min(block, 8), seed + 1)
    smooth = (
        precondition(problem.project(noise))
        if grids is None
        else nested_start(laplacian, grids, block, seed)
    )
    pull = problem.penalty if problem.turned is None else problem.mass_update
    pushed = laplacian.space.zeros(noise.shape[1]) if pull is None else pull.apply(noise)
    return [Z, smooth, precondition(pushed), noise]


# --- Eigenvectors of a Gaussian process's posterior covariance whose prior is the affinity itself
#
# With the covariance K = W + D (W, with loops that make it positive semidefinite) and observations
# x_i = ±x_j of variance s², rows of F, the posterior covariance is
#
#     K' = K − KFᵀ(s²I + FKFᵀ)⁻¹FK,    D^-½K'D^-½ = I + S − R,
#
# so that its leading vectors are the smallest of L̄ + R, R >= 0 of as many columns as there are
# constrained nodes, and nothing but on their neighbours.


_CONSTRAINED = 3_000  # nodes, whose covariance is a dense matrix
_NOTHING = 1e-12  # relative size below which an observation says nothing


@dataclass(frozen=True, eq=False)
class LostVariance:
    """R(s²) = G·T·diag(1/(s² + σ))·TᵀGᵀ on the nodes of `support`.

    `columns` G (s, c) is D^-½K of the c constrained nodes, `turn` T (c, r), `spectrum` σ (r,).
    """

    columns: sp.csr_matrix
    turn: Block
    spectrum: NDArray[np.float64]
    support: NDArray[np.int64]
    space: Space

    def at(self, s2: float) -> ConstraintOperator:
        """R for one variance s² of the observations."""
        nothing = sp.csr_matrix((self.support.size,) * 2)
        core = (self.turn / (s2 + self.spectrum)) @ self.turn.T
        return ConstraintOperator(nothing, self.columns, core, self.support, self.space)

    def inside(self, basis: SmoothBasis) -> LostVariance:
        """BᵀRB on the coefficients of a smooth basis B."""
        width = 1 + basis.p
        rows = self.space.take(basis.whole, self.support)[:, :width]
        H = sp.csr_matrix(rows.T @ (self.columns @ self.turn))
        own = np.arange(width)
        return LostVariance(H, np.eye(self.spectrum.size), self.spectrum, own, LocalSpace(width))


def lost_variance(
    laplacian: NormalizedLaplacian, observed: NodeMatrix, nodes: NDArray[np.int64]
) -> LostVariance:
    """R of the observations FᵀF = `observed`, which are of the rows `nodes`; raises InputError.

    Of nodes that stand for several, of the means of their copies. Cost O(c³), c = len(nodes).
    """
    local = local_operator(observed, laplacian, nodes, scaled=False)
    at = local.support
    if at.size > _CONSTRAINED:
        raise InputError(
            f'prior: "affinity" takes the covariance of {at.size:,} constrained nodes, at most '
            f'{_CONSTRAINED:,} will do; use prior="laplacian"'
        )
    copies = laplacian.copies[at]
    values, U = dense_algebra.eigh(local.to_dense() / np.outer(copies, copies))
    there = values > _NOTHING * np.abs(values).max(initial=0.0)
    B = U[:, there] * np.sqrt(values[there])  # FᵀF = BBᵀ
    degrees = laplacian.root_degree**2
    near = laplacian.graph_weights[:, at].tocsc()
    own = sp.csc_matrix((degrees[at], (at, np.arange(at.size))), shape=near.shape)
    K: Any = sp.csr_matrix(near + own)
    sigma, V = dense_algebra.eigh(B.T @ (K[at] @ B))
    support = np.flatnonzero(np.diff(K.indptr)).astype(np.int64)
    G = sp.csr_matrix(sp.diags_array(1.0 / laplacian.root_degree[support]) @ K[support])
    return LostVariance(G, B @ V, np.maximum(sigma, 0.0), support, laplacian.space)


@dataclass(frozen=True, eq=False)
class PosteriorProblem(PenalizedProblem):
    """(L̄ + R)v = θv, the smallest θ; the parameter is the noise, s² = noise²·`variance`."""

    lost: LostVariance = field(kw_only=True)
    variance: float = field(kw_only=True)

    def restricted(self, basis: SmoothBasis) -> Self:
        """BᵀL̄B and BᵀRB."""
        return replace(super().restricted(basis), lost=self.lost.inside(basis))

    def solve(
        self,
        value: float,
        how: EigenOptions,
        work: Workspace | None = None,
        start: Block | None = None,
    ) -> EigenSolution:
        """The `columns` smallest pairs for one noise."""
        known = replace(self, penalty=self.lost.at(value**2 * self.variance))
        return PenalizedProblem.solve(known, value, how, work, start)
