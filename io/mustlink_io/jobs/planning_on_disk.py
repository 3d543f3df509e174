"""What a job on a graph that stays on disk will take: bytes, seconds, and room on the disk."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from mustlink.cost.method_cost import RESERVE
from mustlink.cost.process_memory import size_text
from mustlink.cost.search_time import cells_work
from mustlink.cost.stored_cost import LAZY, StoredCost, region_bytes
from mustlink.cost.stored_neighbours import StoredPlan, stored_knn_plan
from mustlink.errors import InputError
from mustlink_io.jobs.data_shape import Shape
from mustlink_io.jobs.graph_stages import READER, beginning, checksums, reading
from mustlink_io.jobs.methods import PROPAGATORS, SPREADING
from mustlink_io.jobs.on_disk import cost_on_disk
from mustlink_io.jobs.plan import Plan, StagePlan
from mustlink_io.jobs.rates import duration
from mustlink_io.jobs.solving_stages import chooses_regularization

_CHECKED = 250 * 10**6  # bytes of blocks of points that are looked at
_SEARCHED = 1.5  # times the seconds of a search in memory, as a rule
_SLOWER = 2.0  # times the seconds of a fit in memory, as a rule
_TRIALS = 4 / 3  # times the seconds of sharp vectors: four, each a third as sharp
_MOVED = 20  # bytes an entry of a graph that constraints move, and of what they say of it
_FILTERS = 1.5  # times as many products where there are no coarse grids, on networks


def plan_on_disk(job: Any, shape: Shape, memory: int, speed: float, entries: int) -> Plan:
    """The plan of a cut of a graph that does not fit, of points or in a file; raises InputError.

    Or of labels that are spread over a graph in a file. `entries` are the weights that it has, as a
    rule.
    """
    cost = cost_on_disk(job, shape.n, entries)
    given = shape.n, shape.d, min(job.neighbours, shape.n - 1)
    points, graph = 4 * shape.n * shape.d, None
    held = 0 if points > memory // LAZY else points
    least = least_on_disk(job, shape, entries, memory)
    if least > memory:
        raise InputError(
            f"--memory: {size_text(memory)} given, but {job.data} with -m {job.method} needs at "
            f"least {size_text(least, up=True)}, with graph and vectors on disk"
        )
    of_labels = job.methods is PROPAGATORS
    stages = [beginning()]
    kept = 4 * shape.n * cost.columns if job.method == "ncut" else 0  # vectors, for another run
    if shape.d:
        graph = stored_knn_plan(*given, memory - RESERVE, held=held)
        stages += [reading(shape, held, held == 0), checksums(shape, held)]
        stages += _of_points(graph, shape)
        kept += 8 * entries + 12 * shape.n
    else:
        stages.append(checksums(replace(shape, nnz=0), 0))
    cuts = job.method == "ncut" and not of_labels
    tries = cuts and graph is None and not shape.even and chooses_regularization(job)
    of_pairs = job.method in SPREADING and not of_labels
    kept += _MOVED * entries if of_pairs else 0
    if of_labels:
        solving = _labels_spread(cost, memory, kept if graph is not None else 0)
    else:
        solving = _stages(cost, memory, kept, tries=tries)
    if of_pairs:
        solving.insert(1, _pairs_spread(cost, memory, kept))
    stages += solving
    slow = tuple(replace(stage, seconds=stage.seconds * speed) for stage in stages)
    changes = ["graph and vectors stay on disk and are read by blocks of rows"]
    if graph is not None:
        changes.append("neighbours are searched by cells on disk, equal rows being nodes apart")
    plan = Plan(slow, (), memory, least, job.method, on_disk=graph is None)
    changes.append(f"temporary files take up to {size_text(plan.disk_bytes, up=True)} on disk")
    return replace(plan, changes=tuple(changes))


def least_on_disk(job: Any, shape: Shape, entries: int, memory: int | None = None) -> int:
    """The least memory in which the job runs with graph and vectors on disk.

    With the points in memory where they are few beside it, or beside the `memory` that is given.
    """
    least, points = cost_on_disk(job, shape.n, entries).least_memory, 4 * shape.n * shape.d
    if points == 0:
        return least
    given = shape.n, shape.d, min(job.neighbours, shape.n - 1)
    lazy, eager = (stored_knn_plan(*given, held=held).least + RESERVE for held in (0, points))
    lean = max(least, lazy)
    return lean if points > (memory or lean) // LAZY else max(least, eager)


def check_room(plan: Plan, output: str) -> None:
    """Raise InputError where temporary files will not fit beside the output."""
    folder = Path(output).resolve().parent
    free = shutil.disk_usage(folder).free
    if plan.disk_bytes > free:
        raise InputError(
            f"{output}: temporary files take up to {size_text(plan.disk_bytes, up=True)}, but "
            f"{size_text(free)} are free in {folder}; make room, or write to another disk"
        )


def _of_points(graph: StoredPlan, shape: Shape) -> list[StagePlan]:
    """The stages in which points become a graph on disk."""
    n, d, k = shape.n, shape.d, graph.entries / max(1, shape.n)
    seconds = {
        "kNN graph": _SEARCHED * duration("cells", cells_work(n, d, int(k))),
        "components": duration("components", graph.entries),
        "weights": _SLOWER * duration("weights", graph.entries),
    }
    disk = {"kNN graph": graph.scratch, "components": graph.scratch}
    disk["weights"] = graph.scratch + 8 * graph.entries + 12 * n
    checking = StagePlan("checking points", READER + _CHECKED, duration("equal rows", n * d))
    return [checking] + [
        StagePlan(name, graph.stages[name], seconds[name], "on disk", disk[name])
        for name in seconds
    ]


def _pairs_spread(cost: StoredCost, memory: int, kept: int) -> StagePlan:
    """Pairs are spread in parts of the graph that are in memory, in all of it where that fits."""
    at_rest = cost.peak_of_set_up(memory)
    whole = at_rest + int(region_bytes(cost.n, cost.nnz))
    peak, seconds = max(at_rest, min(whole, memory - RESERVE)), _SLOWER * duration("spread", cost.n)
    return StagePlan("constraint propagation", peak, seconds, "", kept)


def _labels_spread(cost: StoredCost, memory: int, kept: int) -> list[StagePlan]:
    """The stages of labels that are spread, after the checksums; `kept` as in `_stages`."""
    at_rest, nnz = cost.peak_of_set_up(memory), cost.nnz
    passes, out = duration("multigrid set-up", nnz), cost.n * (16 + 8 * cost.columns)
    how = "" if cost.has_grids(memory) else "without multigrid, as coarse grids do not fit"
    solving = _SLOWER * duration("propagating", nnz * cost.columns)
    there, dealt = kept + cost.scratch, kept + cost.scratch_of_set_up
    return [
        StagePlan("looking at the graph", at_rest, passes),
        StagePlan("multigrid set-up", at_rest, _SLOWER * 3 * passes, "", dealt),
        StagePlan("propagating", cost.peak(memory), solving, how, there),
        StagePlan("writing", at_rest, duration("writing", out), "", there),
    ]


def _stages(cost: StoredCost, memory: int, kept: int, *, tries: bool) -> list[StagePlan]:
    """The stages of a graph that is there; `tries`: regularisations are compared before.

    `kept` are the bytes that it takes on disk beside the input.
    """
    peak, nnz = cost.peak(memory), cost.nnz
    solving = _SLOWER * duration("eigenvectors", nnz * cost.columns)
    how = "" if cost.has_grids(memory) else "by filters, as coarse grids do not fit"
    at_rest = cost.peak_of_set_up(memory)
    passes = duration("multigrid set-up", nnz)
    out = cost.n * (8 + 4 * cost.columns)
    name, rough = "candidate regularisations", _TRIALS * solving * _FILTERS
    trials = [StagePlan(name, peak, rough, "where degrees are uneven")] if tries else []
    dealt = kept + cost.scratch_of_set_up
    stages = [
        StagePlan("looking at the graph", at_rest, passes),
        StagePlan("multigrid set-up", at_rest, _SLOWER * 3 * passes, "", dealt),
        *trials,
        StagePlan("eigenvectors", peak, solving * (_FILTERS if how else 1.0), how),
        StagePlan("clusters", at_rest, duration("clusters", cost.n * cost.columns)),
        StagePlan("writing", at_rest, duration("writing", out)),
    ]
    there = kept + cost.scratch
    return [replace(stage, disk_bytes=stage.disk_bytes or there) for stage in stages]
