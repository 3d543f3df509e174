"""Algebraic multigrid for L̄: aggregation along strong links by pyamg, our cycle on blocks.

Plain (unsmoothed) aggregation sets up in a second where smoothed aggregation takes six to twenty.
What it lacks in convergence, several visits of small coarse grids and the Krylov or Rayleigh-Ritz
method around it make up for. Aggregates keep to the strong links of their nodes: across an outline
that the weights separate by 10⁶, as in pictures, gluing pixels together costs 90 steps for 15.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.aggregated_matrix import aggregated
from mustlink.kernels.spmm import spmm
from mustlink.kernels.strong_links import strong_links
from mustlink.linear.multigrid.cycle import Cycle
from mustlink.linear.multigrid.level import Level
from mustlink.numeric import dense_algebra
from mustlink.operators.grounded_laplacian import Block, GroundedLaplacian
from mustlink.operators.null_space import NullSpace
from mustlink.operators.protocol import Preconditioner
from mustlink.operators.sparse_operator import SparseOperator

_COARSEST = 200  # nodes below which coarsening stops
# Share of a node's largest weight from which a link is strong. Steps of conjugate gradients with 0,
# 0.25 and 0.5: photograph 43, 16, 12; points in 8 dimensions, clustered, 21, 11, 9; MNIST 19, 14,
# 10; a social network 20, 20, 18. Coarse grids grow with it.
_STRONG = 0.5
_STALL = 0.8  # a level that keeps more than this share of its nodes is not worth having
_VISITS = 3  # of every coarse grid in a cycle, see `Cycle`
_CHEAP = 1.2  # work of all visits, as a share of the fine grid's, up to which they pay
_LIMIT = 0.1  # below: coarse modes of a penalised problem count as this large
_WIDE = 0.5  # of the weights of the fine grid
# Eigenvalue below which a coarse mode counts as null; L̄ and all PᵀL̄P are <= 2. With S in single
# precision D^½1 is null to 1e-8 only: its inverse would drown every other mode.
_SMALL = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-7}


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Grids from fine to coarse; `coarse[l]` is A_l in double precision (l >= 1).

    `sure` is a map that preconditions it where no grids do.
    """

    levels: tuple[Level, ...]
    coarse: tuple[sp.csr_matrix | None, ...]
    prolongation: tuple[sp.csr_matrix, ...]
    sure: Preconditioner | None = None

    @property
    def coarse_inverse(self) -> Block | None:
        """A⁺ on the last grid."""
        return self.levels[-1].coarse_inverse

    def knowing(self, rows: NDArray[np.int64], penalty: Callable[[Block], Block]) -> Hierarchy:
        """The same grids with EᵀUE added on the coarsest, U given as a product on `rows`.

        A weak bridge makes a coarse mode of eigenvalue 1e-5; a penalty that lifts it must be known
        there, or the cycle blows it up 10⁵ times. Directions that stay small, or become negative,
        are limited to 10 times.
        """
        last, place = self.levels[-1], sp.identity(self.levels[0].size, format="csr")[rows]
        if self.coarse_inverse is None:
            return self
        for P in self.prolongation:
            place = sp.csr_matrix(place @ P)
        columns = place.toarray()
        exact = self.coarse[-1]
        A = last.dense(last.matrix if exact is None else exact)
        A += columns.T @ penalty(columns)
        values, vectors = dense_algebra.eigh(A)
        inverse = (vectors / np.maximum(np.abs(values), _LIMIT)) @ vectors.T
        return replace(
            self, levels=(*self.levels[:-1], replace(last, coarse_inverse=inverse)), sure=None
        )

    @property
    def is_wide(self) -> bool:
        """Whether the first coarse grid has half the weights of the fine one and more."""
        first = [level.matrix.nnz for level in self.levels[:2]]
        return len(first) == 2 and first[1] > _WIDE * first[0]

    @property
    def sizes(self) -> list[int]:
        """Nodes per level."""
        return [level.size for level in self.levels]

    def up(self, level: int, X: Block) -> Block:
        """PX from grid `level` to the next finer one, in double precision."""
        return spmm(self.prolongation[level - 1], X)

    def coarse_operator(self, level: int) -> SparseOperator:
        """A_level in double precision, level >= 1."""
        A = self.coarse[level]
        assert A is not None
        return SparseOperator(A)

    def nulls(self, fine: NullSpace) -> list[NullSpace]:
        """Null space of every grid: the fine one restricted, PᵀZ, aggregates in one component.

        Known exactly, it is projected out: with ten thousand components, computing it would need
        a block of ten thousand columns.
        """
        found = [fine]
        for P in self.prolongation:
            last = found[-1]
            if last.n_components == 0:
                found.append(NullSpace.empty(P.shape[1]))
                continue
            component = np.zeros(P.shape[1], dtype=np.int64)
            component[P.indices] = last.component[np.flatnonzero(np.diff(P.indptr))]
            kept, number = np.unique(component, return_inverse=True)
            found.append(NullSpace(number.ravel().astype(np.int32), P.T @ last.weight, kept.size))
        return found

    def cycle(self, start: int = 0) -> Preconditioner:
        """Preconditioner for A_start: coarse grids are visited three times where that is cheap.

        Measured, CPU seconds of conjugate gradients with one and with three visits: photograph 1.7
        and 1.0 (25 and 12 steps), 10⁵ points in the plane 1.7 and 0.7, MNIST 0.55 and 0.49. Coarse
        grids of social networks are nearly as large as the fine one: DBLP, 3.7 and 5.4.
        """
        if self.sure is not None and start == 0:
            return self.sure
        grids = self.levels[start:]
        return Cycle(grids, 1, _VISITS) if self.is_cheap(start) else Cycle(grids, 2, 1)

    def is_cheap(self, start: int = 0) -> bool:
        """Whether three visits of the grids below `start` cost hardly more than that grid."""
        work = [level.matrix.nnz for level in self.levels[start:]]
        visits = sum(_VISITS**depth * nnz for depth, nnz in enumerate(work[:-1]) if depth)
        return visits <= _CHEAP * max(work[0], 1)


def build_hierarchy(laplacian: GroundedLaplacian) -> Hierarchy:
    """Aggregate until about 200 nodes are left; near-null vector D^½1 on every level.

    pyamg's standard aggregation; P has one entry a row and PᵀP = I, so that a coarse eigenproblem
    is again a standard one. Cost: about a second for 20 M entries.
    """
    return _grids(laplacian.edges, laplacian.root_degree, laplacian.single_edges)


def coarse_hierarchy(A: sp.csr_matrix, vector: NDArray[np.float64]) -> Hierarchy:
    """The same for the matrix A of a coarse grid, with its near-null vector."""
    return _grids(A, vector, None)


def _grids(
    first: sp.csr_matrix, vector: NDArray[np.float64], single: sp.csr_matrix | None
) -> Hierarchy:
    """Grids of A = `first`, or of I − `first` with `single` the same in single precision."""
    levels: list[Level] = []
    coarse: list[sp.csr_matrix | None] = []
    prolongation: list[sp.csr_matrix] = []
    A = first if single is None else None
    while True:
        matrix = first if A is None else A
        step = None
        if matrix.shape[0] > _COARSEST:
            step = aggregate(strong_links(matrix, _STRONG), vector)
        shift, factor = (1.0, -1.0) if A is None else (0.0, 1.0)
        diagonal = shift + factor * matrix.diagonal()
        inverse = inverse_diagonal(diagonal)
        own = single if A is None else A
        assert own is not None
        P = None if step is None else step[0].astype(own.dtype)
        R = None if P is None else P.T.tocsr()
        levels.append(Level(own, shift, factor, inverse.astype(own.dtype), P, R))
        coarse.append(A)
        if step is None:
            break
        P64, vector = step
        A = aggregated(matrix, P64, complement=A is None)
        prolongation.append(P64)
    last = levels[-1]
    exact = first if A is None else A
    small = last.size <= 10 * _COARSEST
    if small:
        levels[-1] = replace(last, coarse_inverse=pseudo_inverse(last, exact, first.dtype))
    return Hierarchy(tuple(levels), tuple(coarse), tuple(prolongation))


def without_coarse_grids(laplacian: GroundedLaplacian, sure: Preconditioner) -> Hierarchy:
    """The fine grid alone, with a preconditioner that needs no other."""
    inverse = inverse_diagonal(laplacian.diagonal)
    level = Level(laplacian.edges, 1.0, -1.0, inverse.astype(laplacian.dtype))
    return Hierarchy((level,), (None,), (), sure)


def polynomial(laplacian: GroundedLaplacian, low: float, share: float) -> Cycle:
    """Chebyshev iteration on the fine grid alone, in single precision: R -> q(A)R, A = I − S.

    It leaves at most `share` of what A has in [low, 2] and no more than all of the rest, and is
    positive. Cost: some ln(2/share)/√(2·low) products.
    """
    ones = np.ones(laplacian.size, dtype=np.float32)
    level = Level(laplacian.single_edges, 1.0, -1.0, ones, interval=(low, 2.0))
    # Of T_d((2 + low)/(2 − low)) = 1/share, in fours as on every last grid (Saad 2003, §12.3).
    steps = np.arccosh(1.0 / share) / np.arccosh((2.0 + low) / (2.0 - low))
    return Cycle((level,), max(1, int(np.ceil(steps / 4))), 1)


def inverse_diagonal(diagonal: NDArray[np.float64]) -> NDArray[np.float64]:
    """1/a_ii, 0 where a_ii is rounding: an aggregate that is a whole component."""
    floor = max(1e-6 * float(diagonal.max(initial=0.0)), 1e-12)
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
    if aggregates.shape[1] == 0 or aggregates.shape[1] > _STALL * matrix.shape[0]:
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


def pseudo_inverse(level: Level, exact: sp.csr_matrix, dtype: np.dtype[Any]) -> Block:
    """Inverse of the coarsest A on the complement of its null space, from the `exact` matrix.

    `dtype` is the precision of the finest.

    Everything in double precision: rounded to single, the null space is no longer null and its
    inverse, 10⁷ or so, drowns every other mode.
    """
    A = level.dense(exact)
    values, vectors = dense_algebra.eigh(A)
    keep = values > _SMALL[dtype]
    inverse: Block = (vectors[:, keep] / values[keep]) @ vectors[:, keep].T
    return inverse
