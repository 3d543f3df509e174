"""What a fit takes in memory, on disk and on ranks, and in which home of the first two it runs.

One formula for every stage: of b columns on a graph of n nodes and nnz stored weights

    bytes = constant + node·n + weight·nnz + number·n·b.

An estimator states its columns and how many blocks of them it holds (`Cost`), whatever the graph;
all other coefficients are here. Budget checks, `mustlink plan`, advice and `home_for` read them.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mustlink.context.neighbor_cost import (
    MOST_SYMMETRIC,
    SYMMETRIC,
    NeighborPlan,
    knn_plan,
    other_plan,
    stored_knn_plan,
)
from mustlink.context.rates import SPREAD_DENSE_BELOW, duration, spreading_seconds
from mustlink.core.resources import PROGRAM, size_text
from mustlink.errors import InputError

RESERVE = 130 * 10**6  # bytes that compiling kernels takes at their first use, the first time ever
TOGETHER, _NARROW = 32, 4  # equations solved at a time: as a rule, and where memory is short
FEW = 20_000  # nodes up to which single precision would save nothing
ELIMINATED = 4_000  # nodes up to which equations may be solved by exact elimination
MOST_COUNTED = 20  # clusters: n_clusters="auto" counts up to so many in graphs of points
MOST_TRIED = 50_000  # nodes of a graph, of which no sample can be taken, on which `Auto` tries
FACTORS = 120 * 10**6  # bytes of the propagation of constraints at least, however few there are
LAZY = 8  # points of more than this part of the memory are read when needed, block by block
COUNTED = 160  # bytes a row: equal rows are counted where there is ample room for it
_EQUAL = 0.5  # share of rows that differ, below which weights are far apart


class Stage(NamedTuple):
    """Bytes that live at the same time: constant + node·n + weight·nnz + number·n·b."""

    constant: float = 0.0
    node: float = 0.0
    weight: float = 0.0
    number: float = 0.0

    def and_(self, *others: Stage) -> Stage:
        """All of these at the same time."""
        return Stage(*map(sum, zip(self, *others, strict=True)))

    def bytes(self, n: float, nnz: float, columns: int = 0) -> int:
        """The formula for n nodes, nnz stored weights and so many columns."""
        return int(self.constant + (self.node + self.number * columns) * n + self.weight * nnz)


def entry_bytes(single: bool) -> int:
    """Bytes of a stored number."""
    return 4 if single else 8


# ------------------------------------------------------------------------------ in memory

_NODE = 80  # bytes: order, degrees, components, grids
_CHECKED = 2.2  # times a graph while it is read and checked for symmetry
_NEW_EDGES = 1.1  # stored weights of a graph after and before new edges; more for many pairs
_TASKS = 64 * 10**6  # bytes: rows of blocks that threads work on, see `kernels.blocks.row_slices`
_SMALL = 10 * 3 * 3 * 8  # bytes of the Gram matrices of three blocks, a number of one
_GRIDS = 3  # bytes a weight: grids of overlapping clusters, 0.1 or less of points in a plane
_LINKED = 60  # bytes a weight: the graph with its links, and grids of it
_SMOOTHING, _SMOOTHED = 80, 20  # bytes a weight: grids for wide weights, while made and then
_REST = 20  # bytes a weight: S among the nodes without a label, in both precisions
_ROW = 8 * 4  # bytes of a row: its node, its label given and found, how sure that is


@dataclass(frozen=True)
class Size:
    """A graph of n nodes with nnz stored weights of `stored` bytes each."""

    n: int
    nnz: int
    stored: int = 8

    def bytes(self, stage: Stage, columns: int = 0) -> int:
        """Those of a stage on this graph."""
        return stage.bytes(self.n, self.nnz, columns)

    @property
    def graph(self) -> int:
        """Bytes of W as CSR with indices of 4 bytes."""
        return self.bytes(Stage(node=4, weight=4 + self.stored))

    @property
    def checking(self) -> int:
        """Bytes of the process while W is read and checked for symmetry."""
        return PROGRAM + int(_CHECKED * self.graph)

    def operator(self, single: bool) -> int:
        """W and S, with S in single precision beside it for the grids, and what a node takes."""
        return self.graph + self.bytes(Stage(node=_NODE, weight=8 if single else 16))


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
    * `rough`: vectors need not be sharp: of more than `FEW` nodes blocks are in single precision.
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
    rough: bool = False
    double: bool = False
    per_weight: int = 0
    spreads: bool = False
    most_steps: int | None = None

    def with_prior(self) -> Cost:
        """The same with a prior: distributions of nodes, and of those in working order."""
        return replace(self, held=self.held + 2)

    def of_given(self) -> Cost:
        """The same where the graph is given, not made from points."""
        return replace(self, usual=self.usual + self.on_networks)

    def _width(self, columns: int) -> int:
        return columns + n_guard_vectors(columns) * self.guarded

    def _there(self, size: Size, single: bool) -> int:
        """Everything but the blocks."""
        there = PROGRAM + size.operator(single) + self.per_weight * size.nnz
        if not self.spreads:
            return there
        more = Size(size.n, int(_NEW_EDGES * size.nnz), entry_bytes(single))
        return there + more.operator(single) + 8 * size.nnz + FACTORS

    def peak(
        self, size: Size, *, single: bool, columns: int | None = None, usual: bool = False
    ) -> int:
        """Bytes of the process at its peak: at most, or as a rule."""
        width = self._width(self.columns if columns is None else columns)
        at_once = width if self.together is None else min(width, self.together)
        rough = self.rough and usual and size.n > FEW
        number = 8 if self.double else entry_bytes(single or rough)
        blocks = number * ((self.usual if usual else self.blocks) * at_once + self.held * width)
        made = min(_TASKS, 3 * number * size.n * at_once)
        made += _SMALL * width**2 if self.guarded else 0
        solving = Stage(made, node=blocks, weight=0 if usual else _GRIDS)
        return self._there(size, single) + size.bytes(solving)

    def stages(
        self, size: Size, *, single: bool, rows: int, clusters: int = 0, hard: bool = False
    ) -> dict[str, int]:
        """Bytes of the process by stages, as a rule, with answers of so many rows in the end.

        Of a `hard` graph, whose weights are far apart, multigrid has smoothed grids, and equations
        of few nodes are solved by elimination. Blocks of the iteration are freed before the answers
        of nodes become those of rows, a number for every class.
        """
        n, nnz, width, entry = size.n, size.nnz, self._width(self.columns), entry_bytes(single)
        rest = PROGRAM + size.operator(single)
        vectors, answers = self.columns * n * entry, 8 * self.held if self.held else 2 * entry
        found = {
            "at rest": rest,
            "multigrid set-up": rest,
            "constraint propagation": rest + FACTORS,
            "candidate regularisations": rest + 2 * vectors,
            "solving": self.peak(size, single=single, usual=True),
            "clusters": rest + vectors + 3 * clusters * n * entry,
            "answers": rest + int(self.columns * answers * n) + rows * (8 * self.least + _ROW),
        }
        if hard:
            there, solving = self._there(size, single), Stage(0, 8 * self.held * width, _SMOOTHED)
            factor = 8 * n**2 if n <= ELIMINATED else 0
            found["multigrid set-up"] = there + _SMOOTHING * nnz
            eliminating = there + size.bytes(solving) + factor
            found["solving"] = max(found["solving"], eliminating)
        return found

    def within(self, size: Size, memory: int | None, *, single: bool) -> Cost:
        """The same with as many equations at a time as fit."""
        found = self
        while memory is not None and found.together is not None and found.together > _NARROW:
            if found.peak(size, single=single) + RESERVE <= memory:
                break
            found = replace(found, together=found.together // 2)
        return found

    def fitted(self, size: Size, memory: int | None, *, single: bool) -> Cost:
        """The same with as many vectors, or equations at a time, as fit."""
        if memory is None or self.least == self.columns:
            return self.within(size, memory, single=single)
        fewer = max(self.most_columns(size, memory, single=single), self.least)
        return replace(self, columns=min(fewer, self.columns))

    def wants_single(self, size: Size, memory: int | None) -> bool:
        """Whether what is held in double precision would not fit."""
        return memory is not None and self.peak(size, single=False) + RESERVE > memory

    def least_memory(self, size: Size, *, single: bool = True) -> int:
        """The least memory with which it can be done."""
        return self._narrowest(size, self.least, single)

    def most_columns(self, size: Size, memory: int, *, single: bool) -> int:
        """Vectors that fit; 0 where none do."""

        def too_many(columns: int) -> bool:
            return self._narrowest(size, columns, single) > memory

        high = 1
        while not too_many(high):
            high *= 2
        return bisect_left(range(1, high), True, key=too_many)

    def _narrowest(self, size: Size, columns: int, single: bool) -> int:
        return self.narrow.peak(size, single=single, columns=columns) + RESERVE

    @property
    def narrow(self) -> Cost:
        """The same with as few equations at a time as may be."""
        return self if self.together is None else replace(self, together=_NARROW)

    def check(self, size: Size, memory: int, *, single: bool) -> None:
        """Raise InputError where not even the least fits, with the memory that does."""
        what = f"{self.least} vectors of {size.n} nodes with {size.nnz} weights need"
        _refuse(memory, self.least_memory(size, single=single), what)


def _refuse(memory: int, least: int, what: str) -> None:
    if least > memory:
        raise InputError(
            f"memory: {size_text(memory)} given, but {what} {size_text(least, up=True)}"
        )


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


# -------------------------------------------------------------------------------- on disk

BUFFERS = 80 * 10**6  # blocks of rows read ahead, ranges of rows of blocks, buckets
_CONSTRAINED = 32  # bytes a node that labels or constraints take, however few there are
_SET_UP = 13  # bytes a node while aggregates are made
_ANSWER = 64  # bytes a node: its clusters by several variants, those of rows, a column of these
_CYCLE = Stage(number=5 * 4)  # five blocks in single precision
_HELD = 2  # blocks of a recurrence, or a product
_AGGREGATES = 0.06  # of the nodes, as a rule: neighbour graphs have 0.05
_LINKS = 0.1  # of the weights, between aggregates, at most: the heaviest where there are more
_FEWEST = 2 * 4  # links of an aggregate, where memory is short
_LINK = 22  # bytes of a weight between aggregates while the next grid is made
_COARSE = Stage(number=12 * 8)  # of aggregates: twelve blocks in double precision
_REGION = Stage(node=300, weight=26)  # rows in which constraints are spread: S, where it is, F
_SPREAD = 300  # bytes a node of what two constraints are spread to
_ENTERING = Stage(node=40, weight=12)  # entries on their way to coarse grids, in files


@dataclass(frozen=True)
class DiskCost:
    """A cut by so many vectors of a graph with n nodes and nnz stored weights, all on disk.

    In memory are the columns of a block that are worked on, from one on, and the graph of the
    aggregates, which has a twentieth of the nodes as a rule. `constrained`: whether nodes have
    constraints; `spreads`: and whether pairs of them are spread in regions of the graph, which may
    be all of it. Bytes a node: `held` are there all the time, `answers` at the end; `number` has an
    entry of a block in a product, `blocks` all of a column.
    """

    n: int
    nnz: int
    columns: int
    constrained: bool = False
    spreads: bool = False
    held: int = 0
    answers: int = _ANSWER
    number: int = 4
    blocks: int = 4 * 9
    what: str = "a cut"

    @classmethod
    def of_labels(cls, n: int, nnz: int, classes: int) -> DiskCost:
        """Labels of so many classes spread by conjugate gradients, in double precision."""
        return cls(
            n, nnz, classes, held=8, answers=48, number=8, blocks=8 * 12, what="a propagation"
        )

    @property
    def aggregates(self) -> int:
        """Aggregates of nodes, as a rule."""
        return int(_AGGREGATES * self.n)

    @property
    def at_rest(self) -> int:
        """Bytes a node that are there all the time."""
        return self.held + (_CONSTRAINED if self.constrained else 0)

    def _bytes(self, columns: int, grids: int, each: int) -> int:
        """Of the process with so many columns of a block in memory, beside coarse grids."""
        at_rest = Stage(PROGRAM + BUFFERS + grids, self.at_rest)
        at_once = Stage(node=max(each * columns, _SET_UP, self.answers))
        return at_rest.and_(at_once).bytes(self.n, self.nnz)

    def stages(self, memory: int) -> dict[str, int]:
        """Bytes of the process by stages, as a rule: columns in as few even groups as fit.

        Of "grids" alone; none where they do not fit, and vectors are found by filters.
        """
        coarse, each = coarse_bytes(self.aggregates, self.columns), int(_CYCLE.number)
        room = memory - self._bytes(1, coarse, each)
        links = min(int(_LINKS * self.nnz), links_in(room, self.aggregates))
        grids = _LINK * links + coarse if links else 0
        each = each if links else _HELD * self.number
        fit = max(1, (memory - RESERVE - self._bytes(0, grids, 0)) // (self.n * each))
        groups = -(-self.columns // fit)
        return {
            "grids": grids,
            "at rest": self._bytes(0, _LINK * links, 0),
            "solving": self._bytes(-(-self.columns // groups), grids, each),
        }

    @property
    def least_memory(self) -> int:
        """The least memory with which it can be done."""
        spreading = region_bytes(self.n, self.nnz) + _SPREAD * self.n if self.spreads else 0
        solving = self._bytes(1, 0, _HELD * self.number)
        return max(solving, self._bytes(0, 0, 0) + int(spreading)) + RESERVE

    @property
    def scratch(self) -> tuple[int, int]:
        """Bytes of temporary files: entries on their way to coarse grids, blocks of vectors."""
        entries = _ENTERING.bytes(self.n, self.nnz)
        return entries, self.blocks * self.n * self.columns

    def check(self, memory: int) -> None:
        """Raise InputError where not even the least fits, with the memory that does."""
        what = f"{self.what} of {self.n} nodes with {self.nnz} weights on disk needs"
        _refuse(memory, self.least_memory, what)


def region_bytes(nodes: float, entries: float) -> float:
    """A part of a graph in memory in which constraints are spread, and F there."""
    return _REGION.bytes(nodes, entries)


def columns_bytes(n: int, columns: int) -> int:
    """Columns of n nodes in memory during a cycle."""
    return _CYCLE.bytes(n, 0, columns)


def coarse_bytes(aggregates: int, columns: int) -> int:
    """Iterations on coarse grids that are there."""
    return _COARSE.bytes(aggregates, 0, columns)


def links_in(room: int, aggregates: int) -> int:
    """Links between aggregates that fit into so many bytes beside the reserve; 0: no grids.

    For the fewest of any use half of it must do: most kernels are compiled by then, and
    without grids vectors are found by filters alone: of 10⁶ points in 90 to 160 s instead of 6.
    """
    fewest = _FEWEST * aggregates
    most = (room - RESERVE) // _LINK
    return most if most >= fewest else fewest if room - RESERVE // 2 >= _LINK * fewest else 0


# ------------------------------------------------------------------------------- on ranks

_STARTED = Stage(175 * 10**6)  # Python, MPI and PETSc
_LOADED = Stage(290 * 10**6, node=20)  # with all kernels; the order on every rank, and the way back
_DEALT, _MINE = 40, 16  # bytes of a weight: while rows go to their ranks, and afterwards
_BETWEEN = 0.4  # of the weights, between aggregates: 0.1 on sheets, 0.7 in 32 dimensions
_MADE = 28, 40  # bytes of a link while they are made: of one rank, and where others send some
_GROUNDED = 30  # bytes of a weight where labelled nodes are left out: of the rest there is a copy
_SPREAD, _STEPS = 14 * 8, 11  # blocks of a propagation, in doubles, and of a step of LOBPCG


def rank_stages(
    n: int, nnz: int, columns: int, ranks: int, *, item: int, k: int, grounded: bool = False
) -> dict[str, int]:
    """Bytes of a rank by stages: of eigenvectors of `item` bytes a number, or of a propagation.

    `k` columns of the embedding, or of the classes, are gathered on rank 0. What weights and
    vectors take is divided among the ranks. `grounded`: labelled nodes are left out.
    """
    links, copy = _BETWEEN / ranks, _GROUNDED / ranks if grounded else 0
    rest = _LOADED._replace(weight=_MINE / ranks)
    there = rest.and_(Stage(weight=12 * links))
    stages = {
        "start of the program": _STARTED,
        "reading rows": _STARTED.and_(Stage(node=20, weight=_DEALT / ranks)),
        "multigrid set-up": rest.and_(Stage(weight=_MADE[ranks > 1] * links)),
        "eigenvectors": there.and_(Stage(number=_STEPS * item / ranks)),
        "propagating": there.and_(Stage(weight=copy, number=_SPREAD / ranks)),
        "writing": there.and_(Stage(node=8 * (2 * k + 4))),
    }
    return {name: stage.bytes(n, nnz, columns) for name, stage in stages.items()}


# -------------------------------------------------------------------- a sample, held out

_POINTS, _EACH, _MOST = 1500, 30, 6000  # of the sample: at least, for a class, and at most
_LIBRARIES = 40 * 10**6  # bytes of scikit-learn's classifiers
_COPIES, _SQUARES = 3, 6  # of the sample's points, and of a dense matrix on it, held at a time
_SAMPLE_BLOCKS = 15  # of a number for every class
_RIVALS, _FITS = 0.3, 3  # seconds of what knows no graph, and fits of the method
_SAMPLE_WEIGHTS = 19  # stored for a point of the sample
_PAIR, _PAIRS = 12, 110 << 20  # bytes of a pair that is compared, and of all at once at most


def sample_rows(n: int, classes: int) -> int:
    """Rows of the sample to which fits with labels held out are made, some labelled ones apart."""
    return min(n, max(_POINTS, _EACH * classes), _MOST)


def sample_bytes(n: int, d: int, classes: int, cost: Cost) -> int:
    """Bytes of them beside what a fit to points (n, d) leaves."""
    m = sample_rows(n, classes)
    dense = _SQUARES * m**2 if cost.spreads and m <= SPREAD_DENSE_BELOW else 0
    neighbours = min(_PAIR * m**2, _PAIRS)
    return _LIBRARIES + neighbours + 8 * (_COPIES * m * d + _SAMPLE_BLOCKS * m * classes + dense)


def held_out_seconds(n: int, classes: int, cost: Cost) -> float:
    """Seconds of all fits to the sample of n points with labels held out, and of their rivals."""
    m = sample_rows(n, classes)
    one = duration("fit of a sample", m) + (spreading_seconds(m) if cost.spreads else 0.0)
    one += duration("steps", _SAMPLE_WEIGHTS * m * classes * (cost.most_steps or 0))
    return _RIVALS + _FITS * one


# ------------------------------------------------------------------------ where a fit runs


@dataclass(frozen=True)
class FitInput:
    """What a fit is given: a graph of n nodes and nnz weights, or points with k neighbours each.

    Of `rows` points of d coordinates n differ; `nnz` are then the weights of other graphs of them.
    They are `in_file`, of which blocks can be read, or held by the caller. `beside`: bytes that
    are held besides. `searched`: bytes of a search that is not by cells, 0 where it is.
    """

    n: int
    nnz: int = 0
    d: int = 0
    k: int = 0
    rows: int = 0
    in_file: bool = True
    beside: int = 0
    searched: int = 0
    search_seconds: float = 0.0

    @property
    def points(self) -> int:
        """Bytes of the points in single precision."""
        return 4 * max(self.rows, self.n) * self.d

    def at_home(self, cost: Cost | None) -> int:
        """The least memory with graph and vectors in memory, of no `cost` with the graph alone.

        Weights are as many as neighbours of high dimension have.
        """
        size = Size(self.n, self.nnz)
        if not self.d:
            least = 0 if cost is None else cost.least_memory(size)
            return max(least, size.checking) + self.beside
        least = (
            self._made(0).least if self.searched else knn_plan(self.n, self.d, self.k, None).least
        )
        if cost is not None:
            rows, hard = max(self.rows, self.n), self.is_hard(cost)
            stored = 4 if rows == self.n else 8  # weights of rows that are counted
            most = Size(self.n, int(MOST_SYMMETRIC * self.n * self.k) + self.nnz, stored)
            usual = Size(self.n, int(SYMMETRIC * self.n * self.k) + self.nnz, stored)
            stages = cost.narrow.stages(usual, single=True, rows=rows, hard=hard)
            late = ("multigrid set-up", "solving", "answers") if hard else ("answers",)
            least = max(least, cost.least_memory(most), *(stages[name] for name in late))
        return least + self.beside + (0 if self.in_file else self.points)

    def unlimited(self, cost: Cost | None = None, *rivals: Cost, at_most: bool) -> int:
        """Bytes of the process where no memory is named, at most or as a rule.

        Without a `cost` a graph is made and nothing else; `rivals` may be tried beside it.
        """
        held = self.points + self.beside
        symmetric = MOST_SYMMETRIC if at_most else SYMMETRIC
        size = Size(self.n, int(symmetric * self.n * self.k) + self.nnz)
        peaks = [size.checking]
        if self.d:
            peaks = [self._made(held).peak_bytes]
        for one in () if cost is None else (cost, *rivals) if at_most else (cost,):
            how: dict[str, Any] = {"rows": max(self.rows, self.n), "hard": self.is_hard(one)}
            peaks += [held + peak for peak in one.stages(size, single=False, **how).values()]
            if at_most:
                peaks.append(held + one.peak(size, single=False) + RESERVE)
        return max(peaks)

    def _made(self, held: int) -> NeighborPlan:
        """How the graph is made, without a limit, beside so many bytes."""
        n, d, k = self.n, self.d, self.k
        if self.searched:
            return other_plan(n, k, "", self.searched, held, None)
        return knn_plan(n, d, k, None, held=held, by_rows=False)

    def on_disk(self, cost: DiskCost) -> int:
        """The least memory with graph and vectors on disk, where equal rows are nodes apart.

        Weights as in `at_home`.
        """
        search, rows = 0, max(self.rows, self.n)
        if self.d:
            search = stored_knn_plan(rows, self.d, self.k).least
            cost = replace(cost, nnz=int(MOST_SYMMETRIC * rows * self.k) + self.nnz)
        return max(cost.least_memory, search) + (0 if self.in_file else self.points)

    def is_hard(self, cost: Cost) -> bool:
        """Whether equations are to be solved whose weights are far apart: many rows are equal.

        Where multigrid does not contract, they take ten times as long.
        """
        return self.d > 0 and self.n < _EQUAL * self.rows and not cost.guarded


@dataclass(frozen=True)
class Home:
    """Where a fit runs, "memory" or "disk", and why; None where it fits in neither.

    `least` is the least memory with which it runs in any of them, `held` the bytes that are in
    memory all the time: points, unless they are `lazy` and stay in their file, and what is beside.
    """

    name: str | None
    least: int
    held: int
    why: str
    lazy: bool = False


def home_for(
    memory: int | None, cost: Cost | None, data: FitInput, on_disk: DiskCost | None = None
) -> Home:
    """Which home a fit to data runs in: in memory where that suffices, else on disk.

    `cost` is None where a graph is made and nothing else, `on_disk` where nothing runs there.
    Points of a file are held where they are few beside the memory, and there is room.
    """
    least = {"memory": data.at_home(cost)}
    if on_disk is not None and not data.searched:
        least["disk"] = data.on_disk(on_disk)
    sizes = ", ".join(f"{size_text(size, up=True)} in {name}" for name, size in least.items())
    if memory is None:
        held = data.points + data.beside
        return Home("memory", min(least.values()), held, "no memory is named")
    name = next((name for name, size in least.items() if size <= memory), None)
    few = name is not None and data.points <= min(memory // LAZY, memory - least[name])
    lazy = data.d > 0 and data.in_file and not few
    held = data.beside + (0 if lazy else data.points)
    return Home(name, min(least.values()), held, f"it takes {sizes}", lazy)


# --- Work of eigenvectors, counted: the same on every machine


_PRODUCT = 1.5e-9  # of a stored weight and a column, and of a node and a pair of columns
_BOTH = 1.7  # times as much where both sides of a pencil are products
_SMOOTH_STEPS = 5  # that smooth vectors usually take, their start included
_RIVAL_STEPS = 180  # of a full problem that is tried twice, with 60 steps at most, and then taken


def n_guard_vectors(k: int) -> int:
    """Columns computed beyond the k wanted ones: they decide how fast the last pairs converge."""
    return max(3, k // 5)


def step_work(size: Size, columns: int) -> float:
    """A step of LOBPCG for so many wanted vectors: products and cycles, and Gram matrices.

    b(nnz + bn) of the b columns that are computed.
    """
    b = columns + n_guard_vectors(columns)
    return b * (size.nnz + float(size.n) * b)


def step_seconds(size: Size, columns: int, *, pencil: bool = False) -> float:
    """One step of LOBPCG for so many wanted vectors."""
    return _PRODUCT * step_work(size, columns) * (_BOTH if pencil else 1.0)


def smooth_seconds(size: Size, columns: int) -> float:
    """So many smooth vectors of a graph."""
    return _SMOOTH_STEPS * step_seconds(size, columns)


def rival_seconds(size: Size, columns: int) -> float:
    """The full problem where it is tried beside the smooth subspace, and taken."""
    return _RIVAL_STEPS * step_seconds(size, columns, pencil=True)
