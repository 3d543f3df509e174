"""Grids of a Laplacian on ranks: the finest divided like the nodes, coarse ones on every rank.

Coarse grids have a tenth of the links and less, and every rank works on all of them: they need no
messages but for what comes down to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.spmm import add_product, chebyshev_step, jacobi_step, residual, spmm
from mustlink.linear.multigrid.cycle import Cycle, Grid
from mustlink.linear.multigrid.divided_aggregates import Aggregates, aggregates, between
from mustlink.linear.multigrid.hierarchy import (
    Hierarchy,
    coarse_hierarchy,
    inverse_diagonal,
)
from mustlink.operators.divided_laplacian import DividedLaplacian, DividedMatrix
from mustlink.operators.null_space import NullSpace
from mustlink.operators.protocol import Preconditioner
from mustlink.operators.sparse_operator import SparseOperator
from mustlink.space.rank_space import RankSpace

Array = NDArray[Any]
_STRONG = 0.5  # share of a node's strongest link, as at home


@dataclass(frozen=True, eq=False)
class DividedGrid:
    """The finest grid, A = I − S in single precision; see `Grid`."""

    S: DividedMatrix
    inverse_diagonal: Array
    members: sp.csr_matrix
    P: sp.csr_matrix
    found: Aggregates
    interval: tuple[float, float] = (0.475, 1.9)
    is_last: bool = False

    @property
    def space(self) -> RankSpace:
        """Where its blocks live."""
        return self.S.space

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of its blocks."""
        return np.dtype(np.float32)

    def first(self, B: Array, new: float) -> Array:
        """new·D⁻¹B."""
        by = self.inverse_diagonal * np.float32(new)
        return by[:, None] * B

    def relax(self, B: Array, X: Array, step: Array | None, old: float, new: float) -> Array:
        """X + step after step = old·step + new·D⁻¹(B − AX); None for 0."""
        how = self.S.local, self.S.halo.beside(X), B, self.inverse_diagonal
        if step is None:
            return jacobi_step(*how, (1.0, -1.0, new))
        return chebyshev_step(*how, step, (1.0, -1.0, old, new))

    def residual(self, B: Array, X: Array) -> Array:
        """B − AX."""
        return residual(self.S.local, self.S.halo.beside(X), B, 1.0, -1.0)

    def down(self, R: Array) -> Array:
        """PᵀR, on all ranks: each adds up the aggregates it owns."""
        own = spmm(self.members, self.found.halo.beside(R))
        return self.space.ranks.joined(own).astype(np.float64)

    def lift(self, X: Array, C: Array) -> None:
        """In place X += PC."""
        add_product(self.P, C, X)

    def solve(self, B: Array) -> None:
        """Never known."""
        return


@dataclass(frozen=True, eq=False)
class DividedHierarchy:
    """Grids from fine to coarse, `below` those on every rank; what a nested iteration asks for."""

    finest: DividedGrid
    below: Hierarchy
    weight: NDArray[np.float64]
    vector: NDArray[np.float64]

    @property
    def sizes(self) -> list[int]:
        """Nodes per grid."""
        return [self.finest.space.size, *self.below.sizes]

    def cycle(self, start: int = 0) -> Preconditioner:
        """Preconditioner for the matrix of grid `start`."""
        if start:
            return self.below.cycle(start - 1)
        grids: tuple[Grid, ...] = (self.finest, *self.below.levels)
        return Cycle(grids, 2, 1)

    @cached_property
    def _up(self) -> sp.csr_matrix:
        P = self.finest.P
        return sp.csr_matrix((self.weight, P.indices, P.indptr), shape=P.shape)

    def up(self, level: int, X: Array) -> Array:
        """PX from grid `level` to the next finer one, in double precision.

        All lift what rank 0 has: a basis that was found on two ranks may differ in its signs.
        """
        if level > 1:
            return self.below.up(level - 1, X)
        return spmm(self._up, self.finest.space.ranks.told(X))

    def coarse_operator(self, level: int) -> SparseOperator:
        """PᵀL̄P of grid `level` >= 1."""
        return self.below.coarse_operator(level - 1)

    def nulls(self, fine: NullSpace) -> list[NullSpace]:
        """Null space of every grid: an aggregate is in the component of its nodes."""
        found = self.finest.found
        own = np.zeros(found.own, dtype=np.int32)
        here = (found.group >= found.first) & (found.group < found.first + found.own)
        own[found.group[here] - found.first] = fine.component[here]
        component = found.space.ranks.joined(own)
        volumes = np.bincount(component, self.vector**2, fine.n_components)
        weight = self.vector / np.sqrt(volumes[component])
        return [fine, *self.below.nulls(NullSpace(component, weight, fine.n_components))]


def divided_hierarchy(laplacian: DividedLaplacian) -> DividedHierarchy | None:
    """Aggregates of the nodes over all ranks, then grids as at home; None where none are coarser.

    Cost: some twenty passes over a rank's own rows.
    """
    S = laplacian.matrix
    root, ground = laplacian.root_degree, laplacian.ground
    found = aggregates(S, _STRONG, None if ground is None else root > 0)
    if not 0 < found.count < laplacian.size:
        return None
    vector = found.norms(root)
    weight = root / vector[found.group]  # 0 in no aggregate
    coarse = between(S, found, weight, vector, ground)
    ends = np.arange(laplacian.space.held + 1)
    shape = (laplacian.space.held, found.count)
    group = np.maximum(found.group, 0).astype(np.int32)
    P = sp.csr_matrix((weight.astype(np.float32), group, ends), shape=shape)
    members = found.members(weight)
    members.data = members.data.astype(np.float32)  # scipy's own way would sort the nodes
    inverse = inverse_diagonal(laplacian.diagonal).astype(np.float32)
    finest = DividedGrid(S.in_single, inverse, members, P, found)
    return DividedHierarchy(finest, coarse_hierarchy(coarse, vector), weight, vector)
