"""Grids of a Laplacian on ranks: large ones divided like the nodes, small ones on every rank.

What every rank holds it also works on: no messages are needed there but for what comes down.

Aggregates are the same however the nodes are divided. Roots are a maximal set of nodes more than
two strong links apart, found in rounds by random keys; every other node joins a root beside it, or
one beside a neighbour. All is done in whole numbers, or by whoever owns an aggregate, in the order
of its nodes. Source: Bell, Dalton & Olson 2012, Exposing fine-grained parallelism in algebraic
multigrid.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.aggregated_matrix import strongest_links, whole_links
from mustlink.kernels.diffused_columns import highest_near, nearest_value, node_keys
from mustlink.linear.multigrid.hierarchy import (
    STALL,
    Coarsening,
    Coarser,
    Hierarchy,
    coarsened,
    grids_below,
)
from mustlink.operators.protocol import RankMatrix, SparseOperator
from mustlink.operators.stored_laplacians import RankLaplacian
from mustlink.space import LocalSpace
from mustlink.space.ranks import Halo, RankSpace

Array = NDArray[Any]
DIVIDED = 1 << 13  # nodes from which on a coarse grid is divided
_STRONG = 0.5  # share of a node's strongest link, as in memory
_UNIT = 2.0**60  # of whole numbers that entries up to 1 are added as
_ROOT = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Aggregates:
    """Aggregate of own nodes, `group` (n_local,), numbered over all ranks; -1 for those in none.

    `bounds` (ranks + 1,) are the first aggregates of ranks: they own them. Aggregates are in the
    order of their roots, so that most are where their nodes are.
    """

    space: RankSpace
    group: NDArray[np.int64]
    bounds: NDArray[np.int64]

    @property
    def count(self) -> int:
        """Aggregates of all ranks."""
        return int(self.bounds[-1])

    @property
    def first(self) -> int:
        """The first that is owned here."""
        return int(self.bounds[self.space.ranks.own])

    @property
    def own(self) -> int:
        """Aggregates that are owned here."""
        return int(self.bounds[self.space.ranks.own + 1]) - self.first

    @cached_property
    def _strangers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Nodes of other ranks in aggregates owned here, rising, and their aggregates."""
        space, group = self.space, self.group
        owned = (group >= self.first) & (group < self.first + self.own)
        leaving = np.flatnonzero(~owned & (group >= 0))
        leaving = leaving[np.argsort(group[leaving], kind="stable")]
        counts = np.diff(np.searchsorted(group[leaving], self.bounds))
        sent = np.column_stack([leaving + space.first, group[leaving]])
        came = space.ranks.sent(sent, counts)
        came = came[np.argsort(came[:, 0])]
        return came[:, 0], came[:, 1]

    @cached_property
    def halo(self) -> Halo:
        """Rows of the nodes of other ranks in aggregates owned here."""
        return Halo(self.space, self._strangers[0])

    def members(self, weight: NDArray[np.float64]) -> sp.csr_matrix:
        """Own aggregates × (own nodes, those of the halo): weights, nodes of a row rising."""
        nodes, groups = self._strangers
        every = np.concatenate([self.group, groups]) - self.first
        numbers = np.concatenate([np.arange(self.space.first, self.space.end), nodes])
        weights = self.halo.beside(weight)
        here = np.flatnonzero((every >= 0) & (every < self.own))
        order = here[np.lexsort((numbers[here], every[here]))]
        ends = np.concatenate([[0], np.cumsum(np.bincount(every[here], minlength=self.own))])
        shape = (self.own, every.size)
        return sp.csr_matrix((weights[order], order.astype(np.int32), ends), shape=shape)

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ over the nodes of own aggregates, (own,)."""
        found: NDArray[Any] = np.asarray(self.members(values).sum(axis=1)).ravel()
        return found

    @cached_property
    def beyond(self) -> Halo:
        """Rows of the aggregates of own nodes that others own, in blocks of the coarser grid."""
        found = np.unique(self.group)
        foreign = found[(found >= 0) & ((found < self.first) | (found >= self.first + self.own))]
        space = self.space
        return Halo(RankSpace(space.ranks, space.division.coarser(self.count)), foreign)

    @cached_property
    def place(self) -> NDArray[np.int64]:
        """Row of every own node's aggregate among those owned here, then those `beyond`; or -1."""
        own = self.group - self.first
        there = self.own + np.searchsorted(self.beyond.nodes, self.group)
        found = np.where((own >= 0) & (own < self.own), own, there)
        return np.where(self.group < 0, -1, found)


def aggregates(
    matrix: RankMatrix, share: float, kept: NDArray[np.bool_] | None = None
) -> Aggregates:
    """Aggregate the nodes along links of `share` of the strongest and more.

    Nodes that are not `kept` (n_local,), which have no link, are in no aggregate.
    Cost: some fifteen rounds, each of two passes over the rows that are still open.
    """
    space, local, halo = matrix.space, matrix.local, matrix.halo
    strongest = halo.beside(strongest_links(local))

    def spread(
        values: NDArray[np.int64], asked: NDArray[np.bool_], found: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        highest_near(local, (strongest, share), halo.beside(values), asked, found)
        return found

    state = node_keys(np.arange(space.first, space.end))
    beside, near = np.zeros((2, space.held), dtype=np.int64)
    while True:
        open_ = (state > 0) & (state < _ROOT)
        if not space.ranks.added(np.array([np.count_nonzero(open_)]))[0]:
            break
        spread(state, beside < _ROOT, beside)  # a node beside a root stays so
        spread(beside, open_, near)
        state = np.where(open_ & (near == _ROOT), 0, state)
        state = np.where(open_ & (near == state), _ROOT, state)
    roots = np.flatnonzero(state == _ROOT if kept is None else (state == _ROOT) & kept)
    counts = space.ranks.joined(np.array([roots.size]))
    first = int(counts[: space.ranks.own].sum())
    number = np.zeros(space.held, dtype=np.int64)
    number[roots] = first + np.arange(roots.size) + 1
    # Two roots have no neighbour in common.
    number = spread(number, np.ones(space.held, dtype=np.bool_), near)
    number = nearest_value(local, halo.beside(number))
    return Aggregates(space, number - 1, space.division.coarser(int(counts.sum())).bounds)


def between(
    matrix: RankMatrix,
    found: Aggregates,
    weight: NDArray[np.float64],
    vector: NDArray[np.float64],
    ground: NDArray[np.float64] | None = None,
    *,
    factor: float = -1.0,
) -> RankMatrix:
    """PᵀAP (count, count) with null vector `vector` (own,).

    A is `factor`·matrix off the diagonal, `weight` (n_local,) are P's. With a `ground` (own,) A
    makes that of `vector`². Terms are added as whole numbers, so that no order matters. The
    diagonal follows from the rest: nothing is lost by a difference.
    """
    space = found.beyond.space
    off = RankMatrix.of_rows(space, _links(matrix, found, weight, -factor))
    local = off.local
    rows = np.repeat(np.arange(space.held), np.diff(local.indptr))
    inside = local.indices == rows
    local.data[inside] = 0.0
    diagonal = off.apply(vector[:, None])[:, 0] / vector
    if ground is not None:
        diagonal += ground / vector**2
    np.negative(local.data, out=local.data)
    local.data[inside] = diagonal
    return off


def _links(
    matrix: RankMatrix, found: Aggregates, weight: NDArray[np.float64], sign: float
) -> sp.csr_matrix:
    """Own rows (own, count) of what links aggregates, 1/unit on the diagonal; columns rising."""
    groups = matrix.halo.beside(found.group)
    known = np.unique(groups)
    known = known[known >= 0]
    number = np.where(groups < 0, -1, np.searchsorted(known, groups)).astype(np.int32)
    weights = matrix.halo.beside(weight)
    at, links = whole_links(matrix.local, number, weights, sign * _UNIT)
    mine, ends, ranks = known[at], links.indptr, found.space.ranks
    rows = np.searchsorted(mine, found.bounds)  # those of every rank lie together
    lengths, counts, entries = np.diff(ends), np.diff(rows), np.diff(ends[rows])
    columns = known[links.indices].astype(np.int32)
    here = slice(rows[ranks.own], rows[ranks.own + 1])
    part = slice(ends[here.start], ends[here.stop])
    held = np.zeros(found.own + 1, dtype=np.int64)
    held[mine[here] - found.first + 1] = lengths[here]
    shape = (found.own, found.count)
    own = sp.csr_matrix((links.data[part], columns[part], np.cumsum(held)), shape=shape)
    own.sort_indices()
    going, leaving = np.ones(mine.size, dtype=np.bool_), np.ones(columns.size, dtype=np.bool_)
    going[here] = leaving[part] = False
    counts[ranks.own] = entries[ranks.own] = 0
    numbers = np.repeat(
        ranks.sent(mine[going], counts) - found.first, ranks.sent(lengths[going], counts)
    )
    there = ranks.sent(columns[leaving], entries)
    values = ranks.sent(links.data[leaving], entries)
    came = sp.coo_matrix((values, (numbers, there)), shape=shape).tocsr()
    whole = own + came if came.nnz else own
    whole.eliminate_zeros()
    whole.data = whole.data / _UNIT
    return whole


@dataclass(frozen=True, eq=False)
class RankCoarser(Coarser):
    """The way from a divided grid: P's own rows, and its columns that are owned here, as R.

    `found` are the aggregates. Of a coarser grid that is divided, too, `halo` has those of own
    nodes that others own; it is None where all ranks hold that grid.
    """

    found: Aggregates
    halo: Halo | None

    @classmethod
    def along(cls, found: Aggregates, weight: Array, dtype: Any, *, divided: bool) -> Coarser:
        """That of aggregates, `weight` (n_local,) being P's entries."""
        halo = found.beyond if divided else None
        space = LocalSpace(found.count) if halo is None else halo.space
        group, columns = found.group, found.count
        if halo is not None:
            group, columns = found.place, found.own + halo.size
        ends = np.arange(group.size + 1)
        entries = weight.astype(dtype), np.maximum(group, 0).astype(np.int32), ends
        P = sp.csr_matrix(entries, shape=(group.size, columns))
        R = found.members(weight)
        R.data = R.data.astype(dtype)  # scipy's own way would sort the nodes
        return cls(P, R, weight, space, found, halo)

    def fine(self, X: Array) -> Array:
        """Own rows, and those of others in aggregates that are owned here."""
        return self.found.halo.beside(X)

    def coarse(self, X: Array) -> Array:
        """Rows of the aggregates of own nodes."""
        return X if self.halo is None else self.halo.beside(X)

    def shared(self, own: Array) -> Array:
        """Rows of the aggregates that are owned here, of all where all hold the coarser grid."""
        return self.found.space.ranks.joined(own) if self.halo is None else own

    def up(self, X: Array) -> Array:
        """PX in double precision.

        All lift what rank 0 has, where all have it: a basis that was found on two ranks may differ
        in its signs.
        """
        return super().up(self.found.space.ranks.broadcast(X) if self.halo is None else X)


def divided_hierarchy(laplacian: RankLaplacian) -> Hierarchy | None:
    """Aggregates of the nodes over all ranks, grid by grid; None where none are coarser.

    Grids of fewer than DIVIDED nodes are made and held by every rank. Cost: some twenty passes
    over a rank's own rows.
    """

    def coarser(A: SparseOperator, vector: Any, ground: Any, finest: bool, dtype: Any) -> Any:
        if isinstance(A, RankMatrix):
            return _divided(A, vector, ground, finest, dtype)
        return coarsened(A, vector, ground, finest, dtype)

    levels = grids_below(laplacian, coarser)
    return Hierarchy(levels) if len(levels) > 1 else None


def _divided(
    A: RankMatrix, vector: Array, ground: Any, finest: bool, dtype: Any
) -> Coarsening | None:
    """The step from a divided grid; the finest has no other use than to find together."""
    kept = vector > 0 if finest and ground is not None else None
    found = aggregates(A, _STRONG, kept)
    if not 0 < found.count < (1.0 if finest else STALL) * A.space.size:
        return None
    coarse = np.sqrt(found.sums(vector**2))
    norms = np.append(found.beyond.beside(coarse), np.inf)  # the last for nodes in none
    weight = vector / norms[found.place]
    ground = None if ground is None else found.sums(ground)
    matrix: SparseOperator = between(
        A, found, weight, coarse, ground, factor=-1.0 if finest else 1.0
    )
    divided = found.count >= DIVIDED
    way = RankCoarser.along(found, weight, dtype, divided=divided)
    if not divided:
        coarse, matrix = A.space.ranks.joined(coarse), SparseOperator(matrix.whole())
    return Coarsening(way, matrix, coarse, ground)
