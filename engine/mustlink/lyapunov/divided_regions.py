"""Regions of a graph on ranks: each rank spreads parts of the constraints in regions sent to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.lyapunov.regions import Floats, Region, Told
from mustlink.operators.divided_laplacian import DividedLaplacian
from mustlink.operators.edges import Edges
from mustlink.space import Block
from mustlink.space.ranks import Ranks

_AT_ONCE = 8  # regions that are looked for together, at least
_FOUND = np.dtype([("part", np.int32), ("row", np.int32), ("column", np.int32), ("F", np.float64)])


class DividedRegions:
    """The rows of W on ranks as `SpreadRows`: of the parts in turn each rank has one.

    `weights` are own rows of W (n_local, m), `beliefs` those of F afterwards. The same on any
    number of ranks, bit by bit: what parts say of an edge is added in their order. Memory: own
    rows twice, a region and what is found in it; fields of own parts.
    """

    room = None  # the limits of a rank are those of the scheduler

    def __init__(self, laplacian: DividedLaplacian) -> None:
        self.laplacian, self._space = laplacian, laplacian.space
        ranks, local = self._space.ranks, laplacian.matrix.local
        self.at_once = ranks.count * max(1, _AT_ONCE // ranks.count)
        self.n_entries = int(ranks.joined(np.array([local.nnz])).sum())
        root = laplacian.root_degree
        data = local.data * laplacian.matrix.halo.beside(root)[local.indices]
        data *= np.repeat(root, np.diff(local.indptr))
        columns = laplacian.matrix.numbers.astype(np.int32)[local.indices]
        shape = (local.shape[0], laplacian.size)
        self.weights: Any = sp.csr_matrix((data, columns, local.indptr), shape=shape)
        self.beliefs = sp.csr_matrix(shape)

    @property
    def ranks(self) -> Ranks:
        """Who works on it."""
        return self._space.ranks

    def rounds(self, reached: Block) -> Iterator[tuple[int, Region | None]]:
        """See `SpreadRows`."""
        count = reached.shape[1]
        for first in range(0, count, self.ranks.count):
            last = min(first + self.ranks.count, count)
            region = self._sent(reached[:, first:last])
            self._part = first + self.ranks.own
            yield self._part, region

    def _sent(self, reached: NDArray[Any]) -> Region | None:
        """The region of own column, of rows that all ranks send."""
        W, ranks = self.weights, self.ranks
        chosen = [np.flatnonzero(reached[:, column]) for column in range(reached.shape[1])]
        chosen += [np.empty(0, np.int64)] * (ranks.count - len(chosen))
        counts = np.array([own.size for own in chosen])
        going = np.concatenate(chosen)
        rows = W[going]
        bounds = np.concatenate([[0], np.cumsum(counts)])
        entries = np.diff(rows.indptr[bounds].astype(np.int64))
        nodes = ranks.sent(going.astype(np.int64) + self._space.first, counts)
        root = ranks.sent(self.laplacian.root_degree[going], counts)
        lengths = ranks.sent(np.diff(rows.indptr).astype(np.int64), counts)
        columns, weights = ranks.sent(rows.indices, entries), ranks.sent(rows.data, entries)
        if ranks.own >= reached.shape[1]:
            return None
        place = np.full(self.laplacian.size, -1, dtype=np.int32)
        place[nodes] = np.arange(nodes.size, dtype=np.int32)
        columns = place[columns]
        row = np.repeat(np.arange(nodes.size), lengths)
        inside = columns >= 0
        ends = np.concatenate([[0], np.cumsum(np.bincount(row[inside], minlength=nodes.size))])
        parts = weights[inside], columns[inside], ends.astype(np.int32)
        among: Any = sp.csr_matrix(parts, shape=(nodes.size, nodes.size))
        return Region.of(nodes, among, root)

    def deliver(self, region: Region | None, F: Floats | None) -> None:
        """See `SpreadRows`."""
        found = np.empty(0, dtype=_FOUND)
        if region is not None and F is not None:
            told = np.flatnonzero(F)
            pattern, nodes = region.laplacian.pattern, region.nodes
            row = np.searchsorted(pattern.indptr, told, side="right") - 1
            found = np.empty(told.size, dtype=_FOUND)
            found["part"], found["F"] = self._part, F[told]
            found["row"], found["column"] = nodes[row], nodes[pattern.indices[told]]
        bounds = self._space.division.bounds
        counts = np.diff(np.searchsorted(found["row"], bounds))
        came = self.ranks.sent(found, counts)
        for part in np.unique(came["part"]):
            own = came[came["part"] == part]
            ends = own["row"] - self._space.first, own["column"]
            said = sp.csr_matrix((own["F"], ends), shape=self.beliefs.shape)
            self.beliefs = sp.csr_matrix(self.beliefs + said) if self.beliefs.nnz else said

    def believe(self, F: Floats) -> None:
        """F on the entries of own rows, instead of what parts said."""
        own = self.weights
        self.beliefs = sp.csr_matrix((F, own.indices, own.indptr), shape=own.shape)

    def kept(self, field: Any, pattern: Edges) -> Callable[[], tuple[Any, Edges]]:
        """See `SpreadRows`."""
        return lambda: (field, pattern)

    def added(self, values: NDArray[Any]) -> NDArray[Any]:
        """See `SpreadRows`."""
        return self.ranks.added(values)

    def joined(self, found: NDArray[Any]) -> NDArray[Any]:
        """See `SpreadRows`."""
        return self.ranks.joined(found)

    def told(self, floor: float) -> Told:
        """See `SpreadRows`."""
        F = self.beliefs.data
        largest = self.ranks.joined(np.array([np.abs(F).max(initial=0.0)])).max()
        counts = np.array([(floor < F).sum(), (-floor > F).sum()], dtype=np.int64)
        up, down = self.ranks.added(counts).tolist()
        return Told(float(largest), up // 2, down // 2, self.n_entries // 2)
