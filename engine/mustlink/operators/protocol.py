"""Operators: what iterations ask of a Laplacian and an inverse, sparse matrices, edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.spmm import spmm
from mustlink.space import Block, LocalSpace, NullSpace, Small, Space, Vector
from mustlink.space.ranks import Halo, RankSpace


class Preconditioner(Protocol):
    """A fixed symmetric positive map R -> ≈A⁻¹R on blocks (n, b), column by column."""

    def __call__(self, R: Block, /) -> Block:
        """Apply it; R is not changed."""


class Laplacian(Protocol):
    """L̄ = I − S, S = D^-½WD^-½, symmetric positive semidefinite, ‖L̄‖ <= 2."""

    @property
    def space(self) -> Space:
        """Where its blocks live."""

    @property
    def diagonal(self) -> Vector:
        """1 − s_ii, (n,)."""

    def apply(self, X: Block) -> Block:
        """L̄X for a block (n, b), in the block's precision."""

    @property
    def null(self) -> NullSpace:
        """Its null space."""

    @property
    def root_degree(self) -> Vector:
        """D^½1, (n,)."""

    @property
    def volume(self) -> float:
        """Sum of the degrees."""

    @property
    def dtype(self) -> Any:
        """Precision in which S is stored, and blocks are best held."""

    def smooth(self, X: Block, times: int) -> Block:
        """((I + S)/2)^times X in single precision: damps rough vectors, keeps smooth ones."""

    def three_terms(
        self, V: Block, old: Block, weights: tuple[float, float, float], out: Block
    ) -> tuple[float, float]:
        """Write out = a·SV + b·V + c·old; ⟨out, V⟩ and ‖out‖² (Frobenius) in one reduction.

        `out` is neither V nor old.
        """

    def recurrence(self, X: Block, steps: Sequence[tuple[float, float, float]]) -> Block:
        """The last term of X_{t+1} = a_t SX_t + b_t X_t + c_t X_{t−1}, X_0 = X, by steps (a, b, c).

        The first step has c = 0. X is not changed.
        """

    def grounded(self, ground: Vector, kept: Vector) -> Self:
        """I − T^-½WT^-½, T = D + diag(ground), on the nodes `kept` (n,), see `grounded_degrees`."""


class PlacedLaplacian(Protocol):
    """What a constrained problem asks of L̄, with the places of known nodes in its order.

    In memory these are all nodes of the graph. Elsewhere they are the constrained ones, numbered by
    themselves.
    """

    @property
    def space(self) -> Space:
        """Where blocks live."""

    @property
    def root_degree(self) -> Vector:
        """D^½1."""

    @property
    def volume(self) -> float:
        """Sum of the degrees."""

    @property
    def size(self) -> int:
        """Rows of blocks, wherever they are."""

    @property
    def n_entries(self) -> int:
        """Stored entries of S."""

    @property
    def positions(self) -> NDArray[np.int64]:
        """Working number of each of these nodes, -1 for those without an edge."""

    @property
    def nodes(self) -> NDArray[np.int64]:
        """Those of these nodes that have an edge, in any order."""

    @property
    def weights(self) -> Vector | None:
        """How many every row stands for, None: 1 each."""

    @property
    def mean_degree(self) -> float:
        """Of the nodes with an edge, each counted as often as its weight says."""

    def to_working_order(self, X: NDArray[Any]) -> NDArray[Any]:
        """Rows of all nodes of the graph in working order; of nodes in memory."""


# --- Symmetric sparse matrices as operators, in memory or on ranks, and where they have entries


Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class SparseOperator:
    """A (n, n), symmetric, all rows in memory: `local` in CSR."""

    local: sp.csr_matrix

    everywhere: ClassVar[bool] = True  # whether everyone has all of its rows

    @cached_property
    def space(self) -> Space:
        return LocalSpace(int(self.local.shape[0]))

    def beside(self, X: Any) -> Any:
        """The rows of a block, or of a vector, that the columns of `local` are."""
        return X

    def whole(self) -> sp.csr_matrix:
        """A as everyone has it."""
        return self.local

    @cached_property
    def diagonal(self) -> Vector:
        """a_ii of the rows that are here."""
        return self.local.diagonal().astype(np.float64)

    @property
    def in_single(self) -> Self:
        """The same in single precision; shares its indices."""
        # One that held itself would stay until the garbage collector runs.
        return self if self.local.dtype == np.float32 else self._rounded

    @cached_property
    def _rounded(self) -> Self:
        A = self.local
        data = A.data.astype(np.float32)
        return replace(self, local=sp.csr_matrix((data, A.indices, A.indptr), shape=A.shape))

    def apply(self, X: Block) -> Block:
        """AX for a block (n, b)."""
        return spmm(self.local, self.beside(np.ascontiguousarray(X)))

    def to_dense(self) -> Small:
        """A as a dense matrix, which everyone has."""
        result: Small = self.whole().toarray()
        return result


@dataclass(frozen=True, eq=False)
class RankMatrix(SparseOperator):
    """Own rows of a matrix (n, n): `local` (n_local, n_local + h) CSR, the halo's columns last.

    The entries of a row are in the order of their global columns, as in memory, so that a row's sum
    comes out the same wherever it is made.
    """

    halo: Halo

    everywhere = False

    @classmethod
    def of_rows(cls, space: RankSpace, rows: sp.csr_matrix) -> RankMatrix:
        """From own rows (n_local, n) with global columns, which rise in every row."""
        columns = rows.indices
        foreign = (columns < space.first) | (columns >= space.end)
        nodes = np.unique(columns[foreign]).astype(np.int64)
        result = columns.astype(np.int32)
        result[~foreign] -= space.first
        result[foreign] = space.held + np.searchsorted(nodes, columns[foreign])
        shape = (space.held, space.held + nodes.size)
        return cls(sp.csr_matrix((rows.data, result, rows.indptr), shape=shape), Halo(space, nodes))

    @property
    def space(self) -> RankSpace:
        return self.halo.space

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Global number of every column, (n_local + h,)."""
        return np.concatenate([np.arange(self.space.first, self.space.end), self.halo.nodes])

    def beside(self, X: Any) -> Any:
        return self.halo.beside(X)

    def whole(self) -> sp.csr_matrix:
        """A on every rank."""
        local, ranks = self.local, self.space.ranks
        columns = self.numbers[local.indices].astype(np.int32)
        lengths = ranks.joined(np.diff(local.indptr).astype(np.int64))
        ends = np.concatenate([[0], np.cumsum(lengths)])
        parts = ranks.joined(local.data), ranks.joined(columns), ends
        return sp.csr_matrix(parts, shape=(self.space.size, self.space.size))


@dataclass(frozen=True, eq=False)
class Edges:
    """A symmetric pattern of m nodes by rows: `indptr` (m+1,), sorted `indices` (nnz,)."""

    indptr: Ints
    indices: Ints

    @classmethod
    def of_matrix(cls, matrix: sp.csr_matrix) -> Edges:
        """Where a symmetric matrix of the caller's making has entries; its rows are sorted."""
        matrix.sort_indices()
        return cls(matrix.indptr, matrix.indices)

    @property
    def size(self) -> int:
        """Number m of nodes."""
        return int(self.indptr.size) - 1

    @property
    def nnz(self) -> int:
        """Number of ends of edges: every edge counts twice."""
        return int(self.indices.size)

    @property
    def shape(self) -> tuple[int, int]:
        """(m, m)."""
        return self.size, self.size

    @property
    def rows(self) -> Ints:
        """The node that every entry belongs to, (nnz,)."""
        return np.repeat(np.arange(self.size), np.diff(self.indptr))

    def beside(self, nodes: Ints) -> tuple[Ints, Ints]:
        """Neighbours of some nodes: place in `nodes` and neighbour, one entry an edge."""
        counts = np.diff(self.indptr)[nodes]
        place = np.repeat(np.arange(nodes.size), counts)
        first = np.cumsum(counts) - counts
        at = np.arange(place.size) - first[place] + self.indptr[nodes][place]
        return place, self.indices[at]

    def among(self, nodes: Ints) -> sp.csr_matrix:
        """The pattern between some of the nodes, ones in CSR, numbered as they are listed."""
        return self.ones()[nodes][:, nodes].tocsr()

    def ones(self) -> sp.csr_matrix:
        """Ones in CSR."""
        return sp.csr_matrix((np.ones(self.nnz), self.indices, self.indptr), shape=self.shape)
