"""What iterations ask of a Laplacian and of an approximate inverse; null vectors of Laplacians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.space import Block, GroupSums, LocalSpace, Small, Space, Vector


@dataclass(frozen=True, eq=False)
class NullSpace:
    """Z (m, c): orthonormal null vectors D^½1_c/√vol_c of L̄, `component` (m,) and `weight` (m,).

    Row i has its one entry `weight[i]` in column `component[i]`. `place` is the space of its
    blocks, None for nodes in memory.
    """

    component: Vector
    weight: Vector
    n_components: int
    place: Space | None = None

    @classmethod
    def empty(cls, size: int, place: Space | None = None) -> NullSpace:
        """That of a positive definite matrix."""
        return cls(np.zeros(size, dtype=np.int32), np.zeros(size), 0, place)

    @classmethod
    def of_components(
        cls, component: NDArray[np.integer[Any]], root: NDArray[np.float64], count: int
    ) -> NullSpace:
        """D^½1_c/√vol_c of `count` components (m,) of nodes in memory, `root` (m,) being D^½1."""
        volumes = np.bincount(component, weights=root**2, minlength=count)
        return cls(component, root / np.sqrt(volumes[component]), count)

    @cached_property
    def space(self) -> Space:
        """Where its blocks live."""
        return LocalSpace(self.weight.size) if self.place is None else self.place

    def coefficients(self, X: Block) -> Small:
        """ZᵀX, (c, b)."""
        if self.n_components == 0:
            return np.zeros((0, X.shape[1]))
        if self.n_components == 1:
            return self.space.gram(self.space.column(self.weight), X)
        return self.space.sums(GroupSums(X, self.component, self.n_components, self.weight))[0]

    def expand(self, A: Small, dtype: Any = np.float64) -> Block:
        """ZA, (m, b), for A (c, b)."""
        if self.n_components == 0:
            return self.space.zeros(A.shape[1], dtype)
        return self.space.spread(A, self.component, self.weight, dtype)

    def project(self, X: Block) -> Block:
        """X − ZZᵀX: the part of a block that is orthogonal to the null space."""
        if self.n_components == 0:
            return X
        A = self.coefficients(X)
        if self.n_components == 1:
            return self.space.without(X, self.weight, A[0])
        result = self.expand(-A, X.dtype)
        self.space.blend(result, 1.0, (X, 1.0))
        return result

    def columns(self, which: NDArray[np.integer[Any]]) -> Block:
        """Selected null vectors as a dense block (m, len(which))."""
        chosen = np.zeros((self.n_components, len(which)))
        chosen[which, np.arange(len(which))] = 1.0
        return self.expand(chosen)

    def rows(self, nodes: NDArray[np.integer[Any]]) -> sp.csr_matrix:
        """Z on a few nodes, (len(nodes), c) CSR."""
        if self.n_components == 0:
            return sp.csr_matrix((len(nodes), 0))
        component = self.space.take(self.space.column(self.component), nodes)[:, 0]
        weight = self.space.take(self.space.column(self.weight), nodes)[:, 0]
        ends = np.arange(len(nodes) + 1)
        return sp.csr_matrix((weight, component, ends), shape=(len(nodes), self.n_components))

    @cached_property
    def matrix(self) -> sp.csr_matrix:
        """Z as CSR, one entry a row; of nodes in memory only."""
        m = self.component.size
        if self.n_components == 0:
            return sp.csr_matrix((m, 0))
        return sp.csr_matrix(
            (self.weight, self.component, np.arange(m + 1)), shape=(m, self.n_components)
        )


# --- What solvers ask of operators


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
