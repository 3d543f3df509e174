"""Algebraic multigrid for L̄: aggregation along strong links, coarse grid by coarse grid.

Plain (unsmoothed) aggregation sets up in a second where smoothed aggregation takes six to twenty.
What it lacks in convergence, several visits of small coarse grids and the Krylov or Rayleigh-Ritz
method around it make up for. Aggregates keep to the strong links of their nodes: across an outline
that the weights separate by 10⁶, as in pictures, gluing pixels together costs 90 steps for 15.

Grids, their cycle and how they follow one another are the same wherever rows are. What a home has
of its own is how nodes are aggregated, and what its finest grid looks like: in memory by pyamg,
here; on ranks in `divided`, on disk in `stored_grids`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core import dense_algebra
from mustlink.kernels.aggregated_matrix import aggregated, strong_links
from mustlink.kernels.spmm import (
    add_product,
    chebyshev_step,
    jacobi_step,
    residual,
    scaled_rows,
    spmm,
)
from mustlink.linear.multigrid.cycle import Cycle, Grid, largest_eigenvalue
from mustlink.operators.laplacian import Block, GroundedLaplacian
from mustlink.operators.protocol import Preconditioner, SparseOperator
from mustlink.space import GroupSums, LocalSpace, NullSpace, Space

Floats = NDArray[Any]

_COARSEST = 200  # nodes below which coarsening stops
# Share of a node's largest weight from which a link is strong. Steps of conjugate gradients with 0,
# 0.25 and 0.5: photograph 43, 16, 12; points in 8 dimensions, clustered, 21, 11, 9; MNIST 19, 14,
# 10; a social network 20, 20, 18. Coarse grids grow with it.
_STRONG = 0.5
STALL = 0.8  # a level that keeps more than this share of its nodes is not worth having
_VISITS = 3  # of every coarse grid in a cycle, see `Cycle`
_CHEAP = 1.2  # work of all visits, as a share of the fine grid's, up to which they pay
_LIMIT = 0.1  # below: coarse modes of a penalised problem count as this large
_WIDE = 0.5  # of the weights of the fine grid
# Eigenvalue below which a coarse mode counts as null; L̄ and all PᵀL̄P are <= 2. With S in single
# precision D^½1 is null to 1e-8 only: its inverse would drown every other mode.
_SMALL = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-7}


@dataclass(frozen=True, eq=False)
class Coarser:
    """The way from a grid to the next coarser one: P, at most one entry a row, and R = Pᵀ.

    Both are in the finer grid's precision, `weight` (n,) has P's entries in double, 0 in empty
    rows. Here everybody has all rows, and a product asks for no others: `fine`, `coarse` and
    `shared` are where it would.
    """

    P: sp.csr_matrix
    R: sp.csr_matrix
    weight: NDArray[np.float64]
    space: LocalSpace  # of the coarser grid, or that of a rank's rows

    @classmethod
    def of(cls, P: sp.csr_matrix, dtype: Any) -> Coarser:
        """From P in double precision, for a grid in another one."""
        weight, own = np.zeros(P.shape[0]), P.astype(dtype)
        weight[np.diff(P.indptr) > 0] = P.data
        return cls(own, own.T.tocsr(), weight, LocalSpace(P.shape[1]))

    def fine(self, X: Any) -> Any:
        """Rows of the finer grid that the columns of R are."""
        return X

    def coarse(self, X: Any) -> Any:
        """Rows of the coarser grid that the columns of P are."""
        return X

    def shared(self, own: Any) -> Any:
        """Rows of the coarser grid, where they are made, as its blocks have them."""
        return own

    @property
    def exact(self) -> sp.csr_matrix:
        """P in double precision."""
        data = self.weight[np.diff(self.P.indptr) > 0]
        return sp.csr_matrix((data, self.P.indices, self.P.indptr), shape=self.P.shape)

    def down(self, R: Floats) -> Floats:
        """PᵀR, in double precision."""
        own: Floats = spmm(self.R, self.fine(R)).astype(np.float64, copy=False)
        return self.shared(own)

    def lift(self, X: Floats, C: Floats) -> None:
        """In place X += PC."""
        add_product(self.P, self.coarse(C), X)

    def up(self, X: Floats) -> Floats:
        """PX, in double precision."""
        return spmm(self.exact, self.coarse(X))

    def null(self, fine: NullSpace) -> NullSpace:
        """Null space of the coarser grid, PᵀZ: an aggregate is in the component of its nodes.

        Known exactly, it is projected out: with ten thousand components, computing it would need
        a block of ten thousand columns.
        """
        R, space = self.R, self.space
        if fine.n_components == 0:
            return NullSpace.empty(space.held, space)
        at = self.fine(self.weight)[R.indices]
        own = sp.csr_matrix((at, R.indices, R.indptr), shape=R.shape) @ self.fine(fine.weight)
        some = R.indices[R.indptr[:-1]]  # one node of each aggregate
        component = self.shared(self.fine(fine.component)[some])
        ones = np.ones((component.size, 1))
        (held,) = space.sums(GroupSums(ones, component, fine.n_components))
        kept = held[:, 0] > 0  # not one whose nodes are in no aggregate
        number = (np.cumsum(kept) - 1).astype(np.int32)
        return NullSpace(number[component], self.shared(own), int(kept.sum()), space)


@dataclass(frozen=True, eq=False)
class Level:
    """One grid, A = shift·I + factor·matrix, with PᵀP = I to the next coarser one; see `Grid`.

    All arrays and blocks are in the precision of the matrix, but for what goes to coarser grids.
    `coarse_inverse` is A⁺ on the last one. For every Laplacian D⁻¹A <= 2, so that the smoother's
    interval needs no eigenvalue estimate.
    """

    matrix: SparseOperator
    shift: float
    factor: float
    inverse_diagonal: Floats
    way: Coarser | None = None
    coarse_inverse: Block | None = None
    interval: tuple[float, float] = (0.475, 1.9)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.inverse_diagonal.dtype)

    @property
    def space(self) -> Space:
        return self.matrix.space

    @property
    def size(self) -> int:
        return self.space.size

    @property
    def n_entries(self) -> int:
        """Entries of the rows that are here."""
        return int(self.matrix.local.nnz)

    @property
    def everywhere(self) -> bool:
        return self.matrix.everywhere

    def first(self, B: Floats, new: float) -> Floats:
        return scaled_rows(B, self.inverse_diagonal * self.dtype.type(new))

    def relax(self, B: Floats, X: Floats, step: Floats | None, old: float, new: float) -> Floats:
        how = self.matrix.local, self.matrix.beside(X), B, self.inverse_diagonal
        if step is None:
            return jacobi_step(*how, (self.shift, self.factor, new))
        return chebyshev_step(*how, step, (self.shift, self.factor, old, new))

    def residual(self, B: Floats, X: Floats) -> Floats:
        return residual(self.matrix.local, self.matrix.beside(X), B, self.shift, self.factor)

    def solve(self, B: Floats) -> Floats | None:
        if self.coarse_inverse is None:
            return None
        result: Floats = self.coarse_inverse @ B.astype(np.float64, copy=False)
        return result.astype(self.dtype, copy=False)

    def dense(self, exact: SparseOperator) -> Block:
        """A from its `exact` matrix in double precision."""
        result: Block = exact.to_dense().astype(np.float64) * self.factor
        result += self.shift * np.eye(self.size)
        return result

    def applied(self, cycle: Cycle) -> Preconditioner:
        """The cycle that begins on this grid, as blocks of its Laplacian take it."""
        return cycle


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Grids from fine to coarse. `sure` is a map that preconditions in the place of grids."""

    levels: tuple[Any, ...]  # the first may be one of another home, the others are `Level`s
    sure: Preconditioner | None = None

    def knowing(self, rows: NDArray[np.int64], penalty: Callable[[Block], Block]) -> Hierarchy:
        """The same grids with EᵀUE added on the coarsest, U given as a product on `rows`.

        A weak bridge makes a coarse mode of eigenvalue 1e-5; a penalty that lifts it must be known
        there, or the cycle blows it up 10⁵ times. Directions that stay small, or become negative,
        are limited to 10 times.
        """
        last, place = self.levels[-1], sp.identity(self.levels[0].size, format="csr")[rows]
        if last.coarse_inverse is None:
            return self
        for level in self.levels[:-1]:
            place = sp.csr_matrix(place @ level.way.exact)
        columns = place.toarray()
        A = last.dense(last.matrix) + columns.T @ penalty(columns)
        values, vectors = dense_algebra.eigh(A)
        inverse = (vectors / np.maximum(np.abs(values), _LIMIT)) @ vectors.T
        return Hierarchy((*self.levels[:-1], replace(last, coarse_inverse=inverse)))

    @property
    def is_wide(self) -> bool:
        """Whether the first coarse grid has half the weights of the fine one and more."""
        first = [level.n_entries for level in self.levels[:2]]
        return len(first) == 2 and first[1] > _WIDE * first[0]

    @property
    def sizes(self) -> list[int]:
        return [level.size for level in self.levels]

    def up(self, level: int, X: Block) -> Block:
        """PX from grid `level` to the next finer one, in double precision."""
        result: Block = self.levels[level - 1].way.up(X)
        return result

    def coarse_operator(self, level: int) -> SparseOperator:
        """A_level in double precision, level >= 1."""
        result: SparseOperator = self.levels[level].matrix
        return result

    def nulls(self, fine: NullSpace) -> list[NullSpace]:
        """Null space of every grid, `fine` that of the first."""
        result = [fine]
        for level in self.levels[:-1]:
            result.append(level.way.null(result[-1]))
        return result

    def cycle(self, start: int = 0) -> Preconditioner:
        """Preconditioner for A_start: coarse grids are visited three times where that is cheap.

        Measured, CPU seconds of conjugate gradients with one and with three visits: photograph 1.7
        and 1.0 (25 and 12 steps), 10⁵ points in the plane 1.7 and 0.7, MNIST 0.55 and 0.49. Coarse
        grids of social networks are nearly as large as the fine one: DBLP, 3.7 and 5.4.
        """
        if self.sure is not None and start == 0:
            return self.sure
        grids: tuple[Grid, ...] = self.levels[start:]
        made = Cycle(grids, 1, _VISITS) if self.is_cheap(start) else Cycle(grids, 2, 1)
        result: Preconditioner = self.levels[start].applied(made)
        return result

    def is_cheap(self, start: int = 0) -> bool:
        """Whether three visits of the grids below `start` cost hardly more than that grid.

        Not where ranks have each a part of one: every visit is a round of messages.
        """
        levels = self.levels[start:]
        work = [level.n_entries for level in levels]
        visits = sum(_VISITS**depth * nnz for depth, nnz in enumerate(work[:-1]) if depth)
        everywhere = all(level.everywhere for level in levels)
        return everywhere and visits <= _CHEAP * max(work[0], 1)


class Coarsening(NamedTuple):
    """The way to a coarser grid, its matrix PᵀAP, near-null vector and ground."""

    way: Coarser
    matrix: SparseOperator
    vector: NDArray[np.float64]
    ground: NDArray[np.float64] | None = None


# The matrix of a grid, its near-null vector and ground, of I − matrix if it is the finest, and the
# precision of its blocks -> the step to the next, None where that is not worth having.
Coarsen = Callable[[SparseOperator, Any, Any, bool, Any], Coarsening | None]


def build_hierarchy(laplacian: GroundedLaplacian) -> Hierarchy:
    """Aggregate until about 200 nodes are left; near-null vector D^½1 on every level.

    pyamg's standard aggregation; P has one entry a row and PᵀP = I, so that a coarse eigenproblem
    is again a standard one. Cost: about a second for 20 M entries.
    """
    return Hierarchy(grids_below(laplacian, coarsened))


def grids_below(laplacian: GroundedLaplacian, coarsen: Coarsen) -> tuple[Level, ...]:
    """Grids of I − S; the finest is in single precision, all others are in double."""
    exact = laplacian.matrix
    return _grids(exact, laplacian.root_degree, laplacian.ground, exact.in_single, coarsen)


def coarse_grids(A: SparseOperator, vector: NDArray[np.float64]) -> tuple[Level, ...]:
    """The same for the matrix A of a coarse grid, with its near-null vector."""
    return _grids(A, vector, None, None, coarsened)


def _grids(
    first: SparseOperator,
    vector: NDArray[np.float64],
    ground: NDArray[np.float64] | None,
    single: SparseOperator | None,
    coarsen: Coarsen,
) -> tuple[Level, ...]:
    """Grids of A = `first`, or of I − `first` with `single` the same in single precision."""
    levels: list[Level] = []
    A, own, finest = first, first if single is None else single, single is not None
    while True:
        shift, factor = (1.0, -1.0) if finest else (0.0, 1.0)
        step = coarsen(A, vector, ground, finest, own.local.dtype)
        inverse = inverse_diagonal(shift + factor * A.diagonal, A.space)
        way = None if step is None else step.way
        levels.append(Level(own, shift, factor, inverse.astype(own.local.dtype), way))
        if step is None:
            break
        A = own = step.matrix
        vector, ground, finest = step.vector, step.ground, False
    last = levels[-1]
    if last.everywhere and last.size <= 10 * _COARSEST:
        # In double precision: rounded to single, the null space is no longer null and its inverse,
        # 10⁷ or so, drowns every other mode.
        values, vectors = dense_algebra.eigh(last.dense(A))
        keep = values > _SMALL[first.local.dtype]
        inverse = (vectors[:, keep] / values[keep]) @ vectors[:, keep].T
        levels[-1] = replace(last, coarse_inverse=inverse)
    return tuple(levels)


def coarsened(
    A: SparseOperator, vector: Any, ground: Any, finest: bool, dtype: Any
) -> Coarsening | None:
    """The step from a grid in memory; a ground is in its diagonal."""
    if A.space.size <= _COARSEST:
        return None
    step = aggregate(strong_links(A.local, _STRONG), vector)
    if step is None:
        return None
    P, coarse = step
    way = Coarser.of(P, dtype)
    return Coarsening(way, SparseOperator(aggregated(A.local, P, complement=finest)), coarse)


def without_coarse_grids(laplacian: GroundedLaplacian, sure: Preconditioner) -> Hierarchy:
    """The fine grid alone, with a preconditioner that needs no other."""
    inverse = inverse_diagonal(laplacian.diagonal, laplacian.space)
    level = Level(laplacian.matrix, 1.0, -1.0, inverse.astype(laplacian.dtype))
    return Hierarchy((level,), sure)


def polynomial(laplacian: GroundedLaplacian, low: float, share: float) -> Cycle:
    """Chebyshev iteration on the fine grid alone, in single precision: R -> q(A)R, A = I − S.

    It leaves at most `share` of what A has in [low, 2] and no more than all of the rest, and is
    positive. Cost: some ln(2/share)/√(2·low) products.
    """
    ones = np.ones(laplacian.root_degree.size, dtype=np.float32)
    level = Level(laplacian.matrix.in_single, 1.0, -1.0, ones, interval=(low, 2.0))
    # Of T_d((2 + low)/(2 − low)) = 1/share, in fours as on every last grid (Saad 2003, §12.3).
    steps = np.arccosh(1.0 / share) / np.arccosh((2.0 + low) / (2.0 - low))
    return Cycle((level,), max(1, int(np.ceil(steps / 4))), 1)


def inverse_diagonal(
    diagonal: NDArray[np.float64], space: Space | None = None
) -> NDArray[np.float64]:
    """1/a_ii, 0 where a_ii is rounding: an aggregate that is a whole component.

    Beside the largest of all in a `space`, or beside 1.
    """
    most = 1.0 if space is None else float(space.peaks(space.column(diagonal))[0])
    floor = max(1e-6 * most, 1e-12)
    return np.where(diagonal > floor, 1.0 / np.maximum(diagonal, floor), 0.0)


def aggregate(
    matrix: sp.csr_matrix, vector: NDArray[np.float64]
) -> tuple[sp.csr_matrix, NDArray[np.float64]] | None:
    """Prolongation P (one entry a row, PᵀP = I, P·coarse = vector) and the coarse vector."""
    from pyamg.aggregation.aggregate import standard_aggregation

    pattern = sp.csr_matrix(
        (np.ones(matrix.nnz, dtype=np.int8), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    aggregates, _ = standard_aggregation(pattern)
    if aggregates.shape[1] == 0 or aggregates.shape[1] > STALL * matrix.shape[0]:
        return None
    aggregates = aggregates.tocsr()
    member = np.flatnonzero(np.diff(aggregates.indptr))
    group = aggregates.indices
    count = aggregates.shape[1]
    size = np.sqrt(np.bincount(group, weights=vector[member] ** 2, minlength=count))
    P = sp.csr_matrix(
        (vector[member] / size[group], group, aggregates.indptr),
        shape=(matrix.shape[0], count),
    )
    return P, size


# --- Multigrid for squared Laplacians that are applied, never formed: fits of neighbourhoods
#
# The matrices of LLE and LTSA have some 200 entries a row. Here only PᵀMP on aggregates is formed;
# on the fine grid a product is all that is needed. The constant is carried down exactly. A graph
# Laplacian's cycle used twice was measured to help little: M kills linear functions, L² does not.


Single = NDArray[np.float32]
Product = Callable[[NDArray[Any]], NDArray[Any]]

_DENSE = 2000  # nodes up to which the coarsest matrix is factored
_LOW = 0.1  # share of the largest eigenvalue from which on the smoother acts
_SAFETY = 1.1  # on the estimate of the largest eigenvalue
_POWER_STEPS = 30  # a pair of nodes may have the largest one; 12 steps were measured to miss it
_REGULAR = 1e-11  # share of its diagonal added to the coarsest matrix: it may be singular


@dataclass(frozen=True, eq=False)
class ProductGrid(Level):
    """The finest grid, whose matrix is known by its product only; `matrix` is empty."""

    apply: Product = field(kw_only=True)

    def first(self, B: Single, new: float) -> Single:
        step = self.inverse_diagonal[:, None] * B
        step *= np.float32(new)
        return step

    def relax(self, B: Single, X: Single, step: Single | None, old: float, new: float) -> Single:
        residual = self.residual(B, X)
        residual *= self.inverse_diagonal[:, None]
        if step is None:
            self.space.blend(residual, new, (X, 1.0))
            return residual
        self.space.blend(step, old, (residual, new))
        return X + step

    def residual(self, B: Single, X: Single) -> Single:
        result: Single = B - self.apply(X)
        return result


def galerkin_cycle(
    apply: Product,
    diagonal: NDArray[np.float64],
    coarse: Callable[[sp.csr_matrix], sp.csr_matrix],
    pattern: sp.csr_matrix,
) -> Cycle:
    """Build the grids for A (m, m), near-null vector 1.

    `apply` multiplies single precision blocks (m, b) by A, `diagonal` (m,) is its diagonal,
    `coarse` gives PᵀAP, and nodes are aggregated along `pattern` (m, m). Coarse grids are visited
    twice. Cost: a dozen products, one sparse product with P, and one factorisation of up to 2,000
    nodes.
    """
    vector = np.ones(diagonal.size)
    inverse = _inverted(diagonal)
    interval = _interval(apply, inverse)
    step = aggregate(pattern, vector)
    way = None if step is None else Coarser.of(step[0], np.float32)
    nothing = SparseOperator(sp.csr_matrix(pattern.shape))
    fine = ProductGrid(nothing, 0.0, 1.0, inverse, way, interval=interval, apply=apply)
    if step is None:
        return Cycle((fine,), 2, 2)
    P, vector = step
    matrix = sp.csr_matrix(coarse(P))
    grids: list[Level] = []
    while True:
        pattern = sp.csr_matrix(P.T.tocsr() @ (pattern @ P))
        inverse = _inverted(matrix.diagonal())
        interval = _interval(partial(spmm, matrix.astype(np.float32)), inverse)
        how = SparseOperator(matrix), 0.0, 1.0, inverse.astype(np.float64)
        level = Level(*how, interval=interval)
        step = None if level.size <= _DENSE else aggregate(pattern, vector)
        if step is None:
            exact = _inverse(matrix) if level.size <= _DENSE else None
            grids.append(replace(level, coarse_inverse=exact))
            return Cycle((fine, *grids), 2, 2)
        P, vector = step
        grids.append(replace(level, way=Coarser.of(P, np.float64)))
        matrix = sp.csr_matrix(P.T.tocsr() @ (matrix @ P))


def _inverted(diagonal: NDArray[np.float64]) -> Single:
    return inverse_diagonal(diagonal, LocalSpace(diagonal.size)).astype(np.float32)


def _interval(apply: Product, inverse: Single) -> tuple[float, float]:
    """What the smoother damps: from a tenth of the largest eigenvalue of D⁻¹A."""
    root, space = np.sqrt(inverse)[:, None], LocalSpace(inverse.size)
    result = largest_eigenvalue(
        lambda X: root * apply(root * X), space, _POWER_STEPS, dtype=np.float32
    )
    largest = _SAFETY * max(result, 1e-30)
    return _LOW * largest, largest


def _inverse(matrix: sp.csr_matrix) -> Block:
    """Inverse of the coarsest matrix, lifted from zero by a trace of its diagonal."""
    A = matrix.toarray().astype(np.float64)
    A = (A + A.T) / 2
    diagonal = A.diagonal().copy()
    largest = float(diagonal.max(initial=0.0)) or 1.0
    A[np.diag_indices_from(A)] += _REGULAR * largest
    A[np.diag_indices_from(A)] += np.where(diagonal > 0, 0.0, largest)
    result: Block = dense_algebra.Definite(A, lift=True).solve(np.eye(A.shape[0]))
    return (result + result.T) / 2
