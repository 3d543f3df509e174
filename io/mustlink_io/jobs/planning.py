"""What a job will take, told before anything runs: bytes by counting, seconds by rates.

The bytes are those of the arrays that live at the same time: of the neighbour graph
(`mustlink.cost.neighbour_graph`), and as the estimator states them (`GraphEstimator.cost`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mustlink.cost.method_cost import Cost, Size
from mustlink.cost.neighbour_graph import MOST_SYMMETRIC, SYMMETRIC
from mustlink.cost.neighbour_plan import knn_plan
from mustlink.cost.process_memory import size_text
from mustlink.cost.stored_cost import LAZY, checking_bytes, least_in_memory
from mustlink.errors import InputError
from mustlink_io.jobs.data_probe import Probe, probe_of
from mustlink_io.jobs.data_shape import Shape, shape_of
from mustlink_io.jobs.graph_stages import (
    beginning,
    checksums,
    equal_rows,
    graph_plan,
    graph_stages,
    joining,
    reading,
)
from mustlink_io.jobs.methods import PROPAGATORS
from mustlink_io.jobs.on_disk import home_alone, is_by_rows, refuse_large_text, runs_on_disk
from mustlink_io.jobs.plan import STEPS, Plan, StagePlan
from mustlink_io.jobs.planning_on_disk import least_on_disk, plan_on_disk
from mustlink_io.jobs.rates import duration
from mustlink_io.jobs.solving_stages import answers_peak, solving_stages

_EQUAL = 0.5  # share of rows that differ, below which what edges count for is far apart
# Where multigrid does not contract, elimination takes its place: ten times as long was measured.
_SURE = 0.1  # share of the time in steps, up to which that is within a factor of two


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
    entries = int(seen.symmetric * shape.n * k) if is_points else shape.nnz
    if memory is not None and least > memory:
        _check_on_disk(job, memory, least, is_points=is_points)
        return plan_on_disk(job, shape, memory, speed, entries)
    points = 4 * shape.n * shape.d if is_points else 0
    lazy = memory is not None and points > memory // LAZY
    held = job.beside(shape.n) + (0 if lazy else points)
    stages = [beginning(), reading(shape, held, lazy), checksums(shape, held)]
    changes = ["points are read by blocks of rows, not held"] if lazy else []
    graph, size = None, Size(whole.n, whole.nnz)
    if is_points:
        graph = graph_plan(nodes, k, memory, held, lazy)
        stages.append(equal_rows(shape, held))
        own = int(seen.symmetric * nodes.n * k)
        size = Size(nodes.n, own + whole.nnz, 4 if graph.lean else 8)
        stages += graph_stages(graph, nodes, k, own)
        if nodes.n < shape.n:
            changes.append(f"{shape.n:,} rows are {nodes.n:,} nodes: equal rows are one")
        if graph.layout is not None and graph.lean:
            where = ", from a file on disk" if graph.method != "cells" else ""
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
        *joining(job, size, held),
        *solving_stages(cost, size, held, single, job, shape, hard),
    ]
    slow = tuple(replace(stage, seconds=stage.seconds * speed) for stage in stages)
    iterating = sum(stage.seconds for stage in stages if stage.name == "propagating")
    unknown = hard or (
        cost.most_steps is None and iterating > _SURE * sum(stage.seconds for stage in stages)
    )
    if runs_on_disk(job, is_points=is_points):
        least = min(least, least_on_disk(job, shape, entries))
    told = seen.later, seen.sooner, STEPS if unknown else ""
    why = tuple(sentence for sentence in told if sentence)
    promise = "at least" if unknown else seen.promise
    return Plan(slow, tuple(changes), memory, least, job.method, promise, why)


def _check_on_disk(job: Any, memory: int, least: int, *, is_points: bool) -> None:
    """Raise InputError unless it runs on disk, where memory is less than the least at home."""
    if not is_points and not is_by_rows(job):
        raise InputError(
            f"--memory: {size_text(memory)} given, but {job.data} with -m {job.method} needs at "
            f"least {size_text(least, up=True)}"
        )
    alone = home_alone(job, is_points=is_points)
    if alone is not None:
        raise InputError(
            f"--memory: {size_text(memory)} given, in which the graph of {job.data} stays on disk, "
            f"where {alone} does not run; do without, or give {size_text(least, up=True)}"
        )


def _probed(job: Any) -> Probe:
    """What a sample of the points says; of data that are prepared only which rows are equal."""
    found = probe_of(job.data, job.steps)
    return found if job.steps.is_nothing else Probe(distinct=found.distinct)


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


def _whole(shape: Shape, job: Any) -> Shape:
    """The graph that is solved: of directed ones every node twice, of several at most all entries.

    Of points the entries of the other graphs alone.
    """
    if job.doubles:
        return replace(shape, n=2 * shape.n, nnz=2 * shape.nnz)
    others = sum(shape_of(text, want="graph").nnz for text in job.views)
    return replace(shape, nnz=shape.nnz + others)
