"""What a cut of a graph on disk takes in memory: columns as many as fit, and its coarse grids.

Vectors and the graph are on disk. In memory are the columns of a block that are worked on, from one
on, and the graph of the aggregates, which has a twentieth of the nodes as a rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from mustlink.cost.method_cost import RESERVE, Cost, Size
from mustlink.cost.process_memory import PROGRAM, size_text
from mustlink.errors import InputError

_CYCLE = 5 * 4  # bytes a node and column: five blocks in single precision
_FILTER = 2 * 4  # likewise of a recurrence
_BUFFERS = 80 * 10**6  # blocks of rows read ahead, ranges of rows of blocks, buckets
_SET_UP = 13  # bytes a node while aggregates are made
_AGGREGATES = 0.06  # of the nodes, as a rule: neighbour graphs have 0.05
_LINKS = 0.2  # of the weights, between aggregates: 0.1 on sheets, 0.33 in clouds of 8 dimensions
_LINK = 22  # bytes of a weight between aggregates while the next grid is made
_COARSE = 12 * 8  # bytes of an aggregate and column: twelve blocks in double precision
_ANSWER = 8  # bytes a node
_TOLD = 32  # bytes a node that labels or constraints take, however few there are
_CHECKED = 2.2  # times a graph in memory while it is read and checked for symmetry


def least_in_memory(cost: Cost, size: Size) -> int:
    """The least memory for a fit to a graph that is given."""
    return max(cost.least_memory(size), checking_bytes(size))


def checking_bytes(size: Size) -> int:
    """Peak while a graph is read and checked for symmetry."""
    return PROGRAM + int(_CHECKED * size.graph)


@dataclass(frozen=True)
class StoredCost:
    """A cut by so many vectors of a graph with n nodes and nnz stored weights, all on disk.

    `told`: whether something is said of nodes.
    """

    n: int
    nnz: int
    columns: int
    told: bool = False

    @property
    def _there(self) -> int:
        return PROGRAM + _BUFFERS + (_TOLD * self.n if self.told else 0)

    @property
    def _coarse(self) -> int:
        """Bytes of coarse grids, as a rule."""
        return int(_LINK * _LINKS * self.nnz + _COARSE * self.columns * _AGGREGATES * self.n)

    def has_grids(self, memory: int | None) -> bool:
        """Whether coarse grids fit, as a rule; without them vectors are found by filters."""
        return memory is None or self._with(1, self._coarse) + RESERVE <= memory

    def peak(self, memory: int | None) -> int:
        """Bytes of the process at its peak, as a rule: columns in as few even groups as fit."""
        coarse = self._coarse if self.has_grids(memory) else 0
        if memory is None:
            return self._with(self.columns, coarse)
        room = memory - RESERVE - self._there - coarse
        fit = max(1, room // (self.n * (_CYCLE if coarse else _FILTER)))
        groups = -(-self.columns // fit)
        return self._with(-(-self.columns // groups), coarse)

    def _with(self, columns: int, coarse: int) -> int:
        each = _CYCLE if coarse else _FILTER
        return self._there + coarse + self.n * max(each * columns, _SET_UP, _ANSWER)

    def peak_of_set_up(self, memory: int | None) -> int:
        """Bytes before the eigenvectors, as a rule."""
        links = int(_LINK * _LINKS * self.nnz) if self.has_grids(memory) else 0
        return self._there + links + _SET_UP * self.n

    @property
    def least_memory(self) -> int:
        """The least memory with which it can be done."""
        return self._with(1, 0) + RESERVE

    @property
    def scratch(self) -> int:
        """Bytes of temporary files: blocks of LOBPCG, and entries on their way to coarse grids."""
        return 4 * self.n * self.columns * 9 + 12 * self.nnz

    def check(self, memory: int) -> None:
        """Raise InputError where not even the least fits, with the memory that does."""
        if self.least_memory > memory:
            raise InputError(
                f"memory: {size_text(memory)} given, but a cut of {self.n} nodes with {self.nnz} "
                f"weights on disk needs {size_text(self.least_memory, up=True)}"
            )


def columns_bytes(n: int, columns: int) -> int:
    """Columns of n nodes in memory during a cycle."""
    return _CYCLE * n * columns


def links_in(room: int) -> int:
    """Links between aggregates that fit into so many bytes."""
    return room // _LINK


def coarse_bytes(aggregates: int, columns: int) -> int:
    """Iterations on coarse grids that are there."""
    return _COARSE * aggregates * columns
