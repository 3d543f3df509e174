"""A preconditioner for weights of any range: approximate elimination of the graph's nodes.

Multigrid with aggregates and single precision loses what hangs together by weights 10⁻⁹ times as
large as others: its steps are then counted in hundreds, if they converge at all. The factors of
an elimination that adds positive numbers only lose nothing, and conjugate gradients take 20 to 30
steps to 1e-9 whatever the weights. They cost several times a multigrid to make, and no threads
share the work, so that they come second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.context.method_cost import ELIMINATED
from mustlink.core.deadline import NEVER, Deadline
from mustlink.core.result import Convergence
from mustlink.core.stopping import MAX_ITER, STAGNATED, TIME_LIMIT, TOLERANCE
from mustlink.errors import NumericalError
from mustlink.kernels.elimination import eliminate, grounded_product, substitute
from mustlink.linear.cg import Advance, Map, block_cg, by_columns, silent
from mustlink.operators.grounded_laplacian import Block, GroundedLaplacian
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.operators.null_space import NullSpace

EXACT = 1e-14  # correction below which an answer is as exact as doubles are
_ROUNDS = 12
_INNER = 1e-4  # relative residual of a round
_INNER_STEPS = 40
_FALLING = 0.5  # a round that leaves more of the error is the last
_SEED = 0  # of the random trees: part of the method, like a power method's start


class ApproximateCholesky:
    """Fixed symmetric positive map R -> ≈A⁺R on blocks (m, b), A = T⁻¹LT⁻¹, in double precision.

    L is the Laplacian of W = D^½SD^½ with the ground, D^½ the operator's `root_degree`, and T is
    D^½ rounded to powers of two: A is I − S up to factors between 1/2 and 2, and what is constant
    on the nodes stays so to the last digit. `enter` and `leave` lead from I − S to A and back.
    Components without ground are held at one of their nodes: project on the range. Cost: one pass
    over some nnz/2 entries for each of two substitutions.
    """

    def __init__(self, laplacian: GroundedLaplacian) -> None:
        S, root = laplacian.edges, laplacian.root_degree
        there = np.where(root > 0, root, 1.0)  # nodes that were taken out have no edge
        self.unit = np.ldexp(1.0, np.round(np.log2(there)).astype(np.int64))
        self.ratio = root / self.unit
        self.matrix = S
        rows = np.repeat(root, np.diff(S.indptr))
        weights = S.data.astype(np.float64) * (root[S.indices] * rows)
        self.root, self.ground = root, laplacian.grounding
        self.factor: Any = eliminate(S.indptr, S.indices, weights, self.ground, _SEED)

    def __call__(self, R: Block, /) -> Block:
        """Apply to a block (m, b)."""
        Y = np.zeros((self.unit.size + 1, R.shape[1]))
        np.multiply(R, self.unit[:, None], out=Y[:-1])
        order, starts, rows, shares, pivots = self.factor
        substitute(order, starts, rows, shares, pivots, Y)
        return Y[:-1] * self.unit[:, None]

    def product(self, X: Block) -> Block:
        """AX by differences along edges: exact to a share of itself, however small."""
        S = self.matrix
        F = np.ascontiguousarray(X / self.unit[:, None])
        Y = np.empty_like(F)
        grounded_product(S.indptr, S.indices, S.data, self.root, self.ground, F, Y)
        Y /= self.unit[:, None]
        return Y

    def scaled(self, B: Block) -> Block:
        """The right side of AY = … for that of (I − S)X = B, and X for a solution Y."""
        return B * self.ratio[:, None]

    def null(self, component: NDArray[np.integer[Any]], count: int) -> NullSpace:
        """The null space of A without ground, T1 on every component."""
        return NullSpace.of_components(component, self.unit, count)

    def heights(self, X: Block) -> NDArray[np.float64]:
        """Largest |f| a column, (b,), f = T⁻¹x."""
        found: NDArray[np.float64] = np.abs(X / self.unit[:, None]).max(axis=0, initial=0.0)
        return found


# --- solves


def by_elimination(
    laplacian: GroundedLaplacian,
    B: Block,
    *,
    tol: float,
    max_iter: int = 1000,
    project: Map | None = None,
    deadline: Deadline = NEVER,
) -> tuple[Block, Convergence]:
    """Solve (I − S)X = B, (m, b), `project` onto the range if singular: rounds of a few steps each.

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
    B = inside(cholesky.scaled(B / unit))
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
    return cholesky.scaled(X) * unit, found


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
