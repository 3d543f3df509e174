"""What a job will take, told before anything runs: bytes by counting, seconds by rates.

The bytes are those of the arrays that live at the same time: of the neighbour graph
(`mustlink.cost.neighbour_graph`), and as the estimator states them (`GraphEstimator.cost`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mustlink.cost.method_cost import Cost, Size
from mustlink.cost.neighbour_graph import MOST_SYMMETRIC, SYMMETRIC, knn_plan
from mustlink.cost.neighbour_graph import Plan as GraphPlan
from mustlink.cost.process_memory import PROGRAM, size_text
from mustlink.cost.search_time import cells_work, parts_work, tree_work
from mustlink.cost.stored_cost import StoredCost, checking_bytes, least_in_memory
from mustlink.deadline import duration_text
from mustlink.errors import InputError
from mustlink.observe import Recorder
from mustlink_io.jobs.data_probe import Probe, probe_of
from mustlink_io.jobs.data_shape import Shape, shape_of
from mustlink_io.jobs.methods import PROPAGATORS
from mustlink_io.jobs.on_disk import refuse_large_text, runs_on_disk, stages_on_disk
from mustlink_io.jobs.rates import START, duration
from mustlink_io.jobs.solving_stages import (
    StagePlan,
    answers_peak,
    chooses_regularization,
    solving_stages,
)

_READER = 90 * 10**6  # bytes of the program before the engine is loaded
_BLOCK = 96 * 10**6  # of a block that is read, checked and converted
_WALKS = 3 * 16 * 8  # bytes a node: blocks of walks by which graphs are compared
_ROW = 40  # bytes of finding out which rows are equal
_GRAPH = ("kNN graph", "weights", "components")
_SHARE = 0.4  # of the time, beyond which neighbours are searched in another way
_EQUAL = 0.5  # share of rows that differ, below which what edges count for is far apart
# Where multigrid does not contract, elimination takes its place: ten times as long was measured.
_SURE = 0.1  # share of the time in steps, up to which that is within a factor of two
_STEPS = (
    "how many steps the solver takes, ten times as many or not, is known when the graph is seen"
)
LAZY = 8  # points of more than this part of the memory are read when needed, block by block


@dataclass(frozen=True)
class Plan:
    """The stages of a job, what is changed to fit `memory`, and the least memory that works.

    `method` is that for the data. `promise` is what the seconds are, "at least" for one, where the
    data are of a kind whose rate is not known, and `why`. `on_disk`: the graph and vectors are not
    held, but read by blocks of rows.
    """

    stages: tuple[StagePlan, ...]
    changes: tuple[str, ...]
    memory: int | None
    least: int
    method: str = ""
    promise: str = ""
    why: tuple[str, ...] = ()
    on_disk: bool = False

    @property
    def peak_bytes(self) -> int:
        """Largest of all stages."""
        return max(stage.peak_bytes for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Sum over the stages."""
        return sum(stage.seconds for stage in self.stages)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        rows = [
            {"name": s.name, "peak_bytes": s.peak_bytes, "seconds": s.seconds, "how": s.how}
            for s in self.stages
        ]
        return {
            "stages": rows,
            "peak_bytes": self.peak_bytes,
            "seconds": self.seconds,
            "seconds_are": self.promise,
            "why": list(self.why),
            "memory": self.memory,
            "least_memory": self.least,
            "changes": list(self.changes),
        }


def plan_job(job: Any, *, shape: Shape | None = None, speed: float = 1.0) -> Plan:
    """Plan a job of `mustlink cluster` or `mustlink propagate`; raises InputError.

    `speed` is how many times slower than the machine of the rates this one is. The error for a
    memory that is too small names the least that works.
    """
    if shape is None:
        refuse_large_text(job)
        shape = shape_of(job.data, job.steps, job.wanted, job.apart)
    memory, k = job.memory, min(job.neighbours, shape.n - 1)
    if shape.d == 0:
        job.check_graph(job.data)
    is_points = shape.d > 0 and job.params.get("affinity") != "precomputed"
    job = job.settled(is_graph=not is_points)
    job.check_count(shape.n)
    stated: Cost = job.stated_cost()
    cost = stated if is_points else stated.of_given()
    seen = _probed(job) if is_points else Probe()
    if cost.most_steps is not None:
        steps = f"up to {cost.most_steps:,} steps, as many as --max-iter allows, are counted"
        seen = replace(seen, sooner="; ".join(filter(None, (seen.sooner, steps))))
    nodes = shape if seen.distinct is None or job.views else replace(shape, n=seen.distinct)
    hard = is_points and nodes.n < _EQUAL * shape.n and job.methods is PROPAGATORS
    whole = _whole(shape, job)
    least = _least(whole, nodes, k, cost, is_points, hard) + job.beside(shape.n)
    if memory is not None and least > memory:
        if runs_on_disk(job, is_points=is_points):
            return _on_disk(job, shape, memory, speed)
        raise InputError(
            f"--memory: {size_text(memory)} given, but {job.data} with -m {job.method} needs at "
            f"least {size_text(least, up=True)}"
        )
    points = 4 * shape.n * shape.d if is_points else 0
    lazy = memory is not None and points > memory // LAZY
    held = job.beside(shape.n) + (0 if lazy else points)
    start = StagePlan("start of the program", _READER, START)
    stages = [start, _reading(shape, held, lazy), _checksums(shape, held)]
    changes = ["points are read by blocks of rows, not held"] if lazy else []
    graph, size = None, Size(whole.n, whole.nnz)
    if is_points:
        graph = _graph_plan(nodes, k, memory, held, lazy)
        seconds = duration("equal rows", shape.n * shape.d)
        stages.append(StagePlan("equal rows", PROGRAM + held + _ROW * shape.n + _BLOCK, seconds))
        own = int(seen.symmetric * nodes.n * k)
        size = Size(nodes.n, own + whole.nnz, 4 if graph.lean else 8)
        stages += _graph_stages(graph, nodes, k, own)
        if nodes.n < shape.n:
            changes.append(f"{shape.n:,} rows are {nodes.n:,} nodes: equal rows are one")
        if graph.layout is not None and graph.lean:
            where = ", from a file on disk" if graph.method == "partition" else ""
            changes.append(f"neighbours are searched in {graph.layout.parts} parts{where}")
        if graph.lean:
            changes.append("weights of the graph are in single precision")
    else:
        seconds = duration("checking the graph", size.nnz)
        stages.append(StagePlan("checking the graph", held + checking_bytes(size), seconds))
    single = cost.wants_single(Size(size.n, size.nnz), None if memory is None else memory - held)
    cost, note = _fitting(cost, size, memory, held, single)
    if single:
        changes.append(
            "the graph is in single precision"
            if cost.double
            else "graph and vectors are in single precision"
        )
    if note:
        changes.append(note)
    stages += [
        *_joining(job, size, held),
        *solving_stages(cost, size, held, single, job, shape, hard),
    ]
    slow = tuple(replace(stage, seconds=stage.seconds * speed) for stage in stages)
    iterating = sum(stage.seconds for stage in stages if stage.name == "propagating")
    unknown = hard or (
        cost.most_steps is None and iterating > _SURE * sum(stage.seconds for stage in stages)
    )
    told = seen.later, seen.sooner, _STEPS if unknown else ""
    why = tuple(sentence for sentence in told if sentence)
    promise = "at least" if unknown else seen.promise
    return Plan(slow, tuple(changes), memory, least, job.method, promise, why)


def _on_disk(job: Any, shape: Shape, memory: int, speed: float) -> Plan:
    """The plan of a cut of a graph that does not fit; raises InputError."""
    from mustlink.eigen.nested_iteration import guard

    cost = StoredCost(shape.n, shape.nnz, job.n_clusters + guard(job.n_clusters))
    if cost.least_memory > memory:
        raise InputError(
            f"--memory: {size_text(memory)} given, but {job.data} with -m {job.method} needs at "
            f"least {size_text(cost.least_memory, up=True)}, with graph and vectors on disk"
        )
    start = StagePlan("start of the program", _READER, START)
    seconds = duration("checksums", shape.file_bytes)
    tries = not shape.even and chooses_regularization(job)
    stages = [
        start,
        StagePlan("checksums", _READER, seconds),
        *stages_on_disk(cost, memory, tries=tries),
    ]
    slow = tuple(replace(stage, seconds=stage.seconds * speed) for stage in stages)
    changes = (
        "graph and vectors stay on disk and are read by blocks of rows; temporary files take "
        f"{size_text(cost.scratch, up=True)}",
    )
    least = cost.least_memory
    return Plan(slow, changes, memory, least, job.method, on_disk=True)


def _probed(job: Any) -> Probe:
    """What a sample of the points says; of data that are prepared only which rows are equal."""
    found = probe_of(job.data, job.steps)
    return found if job.steps.is_nothing else Probe(distinct=found.distinct)


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


def _least(shape: Shape, nodes: Shape, k: int, cost: Cost, is_points: bool, hard: bool) -> int:
    """The least memory of a job, with as many weights as neighbours of high dimension have.

    `nodes` is the shape of the rows that differ.
    """
    if not is_points:
        return least_in_memory(cost, Size(shape.n, shape.nnz))
    size = Size(nodes.n, int(MOST_SYMMETRIC * nodes.n * k) + shape.nnz, 4)
    least = max(cost.least_memory(size), answers_peak(cost, size, True, shape.n))
    if hard:
        usual = Size(nodes.n, int(SYMMETRIC * nodes.n * k), 4)
        least = max(least, *cost.hard_peaks(usual, single=True))
    least = max(least, knn_plan(nodes.n, nodes.d, k, None, by_rows=True).least)
    points = 4 * shape.n * shape.d
    return least if points > least // LAZY else least + points  # few points are held


def _reading(shape: Shape, held: int, lazy: bool) -> StagePlan:
    peak = _READER + held + (_BLOCK if shape.d else 12 * shape.nnz)
    how = "by blocks, nothing kept" if lazy else ""
    return StagePlan("reading", peak, duration("reading", shape.file_bytes), how)


def _checksums(shape: Shape, held: int) -> StagePlan:
    there = held + (0 if shape.d else 12 * shape.nnz)
    return StagePlan("checksums", _READER + there, duration("checksums", shape.file_bytes))


def _whole(shape: Shape, job: Any) -> Shape:
    """The graph that is solved: of directed ones every node twice, of several at most all entries.

    Of points the entries of the other graphs alone.
    """
    if job.doubles:
        return replace(shape, n=2 * shape.n, nnz=2 * shape.nnz)
    others = sum(shape_of(text, want="graph").nnz for text in job.views)
    return replace(shape, nnz=shape.nnz + others)


def _joining(job: Any, size: Size, held: int) -> list[StagePlan]:
    """Several graphs compared and added up, where there are several."""
    if not job.views:
        return []
    how = "given" if "graph_weights" in job.params else "chosen"
    seconds = duration("comparing graphs", size.nnz) if how == "chosen" else 0.0
    peak = PROGRAM + held + 2 * size.graph + _WALKS * size.n
    return [StagePlan("weights of the graphs", peak, seconds, how)]


def _graph_plan(shape: Shape, k: int, memory: int | None, held: int, lazy: bool) -> GraphPlan:
    from mustlink.neighbours.search import compares_all

    small = compares_all(shape.n, shape.d, k)
    return knn_plan(shape.n, shape.d, k, memory, held=held, by_rows=lazy, small=small)


def _graph_stages(graph: GraphPlan, shape: Shape, k: int, nnz: int) -> list[StagePlan]:
    n, d = shape.n, shape.d
    seconds = {
        "brute": duration("brute", n * n * (d + 130.0) / 130.0),
        "tree": duration("tree", tree_work(n, d, k)),
        "cells": duration("cells", cells_work(n, d, k)),
        "partition": duration("partition", parts_work(n, d, k)),
    }
    return [
        StagePlan("kNN graph", graph.stages["kNN graph"], seconds[graph.method], graph.method),
        StagePlan("weights", graph.stages["weights"], duration("weights", nnz)),
        StagePlan("components", graph.stages["components"], duration("components", nnz)),
    ]


def _fitting(
    cost: Cost, size: Size, memory: int | None, held: int, single: bool
) -> tuple[Cost, str]:
    """The cost with as many vectors as fit, and what to say if they are less than wished for."""
    if memory is None or cost.least == cost.columns:
        found = cost.within(size, None if memory is None else memory - held, single=single)
        together = found.together or cost.columns
        narrow = together < min(cost.together or 0, cost.columns)
        return found, f"{together} classes are solved at a time" if narrow else ""
    most = cost.most_columns(size, memory - held, single=single)
    if most >= cost.columns:
        return cost, ""
    fewer = max(most, cost.least)
    return replace(cost, columns=fewer), f"at most {fewer} smooth vectors instead of {cost.columns}"
