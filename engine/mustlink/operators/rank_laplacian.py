"""L̄ with its rows on ranks: each multiplies its own, with the rows of others that they need."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mustlink.graph.structure import component_labels
from mustlink.kernels.spmm import scaled
from mustlink.operators.laplacian import GroundedLaplacian
from mustlink.operators.protocol import NullSpace
from mustlink.operators.sparse_operator import RankMatrix
from mustlink.space import Dots, GroupSums
from mustlink.space.ranks import Halo, RankSpace

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class RankLaplacian(GroundedLaplacian):
    """L̄ = I − S, S = D^-½WD^-½ divided among ranks, without isolated nodes; see `Laplacian`.

    S (n_local, n_local + h) are own rows, see `RankMatrix`; vectors are of own nodes. `volume`
    is the sum of all degrees.
    """

    halo: Halo
    volume: float
    null: NullSpace = field(repr=False)

    @classmethod
    def of_weights(
        cls, space: RankSpace, rows: sp.csr_matrix, numbers: NDArray[np.integer[Any]]
    ) -> RankLaplacian:
        """From own rows (n_local, n) of W, each with an entry, columns rising; rows are used up.

        `numbers` (n,) are those of all working nodes in the graph.
        Cost: two exchanges of halos, and the links between parts of ranks on all of them.
        """
        W = RankMatrix.of_rows(space, rows)
        degrees = np.add.reduceat(W.local.data, W.local.indptr[:-1], dtype=np.float64)
        root = np.sqrt(degrees)
        scale = 1.0 / W.beside(root)
        W.local.data = W.local.data.astype(np.float64, copy=False)
        W.local.data = scaled(W.local, scale)
        component, count = components(W, numbers)
        (volumes,) = space.sums(GroupSums(degrees[:, None], component, count))
        null = NullSpace(component, root / np.sqrt(volumes[component, 0]), count, space)
        return cls(W.local, root, W.halo, float(volumes.sum()), null)

    @property
    def space(self) -> RankSpace:
        return self.halo.space

    @property
    def size(self) -> int:
        return self.space.size

    @property
    def graph_weights(self) -> sp.csr_matrix:
        """Own rows (n_local, m) of W = D^½SD^½, with global columns; arrays of its own."""
        S, root = self.S, self.root_degree
        data = S.data * self.beside(root)[S.indices]
        data *= np.repeat(root, np.diff(S.indptr))
        columns = self.matrix.numbers.astype(np.int32)[S.indices]
        return sp.csr_matrix((data, columns, S.indptr), shape=(S.shape[0], self.size))

    def beside(self, X: Any) -> Any:
        return self.halo.beside(X)

    @cached_property
    def matrix(self) -> RankMatrix:
        return RankMatrix(self.S, self.halo)

    def three_terms(
        self, V: Array, old: Array, weights: tuple[float, float, float], out: Array
    ) -> tuple[float, float]:
        """See `Laplacian`; the sums are the same on any number of ranks."""
        super().three_terms(V, old, weights, out)
        inner, square = self.space.sums(Dots(out, V), Dots(out, out))
        return float(inner.sum()), float(square.sum())

    def grounded(self, ground: Array, kept: Array) -> Self:
        null = NullSpace.empty(self.space.held, self.space)
        return replace(super().grounded(ground, kept), null=null)


def components(
    matrix: RankMatrix, numbers: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int32], int]:
    """Component of own nodes (n_local,), as in memory 0 the largest, and how many there are.

    Of equally large ones the graph's order decides, in which nodes have these `numbers` (n,).
    Every rank finds those among its own rows; what the links to others join is found by all, in a
    graph of one node a part and one edge a pair of parts that touch.
    """
    space, local, halo = matrix.space, matrix.local, matrix.halo
    own = component_labels(_among_own(local, space.held))
    counts = space.ranks.joined(np.array([int(own.max()) + 1]))
    offset, total = int(counts[: space.ranks.own].sum()), int(counts.sum())
    part = own.astype(np.int64) + offset
    there = halo.fetched(part)
    crossing = np.flatnonzero(local.indices >= space.held)
    rows = np.searchsorted(local.indptr, crossing, side="right") - 1
    pairs = part[rows] * total + there[local.indices[crossing] - space.held]
    ends = np.divmod(space.ranks.joined(np.unique(pairs)), total)
    links = sp.csr_matrix((np.ones(ends[0].size), ends), shape=(total, total))
    count, joined = connected_components(links, directed=False)
    sizes = space.ranks.added(np.bincount(joined[part], minlength=count))
    firsts = np.full(count, int(numbers.max()) + 1)
    np.minimum.at(firsts, joined[part], numbers[space.first : space.end])
    first = space.ranks.joined(firsts[None]).min(axis=0)
    number = np.empty(count, dtype=np.int32)
    number[np.lexsort((first, -sizes))] = np.arange(count, dtype=np.int32)
    return number[joined[part]], count


def _among_own(local: sp.csr_matrix, held: int) -> sp.csr_matrix:
    """The pattern between own nodes; links to others stay as loops, which join nothing."""
    loops = np.repeat(np.arange(held, dtype=np.int32), np.diff(local.indptr))
    columns = np.where(local.indices < held, local.indices, loops)
    ones = np.broadcast_to(np.float64(1.0), columns.shape)
    return sp.csr_matrix((ones, columns, local.indptr), shape=(held, held))
