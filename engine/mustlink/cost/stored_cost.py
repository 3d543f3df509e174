"""What a cut of a graph on disk takes in memory: columns as many as fit, and its coarse grids.

Vectors and the graph are on disk. In memory are the columns of a block that are worked on, from one
on, and the graph of the aggregates, which has a twentieth of the nodes as a rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from mustlink.cost.method_cost import RESERVE, Cost, Size
from mustlink.cost.neighbour_graph import MOST_SYMMETRIC
from mustlink.cost.neighbour_plan import knn_plan
from mustlink.cost.process_memory import PROGRAM, size_text
from mustlink.errors import InputError

_CYCLE = 5 * 4  # bytes a node and column: five blocks in single precision
_HELD = 2  # blocks of a recurrence, or a product
_BUFFERS = 80 * 10**6  # blocks of rows read ahead, ranges of rows of blocks, buckets
_SET_UP = 13  # bytes a node while aggregates are made
_AGGREGATES = 0.06  # of the nodes, as a rule: neighbour graphs have 0.05
_LINKS = 0.1  # of the weights, between aggregates, at most: the heaviest where there are more
_FEWEST = 2 * 4  # links of an aggregate, where memory is short
_LINK = 22  # bytes of a weight between aggregates while the next grid is made
_COARSE = 12 * 8  # bytes of an aggregate and column: twelve blocks in double precision
_ANSWER = 20  # bytes a node: its cluster, that of a row, a column of rows that are put in order
_NODE = 300  # bytes of a node of a region in which constraints are spread, its row apart
_EDGE = 26  # and of an entry: S, where it is, F
_TOLD = 32  # bytes a node that labels or constraints take, however few there are
LAZY = 8  # points of more than this part of the memory are read when needed, block by block
_CHECKED = 2.2  # times a graph in memory while it is read and checked for symmetry


def least_in_memory(cost: Cost, size: Size) -> int:
    """The least memory for a fit to a graph that is given."""
    return max(cost.least_memory(size), checking_bytes(size))


def least_of_points(cost: Cost, n: int, d: int, k: int) -> int:
    """The least memory for a fit to n points whose graph, of k neighbours, and vectors are held.

    With as many weights as neighbours of high dimension have.
    """
    size = Size(n, int(MOST_SYMMETRIC * n * k), 4)
    least = max(cost.least_memory(size), knn_plan(n, d, k, None, by_rows=True).least)
    points = 4 * n * d
    return least if points > least // LAZY else least + points  # few points are held


def checking_bytes(size: Size) -> int:
    """Peak while a graph is read and checked for symmetry."""
    return PROGRAM + int(_CHECKED * size.graph)


@dataclass(frozen=True)
class StoredCost:
    """A cut by so many vectors of a graph with n nodes and nnz stored weights, all on disk.

    `told`: whether something is said of nodes. Bytes a node: `held` are there all the time,
    `answers` at the end; `number` has an entry of a block in a product, `blocks` all of a column.
    """

    n: int
    nnz: int
    columns: int
    told: bool = False
    held: int = 0
    answers: int = _ANSWER
    number: int = 4
    blocks: int = 4 * 9
    what: str = "a cut"

    @classmethod
    def of_labels(cls, n: int, nnz: int, classes: int) -> StoredCost:
        """Labels of so many classes spread by conjugate gradients, in double precision."""
        return cls(
            n, nnz, classes, held=8, answers=48, number=8, blocks=8 * 12, what="a propagation"
        )

    @property
    def _there(self) -> int:
        return PROGRAM + _BUFFERS + (_TOLD * self.n if self.told else 0)

    def _links(self, memory: int | None) -> int:
        """Links between aggregates that are kept, as a rule; less than the fewest: no grids."""
        wanted = int(_LINKS * self.nnz)
        if memory is None:
            return wanted
        room = memory - self._with(1, coarse_bytes(self.aggregates, self.columns))
        return min(wanted, links_in(room, self.aggregates))

    @property
    def aggregates(self) -> int:
        """Aggregates of nodes, as a rule."""
        return int(_AGGREGATES * self.n)

    def has_grids(self, memory: int | None) -> bool:
        """Whether coarse grids fit, as a rule; without them vectors are found by filters."""
        return self._links(memory) > 0

    def peak(self, memory: int | None) -> int:
        """Bytes of the process at its peak, as a rule: columns in as few even groups as fit."""
        links, coarse = self._links(memory), 0
        if links:
            coarse = _LINK * links + coarse_bytes(self.aggregates, self.columns)
        if memory is None:
            return self._with(self.columns, coarse)
        room = memory - RESERVE - self._there - coarse
        fit = max(1, room // (self.n * (_CYCLE if coarse else _HELD * self.number)))
        groups = -(-self.columns // fit)
        return self._with(-(-self.columns // groups), coarse)

    def _with(self, columns: int, coarse: int) -> int:
        each = _CYCLE if coarse else _HELD * self.number
        most = max(each * columns, _SET_UP, self.answers)
        return self._there + coarse + self.n * (self.held + most)

    def peak_of_set_up(self, memory: int | None) -> int:
        """Bytes before the eigenvectors, as a rule."""
        return self._there + _LINK * self._links(memory) + (self.held + _SET_UP) * self.n

    @property
    def least_memory(self) -> int:
        """The least memory with which it can be done."""
        return self._with(1, 0) + RESERVE

    @property
    def scratch(self) -> int:
        """Bytes of temporary files: blocks of the iteration."""
        return self.blocks * self.n * self.columns

    @property
    def scratch_of_set_up(self) -> int:
        """Likewise of entries on their way to coarse grids."""
        return 12 * self.nnz + 40 * self.n

    def check(self, memory: int) -> None:
        """Raise InputError where not even the least fits, with the memory that does."""
        if self.least_memory > memory:
            raise InputError(
                f"memory: {size_text(memory)} given, but {self.what} of {self.n} nodes with "
                f"{self.nnz} weights on disk needs {size_text(self.least_memory, up=True)}"
            )


def region_bytes(nodes: float, entries: float) -> float:
    """A part of a graph in memory in which constraints are spread, and F there."""
    return _NODE * nodes + _EDGE * entries


def columns_bytes(n: int, columns: int) -> int:
    """Columns of n nodes in memory during a cycle."""
    return _CYCLE * n * columns


def links_in(room: int, aggregates: int) -> int:
    """Links between aggregates that fit into so many bytes beside the reserve; 0: no grids.

    For the fewest that say something half of it must do: most kernels are compiled by then, and
    without grids vectors are found by filters alone: of 10⁶ points in 90 to 160 s instead of 6.
    """
    fewest = _FEWEST * aggregates
    most = (room - RESERVE) // _LINK
    return most if most >= fewest else fewest if room - RESERVE // 2 >= _LINK * fewest else 0


def coarse_bytes(aggregates: int, columns: int) -> int:
    """Iterations on coarse grids that are there."""
    return _COARSE * aggregates * columns
