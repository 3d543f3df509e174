"""What a fit will take, before anything runs: bytes and seconds of its stages, in any home.

The bytes are those of `method_cost` and `neighbor_cost`, the seconds counted work times a rate of
`rates`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mustlink.context.method_cost import (
    RESERVE,
    Cost,
    DiskCost,
    FitInput,
    Home,
    Size,
    full_problem,
    held_out_seconds,
    home_for,
    rank_stages,
    region_bytes,
    rival_seconds,
    sample_bytes,
    step_work,
)
from mustlink.context.neighbor_cost import SYMMETRIC, knn_plan, other_plan, stored_knn_plan
from mustlink.context.rates import (
    START,
    duration,
    neighbour_seconds,
    spreading_seconds,
    trial_seconds,
)
from mustlink.core.resources import PROGRAM, Allowed, size_text

HELD_OUT = "labels held out"  # a stage
STEPS = "how many steps the solver takes, ten times as many or not, is known when the graph is seen"
_SURE = 0.1  # share of the time in steps, up to which that is within a factor of two
_READER = 90 * 10**6  # bytes of the program before the engine is loaded
_BLOCK = 96 * 10**6  # of a block that is read, checked and converted
_CHECKED = 250 * 10**6  # of blocks of points that are looked at, which stay on disk
_WALKS = 3 * 16 * 8  # bytes a node: blocks of walks by which graphs are compared
_ANSWERED = 32  # bytes a row of labels that spread: known, classes and how sure they are
_ROW = 40  # bytes of finding out which rows are equal
_MOVED = 20  # bytes an entry of a graph that constraints move, and of their weights, on disk
_LOADED = 8  # columns that a product could take in the time in which its matrix is read
_TRIED = 12  # columns a cluster, of smooth subspaces and the full problem of a fit to constraints
_FITS = {"choosing by held-out constraints": 6, "constrained vectors": 2}  # of such a fit
_TRIALS = 100 * 10**6  # bytes of trials on a sample
_STARTED = 50_000  # rows of k-means with all its starts
_CLUSTERS = 60  # by which regularisations are compared, at most
_FILTERS = 1.5  # times as many products where there are no coarse grids, on networks
_ALONG = 0.85  # of what so many ranks would do at their best, as a rule


@dataclass(frozen=True)
class PlannedStage:
    """One stage: peak of the process in bytes, seconds, and how it is done where that varies.

    `disk_bytes` are those of temporary files and of the cache for another run. What is not `sure`
    is done where the data need it; its seconds are no part of the sum.
    """

    name: str
    peak_bytes: int
    seconds: float
    how: str = ""
    disk_bytes: int = 0
    sure: bool = True


@dataclass(frozen=True)
class Plan:
    """The stages of a fit, what is changed to fit `memory`, and the least memory that works.

    `promise` is what the seconds are, "at least" for one, where the
    data are of a kind whose rate is not known, and `why`. `here` is what memory="auto" found, by
    which `memory` was named where that is less than a fit may need. `on_disk`: the data are a graph
    that is left in its file, `lazy`: points of which blocks are read when needed.
    """

    stages: tuple[PlannedStage, ...]
    changes: tuple[str, ...]
    memory: int | None
    least: int
    method: str = ""
    promise: str = ""
    why: tuple[str, ...] = ()
    on_disk: bool = False
    lazy: bool = False
    here: Allowed = Allowed()  # noqa: RUF009  it is frozen

    @property
    def allowed(self) -> Allowed:
        """The memory with its source."""
        return replace(self.here, limit=self.memory)

    @property
    def peak_bytes(self) -> int:
        """Largest of the stages that are sure to come."""
        return max(stage.peak_bytes for stage in self.stages if stage.sure)

    @property
    def most_bytes(self) -> int:
        """Largest of all stages, those that the data may need among them."""
        return max(stage.peak_bytes for stage in self.stages)

    @property
    def disk_bytes(self) -> int:
        """Most bytes on disk at a time, without the result."""
        return max(stage.disk_bytes for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Sum over the stages that are sure to come."""
        return sum(stage.seconds for stage in self.stages if stage.sure)

    def at(self, speed: float) -> Plan:
        """The same on a machine that is so many times slower than that of the rates."""
        slow = (replace(stage, seconds=stage.seconds * speed) for stage in self.stages)
        return replace(self, stages=tuple(slow))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "stages": [asdict(stage) for stage in self.stages],
            "peak_bytes": self.peak_bytes,
            "most_bytes": self.most_bytes,
            "disk_bytes": self.disk_bytes,
            "seconds": self.seconds,
            "seconds_are": self.promise,
            "why": list(self.why),
            "memory": self.memory,
            "memory_here": self.here.limit,
            "memory_source": self.here.source,
            "least_memory": self.least,
            "changes": list(self.changes),
        }


@dataclass(frozen=True, kw_only=True)
class PlanInput:
    """A fit to `data` by a method of some `cost`, in `memory`.

    * `symmetric`: weights stored for a neighbour. `dimension`: of neighbourhoods, where known.
      `sooner`, `later`: why the time that is counted is not reached, or exceeded.
    * `labels`: points have labels, some of which are held out. `of_labels`: a propagation, and its
      `ways` to try on some `folds`; of a cut the ways from vectors to clusters.
    * `views`: how weights of several graphs come, "chosen" or "given". `doubled`: constraints on
      senders and receivers. `rival`: the full problem is tried below this share. `regularized`:
      degrees are by evidence. `caches_vectors`: all of them, on disk.
    * `trials`: "labels" or "pairs", by which `Auto` chooses a method on a sample.
    """

    data: FitInput
    cost: Cost
    memory: int | None
    file_bytes: int
    clusters: int
    symmetric: float = SYMMETRIC
    dimension: float | None = None
    sooner: str = ""
    later: str = ""
    labels: bool = False
    of_labels: bool = False
    ways: int = 1
    folds: int = 1
    views: str = ""
    doubled: bool = False
    rival: float = 0.0
    regularized: bool = False
    caches_vectors: bool = False
    trials: str = ""

    @property
    def is_points(self) -> bool:
        """Whether a graph is made first."""
        return self.data.d > 0


@dataclass
class _Stages:
    """Stages, and what is changed to fit, as they are added."""

    fit: PlanInput
    home: Home
    found: list[PlannedStage] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)

    def add(self, name: str, peak: int, work: float = 0.0, how: str = "", **more: Any) -> None:
        """Add a stage of so much work, by its rate, or of `seconds`; on disk there is `disk`."""
        disk, seconds = more.get("disk"), more.get("seconds")
        if seconds is None:
            seconds = duration(name, work, on_disk=disk is not None)
        sure = more.get("sure", True)
        self.found.append(PlannedStage(name, peak, seconds, how, disk or 0, sure))

    def begin(self) -> None:
        """Until the data are read and checked."""
        fit, home = self.fit, self.home
        graph = 0 if fit.is_points else 12 * fit.data.nnz
        how = "by blocks, nothing kept" if home.lazy else ""
        self.add("start of the program", _READER, seconds=START)
        if fit.is_points or home.name == "memory":
            self.add("reading", _READER + home.held + (graph or _BLOCK), fit.file_bytes, how)
            self.add("checksums", _READER + home.held + graph, fit.file_bytes)
        else:
            self.add("checksums", _READER, fit.file_bytes)

    def plan(self, **more: Any) -> Plan:
        """All of them."""
        parts = tuple(self.found), tuple(self.changes), self.fit.memory, self.home.least
        return Plan(*parts, lazy=self.home.lazy, **more)


# ------------------------------------------------------------------------ in memory


def plan_in_memory(fit: PlanInput, home: Home) -> Plan:
    """The plan where graph and vectors are in memory."""
    data, cost, held, stages = fit.data, fit.cost, home.held, _Stages(fit, home)
    size = Size(data.n, data.nnz)
    stages.begin()
    if home.lazy:
        stages.changes.append("points are read by blocks of rows, not held")
    if fit.is_points:
        size = _graph(stages)
    else:
        stages.add("checking the graph", held + size.checking, size.nnz)
    if fit.trials:
        seconds = trial_seconds(fit.clusters or cost.least, pairs=fit.trials == "pairs")
        stages.add("choosing by what was held out", PROGRAM + held + _TRIALS, seconds=seconds)
        if fit.is_points and fit.trials == "labels":
            stages.add("prior", PROGRAM + held + size.graph, size.n)
    room = None if fit.memory is None else fit.memory - held
    single = cost.wants_single(Size(size.n, size.nnz), room)
    if single:
        held_so = "the graph is" if cost.double else "graph and vectors are"
        stages.changes.append(f"{held_so} in single precision")
    fitted = cost.fitted(size, room, single=single)
    if fitted.columns < cost.columns:
        stages.changes.append(f"at most {fitted.columns} smooth vectors instead of {cost.columns}")
    if (fitted.together or cost.columns) < min(cost.together or 0, cost.columns):
        stages.changes.append(f"{fitted.together} classes are solved at a time")
    if fit.views:
        peak = PROGRAM + held + 2 * size.graph + _WALKS * size.n
        amount = size.nnz if fit.views == "chosen" else 0
        stages.add("weights of the graphs", peak, amount, fit.views)
    hard = data.is_hard(fitted)
    _solve(stages, fitted, size, single, hard)
    steps = sum(one.seconds for one in stages.found if one.name == "propagating")
    total = sum(one.seconds for one in stages.found)
    unknown = hard or (fitted.most_steps is None and steps > _SURE * total)
    sooner = [fit.sooner] if fit.sooner else []
    if fitted.most_steps is not None:
        most = f"{fitted.most_steps:,} steps, as many as --max-iter allows"
        sooner.append(f"up to {most}, are counted")
    why = (fit.later, "; ".join(sooner), STEPS if unknown else "")
    promise = "at most" if sooner else ""
    if fit.later:
        promise = "about" if sooner else "at least"
    if unknown:
        promise = "at least"
    return stages.plan(promise=promise, why=tuple(filter(None, why)))


def plan_of_representatives(fit: PlanInput, p: int) -> Plan:
    """The plan where p representatives stand for all points, which are read a few times."""
    data = fit.data
    if fit.of_labels:
        data = replace(data, beside=data.beside + _ANSWERED * data.n)
    few = represented(data, p)
    held = few.beside + (0 if data.in_file else data.points)
    home = Home("memory", least_memory(data, fit.cost, p), held, "", lazy=data.in_file)
    stages = _Stages(replace(fit, data=few, rival=0.0, regularized=False, labels=False), home)
    stages.begin()
    n, d, name = data.n, data.d, "shares of representatives"
    work, peak = shares_work(n, p, d), PROGRAM + held
    stages.add("checking points", peak, seconds=duration("reading", 4.0 * n * d))
    choosing = 10.0 * shares_work(min(n, 10 * p), p, d)  # by k-means on a sample
    stages.add("representatives", peak, seconds=duration(name, choosing))
    stages.add(name, peak, work)
    stages.changes.append(f"{p:,} representatives stand for {n:,} points")
    size = Size(p, few.nnz)
    _solve(stages, fit.cost, size, single=False, hard=False)
    stages.add("labels of rows", peak, seconds=duration(name, work))
    return stages.plan()


def _graph(stages: _Stages) -> Size:
    """Add the stages in which points become a graph; returns its size."""
    fit, home, data = stages.fit, stages.home, stages.fit.data
    n, d, k, rows = data.n, data.d, data.k, data.rows
    own = int(fit.symmetric * n * k)
    if data.searched:
        plan = other_plan(n, k, "another search", data.searched, home.held, fit.memory)
        seconds = data.search_seconds
    else:
        seen: Any = {"held": home.held, "dimension": fit.dimension}
        plan = knn_plan(n, d, k, fit.memory, by_rows=home.lazy, **seen)
        seconds = neighbour_seconds(plan.method, n, d, k, fit.dimension)
    stages.add("equal rows", PROGRAM + home.held + _ROW * rows + _BLOCK, rows * d)
    stages.add("kNN graph", plan.stages["kNN graph"], how=plan.method, seconds=seconds)
    for name in ("weights", "components"):
        stages.add(name, plan.stages[name], own)
    if n < rows:
        stages.changes.append(f"{rows:,} rows are {n:,} nodes: equal rows are one")
    if plan.layout is not None and plan.lean:
        by = ", from a file on disk" if plan.method != "cells" else ""
        stages.changes.append(f"neighbours are searched in {plan.layout.parts} parts{by}")
    if plan.lean:
        stages.changes.append("weights of the graph are in single precision")
    return Size(n, own + data.nnz, 4 if plan.lean else 8)


def _solve(stages: _Stages, cost: Cost, size: Size, single: bool, hard: bool) -> None:
    """Add the stages after the graph, which has `size`."""
    fit, held, add = stages.fit, stages.home.held, stages.add
    n, nnz, columns, rows = size.n, size.nnz, cost.columns, fit.data.rows
    clusters, memory = fit.clusters or columns, fit.memory
    bytes_of = cost.stages(size, single=single, rows=rows, clusters=clusters, hard=hard)
    peaks = {name: held + peak for name, peak in bytes_of.items()}
    rest, solving = peaks["at rest"], peaks["solving"]
    for name in ("order of the nodes", "Laplacian"):
        add(name, rest, nnz)
    add("multigrid set-up", peaks["multigrid set-up"], nnz)
    if cost.spreads:
        name, how = "constraint propagation", "more with thousands of pairs"
        add(name, peaks[name], how=how, seconds=spreading_seconds(n))
    if not fit.is_points and fit.regularized:
        name = "candidate regularisations"
        add(name, peaks[name], nnz * min(clusters, _CLUSTERS))
    if fit.of_labels:
        if fit.ways > 1:
            seconds = duration("labels held out, by way", nnz * columns * fit.ways * fit.folds)
            name, how = "choosing by held-out labels", f"{fit.ways} ways to spread labels"
            add(name, solving, how=how, seconds=seconds)
        seconds = duration("propagating", nnz * (columns + _LOADED))
        seconds += duration("steps", nnz * columns * (cost.most_steps or 0))
        add("propagating", solving, seconds=seconds)
    else:
        add("eigenvectors", solving, step_work(size, columns))
    if fit.doubled:
        one = duration("eigenvectors", step_work(size, _TRIED * clusters))
        for name, fits in _FITS.items():
            add(name, solving, seconds=fits * one)
    if fit.rival:
        peak = held + full_problem(clusters).peak(size, single=single, usual=True)
        if memory is None or peak <= memory:
            how = f"where smooth vectors keep less than {fit.rival:.0%} of labels held out"
            add("full problem", peak, how=how, seconds=rival_seconds(size, clusters), sure=False)
    if not fit.of_labels:
        seconds = duration("k-means", min(n, _STARTED) * clusters**2)
        seconds = fit.ways * (seconds + duration("clusters", n * clusters))
        add("clusters", peaks["clusters"], seconds=seconds)
    peak = peaks["answers"] + sample_bytes(rows, fit.data.d, clusters, cost)
    if fit.labels and peak <= (memory or peak):
        add(HELD_OUT, peak, seconds=held_out_seconds(rows, clusters, cost))
    add("looking at the result", rest, nnz)
    add("writing", peaks["answers"], rows * (8 + 8 * clusters))


# ------------------------------------------------------------------------ on disk


def plan_on_disk(fit: PlanInput, home: Home, cost: DiskCost) -> Plan:
    """The plan where the graph, given or of points, and vectors are on disk."""
    n, nnz, d, k = cost.n, cost.nnz, fit.data.d, fit.data.k
    stages = _Stages(fit, home)
    stages.changes.append("graph and vectors stay on disk and are read by blocks of rows")
    cache = 4 * n * cost.columns if fit.caches_vectors else 0
    stages.begin()
    if fit.is_points:
        plan = stored_knn_plan(n, d, k, fit.memory, held=home.held, dimension=fit.dimension)
        peak, there = plan.stages, plan.scratch + 8 * plan.entries + 12 * n
        seconds = neighbour_seconds("stored cells", n, d, k, fit.dimension)
        checking = duration("equal rows", n * d)
        stages.add("checking points", _READER + _CHECKED, seconds=checking)
        made: dict[str, Any] = {"how": "on disk", "disk": plan.scratch}
        stages.add("kNN graph", peak["kNN graph"], seconds=seconds, **made)
        stages.add("components", peak["components"], nnz, **made)
        stages.add("weights", peak["weights"], nnz, "on disk", disk=there)
        stages.changes.append(
            "neighbours are searched by cells on disk, equal rows being nodes apart"
        )
        cache += 8 * nnz + 12 * n
    if fit.cost.spreads:
        cache += _MOVED * nnz
    _solve_there(stages, cost, cache)
    files = size_text(max(stage.disk_bytes for stage in stages.found), up=True)
    stages.changes.append(f"temporary files take up to {files} on disk")
    return stages.plan(on_disk=not fit.is_points)


def _solve_there(stages: _Stages, cost: DiskCost, cache: int) -> None:
    """Add the stages after the graph, on disk; `cache` are bytes there beside the input."""
    fit, add, n, nnz, columns = stages.fit, stages.add, cost.n, cost.nnz, cost.columns
    assert fit.memory is not None
    peaks, (entries, vectors) = cost.stages(fit.memory), cost.scratch
    rest, solving, there = peaks["at rest"], peaks["solving"], cache + vectors
    add("looking at the graph", rest, nnz, disk=there)
    if fit.cost.spreads:
        peak = max(rest, min(rest + int(region_bytes(n, nnz)), fit.memory - RESERVE))
        seconds = duration("spread", n, on_disk=True)
        add("constraint propagation", peak, seconds=seconds, disk=cache)
    add("multigrid set-up", rest, nnz, disk=cache + entries)
    if fit.of_labels:
        how = "" if peaks["grids"] else "without multigrid, as coarse grids do not fit"
        add("propagating", solving, nnz * columns, how, disk=there)
        add("writing", rest, n * (16 + 8 * columns), disk=there)
        return
    if not fit.is_points and fit.regularized and fit.caches_vectors:
        name, how = "candidate regularisations", "where degrees are uneven"
        add(name, solving, nnz * columns, how, disk=there)
    how = "" if peaks["grids"] else "by filters, as coarse grids do not fit"
    products = (1.0 if peaks["grids"] else _FILTERS) * step_work(Size(n, nnz), columns)
    add("eigenvectors", solving, products, how, disk=there)
    add("clusters", rest, fit.ways * n * columns, disk=there)
    add("writing", rest, n * (8 + 4 * columns), disk=there)


# ------------------------------------------------------------------------ on ranks


def plan_of_rank(
    size: Size, columns: int, ranks: int, file_bytes: int, *, k: int, of_labels: bool, **how: Any
) -> Plan:
    """The plan of one rank of so many; `how` is for `rank_stages`."""
    n, nnz = size.n, size.nnz
    peaks = rank_stages(n, nnz, columns, ranks, k=k, **how)
    share = 1.0 if ranks == 1 else _ALONG * ranks
    took: dict[str, float] = {
        "reading rows": duration("reading", file_bytes),
        "multigrid set-up": duration("multigrid set-up", nnz),
    }
    if of_labels:
        took["propagating"] = duration("propagating", nnz * columns)
    else:
        took["eigenvectors"] = duration("eigenvectors", step_work(size, columns))
        took["clusters"], peaks["clusters"] = duration("clusters", n * k), peaks["eigenvectors"]
    written = duration("writing", n * (16 if of_labels else 8) + 8 * n * k)
    first, last = "start of the program", "writing"
    stages = (
        PlannedStage(first, peaks[first], START),
        *(PlannedStage(name, peaks[name], seconds / share) for name, seconds in took.items()),
        PlannedStage(last, peaks[last], written, "rank 0"),
    )
    note = f"memory is that of one rank of {ranks}" if ranks > 1 else "memory is that of the rank"
    least = max(stage.peak_bytes for stage in stages)
    unsure: Mapping[str, Any] = {"promise": "at least", "why": (STEPS,)} if of_labels else {}
    return Plan(stages, (note,), None, least, **unsure)


# --- What representatives cost, and when "auto" takes them: by points, memory and time


USUAL = 1000  # representatives, as in U-SPEC
A_CLUSTER = 20  # representatives at least
NEAREST = 5  # representatives of a row, as in U-SPEC
HELD_BELOW = 1 << 26  # bytes of shares of points in a file up to which they are held
_FEWEST = 20_000  # points of which a graph is made in seconds
_SHARE = 0.4  # of a time limit, beyond which the neighbours of all are too slow
_EDGES = 60  # of a representative, about
_REPRESENTED_ROW, _BLOCKS = 12, 2 * 10**8  # bytes a row: labels, nearest; of blocks and products


def representatives_for(
    limit: int | None, seconds: float, cost: Cost, data: FitInput, clusters: int
) -> tuple[int | None, str]:
    """How many representatives "auto" takes of points, None: a graph of all rows; and why.

    `limit` is the memory, `seconds` a time limit, infinite without one.
    """
    n = data.n
    p = max(USUAL, A_CLUSTER * clusters)
    if n <= max(_FEWEST, 2 * p):
        return None, f"{n:,} points: a graph of all is made in seconds"
    if limit is not None and home_for(limit, cost, data).name != "memory":
        return p, f"the graph of {n:,} points does not fit into {size_text(limit)}"
    method = knn_plan(n, data.d, data.k, None).method
    about = neighbour_seconds(method, n, data.d, data.k)
    if about > _SHARE * seconds:
        return p, f"neighbours of {n:,} points take about {about:.0f} s of {seconds:.0f} s"
    return None, f"the graph of {n:,} points fits"


def shares_work(n: int, p: int, d: int) -> float:
    """Multiplications, about, of finding the nearest of p representatives of n points."""
    return float(n) * p * (d + 16)


def represented(data: FitInput, p: int) -> FitInput:
    """A fit to the graph of p representatives, with what is held of the n rows beside it.

    Answers of rows that are not held are labels, which are written by blocks.
    """
    n, held = data.n, not data.in_file or 8 * NEAREST * data.n <= HELD_BELOW
    rows = (_REPRESENTED_ROW + 8 * NEAREST * held) * n + _BLOCKS
    return FitInput(p, _EDGES * p, rows=n * held, beside=data.beside + rows)


def least_memory(data: FitInput, cost: Cost, p: int) -> int:
    """Bytes that a fit with p representatives takes."""
    few = represented(data, p)
    points = 0 if data.in_file else data.points
    return max(PROGRAM + few.beside, few.at_home(cost.of_given())) + points
