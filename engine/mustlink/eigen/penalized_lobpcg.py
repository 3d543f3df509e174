"""Penalised problems at scale: LOBPCG, preconditioned on the graph and around the constraints.

Everything is verbs but `LinkedCycle` and `local_solve`, which want the nodes at home: they make
and factor matrices of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.lobpcg import Lobpcg, lobpcg
from mustlink.eigen.nested_iteration import Grids, guard, nested_start
from mustlink.eigen.problem import Solving
from mustlink.eigen.ritz import rayleigh_ritz
from mustlink.linear.local_solve import Map, local_solve
from mustlink.linear.multigrid.linked_cycle import LinkedCycle
from mustlink.result import EigenResult
from mustlink.space import Block

if TYPE_CHECKING:
    from mustlink.eigen.penalized import PenalizedProblem


class KnowingGrids(Grids, Protocol):
    """Grids that may be told of a penalty."""

    def knowing(self, rows: NDArray[np.int64], penalty: Callable[[Block], Block]) -> Self:
        """The same with EᵀUE on the coarsest, U given as a product on `rows`."""
        ...


def smallest_penalized(
    problem: PenalizedProblem,
    grids: KnowingGrids | None,
    k: int,
    weights: tuple[float, float],
    how: Solving,
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
    starts = [] if start is None else [start]
    starts += _starts(problem, grids, precondition, block, how.seed)
    assert how.tol is not None
    found = lobpcg(
        lambda V: problem.left(V, *weights),
        _promising(problem, starts, block, weights),
        Lobpcg(
            min(k, block),
            how.tol,
            how.max_iter,
            relative=problem.turned is not None,
            deadline=how.deadline,
        ),
        M=None if problem.is_standard else lambda V: problem.right(V, *weights),
        precondition=precondition,
        project=problem.project,
        space=laplacian.space,
    )
    residuals = problem.residuals(found.vectors, found.values, *weights)
    convergence = replace(found.convergence, residuals=residuals)
    return EigenResult(found.values / (1.0 - shift * found.values), found.vectors, convergence)


def _preconditioner(
    problem: PenalizedProblem, grids: KnowingGrids, weights: tuple[float, float]
) -> Map:
    a, b = weights
    null, penalty, space = problem.laplacian.null, problem.penalty, problem.space
    acts = b != 0.0 and not penalty.is_zero
    if acts:
        grids = grids.knowing(penalty.support, lambda X: penalty.inner(X) * (b / a))
    cycle = grids.cycle()

    def on_graph(R: Block) -> Block:
        smooth = null.project(R)
        found, rest = null.project(cycle(smooth)), space.copy(R)
        space.blend(rest, 1.0, (smooth, -1.0))
        space.blend(rest, 1.0, (found, 1.0 / a))
        return rest

    if not (acts and problem.positive):
        return lambda R: problem.project(on_graph(R))
    local = local_solve(problem.laplacian, problem.penalty, a, b)
    whole = local.around(lambda V: problem.stiffness(V, a, b), on_graph)
    return lambda R: problem.project(whole(R))


def _starts(
    problem: PenalizedProblem,
    grids: Grids | None,
    precondition: Map,
    block: int,
    seed: int,
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


def _promising(
    problem: PenalizedProblem, starts: list[Block], block: int, weights: tuple[float, float]
) -> Block:
    """Rayleigh-Ritz in the span of the starts: its `block` smallest directions."""
    space = problem.laplacian.space
    parts = [space.copy(problem.project(X)) for X in starts]
    for X in parts:
        space.blend(X, 1.0 / np.maximum(space.norms(X), 1e-300))
    left, right = ([side(X, *weights) for X in parts] for side in (problem.left, problem.right))
    _, C = rayleigh_ritz(space, parts, left, right, count=block)
    return space.combine(parts, C)
