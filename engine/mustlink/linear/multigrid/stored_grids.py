"""Grids of a graph on disk: the finest is read row by row, all others are small and in memory.

Standard aggregation takes nodes in order, so that every step of it is a pass over the rows, with
a few bytes a node in memory. With P = T^½E/size, E who is in which aggregate, PᵀSP is the graph of
the aggregates, normalised: weights are summed, and nothing else is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels import stored_aggregates as aggregates
from mustlink.kernels.stored_rows import advance, relax
from mustlink.linear.multigrid.cycle import Cycle, Grid
from mustlink.linear.multigrid.hierarchy import Hierarchy, build_hierarchy, inverse_diagonal
from mustlink.linear.multigrid.level import Level
from mustlink.linear.multigrid.stored_links import Links
from mustlink.operators.grounded_laplacian import GroundedLaplacian
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.operators.null_space import NullSpace
from mustlink.operators.sparse_operator import SparseOperator
from mustlink.operators.stored_laplacian import StoredLaplacian
from mustlink.space import Block, LocalSpace
from mustlink.space.disk_block import DiskBlock

_STRONG = 0.5  # as in memory, see `hierarchy`
_VISITS, _CHEAP = 3, 1.2  # likewise
_HELD = 5  # blocks in memory of a cycle
_WIDE = 0.1  # of the weights of the graph: as many links between aggregates at most
_FEW = 1 << 20  # links that take no room to speak of
Advance = Callable[[float], None]
Single = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class StoredGrids:
    """What `eigen.nested_iteration` asks of grids, for a Laplacian on disk.

    `group` (n,) is the aggregate of every node, `share` (n,) its entry of P, 0 for isolated nodes.
    `coarse` are the grids from the first coarse one on.
    """

    laplacian: StoredLaplacian
    group: DiskBlock
    share: DiskBlock
    first: GroundedLaplacian
    coarse: Hierarchy

    @property
    def sizes(self) -> list[int]:
        """Nodes per grid, the finest first."""
        return [self.laplacian.size, *self.coarse.sizes]

    def cycle(self, start: int = 0) -> Callable[[Any], Any]:
        """Preconditioner for the matrix of grid `start`; of the finest by columns in memory."""
        if start:
            return self.coarse.cycle(start - 1)
        work = [self.laplacian.graph.n_entries, *(level.matrix.nnz for level in self.coarse.levels)]
        visits = sum(_VISITS**depth * nnz for depth, nnz in enumerate(work[:-1]) if depth)
        grids: tuple[Grid, ...] = (self._finest, *self.coarse.levels)
        is_cheap = visits <= _CHEAP * work[0]
        made = Cycle(grids, 1, _VISITS) if is_cheap else Cycle(grids, 2, 1)
        return lambda R: self.laplacian.in_memory(R, made, _HELD)

    def up(self, level: int, X: Block) -> Any:
        """PX from grid `level` to the next finer one."""
        if level > 1:
            return self.coarse.up(level - 1, X)
        return self.laplacian.space.spread(X, self.group, self.share, np.float32)

    def coarse_operator(self, level: int) -> SparseOperator | NormalizedLaplacian:
        """PᵀL̄P of grid `level` >= 1."""
        if level > 1:
            return self.coarse.coarse_operator(level - 1)
        assert isinstance(self.first, NormalizedLaplacian)
        return self.first

    def nulls(self, fine: NullSpace) -> list[NullSpace]:
        """Null space of every grid, `fine` first."""
        own = NullSpace.empty(self.first.size)
        if fine.n_components and isinstance(self.first, NormalizedLaplacian):
            own = self.first.null
        return [fine, *self.coarse.nulls(own)]

    @cached_property
    def _finest(self) -> StoredGrid:
        sizes = self.first.root_degree
        return StoredGrid(self.laplacian, self.group, self.share, sizes)


@dataclass(frozen=True, eq=False)
class StoredGrid:
    """The finest grid on columns x = T^-½v in memory: A = I − T⁻¹W, Pᵀ and P scaled likewise."""

    laplacian: StoredLaplacian
    group: DiskBlock
    share: DiskBlock
    sizes: NDArray[np.float64]

    dtype = np.dtype(np.float32)
    interval = (0.475, 1.9)
    is_last = False

    @cached_property
    def space(self) -> LocalSpace:
        """Its columns are in memory."""
        return LocalSpace(self.laplacian.size)

    def _smoother(self, rows: slice) -> Single:
        """1/a_ii of some rows."""
        loops = self.laplacian.loops
        if loops is None:
            return np.ones(rows.stop - rows.start, dtype=np.float32)
        own = 1.0 - loops[rows] * self.laplacian.inverse[rows]
        return inverse_diagonal(own).astype(np.float32)

    def first(self, B: Single, new: float) -> Single:
        """new·D⁻¹B."""
        found = np.empty_like(B)
        for rows in self.laplacian.space.ranges(2 * B.itemsize * B.shape[1]):
            np.multiply(B[rows], np.float32(new) * self._smoother(rows)[:, None], out=found[rows])
        return found

    def relax(self, B: Single, X: Single, step: Single | None, old: float, new: float) -> Single:
        """X + step after step = old·step + new·D⁻¹(B − AX); None for 0."""
        step = np.zeros_like(X) if step is None else step
        out, weights = np.empty_like(X), np.array((old, new), dtype=np.float32)
        for block, inverse, sums in self.laplacian.rows(X.shape[1]):
            relax(block, X, B, inverse, self._smoother(block.rows), weights, sums, step, out)
        return out

    def residual(self, B: Single, X: Single) -> Single:
        """B − AX."""
        out, weights = B.copy(), np.array((1.0, -1.0, 1.0), dtype=np.float32)
        for block, inverse, sums in self.laplacian.rows(X.shape[1]):
            advance(block, X, inverse, weights, sums, out)
        return out

    def down(self, R: Single) -> Block:
        """PᵀR on the coarser grid: aggregates' sums of t_i r_i over their sizes."""
        found = np.zeros((self.sizes.size, R.shape[1]))
        for rows in self.laplacian.space.ranges(32 + 4 * R.itemsize * R.shape[1]):
            weight = self.share[rows] * self.laplacian.root_degree[rows]
            E = sp.csr_matrix(
                (weight, self.group[rows], np.arange(weight.size + 1)),
                shape=(weight.size, self.sizes.size),
            )
            found += E.T @ R[rows].astype(np.float64)
        return found

    def lift(self, X: Single, C: Block) -> None:
        """In place X += PC, scaled."""
        scaled = (C / self.sizes[:, None]).astype(np.float32)
        for rows in self.laplacian.space.ranges(32 + 4 * X.itemsize * X.shape[1]):
            X[rows] += scaled[self.group[rows]] * (self.share[rows] > 0)[:, None]

    def solve(self, B: Single) -> None:
        """Never known."""
        return


def stored_grids(
    laplacian: StoredLaplacian, advance: Advance = lambda _: None, most: int | None = None
) -> StoredGrids | None:
    """Aggregate nodes in their order until about 200 are left; None where few find together.

    Of the links between aggregates the heaviest are kept, `most` or a tenth of the graph's weights
    (`stored_links`); None also where that leaves an aggregate next to nothing.

    Five passes over the graph. Memory: 12 bytes a node, and the graph of the aggregates.
    """
    graph, space = laplacian.graph, laplacian.space
    found = _groups(laplacian, advance)
    if found is None:
        return None
    held, count = found
    wanted = max(int(_WIDE * graph.n_entries), _FEW)
    most = wanted if most is None else min(wanted, most)
    links = Links(graph, held, count, most)
    weights = links.weights(space, lambda part: advance(0.7 + 0.3 * part))
    if weights is None:
        return None
    group, share = space.new((), np.int32), space.new((), np.float64)
    squares, ground = np.zeros((2, count))
    for rows in space.ranges(32):
        mine = held[rows]
        group[rows] = np.maximum(mine, 0)
        weight = np.where(mine >= 0, laplacian.root_degree[rows], 0.0)
        share[rows] = weight
        squares += np.bincount(np.maximum(mine, 0), weight**2, count)
        if laplacian.ground is not None:
            own = np.where(mine >= 0, laplacian.ground[rows], 0.0)
            ground += np.bincount(np.maximum(mine, 0), own, count)
    del held
    sizes = np.sqrt(squares)
    for rows in space.ranges(32):
        share[rows] = share[rows] / sizes[group[rows]]
    if laplacian.ground is None:
        first: GroundedLaplacian = NormalizedLaplacian.of_weights(weights)
    else:
        first = GroundedLaplacian.of_grounded(weights, ground)
    del weights  # as large as the graph itself, where aggregates have many neighbours
    return StoredGrids(laplacian, group, share, first, _in_double(first))


def _groups(laplacian: StoredLaplacian, advance: Advance) -> tuple[NDArray[np.int32], int] | None:
    """Aggregate of every node (n,), negative for isolated ones, and how many there are."""
    graph, n = laplacian.graph, laplacian.size
    scale, most = np.empty(n, dtype=np.float32), np.zeros(n, dtype=np.float32)
    for rows in laplacian.space.ranges(16):
        scale[rows] = np.sqrt(laplacian.inverse[rows])
    group = np.full(n, aggregates.FREE, dtype=np.int32)
    for block in graph.blocks():
        aggregates.heaviest(block.indptr, block.indices, block.data, block.first, scale, most)
        advance(0.2 * block.rows.stop / n)
    count, how = 0, (scale, most, np.float32(_STRONG), group)
    for block in graph.blocks():
        arrays = block.indptr, block.indices, block.data, block.first
        count = aggregates.begin_groups(*arrays, *how, count)
        advance(0.2 + 0.2 * block.rows.stop / n)
    for block in graph.blocks():
        aggregates.join_groups(block.indptr, block.indices, block.data, block.first, *how)
        advance(0.4 + 0.3 * block.rows.stop / n)
    if (group == aggregates.FREE).any():
        for block in graph.blocks():
            arrays = block.indptr, block.indices, block.data, block.first
            count = aggregates.group_rest(*arrays, *how, count)
    aggregates.settle(group)
    return (group, count) if 0 < count <= 0.8 * n else None


def _in_double(first: GroundedLaplacian) -> Hierarchy:
    """Grids of the graph of aggregates, the first of them in double precision as all others."""
    grids = build_hierarchy(first)
    level, P = grids.levels[0], grids.prolongation[0] if grids.prolongation else None
    exact = Level(
        first.edges,
        level.shift,
        level.factor,
        inverse_diagonal(first.diagonal),
        P,
        None if P is None else P.T.tocsr(),
        level.coarse_inverse,
    )
    return replace(grids, levels=(exact, *grids.levels[1:]))
