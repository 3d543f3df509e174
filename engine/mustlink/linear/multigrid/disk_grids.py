"""Grids of a graph on disk: the finest is read row by row, all others are small and in memory.

Standard aggregation takes nodes in order, so that every step of it is a pass over the rows, with
a few bytes a node in memory. With P = T^½E/size, E (n, count) the aggregate of every node, PᵀSP is
the graph of the aggregates, normalised: weights are summed, and nothing else is needed.

Of neighbours in many dimensions an aggregate is linked with hundreds of others, most of them
lightly. Where they are many only the heaviest stay. The others go to the diagonal: degrees
stay, so the constant vector does, and a preconditioner, or the start of an iteration, hardly knows
the difference as long as nothing comes apart. Measured on 10⁶ points in 32 dimensions, nine pairs
to 1e-3: 13 M links, 2.9 CPU seconds; the 24 heaviest of each, 1.8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mustlink.graph.disk_graph import DiskGraph
from mustlink.graph.graph import component_labels
from mustlink.graph.row_buckets import RowBuckets
from mustlink.kernels import aggregated_matrix as aggregates
from mustlink.kernels.aggregated_matrix import heaviest_links
from mustlink.kernels.disk_rows import advance, relax
from mustlink.kernels.spmm import scaled
from mustlink.linear.multigrid.cycle import Cycle
from mustlink.linear.multigrid.hierarchy import Hierarchy, coarse_grids, inverse_diagonal
from mustlink.operators.protocol import Preconditioner, SparseOperator
from mustlink.operators.stored_laplacians import DiskLaplacian
from mustlink.space import Block, LocalSpace, NullSpace
from mustlink.space.disk import DiskBlock, DiskSpace

_STRONG = 0.5  # as in memory, see `hierarchy`
_HELD = 5  # blocks in memory of a cycle
_WIDE = 0.1  # of the weights of the graph: as many links between aggregates at most
_FEW = 1 << 20  # links that take no room to speak of
FEWEST = 4  # links of an aggregate, below which a graph of them says little
Advance = Callable[[float], None]
Single = NDArray[np.float32]


class DiskGrids(Hierarchy):
    """The grids of a Laplacian on disk, the finest of which is a `DiskGrid`."""

    @property
    def laplacian(self) -> DiskLaplacian:
        """Whose grids they are, on as many columns as there is room for."""
        result: DiskLaplacian = self.levels[0].laplacian
        return result

    def within(self, room: int) -> DiskGrids:
        """The same with so many bytes for columns in memory."""
        first = replace(self.levels[0], laplacian=replace(self.laplacian, room=room))
        return DiskGrids((first, *self.levels[1:]))


@dataclass(frozen=True, eq=False)
class DiskGrid:
    """The finest grid on columns x = T^-½v in memory: A = I − T⁻¹W, Pᵀ and P scaled likewise.

    It is its own way to the next grid.

    `group` (n,) is the aggregate of every node, `share` (n,) its entry of P, 0 for isolated nodes;
    `sizes` are the lengths of the aggregates' parts of T^½1, `coarser` is A of the next grid.
    """

    laplacian: DiskLaplacian
    group: DiskBlock
    share: DiskBlock
    sizes: NDArray[np.float64]
    coarser: SparseOperator

    dtype = np.dtype(np.float32)
    interval = (0.475, 1.9)
    everywhere = True

    @property
    def way(self) -> DiskGrid:
        return self

    @property
    def size(self) -> int:
        return self.laplacian.size

    @property
    def n_entries(self) -> int:
        return self.laplacian.graph.n_entries

    def applied(self, cycle: Cycle) -> Preconditioner:
        """The cycle on a block on disk, by columns in memory."""
        return lambda R: self.laplacian.in_memory(R, cycle, _HELD)

    def up(self, X: Block) -> Block:
        """PX from the coarser grid."""
        return self.laplacian.space.spread(X, self.group, self.share, np.float32)

    def null(self, fine: NullSpace) -> NullSpace:
        """Null space of the coarser grid: links that were left out join nothing."""
        if fine.n_components == 0:
            return NullSpace.empty(self.sizes.size)
        component = component_labels(self.coarser.local)
        return NullSpace.of_components(component, self.sizes, int(component.max()) + 1)

    @cached_property
    def space(self) -> LocalSpace:
        return LocalSpace(self.laplacian.size)

    def _smoother(self, rows: slice) -> Single:
        """1/a_ii of some rows."""
        loops = self.laplacian.loops
        if loops is None:
            return np.ones(rows.stop - rows.start, dtype=np.float32)
        own = 1.0 - loops[rows] * self.laplacian.inverse[rows]
        return inverse_diagonal(own).astype(np.float32)

    def first(self, B: Single, new: float) -> Single:
        result = np.empty_like(B)
        for rows in self.laplacian.space.ranges(2 * B.itemsize * B.shape[1]):
            np.multiply(B[rows], np.float32(new) * self._smoother(rows)[:, None], out=result[rows])
        return result

    def relax(self, B: Single, X: Single, step: Single | None, old: float, new: float) -> Single:
        step = np.zeros_like(X) if step is None else step
        out, weights = np.empty_like(X), np.array((old, new), dtype=np.float32)
        for block, inverse, sums in self.laplacian.rows(X.shape[1]):
            relax(block, X, B, inverse, self._smoother(block.rows), weights, sums, step, out)
        return out

    def residual(self, B: Single, X: Single) -> Single:
        out, weights = B.copy(), np.array((1.0, -1.0, 1.0), dtype=np.float32)
        for block, inverse, sums in self.laplacian.rows(X.shape[1]):
            advance(block, X, inverse, weights, sums, out)
        return out

    def down(self, R: Single) -> Block:
        """PᵀR on the coarser grid: aggregates' sums of t_i r_i over their sizes."""
        result = np.zeros((self.sizes.size, R.shape[1]))
        for rows in self.laplacian.space.ranges(32 + 4 * R.itemsize * R.shape[1]):
            weight = self.share[rows] * self.laplacian.root_degree[rows]
            E = sp.csr_matrix(
                (weight, self.group[rows], np.arange(weight.size + 1)),
                shape=(weight.size, self.sizes.size),
            )
            result += E.T @ R[rows].astype(np.float64)
        return result

    def lift(self, X: Single, C: Block) -> None:
        """In place X += PC, scaled."""
        own = (C / self.sizes[:, None]).astype(np.float32)
        for rows in self.laplacian.space.ranges(32 + 4 * X.itemsize * X.shape[1]):
            X[rows] += own[self.group[rows]] * (self.share[rows] > 0)[:, None]

    def solve(self, B: Single) -> None:
        return


def stored_grids(
    laplacian: DiskLaplacian, advance: Advance = lambda _: None, most: int | None = None
) -> DiskGrids | None:
    """Aggregate nodes in their order until about 200 are left; None where few find together.

    Of the links between aggregates the heaviest are kept, `most` or a tenth of the graph's weights
    (`AggregateLinks`); None also where that leaves an aggregate next to nothing.

    Five passes over the graph. Memory: 12 bytes a node, and the graph of the aggregates.
    """
    graph, space = laplacian.graph, laplacian.space
    result = _groups(laplacian, advance)
    if result is None:
        return None
    held, count = result
    wanted = max(int(_WIDE * graph.n_entries), _FEW)
    most = wanted if most is None else min(wanted, most)
    links = AggregateLinks(graph, held, count, most)
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
    root = np.sqrt(np.asarray(weights.sum(axis=1)).ravel() + ground)
    weights.data = scaled(weights, 1.0 / root)
    A = SparseOperator(sp.csr_matrix(sp.identity(count, format="csr") - weights))
    del weights  # as large as the graph itself, where aggregates have many neighbours
    fine = DiskGrid(laplacian, group, share, root, A)
    return DiskGrids((fine, *coarse_grids(A, root)))


def _groups(laplacian: DiskLaplacian, advance: Advance) -> tuple[NDArray[np.int32], int] | None:
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


@dataclass(frozen=True, eq=False)
class AggregateLinks:
    """Links between `count` aggregates, `group` (n,) telling those of the nodes; `most` at most."""

    graph: DiskGraph
    group: NDArray[np.int32]
    count: int
    most: int

    def weights(self, space: DiskSpace, advance: Advance) -> sp.csr_matrix | None:
        """Sums of weights, (count, count), in double precision; None where links are too many.

        Where all are more than `most` the heaviest of each aggregate, and those without which it
        would fall apart.
        """
        buckets = self._dealt(space, lambda part: advance(0.5 * part))
        kept, parts, links, totals = self.count, [], 0, np.zeros(self.count)
        for part in buckets.rows():
            row = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
            totals[part.rows] = np.bincount(row, part.data, part.shape[0])
            parts.append((part.first, *heaviest_links(part.indptr, part.indices, part.data,
                                                      part.first, kept)))  # fmt: skip
            links += parts[-1][2].size
            if links > self.most and kept == self.count:
                kept = min(self.most // (2 * self.count), self.count - 1)
                if kept < FEWEST:
                    return None
                parts = [(one[0], *heaviest_links(*one[1:], one[0], kept)) for one in parts]
            advance(0.5 + 0.5 * part.rows.stop / self.count)
        lengths, columns, values = (
            np.concatenate(each)
            for each in zip(*((np.diff(one[1]), *one[2:]) for one in parts), strict=True)
        )
        del parts
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        parts_of_w = values.astype(np.float64), columns, ends
        W = sp.csr_matrix(parts_of_w, shape=(self.count, self.count))
        if kept < self.count:
            W.sort_indices()
            joined = self._joined(sp.csr_matrix(W.maximum(W.T)), buckets)  # both ends agree
            if joined is None:
                return None
            W = joined
        loops = np.maximum(totals - np.asarray(W.sum(axis=1)).ravel(), 0.0)
        return sp.csr_matrix(W + sp.diags(loops))

    def _joined(self, W: sp.csr_matrix, buckets: RowBuckets) -> sp.csr_matrix | None:
        """The same with all links between parts that came apart; None where they are too many."""
        parts, label = connected_components(W, directed=False)
        if parts == 1:
            return W
        bridges, links = [], W.nnz
        for part in buckets.rows():
            row = part.first + np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
            across = label[row] != label[part.indices]
            links += int(np.count_nonzero(across))
            if links > 2 * self.most:
                return None
            bridges.append((part.data[across], row[across], part.indices[across]))
        data, rows, columns = (np.concatenate(each) for each in zip(*bridges, strict=True))
        return W + sp.csr_matrix((data.astype(np.float64), (rows, columns)), shape=W.shape)

    def _dealt(self, space: DiskSpace, advance: Advance) -> RowBuckets:
        """Entries by the aggregate of their row."""
        graph, group = self.graph, self.group
        entries = np.zeros(self.count, dtype=np.int64)
        for rows in space.ranges(32):
            held = np.bincount(np.maximum(group[rows], 0), graph.lengths(rows), self.count)
            entries += held.astype(np.int64)
        buckets = RowBuckets(entries, space.folder)
        for block in graph.blocks():
            mine = np.repeat(group[block.rows], np.diff(block.indptr))
            there, data = group[block.indices], block.data
            inside = (mine >= 0) & (there >= 0)  # others are in no aggregate
            if not inside.all():
                mine, there, data = mine[inside], there[inside], data[inside]
            buckets.add(mine, there, data)
            advance(block.rows.stop / graph.n_nodes)
        return buckets
