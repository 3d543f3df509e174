"""Q̄ = D^-½QD^-½ as an operator on the constrained nodes; W + wQ; the kernel of labels, factored."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.constraints.links import between_copies, cannot_links, must_links
from mustlink.constraints.pairs import NodeMatrix
from mustlink.core import dense_algebra
from mustlink.errors import NumericalError
from mustlink.kernels.kernel_kmeans import Penalized
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.operators.protocol import PlacedLaplacian
from mustlink.space import Block, Small, Space

Ints = NDArray[np.int64]
_DENSE_SUPPORT = 2500  # constrained nodes up to which Q̄'s spectrum is found densely
_SHARP, _RESTARTS = (1e-6, 1e-4, 1e-2), 300  # of ARPACK, one tolerance after the other
_NOISE = 8.0  # roundings of a part of BᵀQ̄B, beside those of the sum, which grow as √s
_ROUNDING = 1e-12  # relative size below which an eigenvalue of Q̄ is taken for zero


@dataclass(frozen=True, eq=False)
class ConstraintOperator:
    """Q̄, or another matrix of the constraints, on the m working nodes.

    Zero outside the s nodes of `support`: E(matrix + factor·core·factorᵀ)Eᵀ with E placing the s
    constrained nodes; matrix (s, s) CSR, factor (s, r) CSR or None. Constrained nodes without an
    edge are left out: D^-½ does not exist there, their constraints cannot act.
    """

    matrix: sp.csr_matrix
    factor: sp.csr_matrix | None
    core: Any
    support: NDArray[np.int64]
    space: Space

    @property
    def size(self) -> int:
        """Number m of nodes."""
        return self.space.size

    def apply(self, X: Block, shift: float = 0.0) -> Block:
        """(Q̄ + shift·I)X for a block (m, b). Cost: one pass over X, and nnz·b."""
        Y = self.space.zeros(X.shape[1], X.dtype)
        if shift:
            self.space.blend(Y, 0.0, (X, shift))
        self.add_to(Y, X)
        return Y

    def add_to(self, Y: Block, X: Block, times: float = 1.0) -> None:
        """In place Y += times·Q̄X, blocks (m, b): only rows of constrained nodes are touched."""
        if self.support.size and not self.is_zero:
            rows = self.inner(self.space.take(X, self.support))
            self.space.add_rows(Y, self.support, times * rows)

    def within(self, B: Block, width: int | None = None) -> Small:
        """BᵀQ̄B for the first `width` columns of B, symmetric; 0 where only rounding is left of it.

        It is the sum of parts Q̄_ij b_i b_jᵀ, b_i the rows of constrained nodes. Where these cancel
        it comes out as rounding of the parts, whose eigenvalues would be taken for constraints.
        """
        rows = self.space.take(B, self.support)
        products = self.inner(rows)
        T = (rows.T @ products)[:width, :width]
        T = np.asarray((T + T.T) / 2, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # as in `inner`
            size, beside = (np.linalg.norm(X[:, :width], axis=1) for X in (rows, products))
            noise = np.finfo(rows.dtype).eps * (size @ beside)  # of B itself
            noise += (_NOISE + np.sqrt(size.size)) * np.finfo(T.dtype).eps * self._total(size)
            cancels = np.abs(T).max(initial=0.0) <= noise < np.inf
        return np.zeros_like(T) if cancels else T

    def _total(self, size: NDArray[np.float64]) -> float:
        """Σ |Q̄_ij| size_i size_j, from above, for sizes (s,)."""
        total = size @ (abs(self.matrix) @ size)
        if self.factor is not None:
            weight = abs(self.factor).T @ size
            total += weight @ (abs(self.core) @ weight)
        return float(total)

    def forms(self, B: Block) -> Small:
        """Every vᵀQ̄v of a block's columns, (b,)."""
        rows = np.asarray(self.space.take(B, self.support), dtype=np.float64)
        return np.asarray((rows * self.inner(rows)).sum(axis=0), dtype=np.float64)

    def inner(self, X: Block) -> Block:
        """Q̄ restricted to the support times a block (s, b)."""
        Y = self.matrix @ X
        if self.factor is not None:
            with np.errstate(over="ignore", invalid="ignore"):  # refused where it is solved with
                Y = Y + self.factor @ (self.core @ (self.factor.T @ X))
        return Y

    @property
    def is_zero(self) -> bool:
        """Whether nothing is left of the constraints: beliefs cancelled, or ends without edges."""
        return self.matrix.nnz == 0 and (self.factor is None or self.factor.nnz == 0)

    @property
    def largest_entry(self) -> float:
        """About the largest |Q̄_ij|: a cheap scale for what counts as zero."""
        largest = float(np.abs(self.matrix.data).max(initial=0.0))
        if self.factor is not None:
            largest = max(largest, float(np.abs(self.factor.data).max(initial=0.0)) ** 2)
        return largest

    @cached_property
    def eigenvalues(self) -> NDArray[np.float64]:
        """Eigenvalues of Q̄ that may differ from zero, descending; all of them if s is small.

        Low-rank Q̄ reduces to r by r; otherwise s by s dense, or the 300 largest by Lanczos.
        """
        if self.matrix.nnz == 0 and self.factor is None:
            return np.zeros(0)
        if self.support.size <= _DENSE_SUPPORT:
            return _descending(self.to_dense())
        if self._low_rank and self.factor is not None:
            g, U = dense_algebra.eigh((self.factor.T @ self.factor).toarray())
            root = U * np.sqrt(np.maximum(g, 0.0))
            return _descending(root.T @ (self.core @ root))
        return np.sort(self._lanczos(300, "LA"))[::-1]

    @cached_property
    def spread(self) -> float:
        """λ_max − λ_min over all m eigenvalues, zeros outside the support included."""
        if self.support.size > _DENSE_SUPPORT and not (self._low_rank or self.is_zero):
            ends = np.append(self._lanczos(1, "LA"), self._lanczos(1, "SA"))
        else:
            ends = self.eigenvalues
        if ends.size < self.size:
            ends = np.append(ends, 0.0)
        return float(ends.max() - ends.min())

    @property
    def _low_rank(self) -> bool:
        """Whether Q̄ has so few columns of `factor`, and nothing else, that r by r is small."""
        return self.matrix.nnz == 0 and self.factor is not None and self.factor.shape[1] <= 2000

    def kth_largest(self, k: int) -> float:
        """λ_k(Q̄), k from 1, counted with multiplicity over all m eigenvalues.

        Nodes without constraints contribute eigenvalues 0.
        """
        values = self.eigenvalues
        zeros = self.size - values.size
        positive = values[values > 0]
        if k <= positive.size:
            return float(positive[k - 1])
        if k <= positive.size + zeros:
            return 0.0
        rest = values[values <= 0]
        return float(rest[k - 1 - positive.size - zeros])

    def count_above(self, beta: float) -> int | None:
        """How many of Q̄'s m eigenvalues exceed beta; None if too many to know."""
        values = self.eigenvalues
        # β is often a fraction, and sometimes ±1, of an eigenvalue: equal up to rounding is equal.
        level = beta + _ROUNDING * float(np.abs(values).max(initial=0.0))
        complete = values.size in (0, self.support.size) or self._low_rank
        if not complete and (values[-1] > beta or beta < 0):
            return None
        outside = self.size - values.size if beta < 0 else 0
        return int((values > level).sum()) + outside

    def to_dense(self) -> Block:
        """Return the (s, s) block of Q̄ on its support."""
        dense = self.matrix.toarray()
        if self.factor is not None:
            dense = dense + self.factor @ (self.core @ self.factor.T.toarray())
        return dense

    def _lanczos(self, k: int, which: Literal["LA", "SA"]) -> NDArray[np.float64]:
        """Return k eigenvalues from one end, to 1e-6, or less sharp where 300 restarts miss that.

        Raises NumericalError where they are not found to 1e-2 either.
        """
        from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

        s = self.support.size
        inner = lambda x: self.inner(x.reshape(-1, 1)).ravel()  # noqa: E731
        operator = LinearOperator((s, s), matvec=inner, dtype=np.float64)
        start = np.ones(s) + np.linspace(0, 0.5, s)
        for tol in _SHARP:
            with suppress(ArpackNoConvergence):
                result = eigsh(
                    operator,
                    k=k,
                    which=which,
                    v0=start,
                    return_eigenvectors=False,
                    tol=tol,
                    maxiter=_RESTARTS,
                )
                return np.asarray(result, dtype=np.float64)
        raise NumericalError(
            f"constraints: the {k} extreme eigenvalues of their matrix on {s} nodes were not "
            "found; weigh the constraints alike, or give fewer"
        )


def _descending(matrix: Block) -> NDArray[np.float64]:
    """Eigenvalues of a symmetric matrix, largest first; those that are zero up to rounding are 0.

    A zero that came out as 1e-16 would count as positive, and β as a fraction of it be no bound.
    """
    values = np.asarray(dense_algebra.eigvalsh(matrix)[::-1], dtype=np.float64)
    values[np.abs(values) <= _ROUNDING * np.abs(values).max(initial=0.0)] = 0.0
    return values


def constraint_operator(
    constraints: Constraints, laplacian: NormalizedLaplacian
) -> ConstraintOperator:
    """Q̄ of the constraints in the graph's working order. Cost O(n + constraints)."""
    Q = NodeMatrix(constraints.matrix, constraints.factor, constraints.core)
    return local_operator(Q, laplacian, constraints.nodes, scaled=True)


def local_operator(
    Q: NodeMatrix,
    laplacian: PlacedLaplacian,
    nodes: NDArray[np.int64],
    *,
    scaled: bool,
) -> ConstraintOperator:
    """A matrix that is zero outside the rows `nodes`, in working order; D^-½MD^-½ if `scaled`."""
    places, space = laplacian.positions[nodes], laplacian.space
    there = np.flatnonzero(places >= 0)
    there = there[np.argsort(places[there])]
    known, support = nodes[there], places[there]
    weight = np.ones(support.size)
    if scaled:
        weight /= space.take(space.column(laplacian.root_degree), support)[:, 0]
    scale = sp.diags_array(weight)
    matrix = sp.csr_matrix(scale @ Q.matrix[known][:, known] @ scale)
    matrix.eliminate_zeros()
    factor = None if Q.factor is None else sp.csr_matrix(scale @ Q.factor[known])
    return ConstraintOperator(matrix, factor, Q.core, support, space)


# --- A graph with penalties for broken constraints, as one sparse plus low-rank matrix


@dataclass(frozen=True, eq=False)
class PenalizedGraph:
    """A' = W + wQ without Q's diagonal, but for pairs of copies of a node, on the working nodes.

    `Q` is that Q as an operator, `penalty` w, `bound` at least −λ_min(M^-½A'M^-½).
    """

    A: Penalized
    Q: ConstraintOperator
    penalty: float
    bound: float

    @property
    def unconstrained(self) -> Penalized:
        """W alone, with the same node weights."""
        return self.A._replace(place=np.full(self.A.place.size, -1, dtype=np.int64))


def penalized(
    laplacian: NormalizedLaplacian,
    known: Constraints,
    k: int,
    penalty: float | str,
    volume: str,
) -> PenalizedGraph:
    """Graph and constraints as one matrix; w = vol/(k·Σ_{i<j}|Q_ij|) if `penalty` is "auto".

    Node weights M are the degrees of W + wQ⁺ (`volume` "links") or of W ("graph"). The bound is
    max_i (d_i + w Σ_j |Q_ij|)/M_ii: rows of |M⁻¹A'|, and W >= −D. Cost O(n + constraints).
    """
    degrees = laplacian.root_degree**2
    linked = (laplacian.positions >= 0).astype(np.float64)
    must = laplacian.to_working_order(must_links(known).dot(linked))
    both = must + laplacian.to_working_order(cannot_links(known).dot(linked))
    total = float(both.sum()) / 2
    w = laplacian.volume / (k * max(total, 1e-300)) if penalty == "auto" else float(penalty)
    w = w if total > 0 else 0.0
    weight = degrees + w * must if volume == "links" else degrees

    Q = NodeMatrix(known.matrix, known.factor, known.core)
    local = local_operator(Q, laplacian, known.nodes, scaled=False)
    size = local.support.size
    factor = sp.csr_matrix((size, 0)) if local.factor is None else local.factor
    core = sp.csr_matrix((0, 0) if local.core is None else local.core)
    own = np.asarray((factor @ core).multiply(factor).sum(axis=1), dtype=np.float64).ravel()
    own = own + local.matrix.diagonal()
    local = replace(local, matrix=sp.csr_matrix(local.matrix - sp.diags(own, format="csr")))
    indptr, indices, data = _rows(local.matrix, w)
    place = np.full(laplacian.size, -1, dtype=np.int64)
    place[local.support] = np.arange(size)
    A = Penalized(
        *(laplacian.S.indptr, laplacian.S.indices, laplacian.S.data),
        *(laplacian.root_degree, weight, place),
        *(indptr, local.support[indices], data),
        *_rows(factor, 1.0),
        *_rows(core, w),
        w * between_copies(known)[laplacian.nodes[local.support]],
    )
    return PenalizedGraph(A, local, w, float(((degrees + w * both) / weight).max()))


def _rows(matrix: sp.csr_matrix, times: float) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """A CSR matrix for the kernels, always of the same types."""
    data = np.asarray(matrix.data, dtype=np.float64) * times
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), data


# --- The Gaussian kernel of n points in factored form: Q ≈ ΦΦᵀ, never n by n
#
# Q_ij = exp(−‖y_i − y_j‖²/2σ²) is what WD12 (eq. 15) makes of propagated labels. Such points lie in
# a simplex with few corners, so that a few columns of Q determine nearly all of it.

Floats = NDArray[np.float64]
_EXACT = 1e-14  # residual diagonal (Q_ii = 1) below which a column would be rounding
_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class FactoredKernel:
    """Φ (n, r) with Q ≈ ΦΦᵀ, the nodes `pivots` (r,) whose columns of Q are exact.

    Q − ΦΦᵀ is positive semidefinite; `error` is its trace over n, `spread` the trace over n that
    one column leaves: what is known beyond "all alike".
    """

    factor: Block
    pivots: Ints
    error: float
    spread: float


def gaussian_factor(
    points: Block,
    sigma: float,
    *,
    tol: float = 1e-4,
    least: int = 1,
    max_rank: int = 200,
    copies: Floats | None = None,
) -> FactoredKernel:
    """Pivoted Cholesky of the Gaussian kernel of points (n, d), greedy on the residual diagonal.

    Stops when tr(Q − ΦΦᵀ) <= tol times the trace that the first column leaves, so that points that
    hardly differ are resolved as well as others, but not below `least` columns; or at `max_rank`,
    or where every point is a pivot's duplicate. All nodes are alike at first: the first pivot is
    node 0. The trace counts `copies` (n,) of every point. Cost O(n r (d + r)), n·r numbers.
    Source: Fine & Scheinberg 2001.
    """
    n = points.shape[0]
    most = min(max_rank, n)
    columns = np.empty((most, n))  # transposed: every step reads and writes whole rows
    left = np.ones(n)
    pivots: list[int] = []
    spread = error = 1.0
    while len(pivots) < most:
        pivot = int(left.argmax())
        if left[pivot] <= _EXACT:
            break
        done = columns[: len(pivots)]
        new = kernel_column(points, pivot, sigma)
        if pivots:
            new -= done[:, pivot] @ done
        new /= np.sqrt(left[pivot])
        columns[len(pivots)] = new
        left -= new * new
        np.maximum(left, 0.0, out=left)
        left[pivot] = 0.0
        pivots.append(pivot)
        error = float(left.mean() if copies is None else np.average(left, weights=copies))
        if len(pivots) == 1:
            spread = error
        if len(pivots) >= least and error <= tol * spread:
            break
    return FactoredKernel(columns[: len(pivots)].T, np.array(pivots, dtype=np.int64), error, spread)


def kernel_column(points: Block, node: int, sigma: float) -> Floats:
    """Column of Q, (n,). By differences, not by ‖y_i‖² + ‖y_j‖² − 2y_iᵀy_j: they may be tiny."""
    n = points.shape[0]
    squared = np.empty(n)
    for start in range(0, n, _ROWS):
        gap = points[start : start + _ROWS] - points[node]
        squared[start : start + _ROWS] = np.einsum("ij,ij->i", gap, gap)
    return np.exp(squared / (-2.0 * sigma * sigma))


def normalized_factor(factor: Block, copies: Floats | None = None) -> Block:
    """Φ̄ = D_Q^-½Φ (n, r), D_Q the row sums of ΦΦᵀ, so that Q̄ = D_Q^-½QD_Q^-½ ≈ Φ̄Φ̄ᵀ.

    With `copies` (n,) of every row, the diagonal of C: Φ̄ = C^½D_Q^-½Φ, D_Q the sums ΦΦᵀc.

    The row sums of Q are at least 1, its diagonal; those of ΦΦᵀ are lifted to 1 where the factor
    stopped short of it. The largest eigenvalue of Q̄ is 1 and belongs to D_Q^½1. Cost O(n r).
    """
    if copies is None:
        sums = np.maximum(factor @ factor.sum(axis=0), 1.0)
        return factor / np.sqrt(sums)[:, None]
    sums = np.maximum(factor @ (copies @ factor), copies)
    return factor * np.sqrt(copies / sums)[:, None]
