"""What a method takes at its peak: one statement, read by plans, budget checks and advice.

An estimator states how many vectors it computes at a time and how many blocks as wide it holds;
bytes follow from the size of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mustlink.cost.process_memory import PROGRAM, size_text
from mustlink.errors import InputError

RESERVE = 130 * 10**6  # bytes that compiling kernels takes at their first use, the first time ever
_PER_NODE = 80  # bytes: order, degrees, components, grids
_NEW_EDGES = 1.1  # stored weights of a graph after and before new edges; more for many pairs
FACTORS = 120 * 10**6  # bytes of the propagation of constraints at least, however few there are
_REST = 20  # bytes a weight: S among the nodes without a label, in both precisions
_GUARD = 1.2  # columns computed for one that is wanted, see `eigen.nested_iteration.guard`
_LEAST_GUARD = 3


@dataclass(frozen=True)
class Size:
    """A graph of n nodes with nnz stored weights of `stored` bytes each."""

    n: int
    nnz: int
    stored: int = 8

    @property
    def graph(self) -> int:
        """Bytes of W as CSR with indices of 4 bytes."""
        return self.nnz * (4 + self.stored) + 4 * self.n

    def operator(self, single: bool) -> int:
        """W and S, with S in single precision beside it for the grids, and what a node takes."""
        return self.graph + self.nnz * (8 if single else 16) + _PER_NODE * self.n

    def adjusted(self, single: bool) -> int:
        """A graph with new edges, its operator, and a number for every old edge."""
        more = Size(self.n, int(_NEW_EDGES * self.nnz), entry_bytes(single))
        return more.operator(single) + 8 * self.nnz + FACTORS


@dataclass(frozen=True)
class Cost:
    """Vectors and blocks of one method, whatever the graph.

    * `columns`: vectors computed at a time, as a rule; `least`: without which it can do nothing.
    * `blocks`: blocks as wide that are held at the peak, at most; `usual`: as a rule.
    * `guarded`: some columns more are computed, that the wanted ones converge.
    * `double`: blocks are in double precision even where the graph is in single.
    * `per_weight`: bytes of what else a stored weight has. `spreads`: a second, adjusted graph is
      cut.
    """

    columns: int
    least: int
    blocks: float = 8.5
    usual: float = 6.0
    guarded: bool = True
    double: bool = False
    per_weight: int = 0
    spreads: bool = False

    def _width(self, columns: int) -> int:
        return max(columns + _LEAST_GUARD, int(_GUARD * columns)) if self.guarded else columns

    def _beside(self, size: Size, single: bool) -> int:
        """Everything but the blocks."""
        there = PROGRAM + size.operator(single) + self.per_weight * size.nnz
        return there + (size.adjusted(single) if self.spreads else 0)

    def _column(self, size: Size, single: bool) -> float:
        """Bytes of a column in all blocks, at most."""
        return self.blocks * size.n * (8 if self.double else entry_bytes(single))

    def peak(
        self, size: Size, *, single: bool, columns: int | None = None, usual: bool = False
    ) -> int:
        """Bytes of the process at its peak: at most, or as a rule."""
        width = self._width(self.columns if columns is None else columns)
        share = self.usual / self.blocks if usual else 1.0
        return self._beside(size, single) + int(share * width * self._column(size, single))

    def wants_single(self, size: Size, memory: int | None) -> bool:
        """Whether what is held in double precision would not fit."""
        return memory is not None and self.peak(size, single=False) + RESERVE > memory

    def least_memory(self, size: Size, *, single: bool = True) -> int:
        """The least memory with which it can be done."""
        return self.peak(size, single=single, columns=self.least) + RESERVE

    def most_columns(self, size: Size, memory: int, *, single: bool) -> int:
        """Vectors that fit; 0 or less where none do."""
        room = memory - RESERVE - self._beside(size, single)
        width = room / self._column(size, single)
        return int(min(width - _LEAST_GUARD, width / _GUARD) if self.guarded else width)

    def check(self, size: Size, memory: int, *, single: bool) -> None:
        """Raise InputError where not even the least fits, with the memory that does."""
        least = self.least_memory(size, single=single)
        if least > memory:
            raise InputError(
                f"memory: {size_text(memory)} given, but {self.least} vectors of {size.n} nodes "
                f"with {size.nnz} weights need {size_text(least, up=True)}"
            )


def entry_bytes(single: bool) -> int:
    """Bytes of a stored number."""
    return 4 if single else 8


def eigenvectors(columns: int, least: int | None = None) -> Cost:
    """Eigenvectors of L̄ by LOBPCG: X, P, W, their products, and two that are being made."""
    return Cost(columns, columns if least is None else least)


def propagation(classes: int) -> Cost:
    """Equations for so many classes by conjugate gradients, with the distributions."""
    return Cost(classes, classes, 10, 10, guarded=False, double=True)


def clamped_propagation(classes: int) -> Cost:
    """The same with labelled nodes taken out: the rest has a matrix of its own."""
    return replace(propagation(classes), per_weight=_REST)


def adjusted_cut(columns: int) -> Cost:
    """Constraints spread over the graph; the adjusted graph is cut beside the given one."""
    return Cost(columns, columns, spreads=True)
