"""Penalised spectral problems: (aL̄ + bU)v = θMv, the smallest θ, U acting on few nodes.

Every constrained method that minimises a Rayleigh quotient has this form, with a penalty U of the
constraints, and M = diag(m) + (a second local matrix); only the pencil of WD14, indefinite, needs
`eigen.pencil`. One class is solved on all nodes and inside the smooth subspace. Where θ may be as
small as 10⁻⁷ the problem is turned round, −Mv = σ(aL̄ + bU + μM)v with σ = −1/(θ + μ): its wanted
end is the far one, and relative accuracy comes by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from mustlink.eigen.lobpcg import Lobpcg, lobpcg
from mustlink.eigen.nested_iteration import guard, nested_start
from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.kernels.blocks import combine, gram
from mustlink.linear.local_solve import Map, local_solve
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.linear.multigrid.linked_cycle import LinkedCycle
from mustlink.operators.constraint_operator import ConstraintOperator
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.result import EigenResult

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PenalizedProblem:
    """L̄, U and M of one method; the weights a, b belong to its parameter and come with each solve.

    `mass` (m,) is the diagonal of M, None for 1; `mass_update` what M has beside it.
    `without_constant`: z = D^½1/√vol is in the null space of both sides and left out.
    `positive`: aL̄ + bU is positive semidefinite. `linked`: U is a Laplacian of weighted pairs and
    cliques, which become edges of the graph that the multigrid is made for. With `turned` = μ the
    problem is solved turned round, and its eigenvalues are σ.
    """

    laplacian: NormalizedLaplacian
    penalty: ConstraintOperator
    mass: Floats | None = None
    mass_update: ConstraintOperator | None = None
    without_constant: bool = False
    positive: bool = False
    turned: float | None = None
    linked: bool = False

    def stiffness(self, X: Block, a: float, b: float) -> Block:
        """(aL̄ + bU)X."""
        Y = self.laplacian.apply(X) * a
        rows = self.penalty.support
        Y[rows] += b * self.penalty.inner(X[rows])
        return Y

    def metric(self, X: Block) -> Block:
        """MX."""
        Y = X.copy() if self.mass is None else X * self.mass[:, None]
        if self.mass_update is not None:
            rows = self.mass_update.support
            Y[rows] += self.mass_update.inner(X[rows])
        return Y

    def left(self, X: Block, a: float, b: float) -> Block:
        """The side without an eigenvalue."""
        return self.stiffness(X, a, b) if self.turned is None else -self.metric(X)

    def right(self, X: Block, a: float, b: float) -> Block:
        """The side with the eigenvalue, positive definite on what is searched."""
        M = self.metric(X)
        return M if self.turned is None else self.stiffness(X, a, b) + self.turned * M

    @property
    def is_standard(self) -> bool:
        """Whether the right side is the identity."""
        return self.mass is None and self.mass_update is None and self.turned is None

    def project(self, X: Block) -> Block:
        """The part of a block that is searched."""
        if not self.without_constant:
            return X
        z = self.constant
        return X - z[:, None] * (z @ X)

    @cached_property
    def constant(self) -> Floats:
        """The vector z = D^½1/√vol."""
        return self.laplacian.root_degree / np.sqrt(self.laplacian.volume)

    def residuals(self, V: Block, theta: Floats, a: float, b: float) -> Floats:
        """‖left v − θ right v‖ over ‖v‖, or over ‖θ right v‖ if turned: whoever found v."""
        right = self.right(V, a, b) * theta
        size = V if self.turned is None else right
        gap = np.linalg.norm(self.left(V, a, b) - right, axis=0)
        return np.asarray(gap / np.linalg.norm(size, axis=0))


def dense_smallest_penalized(
    problem: PenalizedProblem, k: int, a: float, b: float
) -> tuple[Floats, Block]:
    """θ (k,) ascending and M-orthonormal V (m, k), by LAPACK. Cost O(m³)."""
    m = problem.laplacian.size
    eye = np.eye(m)
    A, M = problem.left(eye, a, b), problem.right(eye, a, b)
    if problem.without_constant:
        N = np.linalg.qr(problem.constant[:, None], mode="complete")[0][:, 1:]
        A, M = N.T @ A @ N, N.T @ M @ N
    k = min(k, A.shape[0])
    theta, V = sla.eigh(
        (A + A.T) / 2,
        None if problem.is_standard else (M + M.T) / 2,
        subset_by_index=(0, k - 1),
    )
    return theta, N @ V if problem.without_constant else V


def smallest_penalized(
    problem: PenalizedProblem,
    grids: Hierarchy | None,
    k: int,
    weights: tuple[float, float],
    *,
    tol: float,
    max_iter: int = 300,
    seed: int = 0,
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
    room = laplacian.size - int(problem.without_constant)
    block = min(k + guard(k), room)
    shift = 0.0
    if problem.linked:
        cycle = LinkedCycle(laplacian, problem.penalty, *weights)
        precondition: Map = lambda R: problem.project(cycle(R))  # noqa: E731
        if problem.turned and cycle.linked.null.n_components == 1:
            shift, problem = problem.turned, replace(problem, turned=0.0)
    else:
        assert grids is not None
        precondition = _preconditioner(problem, grids, weights)
    X = _start(problem, grids, precondition, block, seed)
    X = X if start is None else np.column_stack([start, X])
    found = lobpcg(
        lambda V: problem.left(V, *weights),
        _promising(problem, X, block, weights),
        Lobpcg(min(k, block), tol, max_iter, relative=problem.turned is not None),
        M=None if problem.is_standard else lambda V: problem.right(V, *weights),
        precondition=precondition,
        project=problem.project,
    )
    residuals = problem.residuals(found.vectors, found.values, *weights)
    convergence = replace(found.convergence, residuals=residuals)
    return EigenResult(found.values / (1.0 - shift * found.values), found.vectors, convergence)


def _preconditioner(
    problem: PenalizedProblem, grids: Hierarchy, weights: tuple[float, float]
) -> Map:
    a, b = weights
    null, penalty = problem.laplacian.null, problem.penalty
    acts = b != 0.0 and not penalty.is_zero
    if acts:
        grids = grids.knowing(penalty.support, lambda X: penalty.inner(X) * (b / a))
    cycle = grids.cycle()

    def on_graph(R: Block) -> Block:
        smooth = null.project(R)
        return null.project(cycle(smooth)) / a + (R - smooth)

    if not (acts and problem.positive):
        return lambda R: problem.project(on_graph(R))
    local = local_solve(problem.laplacian, problem.penalty, a, b)
    whole = local.around(lambda V: problem.stiffness(V, a, b), on_graph)
    return lambda R: problem.project(whole(R))


def _start(
    problem: PenalizedProblem,
    grids: Hierarchy | None,
    precondition: Map,
    block: int,
    seed: int,
) -> Block:
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
    pushed = np.zeros_like(noise)
    if pull is not None:
        pushed[pull.support] = pull.inner(noise[pull.support])
    return np.column_stack([Z, smooth, precondition(pushed), noise])


def _promising(
    problem: PenalizedProblem, X: Block, block: int, weights: tuple[float, float]
) -> Block:
    """Rayleigh-Ritz in the span of X: its `block` smallest directions."""
    X = problem.project(X)
    X = X / np.maximum(np.linalg.norm(X, axis=0), 1e-300)
    G = gram(X, problem.right(X, *weights))
    g, U = np.linalg.eigh((G + G.T) / 2)
    keep = g > 1e-12 * g[-1]
    T = U[:, keep] / np.sqrt(g[keep])
    H = T.T @ gram(X, problem.left(X, *weights)) @ T
    _, C = np.linalg.eigh((H + H.T) / 2)
    return combine(X, T @ C[:, :block])


@dataclass(frozen=True, eq=False)
class ReducedProblem:
    """A penalised problem inside span{z, V_p} of a smooth basis; every p and weight is cheap."""

    basis: SmoothBasis
    problem: PenalizedProblem

    @cached_property
    def penalty(self) -> Block:
        """BᵀUB over the whole basis B, (1 + p, 1 + p)."""
        return _local(self.problem.penalty, self.basis.vectors)

    @cached_property
    def metric(self) -> Block:
        """BᵀMB."""
        B, mass = self.basis.vectors, self.problem.mass
        G = np.eye(B.shape[1]) if mass is None else gram(B, B * mass[:, None])
        if self.problem.mass_update is not None:
            G = G + _local(self.problem.mass_update, B)
        return (G + G.T) / 2

    def spread(self, p: int) -> float:
        """λ_max − λ_min of the penalty inside the subspace."""
        values = np.linalg.eigvalsh(self.penalty[: p + 1, : p + 1])
        return float(values[-1] - values[0])

    def solve(self, p: int, k: int, a: float, b: float) -> tuple[Floats, Block]:
        """θ (r,) ascending and coefficients C (1 + p, r), M-orthonormal, r = min(k, directions)."""
        problem, first = self.problem, int(self.problem.without_constant)
        keep = slice(first, p + 1)
        stiff = np.concatenate([[0.0], self.basis.stiffness[:p]])
        left = a * np.diag(stiff)[keep, keep] + b * self.penalty[keep, keep]
        right = None if problem.is_standard else self.metric[keep, keep]
        if problem.turned is not None:
            assert right is not None
            left, right = -right, left + problem.turned * right
        k = min(k, left.shape[0])
        theta, C = sla.eigh((left + left.T) / 2, right, subset_by_index=(0, k - 1))
        return theta, np.vstack([np.zeros((first, k)), C])


def _local(operator: ConstraintOperator, B: Block) -> Block:
    rows = B[operator.support]
    T = rows.T @ operator.inner(rows)
    return (T + T.T) / 2
