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
_UNIT = 2.0**60  # of whole numbers that entries up to 1 are added as


@dataclass(frozen=True, eq=False)
class Aggregates:
    """Aggregate of own nodes, `group` (n_local,), numbered over all ranks; `count` are there.

    It is -1 for nodes that are in none.

    Those from `first` on, `own` in number, have their root here: this rank owns them.
    """

    space: RankSpace
    group: NDArray[np.int64]
    first: int
    own: int
    count: int

    @cached_property
    def _strangers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Nodes of other ranks in aggregates owned here, rising, and their aggregates."""
        space = self.space
        owned = (self.group >= self.first) & (self.group < self.first + self.own)
        leaving = np.flatnonzero(~owned & (self.group >= 0))
        told = np.column_stack([leaving + space.first, self.group[leaving]])
        every = space.ranks.joined(told)
        mine = (every[:, 1] >= self.first) & (every[:, 1] < self.first + self.own)
        mine &= (every[:, 0] < space.first) | (every[:, 0] >= space.end)
        nodes, at = np.unique(every[mine, 0], return_index=True)
        return nodes, every[mine, 1][at]

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

    def norms(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Length of a vector's part on every aggregate, (count,), on all ranks."""
        squares = self.members(vector**2).sum(axis=1)
        return np.sqrt(self.space.ranks.joined(np.asarray(squares).ravel()))


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
    return Aggregates(space, number - 1, first, int(roots.size), int(counts.sum()))


def between(
    matrix: DividedMatrix,
    found: Aggregates,
    weight: NDArray[np.float64],
    vector: NDArray[np.float64],
    ground: NDArray[np.float64] | None = None,
) -> sp.csr_matrix:
    """PᵀP − PᵀSP (count, count) with null vector `vector`, on all ranks, from P's `weight`.

    With a `ground` (n_local,) it makes that, summed over aggregates, of `vector`². Terms are added
    as whole numbers, so that no order matters. The diagonal follows from the rest: nothing is lost
    by a difference.
    """
    local, halo = matrix.local, matrix.halo
    groups, weights = halo.beside(found.group), halo.beside(weight)
    shape = (found.count, found.count)
    total: Any = sp.csr_matrix((0, 0))
    for rows in _some_rows(local.indptr):
        part = slice(local.indptr[rows.start], local.indptr[rows.stop])
        columns = local.indices[part]
        lengths = np.diff(local.indptr[rows.start : rows.stop + 1])
        here = np.repeat(np.arange(rows.start, rows.stop), lengths)
        outside = groups[here] != groups[columns]
        here, columns = here[outside], columns[outside]
        terms = weights[here] * local.data[part][outside] * weights[columns]
        whole = np.rint(terms * _UNIT).astype(np.int64)
        some = sp.coo_matrix((whole, (groups[here], groups[columns])), shape=shape).tocsr()
        total = total + some if total.shape == shape else some
    own = total.tocoo()
    ranks = found.space.ranks
    at = ranks.joined(np.column_stack([own.row, own.col]).astype(np.int32))
    whole = ranks.joined(own.data)
    links = sp.coo_matrix((whole, (at[:, 0], at[:, 1])), shape=shape).tocsr()
    off = sp.csr_matrix((links.data / _UNIT, links.indices, links.indptr), shape=shape)
    off.eliminate_zeros()
    diagonal = np.asarray(off @ vector) / vector
    if ground is not None:
        diagonal += (found.norms(np.sqrt(ground)) / vector) ** 2
    coarse = sp.csr_matrix(sp.diags_array(diagonal) - off)
    coarse.sort_indices()
    return coarse


def _some_rows(indptr: NDArray[np.integer], entries: int = 1 << 19) -> list[slice]:
    """Rows a few at a time: what is made of their entries stays small."""
    starts = np.unique(np.searchsorted(indptr, np.arange(0, indptr[-1], entries), side="left"))
    ends = np.append(starts[1:], indptr.size - 1)
    return [slice(int(a), int(b)) for a, b in zip(starts, ends, strict=True)]
