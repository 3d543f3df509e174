"""Solves with a Laplacian, and approximate inverses of it.

Up to two thousand nodes LAPACK has a factor as soon as grids are made, and none of the kernels is
needed that grids take: compiling these was half of the time a first fit took.

With weights of a wide range a small residual means little: a part that hangs on by 10⁻⁹ makes an
error 10⁹ times as large as its residual, and multigrid with aggregates and single precision no
longer contracts. A preconditioner that has not done its work in 60 steps, where 10 to 20 are usual,
is given up for exact elimination, where the graph is small enough for that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.method_cost import ELIMINATED, TOGETHER
from mustlink.core import dense_algebra
from mustlink.core.observe import NEVER, Deadline
from mustlink.core.resources import Budget
from mustlink.core.result import STAGNATED, Convergence
from mustlink.errors import NumericalError, OutOfMemoryError
from mustlink.kernels.graph_walk import eliminate
from mustlink.linear.cg import Advance, Map, cg_by_columns, silent
from mustlink.linear.multigrid.hierarchy import Hierarchy, build_hierarchy, polynomial
from mustlink.operators.constraint_operator import ConstraintOperator
from mustlink.operators.laplacian import Block, GroundedLaplacian, NormalizedLaplacian
from mustlink.operators.protocol import Preconditioner
from mustlink.space import LocalSpace

_PATIENCE = 60  # steps of conjugate gradients until the preconditioner is given up
_COLUMNS = 16  # of rough solves at a time: five blocks of that many columns are in memory
_ILL = 1e-7  # reciprocal condition number from which the seventh digit may be lost
_ENOUGH = 1e-6  # relative residual at which rough solves end early
# Nodes: problems of fewer LAPACK solves by itself; 2,000 take 16 MB and a twentieth of a second.
FEW = range(1_001, 2_001)
# Added to L̄: null vectors, which are to be projected out, and what single precision makes of them
# are not blown up by more. Eigenvalues below are taken for larger ones, and still found.
_SHIFT = 1e-5
_SHARE = 1e-1  # that one step of a polynomial leaves, at most: sources are near single nodes
_ROUGH = 1e-4  # residual from which on classes that are close might change


Inverse = Callable[[Block], Block]


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

    ‖b − Ax‖ <= tol·‖b‖. Where a column takes too many steps, all are solved by `by_elimination`,
    if there are at most 4,000 nodes and the budget allows it. `together` columns at most are
    computed at a time, and X is the same whatever their number. Raises NumericalError where the
    answer is beyond doubles.
    """
    few = laplacian.size <= ELIMINATED
    # Without a preconditioner the system is well conditioned: many steps are as they should be.
    patience = min(max_iter, _PATIENCE) if few and precondition is not None else max_iter
    how: Any = {"tol": tol, "precondition": precondition, "project": project}
    how |= {"advance": advance, "deadline": deadline, "together": together}
    with np.errstate(all="ignore"):  # of a preconditioner that is at its end: it is checked
        X, result = cg_by_columns(laplacian.apply, B, max_iter=patience, **how)
    spent = max_iter <= patience and result.reason != STAGNATED
    done = result.converged.all() or spent or deadline.is_over
    if few and not (done and np.isfinite(X).all()):
        with suppress(OutOfMemoryError):
            if budget is not None:
                budget.ask(8 * laplacian.size**2, "exact elimination")
            X = by_elimination(laplacian, B, project)
            return X, Convergence("elimination", "direct", 0, np.zeros(B.shape[1]), tol)
        if patience < max_iter:
            X, result = cg_by_columns(laplacian.apply, B, max_iter=max_iter, **how)
    return _finite(X), result


def by_elimination(laplacian: GroundedLaplacian, B: Block, project: Map | None = None) -> Block:
    """X with (I − S)X = B, (m, b), exact for weights of any range; `project` if singular.

    Cost: m³/3 operations, m² numbers. Raises NumericalError where X is beyond doubles.
    """
    root = laplacian.root_degree[:, None]
    W = laplacian.edges.astype(np.float64).toarray()
    W *= root
    W *= root.T
    project = project or (lambda V: V)
    F = np.ascontiguousarray(root * project(B), dtype=np.float64)
    eliminate(W, laplacian.grounding.copy(), F)
    return _finite(project(root * F))


def _finite(X: Block) -> Block:
    if np.isfinite(X).all():
        return X
    raise NumericalError(
        "graph: the answer of a linear system is beyond doubles; its weights differ too "
        "much, so raise the smallest or leave out nodes that hardly hang on"
    )


# --- Approximate inverses of a Laplacian


class DirectInverse:
    """Fixed symmetric positive map R -> (A + 10⁻⁵I)⁻¹R, A = I − S, by Cholesky's factor.

    In single precision, blocks (m, b) in theirs; project on the complement of the null space.
    Cost: m³/3 operations and m² numbers to make, 2m² operations a column. Raises NumericalError.
    """

    def __init__(self, laplacian: GroundedLaplacian) -> None:
        A = laplacian.matrix.in_single.local.toarray(order="F")
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

    By elimination of nodes where that is nearly singular; see `by_elimination`.
    """
    null = laplacian.null
    factored = dense_algebra.Definite(
        laplacian.to_dense() + (null.matrix @ null.matrix.T).toarray(), lift=True
    )
    if factored.rcond < _ILL:
        return lambda B: by_elimination(laplacian, B, null.project)
    return lambda B: null.project(factored.solve(null.project(B)))


def rough_inverse(
    laplacian: NormalizedLaplacian, grids: Hierarchy, steps: int, deadline: Deadline = NEVER
) -> Inverse:
    """L̄⁺ by so many steps of conjugate gradients with multigrid, 16 columns at a time."""
    how: Any = {"precondition": grids.cycle(), "project": laplacian.null.project}
    how |= {"tol": _ENOUGH, "max_iter": steps, "deadline": deadline, "together": _COLUMNS}
    return lambda B: cg_by_columns(laplacian.apply, B, **how)[0]


# --- with the smoothest vectors known: a polynomial does the rest
#
# Where clusters are clear, a few eigenvalues are 1000 times smaller than all others. Conjugate
# gradients spend most of their steps on these, coarse grids resolve them badly. With their vectors
# known the rest is well conditioned, and products in single precision are all that it needs.


class DeflatedPolynomial:
    """Fixed symmetric positive map R -> ≈A⁻¹R, exact on the columns of Z (m, p), A = I − S.

        M = ZE⁻¹Zᵀ + (I − ZE⁻¹ZᵀA) q(A) (I − AZE⁻¹Zᵀ),   E = ZᵀAZ

    q is the Chebyshev polynomial that contracts eigenvalues of A in [low, 2]; of those below no
    more should be left than Z spans, and Z need not be sharp. It solves with A from `start` on:
    residuals stay orthogonal to Z. Sources: Nicolaides 1987; Tang, Nabben, Vuik & Erlangga 2009
    (A-DEF, BNN). Raises NumericalError where E is singular.

    Cost: two blocks as Z, a product with p columns to make; q and four products of m × p blocks.
    """

    def __init__(self, operator: GroundedLaplacian, Z: Block, low: float) -> None:
        self.operator, self.Z = operator, Z
        self.image = operator.apply(Z)
        E = operator.space.gram(Z, self.image)
        self.inner = dense_algebra.Definite(E)
        self.gain = low / float(dense_algebra.eigh(E, operator.space.gram(Z, Z))[0][0])
        self.rest = polynomial(operator, low, _SHARE)

    def __call__(self, R: Block, /) -> Block:
        """Apply to a block (m, b)."""
        space = self.operator.space
        inside = self.inner.solve(space.gram(self.Z, R))
        left = space.copy(R)
        space.subtract(left, self.image, inside)
        X = self.rest(left)
        inside -= self.inner.solve(space.gram(self.image, X))
        space.subtract(X, self.Z, -inside)
        return X

    def tolerance(self, tol: float) -> float:
        """The residual, as a share of B, that bounds the error as `tol` does without Z.

        ‖x − A⁻¹b‖ <= ‖r‖/λ, λ the smallest eigenvalue; where r is orthogonal to Z, the next one.
        """
        return max(tol, min(_ROUGH, tol * self.gain))

    def start(self, B: Block) -> Block:
        """ZE⁻¹ZᵀB, the solution's part in the span of Z."""
        space = self.operator.space
        return space.combine(self.Z, self.inner.solve(space.gram(self.Z, B)))


def solve_deflated(
    inverse: DeflatedPolynomial, B: Block, *, tol: float, **how: Any
) -> tuple[Block, Convergence]:
    """`solve_laplacian` of B (m, b) with the operator that `inverse` is of, from its start on."""
    operator, space = inverse.operator, inverse.operator.space
    X = inverse.start(B)
    R = B - operator.apply(X)
    given, left = space.norms(B, R)
    share = np.divide(left, given, out=np.zeros_like(left), where=given > 0)
    tight = min(1.0, tol / max(float(share.max(initial=0.0)), tol))
    step, result = solve_laplacian(operator, R, tol=tight, precondition=inverse, **how)
    X += step
    return X, replace(result, residuals=result.residuals * share, tolerance=tol)


# --- What preconditions a graph with a penalty aL̄ + bU: exact local solves, or links in the grids
#
# A multigrid of the graph alone knows nothing about the penalty. With A = L̄ + penalty, C ≈ L̄⁻¹
# from the multigrid and E the placement of the s constrained nodes,
#
#     T = G + (I − GA) C (I − AG),   G = E (EᵀAE)⁻¹ Eᵀ,
#
# is symmetric positive, and exact where the penalty acts: however hard constraints are, they cost
# no more steps.
#
# Must-links alone may be inside the multigrid: a clique of weights h_i h_j is what remains of a
# star when its hub is eliminated: spokes a_i = h_i Σ_j h_j give a_i a_j / Σa = h_i h_j. So aL̄ +
# bU, U a Laplacian of pairs and cliques, is the Schur complement of a sparse graph with as many
# more nodes as there are groups, and grids of that graph precondition it however hard the links
# are, and however many.

_DENSE = 1500  # constrained nodes up to which the local matrix is factored densely
_REGULAR = 1e-10


@dataclass(frozen=True, eq=False)
class LocalSolve:
    """G: solves with the rows and columns of aL̄ + bU + shift·I on the support of U."""

    support: NDArray[np.int64]
    solve: Callable[[Block], Block]

    def __call__(self, X: Block) -> Block:
        """GX for a block (m, b)."""
        Y = np.zeros_like(X)
        Y[self.support] = self.solve(X[self.support])
        return Y

    def around(self, A: Map, C: Map) -> Map:
        """T, the preconditioner for A made of this and of C. Cost: two products with A more."""

        def apply(R: Block) -> Block:
            first = self(R)
            middle = C(R - A(first))
            return first + middle - self(A(middle))

        return apply


def local_solve(
    laplacian: NormalizedLaplacian, penalty: ConstraintOperator, a: float, b: float
) -> LocalSolve:
    """Factor the local matrix: by Cholesky if small, else sparse with the low rank by Woodbury.

    aL̄ + bU must be positive semidefinite; 1e-10 of its diagonal is added.
    """
    rows = penalty.support
    inner = laplacian.edges[rows][:, rows]
    eye = sp.identity(rows.size, format="csr")
    sparse = sp.csc_matrix(eye * a - inner * a + penalty.matrix * b)
    F, core = penalty.factor, np.zeros((0, 0))
    if F is not None:
        core = sp.csr_matrix(penalty.core).toarray() * b
    sparse = sparse + eye * (_REGULAR * float(np.abs(sparse.diagonal()).max(initial=a)))
    if rows.size <= _DENSE:
        whole = sparse.toarray()
        if F is not None:
            whole += F @ (core @ F.T.toarray())
        return LocalSolve(rows, dense_algebra.Definite(whole, lift=True).solve)
    return LocalSolve(rows, _woodbury(sp.csc_matrix(sparse), F, core))


def _woodbury(matrix: sp.csc_matrix, F: sp.csr_matrix | None, K: Block) -> Map:
    """Solver with matrix + FKFᵀ."""
    from scipy.sparse.linalg import splu

    factored = splu(matrix)
    if F is None:
        return factored.solve
    columns = F.toarray()
    solved = factored.solve(columns)
    small = np.eye(K.shape[0]) + K @ (columns.T @ solved)

    def solve(B: Block) -> Block:
        Y = factored.solve(B)
        result: Block = Y - solved @ dense_algebra.solve(small, K @ (columns.T @ Y))
        return result

    return solve


# --- must-links inside the multigrid


def linked_graph(
    laplacian: NormalizedLaplacian, penalty: ConstraintOperator, a: float, b: float
) -> NormalizedLaplacian:
    """The graph aW + b(links of U) with hubs, (m + r) nodes, hubs last; U normalised as L̄ is.

    U = matrix − factor·diag(c)·factorᵀ, c >= 0, with zero row sums against D^½1: its diagonal
    follows from the links. Cost O(nnz).
    """
    m, root = laplacian.size, laplacian.root_degree
    rows = penalty.support
    scale = sp.diags_array(root)
    links = sp.coo_matrix(penalty.matrix)
    off = (links.row != links.col) & (links.data < 0)
    at = rows[links.row[off]], rows[links.col[off]]
    pairs = sp.csr_matrix((-b * links.data[off], at), shape=(m, m))
    W: Any = scale @ (laplacian.edges * a + pairs) @ scale
    if penalty.factor is not None:
        core: Any = penalty.core
        strength = np.sqrt(np.maximum(-b * np.asarray(core.diagonal()), 0.0))
        h: Any = sp.diags_array(root[rows]) @ penalty.factor @ sp.diags_array(strength)
        used = np.flatnonzero(np.diff(sp.csc_matrix(h != 0).indptr) > 1)  # groups of two or more
        h = sp.csc_matrix(h)[:, used]
        spokes = sp.coo_matrix(h @ sp.diags_array(np.asarray(h.sum(axis=0)).ravel()))
        T = sp.csr_matrix((spokes.data, (rows[spokes.row], spokes.col)), shape=(m, used.size))
        W = sp.bmat([[W, T], [T.T, None]], format="csr")
    return NormalizedLaplacian.of_weights(sp.csr_matrix(W))


class LinkedCycle:
    """Symmetric positive map R -> ≈(aL̄ + bU)⁻¹R on blocks (m, c); identity on what is null."""

    def __init__(
        self, laplacian: NormalizedLaplacian, penalty: ConstraintOperator, a: float, b: float
    ) -> None:
        self.linked = linked_graph(laplacian, penalty, a, b)
        self.grids: Hierarchy = build_hierarchy(self.linked)
        self.ratio = (laplacian.root_degree / self.linked.root_degree[: laplacian.size])[:, None]
        self.size = laplacian.size

    def __call__(self, R: Block) -> Block:
        """Apply to a block (m, c). Cost: one V-cycle of the graph with the links."""
        null = self.linked.null
        X = np.zeros((self.linked.size, R.shape[1]))
        X[: self.size] = self.ratio * R
        smooth = null.project(X)
        Y = null.project(self.grids.cycle()(smooth)) + (X - smooth)
        return self.ratio * Y[: self.size]
