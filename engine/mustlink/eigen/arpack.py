"""ARPACK around the operators: shift-invert at 0, by AMG-CG or by factors.

ARPACK holds its vectors itself: these solvers are for nodes in memory (a `LocalSpace`) only, and
raise `OutOfTimeError` at a deadline.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, SuperLU, eigsh, splu

from mustlink.core.observe import NEVER, Deadline
from mustlink.core.result import Convergence, EigenResult
from mustlink.linear.cg import block_cg
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.space import NullSpace

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

    return as_operator(laplacian.size, solve)


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
    solve = until(deadline, inverse(laplacian, grids, tol * 0.1))
    start = random_start(laplacian, seed)
    mu, W = leading(solve, k, tol=tol, maxiter=max_iter, v0=start)
    order = np.argsort(1.0 / mu)
    values, W = 1.0 / mu[order], np.ascontiguousarray(W[:, order])
    residuals = laplacian.space.norms(laplacian.apply(W) - W * values)
    reached = "tolerance" if np.all(residuals <= 10 * tol) else "max_iter"
    # ARPACK's own estimate is what it stops on; the residual may be a small multiple of it.
    convergence = Convergence("ARPACK shift-invert", reached, 0, residuals, 10 * tol)
    return EigenResult(values, W, convergence)


def until(deadline: Deadline, operator: LinearOperator) -> LinearOperator:
    """The same, which raises OutOfTimeError after the deadline."""

    def matvec(x: Vector) -> Vector:
        if deadline.is_over:
            raise OutOfTimeError
        return np.asarray(operator @ x)

    return as_operator(operator.shape[0], matvec)


def as_operator(m: int, matvec: object) -> LinearOperator:
    """A function of a vector (m,) as scipy asks for it."""
    return LinearOperator((m, m), matvec=matvec, dtype=np.float64)  # type: ignore[call-overload]


def leading(A: LinearOperator, k: int, **how: Any) -> tuple[Vector, Vector]:
    """The k largest pairs of A, or those that were found when the steps were used up."""
    try:
        values, W = eigsh(A, k=k, which="LA", **how)
    except ArpackNoConvergence as failure:
        values, W = failure.eigenvalues, failure.eigenvectors
    return values, W


def random_start(laplacian: NormalizedLaplacian, seed: int) -> Vector:
    """Where an iteration starts: noise beside the null space."""
    return np.asarray(laplacian.null.project(laplacian.space.normals(1, seed)).ravel())


# --- The smallest pairs of a sparse positive semidefinite matrix by its factors
#
# Matrices of local fits have eigenvalues that are 10⁻⁹ of their largest, which no iteration on
# products resolves. Where nodes lie on a surface their factors are small, and exact.


_SHIFT = 1e-13  # of the largest diagonal entry: the null space alone is nearer to 0
_BALLS = 750, 3000  # nodes that are factored to see how the factors grow
_ENTRY = 24  # bytes: a number and its place, in L and in its transpose


def factor_bytes(matrix: sp.csr_matrix) -> float:
    """What the factors of a matrix (m, m) take, foretold from balls of its graph.

    Entries a row grow as a power of the number of nodes, 0 on curves, ½ and more in space. Cost:
    two factorisations of up to 3,000 nodes.
    """
    m = matrix.shape[0]
    order = breadth_first_order(matrix, m // 2, directed=False, return_predecessors=False)
    sizes = [min(size, order.size) for size in _BALLS]
    a_row = [
        factors(sp.csr_matrix(matrix[ball][:, ball]))[0].L.nnz / ball.size
        for ball in (np.sort(order[:size]) for size in sizes)
    ]
    if sizes[1] <= sizes[0]:
        return _ENTRY * m * a_row[1]
    power = math.log(max(a_row[1] / a_row[0], 1.0)) / math.log(sizes[1] / sizes[0])
    return float(_ENTRY * m * a_row[1] * max(m / sizes[1], 1.0) ** power)


def factors(matrix: sp.csr_matrix) -> tuple[SuperLU, float]:
    """LU without pivoting of the matrix with 1e-13 of its diagonal's largest added, and that."""
    shift = _SHIFT * (float(matrix.diagonal().max(initial=0.0)) or 1.0)
    shifted = sp.csc_matrix(matrix + shift * sp.identity(matrix.shape[0]))
    how = {"SymmetricMode": True}
    result = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=how)
    return result, shift


def smallest_by_factors(
    matrix: sp.csr_matrix,
    null: NullSpace,
    k: int,
    *,
    tol: float,
    max_iter: int = 500,
    seed: int = 0,
    deadline: Deadline = NEVER,
) -> EigenResult:
    """The k smallest pairs of M (m, m) beyond a known null space, vectors (m, k) orthonormal.

    Residuals are ‖v − λM⁻¹v‖ on unit vectors, where errors of high frequency do not count. Raises
    OutOfTimeError at the deadline. Cost: the factors, then some 20 solves with them.
    """
    factored, shift = factors(matrix)

    def inverse(x: NDArray[np.float64]) -> NDArray[np.float64]:
        solved = factored.solve(null.project(x[:, None]))
        result: NDArray[np.float64] = null.project(solved)[:, 0]
        return result

    start = null.project(null.space.normals(1, seed))[:, 0]
    operator = until(deadline, as_operator(start.size, inverse))
    mu, V = leading(operator, k, tol=tol, maxiter=max_iter, v0=start)
    order = np.argsort(-mu)
    mu, V = mu[order], np.ascontiguousarray(V[:, order])
    again = np.column_stack([inverse(v) for v in V.T])
    residuals = np.linalg.norm(V - again / mu, axis=0)
    reached = "tolerance" if mu.size == k and np.all(residuals <= 10 * tol) else "max_iter"
    convergence = Convergence("ARPACK shift-invert", reached, 0, residuals, 10 * tol)
    return EigenResult(np.maximum(1.0 / mu - shift, 0.0), V, convergence)
