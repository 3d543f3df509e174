"""ARPACK around the operators: shift-invert at 0 by AMG-CG, and plain Lanczos on S.

ARPACK holds its vectors itself: these solvers are for nodes at home (a `LocalSpace`) only, and
raise `OutOfTimeError` at a deadline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from mustlink.deadline import NEVER, Deadline
from mustlink.eigen.pencil import Pencil, PencilSolution, finish
from mustlink.linear.cg import Map, block_cg
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.numeric import dense_algebra
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.result import Convergence, EigenResult

Vector = NDArray[np.float64]


class OutOfTimeError(Exception):
    """The deadline is over: ARPACK has nothing to give before its end."""


def inverse(laplacian: NormalizedLaplacian, grids: Hierarchy, tol: float) -> LinearOperator:
    """L̄⁺ on the complement of the null space: CG preconditioned by one V-cycle, to `tol`."""
    project = laplacian.null.project
    cycle = grids.cycle()

    def solve(x: Vector) -> Vector:
        X, _ = block_cg(
            laplacian.apply, x.reshape(-1, 1), tol=tol, precondition=cycle, project=project
        )
        return project(X).ravel()

    return _operator(laplacian.size, solve)


def shift_invert(
    laplacian: NormalizedLaplacian,
    grids: Hierarchy,
    k: int,
    *,
    tol: float,
    max_iter: int = 500,
    seed: int = 0,
    deadline: Deadline = NEVER,
) -> EigenResult:
    """The k smallest pairs of L̄ beyond its null space: ARPACK on L̄⁺, shift 0."""
    solve = _until(deadline, inverse(laplacian, grids, tol * 0.1))
    start = _start(laplacian, seed)
    values, W = _leading(solve, k, tol=tol, maxiter=max_iter, v0=start)
    return _measured(laplacian, 1.0 / values, W, "ARPACK shift-invert", tol)


def invert_by(
    inverse: Callable[[Vector], Vector],
    start: Vector,
    k: int,
    *,
    tol: float,
    max_iter: int,
    deadline: Deadline = NEVER,
) -> EigenResult:
    """The k smallest pairs of a matrix from products x -> A⁻¹x, confined to where `start` is.

    Residuals are ‖v − λA⁻¹v‖ on unit vectors.
    """
    operator = _until(deadline, _operator(start.size, inverse))
    mu, V = _leading(operator, k, tol=tol, maxiter=max_iter, v0=start)
    order = np.argsort(-mu)
    mu, V = mu[order], np.ascontiguousarray(V[:, order])
    again = np.column_stack([inverse(v) for v in V.T])
    residuals = np.linalg.norm(V - again / mu, axis=0)
    reached = "tolerance" if mu.size == k and np.all(residuals <= 10 * tol) else "max_iter"
    convergence = Convergence("ARPACK shift-invert", reached, 0, residuals, 10 * tol)
    return EigenResult(1.0 / mu, V, convergence)


def lanczos(
    laplacian: NormalizedLaplacian,
    k: int,
    *,
    tol: float,
    max_iter: int = 500,
    seed: int = 0,
    deadline: Deadline = NEVER,
) -> EigenResult:
    """The k smallest pairs of L̄ beyond its null space: ARPACK on S itself, no inverse.

    Worth having where the gaps are wide: each step is one product.
    """
    project = laplacian.null.project

    def apply(x: Vector) -> Vector:
        # L̄ <= 2: with 3 the null space, mapped to 0, is at the far end and no λ is there with it.
        X = project(x.reshape(-1, 1))
        return project(3.0 * X - laplacian.apply(X)).ravel()

    operator = _until(deadline, _operator(laplacian.size, apply))
    ncv = min(laplacian.size - 1, max(4 * k + 20, 40))
    start = _start(laplacian, seed)
    values, W = _leading(operator, k, tol=tol, maxiter=max_iter, v0=start, ncv=ncv)
    return _measured(laplacian, 3.0 - values, W, "ARPACK Lanczos", tol)


def shift_invert_pencil(
    pencil: Pencil,
    grids: Hierarchy,
    k: int,
    *,
    tol: float,
    max_iter: int = 500,
    seed: int = 0,
    deadline: Deadline = NEVER,
) -> tuple[PencilSolution, Convergence]:
    """The k leading pairs of S_B w = μL̄w by ARPACK with L̄⁺ by AMG-CG."""
    laplacian = pencil.laplacian
    m = laplacian.size

    def within(apply: Map) -> LinearOperator:
        return _operator(m, lambda x: pencil.project(apply(pencil.project(x[:, None]))).ravel())

    def outside(x: Vector) -> Vector:
        return x - pencil.project(x[:, None]).ravel()

    A, L = _until(deadline, within(pencil.schur)), within(pencil.metric)
    solve = _confined(pencil, inverse(laplacian, grids, min(tol, 1e-8) * 0.1))
    # The identity outside the space searched makes the metric definite; A is zero there.
    M = _operator(m, lambda x: L @ x + outside(x))
    Minv = _operator(m, lambda x: solve(pencil.project(x[:, None]).ravel()) + outside(x))
    start = _start(laplacian, seed)
    mu, W = _leading(A, k, M=M, Minv=Minv, tol=tol, maxiter=max_iter, v0=start)
    order = np.argsort(mu)[::-1]
    feasible = pencil.n_feasible()
    complete = feasible is not None and feasible <= k
    solution = finish(pencil, mu[order], pencil.project(W[:, order]), complete)
    residuals = pencil.residuals(solution.vectors, solution.lam)
    reason = "tolerance" if mu.size >= k else "max_iter"
    return solution, Convergence("ARPACK shift-invert", reason, 0, residuals, 10 * tol)


def _confined(pencil: Pencil, plain: LinearOperator) -> Callable[[Vector], Vector]:
    """L̄⁺ confined to the space searched: H the directions held, x − Y(HᵀY)⁻¹Hᵀx, Y = L̄⁺H."""
    H = pencil.held
    if H.shape[1] == 0:
        return lambda x: plain @ x
    Y = np.column_stack([plain @ h for h in H.T])
    correction = dense_algebra.solve((H.T @ Y).T, Y.T).T

    def solve(x: Vector) -> Vector:
        s = plain @ x
        return np.asarray(s - correction @ (H.T @ s), dtype=np.float64)

    return solve


def _until(deadline: Deadline, operator: LinearOperator) -> LinearOperator:
    """The same, which raises OutOfTimeError where it is asked after the deadline."""

    def matvec(x: Vector) -> Vector:
        if deadline.is_over:
            raise OutOfTimeError
        return np.asarray(operator @ x)

    return _operator(operator.shape[0], matvec)


def _operator(m: int, matvec: object) -> LinearOperator:
    return LinearOperator((m, m), matvec=matvec, dtype=np.float64)  # type: ignore[call-overload]


def _leading(A: LinearOperator, k: int, **how: Any) -> tuple[Vector, Vector]:
    """The k largest pairs of A, or those that were found when the steps were used up."""
    try:
        values, W = eigsh(A, k=k, which="LA", **how)
    except ArpackNoConvergence as failure:
        values, W = failure.eigenvalues, failure.eigenvectors
    return values, W


def _start(laplacian: NormalizedLaplacian, seed: int) -> Vector:
    return np.asarray(laplacian.null.project(laplacian.space.normals(1, seed)).ravel())


def _measured(
    laplacian: NormalizedLaplacian, values: Vector, W: Block, solver: str, tol: float
) -> EigenResult:
    """Order the pairs and measure their residuals afresh."""
    order = np.argsort(values)
    values, W = values[order], np.ascontiguousarray(W[:, order])
    residuals = laplacian.space.norms(laplacian.apply(W) - W * values)
    reached = "tolerance" if np.all(residuals <= 10 * tol) else "max_iter"
    # ARPACK's own estimate is what it stops on; the residual may be a small multiple of it.
    return EigenResult(values, W, Convergence(solver, reached, 0, residuals, 10 * tol))
