"""Aggregates of nodes that are on ranks: the same however the nodes are divided.

Roots are a maximal set of nodes more than two strong links apart, found in rounds by random keys;
every other node joins a root beside it, or one beside a neighbour. All is done in whole numbers, or
by whoever owns an aggregate, in the order of its nodes.
Source: Bell, Dalton & Olson 2012, Exposing fine-grained parallelism in algebraic multigrid.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.root_spread import (
    highest_near,
    nearest_value,
    node_keys,
)
from mustlink.kernels.strong_links import strongest_links
from mustlink.operators.divided_laplacian import DividedMatrix
from mustlink.space.halo import Halo
from mustlink.space.rank_space import RankSpace

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
        told = np.column_stack([leaving + space.first, group[leaving]])
        came = space.ranks.sent(told, counts)
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
    matrix: DividedMatrix, share: float, kept: NDArray[np.bool_] | None = None
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
        spread(state, beside < _ROOT, beside)  # who is beside a root stays so
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
