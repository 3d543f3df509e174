"""What iterations ask of a Laplacian and of an approximate inverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.operators.null_space import NullSpace
from mustlink.space import Block, Space, Vector


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
