"""L̄ with its rows on ranks: each multiplies its own, with the rows of others that they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mustlink.graph.components import component_labels
from mustlink.kernels.permuted_matrix import scaled
from mustlink.kernels.spmm import spmm, spmm_axpby
from mustlink.operators.grounding import grounded_degrees
from mustlink.operators.null_space import NullSpace
from mustlink.space import Dots, GroupSums
from mustlink.space.halo import Halo
from mustlink.space.rank_space import RankSpace

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class DividedMatrix:
    """Own rows of a matrix (n, n): `local` (n_local, n_local + h) CSR, the halo's columns last.

    The entries of a row are in the order of their global columns, as at home, so that a row's sum
    comes out the same wherever it is made.
    """

    space: RankSpace
    local: sp.csr_matrix
    halo: Halo

    @classmethod
    def of_rows(cls, space: RankSpace, rows: sp.csr_matrix) -> DividedMatrix:
        """From own rows (n_local, n) with global columns, which rise in every row."""
        columns = rows.indices
        foreign = (columns < space.first) | (columns >= space.end)
        nodes = np.unique(columns[foreign]).astype(np.int64)
        found = columns.astype(np.int32)
        found[~foreign] -= space.first
        found[foreign] = space.held + np.searchsorted(nodes, columns[foreign])
        shape = (space.held, space.held + nodes.size)
        local = sp.csr_matrix((rows.data, found, rows.indptr), shape=shape)
        return cls(space, local, Halo(space, nodes))

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Global number of every column, (n_local + h,)."""
        return np.concatenate([np.arange(self.space.first, self.space.end), self.halo.nodes])

    @cached_property
    def in_single(self) -> DividedMatrix:
        """The same in single precision; shares its indices."""
        own = self.local
        if own.dtype == np.float32:
            return self
        data = own.data.astype(np.float32)
        return replace(self, local=sp.csr_matrix((data, own.indices, own.indptr), shape=own.shape))

    def diagonal(self) -> NDArray[np.float64]:
        """Its own diagonal entries, (n_local,)."""
        found: NDArray[np.float64] = self.local.diagonal().astype(np.float64)
        return found

    def apply(self, X: Array) -> Array:
        """Own rows of the product with a block."""
        return spmm(self.local, self.halo.beside(X))

    def mixed(self, X: Array, B: Array, a: float, b: float) -> Array:
        """a·SX + b·B in one pass."""
        return spmm_axpby(self.local, self.halo.beside(X), B, a, b)


@dataclass(frozen=True, eq=False)
class DividedLaplacian:
    """L̄ = I − S, S = D^-½WD^-½ divided among ranks, without isolated nodes; see `Laplacian`.

    `ground` (n_local,) is by how much T exceeds the degrees of a `grounded` one.
    """

    matrix: DividedMatrix
    root_degree: NDArray[np.float64]
    volume: float
    null: NullSpace
    ground: NDArray[np.float64] | None = None

    @classmethod
    def of_weights(cls, space: RankSpace, rows: sp.csr_matrix) -> DividedLaplacian:
        """From own rows (n_local, n) of W, each with an entry, columns rising; rows are used up.

        Cost: two exchanges of halos, and the links between parts of ranks on all of them.
        """
        W = DividedMatrix.of_rows(space, rows)
        starts = W.local.indptr[:-1]
        degrees = np.add.reduceat(W.local.data, starts, dtype=np.float64)
        root = np.sqrt(degrees)
        scale = 1.0 / W.halo.beside(root)
        W.local.data = W.local.data.astype(np.float64, copy=False)
        W.local.data = scaled(W.local, scale)
        component, count = components(W)
        ones = degrees[:, None]
        (volumes,) = space.sums(GroupSums(ones, component, count))
        weight = root / np.sqrt(volumes[component, 0])
        null = NullSpace(component, weight, count, space)
        return cls(W, root, float(volumes.sum()), null)

    def grounded(self, ground: NDArray[np.float64], kept: NDArray[np.bool_]) -> DividedLaplacian:
        """I − T^-½WT^-½, T = D + diag(ground), on the nodes `kept` (n_local,), see `grounding`."""
        root, total = grounded_degrees(self, ground, kept)
        ratio = np.divide(self.root_degree, root, out=np.zeros_like(root), where=root > 0)
        S = self.matrix.local
        values = scaled(S, self.matrix.halo.beside(ratio))
        local = sp.csr_matrix((values, S.indices, S.indptr), shape=S.shape)
        if not values.all():  # the indices are those of S
            local = local.copy()
            local.eliminate_zeros()
        null = NullSpace.empty(root.size, self.space)
        matrix = replace(self.matrix, local=local)
        return replace(self, matrix=matrix, root_degree=root, null=null, ground=total)

    @property
    def space(self) -> RankSpace:
        """Where its blocks live."""
        return self.matrix.space

    @property
    def size(self) -> int:
        """Number m of nodes, of all ranks."""
        return self.space.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of S, in which blocks are held."""
        return np.dtype(self.matrix.local.dtype)

    @property
    def graph_weights(self) -> sp.csr_matrix:
        """Own rows (n_local, m) of W = D^½SD^½, with global columns; arrays of its own."""
        S, root = self.matrix.local, self.root_degree
        data = S.data * self.matrix.halo.beside(root)[S.indices]
        data *= np.repeat(root, np.diff(S.indptr))
        columns = self.matrix.numbers.astype(np.int32)[S.indices]
        return sp.csr_matrix((data, columns, S.indptr), shape=(S.shape[0], self.size))

    @property
    def norm(self) -> float:
        """A bound on ‖L̄‖₂."""
        return 2.0

    @cached_property
    def diagonal(self) -> NDArray[np.float64]:
        """1 − s_ii, (n_local,)."""
        return 1.0 - self.matrix.diagonal()

    @property
    def in_single(self) -> DividedLaplacian:
        """The same with S in single precision."""
        single = self.matrix.in_single
        return self if single is self.matrix else replace(self, matrix=single)

    def apply(self, X: Array) -> Array:
        """L̄X for a block."""
        X = np.ascontiguousarray(X)
        return self.matrix.mixed(X, X, -1.0, 1.0)

    def smooth(self, X: Array, times: int) -> Array:
        """((I + S)/2)^times X in single precision."""
        Y = np.array(X, dtype=np.float32, order="C")
        for _ in range(times):
            Y = self.matrix.in_single.mixed(Y, Y, 0.5, 0.5)
        return Y.astype(self.dtype, copy=False)

    def three_terms(
        self, V: Array, old: Array, weights: tuple[float, float, float], out: Array
    ) -> tuple[float, float]:
        """Write out = a·SV + b·V + c·old; ⟨out, V⟩ and ‖out‖² (Frobenius)."""
        a, b, c = weights
        out[:] = self.matrix.mixed(V, V, a, b)
        self.space.blend(out, 1.0, (old, c))
        inner, square = self.space.sums(Dots(out, V), Dots(out, out))
        return float(inner.sum()), float(square.sum())

    def recurrence(self, X: Array, steps: Sequence[tuple[float, float, float]]) -> Array:
        """The last term of X_{t+1} = a_t SX_t + b_t X_t + c_t X_{t−1}, X_0 = X."""
        before, last = self.space.zeros(X.shape[1], X.dtype), X
        for a, b, c in steps:
            following = self.matrix.mixed(last, last, a, b)
            if c:
                self.space.blend(following, 1.0, (before, c))
            before, last = last, following
        return last if steps else self.space.copy(X)


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
