"""Grids of a Laplacian on ranks: large ones divided like the nodes, small ones on every rank.

What every rank holds it also works on: no messages are needed there but for what comes down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.spmm import add_product, chebyshev_step, jacobi_step, residual, spmm
from mustlink.linear.multigrid.cycle import Cycle, Grid
from mustlink.linear.multigrid.divided_aggregates import Aggregates, aggregates
from mustlink.linear.multigrid.divided_coarse import between
from mustlink.linear.multigrid.hierarchy import (
    Hierarchy,
    coarse_hierarchy,
    inverse_diagonal,
)
from mustlink.operators.divided_laplacian import DividedLaplacian, DividedMatrix
from mustlink.operators.divided_operator import DividedOperator
from mustlink.operators.null_space import NullSpace
from mustlink.operators.protocol import Preconditioner
from mustlink.operators.sparse_operator import SparseOperator
from mustlink.space import GroupSums, LocalSpace
from mustlink.space.halo import Halo
from mustlink.space.rank_space import RankSpace

Array = NDArray[Any]
DIVIDED = 1 << 13  # nodes from which on a coarse grid is divided
_STRONG = 0.5  # share of a node's strongest link, as at home
_STALL = 0.8  # a grid that keeps more than this share of its nodes is not worth having


@dataclass(frozen=True, eq=False)
class Coarser:
    """The way from a divided grid to the next: P's own rows, and its columns that are owned here.

    `weight` (n_local,) are P's entries. Of a coarser grid that is divided, too, `halo` has the
    aggregates of own nodes that others own; it is None where all ranks hold that grid.
    """

    found: Aggregates
    weight: NDArray[np.float64]
    members: sp.csr_matrix
    P: sp.csr_matrix
    halo: Halo | None

    @classmethod
    def of(
        cls, found: Aggregates, weight: NDArray[np.float64], dtype: Any, *, divided: bool
    ) -> Coarser:
        """Those of aggregates, in the precision of the finer grid."""
        held = found.own + found.beyond.size
        group, columns = (found.place, held) if divided else (found.group, found.count)
        ends = np.arange(group.size + 1)
        entries = weight.astype(dtype), np.maximum(group, 0).astype(np.int32), ends
        P = sp.csr_matrix(entries, shape=(group.size, columns))
        members = found.members(weight)
        members.data = members.data.astype(dtype)  # scipy's own way would sort the nodes
        return cls(found, weight, members, P, found.beyond if divided else None)

    def down(self, R: Array) -> Array:
        """PᵀR: each rank adds up the aggregates it owns."""
        own = spmm(self.members, self.found.halo.beside(R)).astype(np.float64, copy=False)
        return self.found.space.ranks.joined(own) if self.halo is None else own

    def lift(self, X: Array, C: Array) -> None:
        """In place X += PC."""
        add_product(self.P, C if self.halo is None else self.halo.beside(C), X)

    def up(self, X: Array) -> Array:
        """PX in double precision.

        All lift what rank 0 has, where all have it: a basis that was found on two ranks may differ
        in its signs.
        """
        P = sp.csr_matrix((self.weight, self.P.indices, self.P.indptr), shape=self.P.shape)
        ranks = self.found.space.ranks
        return spmm(P, ranks.told(X) if self.halo is None else self.halo.beside(X))

    def null(self, fine: NullSpace, vector: NDArray[np.float64]) -> NullSpace:
        """Null space of the coarser grid, whose near-null vector this is."""
        space = None if self.halo is None else self.halo.space
        count = fine.n_components
        if count == 0:
            return NullSpace.empty(vector.size, space)
        some = self.members.indices[self.members.indptr[:-1]]  # one node of each
        component = self.found.halo.beside(fine.component)[some]
        if space is None:
            component = self.found.space.ranks.joined(component)
        place = space or LocalSpace(vector.size)
        (sums,) = place.sums(GroupSums(vector[:, None] ** 2, component, count))
        volumes = sums[:, 0]
        return NullSpace(component, vector / np.sqrt(volumes[component]), count, space)


@dataclass(frozen=True, eq=False)
class DividedGrid:
    """A divided grid, A = shift·I + factor·matrix; see `Grid`. The finest is in single precision.

    `coarser` is None on the last one.
    """

    matrix: DividedMatrix
    shift: float
    factor: float
    inverse_diagonal: Array
    coarser: Coarser | None
    interval: tuple[float, float] = (0.475, 1.9)

    @property
    def space(self) -> RankSpace:
        """Where its blocks live."""
        return self.matrix.space

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of its blocks."""
        return np.dtype(self.inverse_diagonal.dtype)

    @property
    def is_last(self) -> bool:
        """Whether there is no coarser grid."""
        return self.coarser is None

    def first(self, B: Array, new: float) -> Array:
        """new·D⁻¹B."""
        by = self.inverse_diagonal * self.dtype.type(new)
        return by[:, None] * B

    def relax(self, B: Array, X: Array, step: Array | None, old: float, new: float) -> Array:
        """X + step after step = old·step + new·D⁻¹(B − AX); None for 0."""
        how = self.matrix.local, self.matrix.halo.beside(X), B, self.inverse_diagonal
        if step is None:
            return jacobi_step(*how, (self.shift, self.factor, new))
        return chebyshev_step(*how, step, (self.shift, self.factor, old, new))

    def residual(self, B: Array, X: Array) -> Array:
        """B − AX."""
        return residual(self.matrix.local, self.matrix.halo.beside(X), B, self.shift, self.factor)

    def down(self, R: Array) -> Array:
        """PᵀR; on all ranks where they hold the coarser grid."""
        assert self.coarser is not None
        return self.coarser.down(R)

    def lift(self, X: Array, C: Array) -> None:
        """In place X += PC."""
        assert self.coarser is not None
        self.coarser.lift(X, C)

    def solve(self, B: Array) -> None:
        """Never known."""
        return


@dataclass(frozen=True, eq=False)
class DividedHierarchy:
    """Grids from fine to coarse; what a nested iteration asks for.

    `divided` of them are, `below` are those on every rank. `vectors` are the near-null vectors of
    coarse grids, of own nodes as far as they are divided.
    """

    divided: tuple[DividedGrid, ...]
    below: Hierarchy | None
    vectors: tuple[NDArray[np.float64], ...]

    @property
    def sizes(self) -> list[int]:
        """Nodes per grid."""
        return [
            *(grid.space.size for grid in self.divided),
            *(self.below.sizes if self.below else []),
        ]

    def cycle(self, start: int = 0) -> Preconditioner:
        """Preconditioner for the matrix of grid `start`."""
        held = len(self.divided)
        if start >= held:
            assert self.below is not None
            return self.below.cycle(start - held)
        grids: tuple[Grid, ...] = self.divided[start:]
        return Cycle((*grids, *(self.below.levels if self.below else ())), 2, 1)

    def up(self, level: int, X: Array) -> Array:
        """PX from grid `level` to the next finer one, in double precision."""
        held = len(self.divided)
        if level > held:
            assert self.below is not None
            return self.below.up(level - held, X)
        way = self.divided[level - 1].coarser
        assert way is not None
        return way.up(X)

    def coarse_operator(self, level: int) -> SparseOperator | DividedOperator:
        """PᵀL̄P of grid `level` >= 1."""
        held = len(self.divided)
        if level < held:
            return DividedOperator(self.divided[level].matrix)
        assert self.below is not None
        return self.below.coarse_operator(level - held)

    def nulls(self, fine: NullSpace) -> list[NullSpace]:
        """Null space of every grid: an aggregate is in the component of its nodes."""
        found = [fine]
        for grid, vector in zip(self.divided, self.vectors, strict=False):
            assert grid.coarser is not None
            found.append(grid.coarser.null(found[-1], vector))
        return found if self.below is None else [*found[:-1], *self.below.nulls(found[-1])]


def divided_hierarchy(
    laplacian: DividedLaplacian, least: int | None = None
) -> DividedHierarchy | None:
    """Aggregates of the nodes over all ranks, grid by grid; None where none are coarser.

    Grids of fewer than `least` nodes, DIVIDED by default, are made and held by every rank. Cost:
    some twenty passes over a rank's own rows.
    """
    least = DIVIDED if least is None else least
    matrix, vector, ground = laplacian.matrix, laplacian.root_degree, laplacian.ground
    kept = None if ground is None else vector > 0
    shift, factor, diagonal = 1.0, -1.0, laplacian.diagonal
    grids: list[DividedGrid] = []
    vectors: list[NDArray[np.float64]] = []
    while True:
        found = aggregates(matrix, _STRONG, kept)
        share = _STALL if grids else 1.0
        stalls = not 0 < found.count < share * matrix.space.size
        if stalls and not grids:
            return None
        own = matrix if grids else matrix.in_single
        inverse = _inverse(matrix.space, diagonal).astype(own.local.dtype)
        if stalls:
            grids.append(DividedGrid(own, shift, factor, inverse, None))
            return DividedHierarchy(tuple(grids), None, tuple(vectors))
        coarse = np.sqrt(found.sums(vector**2))
        norms = np.append(found.beyond.beside(coarse), np.inf)  # the last for nodes in none
        weight = vector / norms[found.place]
        ground = None if ground is None else found.sums(ground)
        A = between(matrix, found, weight, coarse, ground, factor=factor)
        is_small = found.count < least
        way = Coarser.of(found, weight, own.local.dtype, divided=not is_small)
        grids.append(DividedGrid(own, shift, factor, inverse, way))
        if is_small:
            coarse = A.space.ranks.joined(coarse)
            vectors.append(coarse)
            below = coarse_hierarchy(DividedOperator(A).on_all(), coarse)
            return DividedHierarchy(tuple(grids), below, tuple(vectors))
        vectors.append(coarse)
        matrix, vector, kept, shift, factor, diagonal = A, coarse, None, 0.0, 1.0, A.diagonal()


def _inverse(space: RankSpace, diagonal: NDArray[np.float64]) -> NDArray[np.float64]:
    """1/a_ii of own nodes, see `inverse_diagonal`."""
    most = max(float(space.peaks(diagonal[:, None])[0]), 0.0)
    return inverse_diagonal(np.append(diagonal, most))[:-1]
