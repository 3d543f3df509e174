"""Solves with a Laplacian, of weights of any range: the cheap preconditioner first, then the sure.

Up to two thousand nodes LAPACK has a factor as soon as grids are made, and none of the kernels is
needed that grids take: compiling these was half of the time a first fit took.

How well a preconditioner contracts is seen in what it does to the very right-hand sides that are
to be solved. One that has not done it in 60 steps, where 10 to 20 are usual, is given up for
approximate elimination. With weights of a wide range a small residual means little: a part that
hangs on by 10⁻⁹ makes an error 10⁹ times as large as its residual. What is asked for then is
that the correction still missing, as the elimination estimates it, is below the tolerance.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from mustlink.cost.method_cost import ELIMINATED, TOGETHER
from mustlink.cost.process_memory import Budget
from mustlink.deadline import NEVER, Deadline
from mustlink.errors import NumericalError, OutOfMemoryError
from mustlink.linear.approximate_cholesky import ApproximateCholesky, elimination_bytes
from mustlink.linear.cg import Advance, Map, block_cg, by_columns, cg_by_columns, silent
from mustlink.linear.multigrid.hierarchy import Hierarchy, build_hierarchy
from mustlink.numeric import dense_algebra
from mustlink.operators.grounded_laplacian import GroundedLaplacian
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.operators.protocol import Preconditioner
from mustlink.result import Convergence
from mustlink.space import LocalSpace
from mustlink.stopping import MAX_ITER, STAGNATED, TIME_LIMIT, TOLERANCE

_PATIENCE = 60  # steps of conjugate gradients until the preconditioner is changed
EXACT = 1e-14  # correction below which an answer is as exact as doubles are
_ROUNDS = 12
_INNER = 1e-4  # relative residual of a round
_INNER_STEPS = 40
_FALLING = 0.5  # a round that leaves more of the error is the last
_COLUMNS = 16  # of rough solves at a time: five blocks of that many columns are in memory
_ILL = 1e-7  # reciprocal condition number from which the seventh digit may be lost
_ENOUGH = 1e-6  # relative residual at which rough solves end early
# Nodes: problems of fewer LAPACK solves by itself; 2,000 take 16 MB and a twentieth of a second.
FEW = range(1_001, 2_001)
# Added to L̄: null vectors, which are to be projected out, and what single precision makes of them
# are not blown up by more. Eigenvalues below are taken for larger ones, and still found.
_SHIFT = 1e-5


Inverse = Callable[[Block], Block]


class _GivenUpError(Exception):
    """The preconditioner does not contract."""


def solve_laplacian(
    laplacian: GroundedLaplacian,
    B: Block,
    *,
    tol: float,
    max_iter: int,
    precondition: Preconditioner | None = None,
    project: Map | None = None,
    advance: Advance = silent,
    deadline: Deadline = NEVER,
    budget: Budget | None = None,
    together: int = TOGETHER,
) -> tuple[Block, Convergence]:
    """Solve (I − S)X = B, (m, b), by conjugate gradients; `project` onto the range if singular.

    ‖b − Ax‖ <= tol·‖b‖ with the preconditioner given; where it takes too many steps for a column,
    max|Δf| <= tol·max|f|, f = D^-½x, for all with that of approximate elimination. `together`
    columns at most are computed at a time, and X is the same whatever their number. Raises
    NumericalError where the answer is beyond doubles. Elimination that the budget does not allow
    is left out.
    """
    # Without one the system is well conditioned: many steps are as they should be.
    patience = max_iter if precondition is None else min(max_iter, _PATIENCE)

    how: Any = {"tol": tol, "precondition": precondition, "project": project}
    solve = partial(cg_by_columns, laplacian.apply, **how)

    def patiently(C: Block, advance: Advance, until: Deadline) -> tuple[Block, Convergence]:
        with np.errstate(all="ignore"):  # of a preconditioner that is at its end: it is checked
            X, found = solve(C, max_iter=patience, advance=advance, deadline=until)
        spent = max_iter <= patience and found.reason != STAGNATED
        if np.isfinite(X).all() and (found.converged.all() or spent or until.is_over):
            return X, found
        raise _GivenUpError

    with contextlib.suppress(_GivenUpError):
        return by_columns(patiently, B, advance, deadline, together)
    try:
        if budget is not None:
            width = min(B.shape[1], ELIMINATED)
            budget.ask(elimination_bytes(laplacian, width), "approximate elimination")
    except OutOfMemoryError:
        more: Any = {"advance": advance, "deadline": deadline, "together": together}
        return solve(B, max_iter=max_iter, **more)
    return by_elimination(
        laplacian, B, tol=tol, max_iter=max_iter, project=project, deadline=deadline
    )


def by_elimination(
    laplacian: GroundedLaplacian,
    B: Block,
    *,
    tol: float,
    max_iter: int = 1000,
    project: Map | None = None,
    deadline: Deadline = NEVER,
) -> tuple[Block, Convergence]:
    """The same with approximate elimination at once: rounds of refinement of a few steps each.

    Residuals are taken by differences along edges, so that they are right to a share of
    themselves. Those told are the largest corrections still missing, relative to the answer.
    """
    cholesky = ApproximateCholesky(laplacian)
    inside: Map = lambda V: V  # noqa: E731
    onto: Map = lambda V: V if project is None else project(V)  # noqa: E731
    if isinstance(laplacian, NormalizedLaplacian) and project is not None:
        null = laplacian.null
        inside = cholesky.null(null.component, null.n_components).project

    def part(C: Block, _: Advance, until: Deadline) -> tuple[Block, Convergence]:
        X, found = _refined(cholesky, onto(C), inside, tol, max_iter, until)
        X = onto(X)
        if not np.isfinite(X).all():
            raise NumericalError(
                "graph: the answer of a linear system is beyond doubles; its weights differ too "
                "much, so raise the smallest or leave out nodes that hardly hang on"
            )
        return X, found

    return by_columns(part, B, silent, deadline, ELIMINATED)


def _refined(
    cholesky: ApproximateCholesky,
    B: Block,
    inside: Map,
    tol: float,
    max_iter: int,
    deadline: Deadline,
) -> tuple[Block, Convergence]:
    """Rounds until the correction that is still missing is small, or no longer falls."""
    size = np.abs(B).max(axis=0, initial=0.0)
    unit = np.where(size > 0, size, 1.0)
    B = inside(cholesky.enter(B / unit))
    X, R = np.zeros_like(B), B
    left, steps, reason = np.full(B.shape[1], np.inf), 0, MAX_ITER
    for _ in range(_ROUNDS):
        missing = inside(cholesky(R))
        height = np.maximum(cholesky.heights(X), cholesky.heights(missing))
        before, left = left, _shares(cholesky.heights(missing), height)
        del missing
        if (left <= tol).all():
            reason = TOLERANCE
            break
        if deadline.is_over or steps >= max_iter or not (left < _FALLING * before).any():
            reason = MAX_ITER if steps >= max_iter else STAGNATED
            reason = TIME_LIMIT if deadline.is_over else reason
            break
        active = np.flatnonzero(left > tol)
        most = min(_INNER_STEPS, max_iter - steps)
        step, taken = _round(cholesky, R[:, active], most, inside, deadline)
        X[:, active] += step
        steps += taken
        R = inside(B - cholesky.product(X))
    found = Convergence("block CG with approximate elimination", reason, steps, left, tol)
    return cholesky.leave(X) * unit, found


def _round(
    cholesky: ApproximateCholesky, R: Block, steps: int, inside: Map, deadline: Deadline
) -> tuple[Block, int]:
    """A correction for the residuals, each scaled to length 1: they may be of any size."""
    size = np.abs(R).max(axis=0, initial=0.0)
    unit = np.where(size > 0, size, 1.0)
    found, told = block_cg(
        cholesky.product,
        R / unit,
        tol=_INNER,
        max_iter=steps,
        precondition=cholesky,
        project=inside,
        deadline=deadline,
    )
    return found * unit, told.iterations


def _shares(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


# --- Approximate inverses of a Laplacian


class DirectInverse:
    """Fixed symmetric positive map R -> (A + 10⁻⁵I)⁻¹R, A = I − S, by Cholesky's factor.

    In single precision, blocks (m, b) in theirs; project on the complement of the null space.
    Cost: m³/3 operations and m² numbers to make, 2m² operations a column. Raises NumericalError.
    """

    def __init__(self, laplacian: GroundedLaplacian) -> None:
        A = laplacian.single_edges.toarray(order="F")
        np.negative(A, out=A)
        A[np.diag_indices_from(A)] += np.float32(1.0 + _SHIFT)
        self.factor = dense_algebra.cholesky(A)
        self.space = LocalSpace(laplacian.size)

    def __call__(self, R: Block, /) -> Block:
        """Apply to a block (m, b)."""
        X = sla.cho_solve((self.factor, True), R.astype(np.float32), check_finite=False)
        return np.ascontiguousarray(X, dtype=R.dtype)


def usual_preconditioner(laplacian: GroundedLaplacian) -> Preconditioner:
    """The factor of few nodes, a multigrid cycle of more; project where there is a null space."""
    if laplacian.size in FEW:
        try:
            return DirectInverse(laplacian)
        except NumericalError:
            pass
    return build_hierarchy(laplacian).cycle()


def dense_inverse(laplacian: NormalizedLaplacian) -> Inverse:
    """L̄⁺ by LAPACK: the inverse of L̄ + ZZᵀ on the complement of Z. Cost O(m³), m² numbers.

    By elimination of nodes where that is nearly singular.
    """
    null = laplacian.null
    factored = dense_algebra.Definite(
        laplacian.to_dense() + (null.matrix @ null.matrix.T).toarray(), lift=True
    )
    if factored.rcond < _ILL:
        return lambda B: by_elimination(laplacian, B, tol=EXACT, project=null.project)[0]
    return lambda B: null.project(factored.solve(null.project(B)))


def rough_inverse(
    laplacian: NormalizedLaplacian, grids: Hierarchy, steps: int, deadline: Deadline = NEVER
) -> Inverse:
    """L̄⁺ by so many steps of conjugate gradients with multigrid, 16 columns at a time."""
    how: Any = {"precondition": grids.cycle(), "project": laplacian.null.project}
    how |= {"tol": _ENOUGH, "max_iter": steps, "deadline": deadline, "together": _COLUMNS}
    return lambda B: cg_by_columns(laplacian.apply, B, **how)[0]
