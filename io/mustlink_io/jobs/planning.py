"""What a job will take in any home, told before anything runs: bytes and seconds of its stages.

The bytes are those of the arrays that live at the same time (`mustlink.cost`), the seconds counted
work times a rate (`mustlink.context.rates`).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mustlink.context.method_cost import (
    RESERVE,
    SPREAD_DENSE_BELOW,
    Cost,
    DiskCost,
    FitInput,
    Home,
    Size,
    full_problem,
    home_for,
    rank_stages,
    region_bytes,
    sample_bytes,
    sample_rows,
)
from mustlink.context.neighbor_cost import knn_plan, stored_knn_plan
from mustlink.context.rates import START, duration, neighbour_seconds, rival_seconds, step_work
from mustlink.core.check import as_integer
from mustlink.core.deadline import duration_text
from mustlink.core.observe import Recorder
from mustlink.core.process_memory import PROGRAM, size_text
from mustlink.errors import InputError
from mustlink.propagation.held_out import FOLDS
from mustlink.selection.resolve import TRUSTED
from mustlink.space.division import Division
from mustlink_io.jobs.methods import PROPAGATORS, SPREADING
from mustlink_io.jobs.on_disk import (
    Probe,
    Shape,
    cost_on_disk,
    in_memory_only,
    is_by_rows,
    probe_of,
    refuse_large_text,
    shape_of,
)

HELD_OUT = "labels held out"  # a stage
_GRAPH = ("kNN graph", "weights", "components")
_SHARE = 0.4  # of the time, beyond which neighbours are searched in another way
_STEPS = (
    "how many steps the solver takes, ten times as many or not, is known when the graph is seen"
)
_SURE = 0.1  # share of the time in steps, up to which that is within a factor of two

_READER = 90 * 10**6  # bytes of the program before the engine is loaded
_BLOCK = 96 * 10**6  # of a block that is read, checked and converted
_CHECKED = 250 * 10**6  # of blocks of points that are looked at, which stay on disk
_WALKS = 3 * 16 * 8  # bytes a node: blocks of walks by which graphs are compared
_ROW = 40  # bytes of finding out which rows are equal
_MOVED = 20  # bytes an entry of a graph that constraints move, and of what they say of it, on disk

_LOADED = 8  # columns that a product could take in the time in which its matrix is read
_SPREAD_BEGINS = 2.5  # seconds of a graph too small to count
_STARTED = 50_000  # rows of k-means with all its starts
_CLUSTERS = 60  # by which regularisations are compared, at most
_FILTERS = 1.5  # times as many products where there are no coarse grids, on networks
_RIVALS, _HELD_OUT_FITS = 0.3, 3  # seconds of what knows no graph, and fits of the method
_WEIGHTS = 19  # stored for a point of the sample
_ALONG = 0.85  # of what so many ranks would do at their best, as a rule
_SINGLE = 1e-4  # residual down to which vectors of ranks are in single precision
_SMOOTH = 4  # times K: vectors of a subspace, where the caller says nothing


@dataclass(frozen=True)
class StagePlan:
    """One stage: peak of the process in bytes, seconds, and how it is done where that varies.

    `disk_bytes` are those of temporary files and what is kept for another run. What is not `sure`
    is done where the data ask for it; its seconds are told, and no part of the sum.
    """

    name: str
    peak_bytes: int
    seconds: float
    how: str = ""
    disk_bytes: int = 0
    sure: bool = True


@dataclass(frozen=True)
class Plan:
    """The stages of a job, what is changed to fit `memory`, and the least memory that works.

    `method` is that for the data. `promise` is what the seconds are, "at least" for one, where the
    data are of a kind whose rate is not known, and `why`. `on_disk`: the data are a graph
    that is left in its file, `lazy`: points of which blocks are read when needed.
    """

    stages: tuple[StagePlan, ...]
    changes: tuple[str, ...]
    memory: int | None
    least: int
    method: str = ""
    promise: str = ""
    why: tuple[str, ...] = ()
    on_disk: bool = False
    lazy: bool = False

    @property
    def peak_bytes(self) -> int:
        """Largest of the stages that are sure to come."""
        return max(stage.peak_bytes for stage in self.stages if stage.sure)

    @property
    def most_bytes(self) -> int:
        """Largest of all stages, those that the data may ask for among them."""
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
            "least_memory": self.least,
            "changes": list(self.changes),
        }


def tell_time(plan: Plan, limit: float, recorder: Recorder) -> None:
    """Note that a time limit will not hold what is planned, before anything runs."""
    for sentence in beyond(plan, limit):
        recorder.note(sentence)


def beyond(plan: Plan, limit: float) -> list[str]:
    """What a plan says about a time limit in seconds; nothing where it holds."""
    if plan.seconds <= limit:
        return []
    graph = sum(stage.seconds for stage in plan.stages if stage.name in _GRAPH)
    given, alone = duration_text(limit), duration_text(round(graph, 1))
    if graph > _SHARE * limit:
        return [f"--time {given}: the graph alone takes about {alone}; a coarser search is used"]
    whole = duration_text(round(plan.seconds, 1))
    promise = plan.promise or "about"
    return [
        f"--time {given}: {promise} {whole} would be needed; the best answer by then is written"
    ]


def check_room(plan: Plan, output: str) -> None:
    """Raise InputError where temporary files will not fit beside the output."""
    folder = Path(output).resolve().parent
    free = shutil.disk_usage(folder).free
    if plan.disk_bytes > free:
        raise InputError(
            f"{output}: temporary files take up to {size_text(plan.disk_bytes, up=True)}, but "
            f"{size_text(free)} are free in {folder}; make room, or write to another disk"
        )


def plan_job(job: Any, *, shape: Shape | None = None, speed: float = 1.0) -> Plan:
    """Plan a job of `mustlink cluster` or `mustlink propagate`; raises InputError.

    `speed` is how many times slower than the machine of the rates this one is. The error for a
    memory that is too small names the least that works.
    """
    if shape is None:
        refuse_large_text(job)
        shape = shape_of(job.data, job.steps, job.wanted, job.apart)
    if shape.d == 0:
        job.check_graph(job.data)
    is_points = shape.d > 0 and job.params.get("affinity") != "precomputed"
    job = job.settled(is_graph=not is_points)
    job.check_count(shape.n)
    seen = probe_of(job.data, job.steps) if is_points else Probe()
    if not job.steps.is_nothing:  # of data that are prepared, only which rows are equal
        seen = Probe(distinct=seen.distinct)
    asked = _Asked(job, shape, seen, is_points)
    where = asked.home
    if where.name == "disk":
        return asked.on_disk(where).at(speed)
    return asked.in_memory(where).at(speed)


@dataclass(frozen=True)
class _Asked:
    """A job on data of some shape, of which a sample was seen; `cost` is what its method states."""

    job: Any
    shape: Shape
    seen: Probe
    is_points: bool

    @property
    def cost(self) -> Cost:
        """What the method states of its memory."""
        stated: Cost = self.job.stated_cost()
        return stated if self.is_points else stated.of_given()

    @property
    def k(self) -> int:
        """Neighbours of a point."""
        return min(self.job.neighbours, self.shape.n - 1)

    @property
    def entries(self) -> int:
        """Weights of a graph in which every row is a node, as a rule."""
        if not self.is_points:
            return self.shape.nnz
        return int(self.seen.symmetric * self.shape.n * self.k)

    @property
    def given(self) -> FitInput:
        """What is solved: of directed graphs every node twice, of several at most all entries."""
        job, shape = self.job, self.shape
        others = sum(shape_of(text, want="graph").nnz for text in job.views)
        beside = job.beside(shape.n)
        if not self.is_points:
            often = 2 if job.doubles else 1
            return FitInput(often * shape.n, often * shape.nnz + others, beside=beside)
        n = shape.n if self.seen.distinct is None or job.views else self.seen.distinct
        return FitInput(n, shape.nnz + others, shape.d, self.k, shape.n, beside=beside)

    @property
    def home(self) -> Home:
        """Where it runs; raises InputError where it does not."""
        job, memory = self.job, self.job.memory
        by_rows = self.is_points or is_by_rows(job)
        alone = in_memory_only(job, is_points=self.is_points) if by_rows else None
        stored = None
        if by_rows and alone is None:
            stored = cost_on_disk(job, self.shape.n, self.entries)
        found = home_for(memory, self.cost, self.given, stored)
        if found.name is not None:
            return found
        given, least = size_text(memory), size_text(found.least, up=True)
        if alone is not None:
            raise InputError(
                f"--memory: {given} given, in which the graph of {job.data} stays on disk, where "
                f"{alone} does not run; do without, or give {least}"
            )
        raise InputError(
            f"--memory: {given} given, but {job.data} with -m {job.method} needs at least {least}"
            + (", with graph and vectors on disk" if stored is not None else "")
        )

    def _begun(self, where: Home) -> list[StagePlan]:
        """Until the data are read and checked."""
        held, how = where.held, "by blocks, nothing kept" if where.lazy else ""
        size, graph = self.shape.file_bytes, 0 if self.shape.d else 12 * self.shape.nnz
        reading = _READER + held + (graph or _BLOCK)
        return [
            StagePlan("start of the program", _READER, START),
            _stage("reading", reading, size, how),
            _stage("checksums", _READER + held + graph, size),
        ]

    # -------------------------------------------------------------------- in memory

    def in_memory(self, where: Home) -> Plan:
        """The plan where graph and vectors are in memory."""
        job, given, cost = self.job, self.given, self.cost
        held, size, changes = where.held, Size(given.n, given.nnz), []
        stages = self._begun(where)
        if where.lazy:
            changes.append("points are read by blocks of rows, not held")
        if self.is_points:
            size = self._graph(where, stages, changes)
        else:
            stages.append(_stage("checking the graph", held + size.checking, size.nnz))
        room = None if job.memory is None else job.memory - held
        single = cost.wants_single(Size(size.n, size.nnz), room)
        if single:
            held_so = "the graph is" if cost.double else "graph and vectors are"
            changes.append(f"{held_so} in single precision")
        cost = _fitting(cost, size, room, single, changes)
        if job.views:
            how = "given" if "graph_weights" in job.params else "chosen"
            peak = PROGRAM + held + 2 * size.graph + _WALKS * size.n
            amount = size.nnz if how == "chosen" else 0
            stages.append(_stage("weights of the graphs", peak, amount, how))
        hard = given.is_hard(cost)
        solving = self._solving(cost, size, held, single, hard)
        stages += solving
        steps = sum(one.seconds for one in solving if one.name == "propagating")
        unknown = hard or (
            cost.most_steps is None and steps > _SURE * sum(one.seconds for one in stages)
        )
        counted = ""
        if cost.most_steps is not None:
            counted = f"up to {cost.most_steps:,} steps, as many as --max-iter allows, are counted"
        seen = replace(self.seen, sooner="; ".join(filter(None, (self.seen.sooner, counted))))
        why = tuple(filter(None, (seen.later, seen.sooner, _STEPS if unknown else "")))
        promise = "at least" if unknown else seen.promise
        told = tuple(stages), tuple(changes), job.memory, where.least, job.method, promise, why
        return Plan(*told, lazy=where.lazy)

    def _graph(self, where: Home, stages: list[StagePlan], changes: list[str]) -> Size:
        """Adds the stages in which points become a graph, and what is changed; returns its size."""
        given, d, k, held = self.given, self.shape.d, self.k, where.held
        n, own = given.n, int(self.seen.symmetric * given.n * k)
        plan = knn_plan(n, d, k, self.job.memory, held=held, by_rows=where.lazy)
        seconds = neighbour_seconds(plan.method, n, d, k)
        equal = PROGRAM + held + _ROW * self.shape.n + _BLOCK
        stages += [
            _stage("equal rows", equal, self.shape.n * d),
            StagePlan("kNN graph", plan.stages["kNN graph"], seconds, plan.method),
            _stage("weights", plan.stages["weights"], own),
            _stage("components", plan.stages["components"], own),
        ]
        if n < self.shape.n:
            changes.append(f"{self.shape.n:,} rows are {n:,} nodes: equal rows are one")
        if plan.layout is not None and plan.lean:
            by = ", from a file on disk" if plan.method != "cells" else ""
            changes.append(f"neighbours are searched in {plan.layout.parts} parts{by}")
        if plan.lean:
            changes.append("weights of the graph are in single precision")
        return Size(n, own + given.nnz, 4 if plan.lean else 8)

    def _solving(
        self, cost: Cost, size: Size, held: int, single: bool, hard: bool
    ) -> list[StagePlan]:
        """The stages after the graph, which has `size`."""
        job, n, nnz, rows = self.job, size.n, size.nnz, self.shape.n
        clusters, memory = job.clusters_planned or cost.columns, job.memory
        stages = cost.stages(size, single=single, rows=rows, clusters=clusters, hard=hard)
        peaks = {name: held + peak for name, peak in stages.items()}
        rest = peaks["at rest"]
        found = [_stage(name, rest, nnz) for name in ("order of the nodes", "Laplacian")]
        found.append(_stage("multigrid set-up", peaks["multigrid set-up"], nnz))
        if cost.spreads:
            name, how = "constraint propagation", "more with thousands of pairs"
            found.append(StagePlan(name, peaks[name], spreading_seconds(n), how))
        if not self.is_points and not self.shape.even and chooses_regularization(job):
            name = "candidate regularisations"
            found.append(_stage(name, peaks[name], nnz * min(clusters, _CLUSTERS)))
        spreads = job.methods is PROPAGATORS
        name, columns = ("propagating" if spreads else "eigenvectors"), cost.columns
        if spreads:
            seconds = duration(name, nnz * (columns + _LOADED))
            seconds += duration("steps", nnz * columns * (cost.most_steps or 0))
            ways = 1 if self.is_points else len(job.unfitted()._ways(network=True))
            if ways > 1:
                choosing = duration("labels held out, by way", nnz * columns * ways * FOLDS)
                how, peak = f"{ways} ways to spread labels", peaks["solving"]
                found.append(StagePlan("choosing by held-out labels", peak, choosing, how))
        else:
            seconds = duration(name, step_work(size, columns))
        found.append(StagePlan(name, peaks["solving"], seconds))
        if _has_rival(job):
            peak = held + full_problem(clusters).peak(size, single=single, usual=True)
            how = f"where smooth vectors keep less than {TRUSTED:.0%} of labels held out"
            if memory is None or peak <= memory:
                seconds = rival_seconds(size, clusters)
                found.append(StagePlan("full problem", peak, seconds, how, sure=False))
        if not spreads:
            starts = duration("k-means", min(n, _STARTED) * clusters**2)
            seconds = starts + duration("clusters", n * clusters)
            found.append(StagePlan("clusters", peaks["clusters"], seconds))
        peak = peaks["answers"] + sample_bytes(rows, self.shape.d, clusters, cost)
        if self.shape.d and job.labels is not None and (memory is None or peak <= memory):
            found.append(StagePlan(HELD_OUT, peak, held_out_seconds(rows, clusters, cost)))
        found.append(_stage("looking at the result", rest, nnz))
        found.append(_stage("writing", peaks["answers"], rows * (8 + 8 * clusters)))
        return found

    # ---------------------------------------------------------------------- on disk

    def on_disk(self, where: Home) -> Plan:
        """The plan where the graph, given or of points, and vectors are on disk."""
        job, shape, nnz, memory = self.job, self.shape, self.entries, self.job.memory
        cost: DiskCost = cost_on_disk(job, shape.n, nnz)
        changes = ["graph and vectors stay on disk and are read by blocks of rows"]
        of_labels, is_cut = job.methods is PROPAGATORS, job.method == "ncut"
        kept = 4 * shape.n * cost.columns if is_cut and not of_labels else 0  # for another run
        stages = self._begun(where)
        if self.is_points:
            given = shape.n, shape.d, self.k
            plan = stored_knn_plan(*given, memory, held=where.held)
            there = plan.scratch + 8 * plan.entries + 12 * shape.n
            searched = neighbour_seconds("stored cells", *given)
            stages += [
                _stage("checking points", _READER + _CHECKED, shape.n * shape.d, rate="equal rows"),
                StagePlan("kNN graph", plan.stages["kNN graph"], searched, "on disk", plan.scratch),
                _stored("components", plan.stages["components"], nnz, "on disk", plan.scratch),
                _stored("weights", plan.stages["weights"], nnz, "on disk", there),
            ]
            changes.append("neighbours are searched by cells on disk, equal rows being nodes apart")
            kept += 8 * nnz + 12 * shape.n
        else:
            stages.pop(1)  # nothing is read
            stages[-1] = _stage("checksums", _READER, shape.file_bytes)
        if job.method in SPREADING and not of_labels:
            kept += _MOVED * nnz
        stages += self._solving_there(cost, kept)
        files = size_text(max(stage.disk_bytes for stage in stages), up=True)
        changes.append(f"temporary files take up to {files} on disk")
        told = tuple(stages), tuple(changes), memory, where.least, job.method
        return Plan(*told, on_disk=not self.is_points, lazy=where.lazy)

    def _solving_there(self, cost: DiskCost, kept: int) -> list[StagePlan]:
        """The stages after the graph, on disk; `kept` are bytes on disk beside the input."""
        job, n, nnz, memory = self.job, cost.n, cost.nnz, self.job.memory
        peaks, (entries, vectors) = cost.stages(memory), cost.scratch
        rest, solving, there = peaks["at rest"], peaks["solving"], kept + vectors
        products, size = nnz * cost.columns, Size(n, nnz)
        filters = 1.0 if peaks["grids"] else _FILTERS
        found = [
            _stored("looking at the graph", rest, nnz, "", there),
            _stored("multigrid set-up", rest, nnz, "", kept + entries),
        ]
        if job.methods is PROPAGATORS:
            how = "" if peaks["grids"] else "without multigrid, as coarse grids do not fit"
            written = n * (16 + 8 * cost.columns)
            return [
                *found,
                _stored("propagating", solving, products, how, there),
                _stored("writing", rest, written, "", there),
            ]
        if job.method in SPREADING:
            whole = min(rest + int(region_bytes(n, nnz)), memory - RESERVE)
            peak, seconds = max(rest, whole), duration("spread", n, on_disk=True)
            found.insert(1, StagePlan("constraint propagation", peak, seconds, "", kept))
        uneven = not self.is_points and not self.shape.even
        if uneven and job.method == "ncut" and chooses_regularization(job):
            name, how = "candidate regularisations", "where degrees are uneven"
            found.append(_stored(name, solving, products, how, there))
        how = "" if peaks["grids"] else "by filters, as coarse grids do not fit"
        return [
            *found,
            _stored("eigenvectors", solving, filters * step_work(size, cost.columns), how, there),
            _stored("clusters", rest, n * cost.columns, "", there),
            _stored("writing", rest, n * (8 + 4 * cost.columns), "", there),
        ]


def _stage(
    name: str, peak: int, amount: float, how: str = "", *, rate: str | None = None
) -> StagePlan:
    """A stage in memory that works on so much of what its rate is for."""
    return StagePlan(name, peak, duration(rate or name, amount), how)


def _stored(name: str, peak: int, amount: float, how: str, disk: int) -> StagePlan:
    return StagePlan(name, peak, duration(name, amount, on_disk=True), how, disk)


def _fitting(cost: Cost, size: Size, room: int | None, single: bool, changes: list[str]) -> Cost:
    """The cost with as many vectors as fit; adds what to say if they are less than wished for."""
    if room is None or cost.least == cost.columns:
        found = cost.within(size, room, single=single)
        together = found.together or cost.columns
        if together < min(cost.together or 0, cost.columns):
            changes.append(f"{together} classes are solved at a time")
        return found
    fewer = max(cost.most_columns(size, room, single=single), cost.least)
    if fewer >= cost.columns:
        return cost
    changes.append(f"at most {fewer} smooth vectors instead of {cost.columns}")
    return replace(cost, columns=fewer)


def chooses_regularization(job: Any) -> bool:
    """Whether degrees of a given graph are regularised by evidence."""
    offered = "regularization" in job.methods[job.method].options
    return offered and job.params.get("regularization", "auto") == "auto"


def _has_rival(job: Any) -> bool:
    """Whether the full problem may be tried beside the smooth subspace: labels alone are known."""
    offered = "subspace" in job.methods[job.method].options
    known = job.labels is not None and getattr(job, "constraints", None) is None
    return offered and known and job.params.get("subspace", "auto") == "auto"


def spreading_seconds(n: int) -> float:
    """Seconds in which constraints spread over a graph of n nodes."""
    if n <= SPREAD_DENSE_BELOW:
        return duration("dense spread", n**3)
    return _SPREAD_BEGINS + duration("spread", n)


def held_out_seconds(n: int, classes: int, cost: Cost) -> float:
    """Seconds of all fits to the sample of n points with labels held out, and of their rivals."""
    m = sample_rows(n, classes)
    one = duration("fit of a sample", m) + (spreading_seconds(m) if cost.spreads else 0.0)
    one += duration("steps", _WEIGHTS * m * classes * (cost.most_steps or 0))
    return _RIVALS + _HELD_OUT_FITS * one


# ---------------------------------------------------------------------------------- ranks


def plan_on_ranks(job: Any, shape: Shape, ranks: int, speed: float) -> Plan:
    """The plan of a rank of a job that runs on ranks; raises InputError."""
    of_labels = job.methods is PROPAGATORS
    if shape.d:
        raise InputError(f"{job.data}: --ranks takes a graph; make one by: mustlink graph")
    Division(shape.n, ranks)
    if of_labels:
        k = columns = job.stated_cost().columns
        item, written, solving = 8, shape.n * (16 + 8 * k), "propagating"
    else:
        job.check_count(shape.n)
        k, (columns, item) = job.n_clusters, _vectors_on_ranks(job, shape.n)
        written, solving = shape.n * (8 + 8 * k), "eigenvectors"
    grounded = job.method == "gfhf"
    peaks = rank_stages(shape.n, shape.nnz, columns, ranks, item=item, k=k, grounded=grounded)
    peaks["clusters"] = peaks[solving]
    share, size = 1.0 if ranks == 1 else _ALONG * ranks, Size(shape.n, shape.nnz)
    amounts: Mapping[str, float] = {
        "reading rows": shape.file_bytes,
        "multigrid set-up": shape.nnz,
        solving: shape.nnz * columns if of_labels else step_work(size, columns),
        **({} if of_labels else {"clusters": shape.n * k}),
    }
    stages = [StagePlan("start of the program", peaks["start of the program"], START)]
    for name, amount in amounts.items():
        seconds = duration(name.removesuffix(" rows"), amount) / share
        stages.append(StagePlan(name, peaks[name], seconds))
    seconds = duration("writing", written)
    stages.append(StagePlan("writing", peaks["writing"], seconds, "rank 0"))
    told = f"memory is that of one rank of {ranks}" if ranks > 1 else "memory is that of the rank"
    unsure: dict[str, Any] = {"promise": "at least", "why": (_STEPS,)} if of_labels else {}
    least = max(stage.peak_bytes for stage in stages)
    return Plan(tuple(stages), (told,), None, least, job.method, **unsure).at(speed)


def _vectors_on_ranks(job: Any, n: int) -> tuple[int, int]:
    """How many vectors are found on ranks, and bytes of a number."""
    from mustlink.eigen.nested_iteration import n_guard_vectors
    from mustlink.eigen.plain_solve import default_tolerance

    wanted = job.n_clusters
    if job.method != "ncut":
        given = job.params.get("subspace", _SMOOTH * wanted)
        wanted = _SMOOTH * wanted if isinstance(given, str) else as_integer(given, "subspace", 1)
    tol = job.params.get("tol") or default_tolerance(n)
    return wanted + n_guard_vectors(wanted), 4 if tol >= _SINGLE else 8
