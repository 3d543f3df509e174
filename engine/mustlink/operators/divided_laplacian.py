"""L̄ with its rows on ranks: each multiplies its own, with the rows of others that they need."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mustlink.graph.components import component_labels
from mustlink.kernels.permuted_matrix import scaled
from mustlink.operators.grounded_laplacian import GroundedLaplacian, regularized
from mustlink.operators.null_space import NullSpace
from mustlink.operators.sparse_operator import DividedMatrix
from mustlink.space import Dots, GroupSums
from mustlink.space.ranks import Halo, RankSpace

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class DividedLaplacian(GroundedLaplacian):
    """L̄ = I − S, S = D^-½WD^-½ divided among ranks, without isolated nodes; see `Laplacian`.

    S (n_local, n_local + h) are own rows, see `DividedMatrix`; vectors are of own nodes. `volume`
    is the sum of all degrees.
    """

    halo: Halo
    volume: float
    null: NullSpace = field(repr=False)

    @classmethod
    def of_weights(cls, space: RankSpace, rows: sp.csr_matrix) -> DividedLaplacian:
        """From own rows (n_local, n) of W, each with an entry, columns rising; rows are used up.

        Cost: two exchanges of halos, and the links between parts of ranks on all of them.
        """
        W = DividedMatrix.of_rows(space, rows)
        degrees = np.add.reduceat(W.local.data, W.local.indptr[:-1], dtype=np.float64)
        root = np.sqrt(degrees)
        scale = 1.0 / W.beside(root)
        W.local.data = W.local.data.astype(np.float64, copy=False)
        W.local.data = scaled(W.local, scale)
        component, count = components(W)
        (volumes,) = space.sums(GroupSums(degrees[:, None], component, count))
        null = NullSpace(component, root / np.sqrt(volumes[component, 0]), count, space)
        return cls(W.local, root, W.halo, float(volumes.sum()), null)

    @property
    def space(self) -> RankSpace:
        """Where its blocks live."""
        return self.halo.space

    @property
    def size(self) -> int:
        """Number m of nodes, of all ranks."""
        return self.space.size

    def beside(self, X: Any) -> Any:
        """Own rows of a block, or of a vector, then those of the halo."""
        return self.halo.beside(X)

    @cached_property
    def matrix(self) -> DividedMatrix:
        """S as an operator."""
        return DividedMatrix(self.S, self.halo)

    def three_terms(
        self, V: Array, old: Array, weights: tuple[float, float, float], out: Array
    ) -> tuple[float, float]:
        """See `Laplacian`; the sums are the same on any number of ranks."""
        super().three_terms(V, old, weights, out)
        inner, square = self.space.sums(Dots(out, V), Dots(out, out))
        return float(inner.sum()), float(square.sum())

    def grounded(self, ground: Array, kept: Array) -> Self:
        """See `GroundedLaplacian.grounded`; its null space is empty."""
        null = NullSpace.empty(self.space.held, self.space)
        return replace(super().grounded(ground, kept), null=null)

    def regularized(self, tau: float) -> Self:
        """L̄_τ: τ > 0 times the mean degree is added to every degree, see `regularized`."""
        return self.grounded(*regularized(self, tau))


def components(matrix: DividedMatrix) -> tuple[NDArray[np.int32], int]:
    """Component of own nodes (n_local,), as at home 0 the largest, and how many there are.

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
    firsts = np.full(count, space.size)
    np.minimum.at(firsts, joined[part], np.arange(space.first, space.end))
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
