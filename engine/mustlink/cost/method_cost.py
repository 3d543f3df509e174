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
SPREAD_DENSE_BELOW = 2000  # nodes: below, LAPACK spreads constraints in a few seconds, exactly
FACTORS = 120 * 10**6  # bytes of the propagation of constraints at least, however few there are
_TASKS = 64 * 10**6  # bytes: rows of blocks that threads work on, see `kernels.blocks.row_slices`
_SMALL = 10 * 3 * 3 * 8  # bytes of the Gram matrices of three blocks, a number of one
_COARSE = (
    3  # bytes a weight: coarse grids of overlapping clusters, 0.1 or less of points in a plane
)
_LINKED = 60  # bytes a weight: the graph with its links, and grids of it
TOGETHER, _NARROW = 32, 4  # equations solved at a time: as a rule, and where memory is short
_SMOOTHING, _SMOOTHED = 80, 20  # bytes a weight: grids for wide weights, while made and then
ELIMINATED = 8  # columns of approximate elimination at a time
_ROUND = 10  # blocks in double precision of a round of approximate elimination
_REST = 20  # bytes a weight: S among the nodes without a label, in both precisions
MOST_COUNTED = 20  # clusters: n_clusters="auto" counts up to so many in graphs of points
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
    * `on_networks`: blocks more, as a rule, where a graph is given: a basis kept while vectors of
      regularised degrees are computed.
    * `held`: blocks of all columns that are held beside those, where `together` columns at most
      are computed at a time.
      Fewer, 4 at least, where memory is short: the answers are the same.
    * `guarded`: some columns more are computed, that the wanted ones converge.
    * `double`: blocks are in double precision even where the graph is in single.
    * `per_weight`: bytes of what else a stored weight has. `spreads`: a second, adjusted graph is
      cut.
    * `most_steps`: steps that may be taken, where how many is not known beforehand.
    """

    columns: int
    least: int
    blocks: float = 8.5
    usual: float = 6.0
    on_networks: float = 0.0
    held: float = 0.0
    together: int | None = None
    guarded: bool = True
    double: bool = False
    per_weight: int = 0
    spreads: bool = False
    most_steps: int | None = None

    def _width(self, columns: int) -> int:
        return max(columns + _LEAST_GUARD, int(_GUARD * columns)) if self.guarded else columns

    def _beside(self, size: Size, single: bool) -> int:
        """Everything but the blocks."""
        there = PROGRAM + size.operator(single) + self.per_weight * size.nnz
        return there + (size.adjusted(single) if self.spreads else 0)

    def _in_blocks(self, size: Size, single: bool, columns: int, blocks: float) -> int:
        """Bytes of all blocks of so many columns, and of what is made on the way."""
        width = self._width(columns)
        at_once = width if self.together is None else min(width, self.together)
        number = size.n * (8 if self.double else entry_bytes(single))
        rows = min(_TASKS, 3 * number * at_once)
        small = _SMALL * width**2 if self.guarded else 0
        return int(number * (blocks * at_once + self.held * width)) + rows + small

    def with_prior(self) -> Cost:
        """The same with a prior: distributions of nodes, and of those in working order."""
        return replace(self, held=self.held + 2)

    def of_given(self) -> Cost:
        """The same where the graph is given, not made from points."""
        return replace(self, usual=self.usual + self.on_networks)

    def peak(
        self, size: Size, *, single: bool, columns: int | None = None, usual: bool = False
    ) -> int:
        """Bytes of the process at its peak: at most, or as a rule."""
        wanted = self.columns if columns is None else columns
        blocks = self.usual if usual else self.blocks
        coarse = 0 if usual else _COARSE * size.nnz
        return self._beside(size, single) + coarse + self._in_blocks(size, single, wanted, blocks)

    def hard_peaks(self, size: Size, *, single: bool) -> tuple[int, int]:
        """Peaks of the set-up and of equations where weights are far apart, as a rule.

        Smoothed grids, and the elimination that follows where they do not contract.
        """
        there = self._beside(size, single)
        blocks = int(8 * self.held * self._width(self.columns) * size.n)
        narrow = min(self._width(self.columns), ELIMINATED)
        factor = int(factor_bytes(size.n, size.nnz, narrow))
        return there + _SMOOTHING * size.nnz, there + blocks + _SMOOTHED * size.nnz + factor

    def within(self, size: Size, memory: int | None, *, single: bool) -> Cost:
        """The same with as many equations at a time as fit."""
        found = self
        while memory is not None and found.together is not None and found.together > _NARROW:
            if found.peak(size, single=single) + RESERVE <= memory:
                break
            found = replace(found, together=found.together // 2)
        return found

    def wants_single(self, size: Size, memory: int | None) -> bool:
        """Whether what is held in double precision would not fit."""
        return memory is not None and self.peak(size, single=False) + RESERVE > memory

    def least_memory(self, size: Size, *, single: bool = True) -> int:
        """The least memory with which it can be done."""
        return self._narrowest(size, self.least, single)

    def most_columns(self, size: Size, memory: int, *, single: bool) -> int:
        """Vectors that fit; 0 where none do."""
        low, high = 0, 1
        while self._fits(size, memory, high, single):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (middle, high) if self._fits(size, memory, middle, single) else (low, middle)
            )
        return low

    def _fits(self, size: Size, memory: int, columns: int, single: bool) -> bool:
        return self._narrowest(size, columns, single) <= memory

    def _narrowest(self, size: Size, columns: int, single: bool) -> int:
        """Bytes of the process with as few equations at a time as may be."""
        narrow = self if self.together is None else replace(self, together=_NARROW)
        return narrow.peak(size, single=single, columns=columns) + RESERVE

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


def factor_bytes(n: int, nnz: int, columns: int) -> float:
    """Approximate elimination, and what its rounds hold of so many columns."""
    return 35.0 * nnz + n * (100.0 + 8 * _ROUND * columns)


def eigenvectors(columns: int, least: int | None = None) -> Cost:
    """Eigenvectors of L̄ by LOBPCG: X, P, W, their products, and two that are being made."""
    return Cost(columns, columns if least is None else least)


def full_problem(clusters: int) -> Cost:
    """Constraints on all nodes: products with both sides of a pencil, a graph with links in it."""
    return Cost(3 * clusters + 10, 3 * clusters + 10, 10.5, 10.5, per_weight=_LINKED)


def propagation(classes: int) -> Cost:
    """Equations for so many classes by conjugate gradients, with the distributions."""
    return Cost(classes, classes, 6, 6, held=4, together=TOGETHER, guarded=False, double=True)


def clamped_propagation(classes: int) -> Cost:
    """The same with labelled nodes taken out: the rest has a matrix of its own."""
    return replace(propagation(classes), per_weight=_REST)


def adjusted_cut(columns: int) -> Cost:
    """Constraints spread over the graph; the adjusted graph is cut beside the given one."""
    return Cost(columns, columns, spreads=True)
