"""What a job on a graph that stays on disk will take: bytes, seconds, and room on the disk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mustlink.cost.process_memory import size_text
from mustlink.cost.stored_cost import StoredCost
from mustlink.errors import InputError
from mustlink_io.jobs.data_shape import Shape
from mustlink_io.jobs.graph_stages import beginning, checksums
from mustlink_io.jobs.on_disk import cost_on_disk
from mustlink_io.jobs.plan import Plan, StagePlan
from mustlink_io.jobs.rates import duration
from mustlink_io.jobs.solving_stages import chooses_regularization

_SLOWER = 2.0  # times the seconds of a fit in memory, as a rule
_TRIALS = 4 / 3  # times the seconds of sharp vectors: four, each a third as sharp
_FILTERS = 1.5  # times as many products where there are no coarse grids, on networks


def plan_on_disk(job: Any, shape: Shape, memory: int, speed: float) -> Plan:
    """The plan of a cut of a graph that does not fit; raises InputError."""
    cost = cost_on_disk(job, shape.n, shape.nnz)
    if cost.least_memory > memory:
        raise InputError(
            f"--memory: {size_text(memory)} given, but {job.data} with -m {job.method} needs at "
            f"least {size_text(cost.least_memory, up=True)}, with graph and vectors on disk"
        )
    tries = job.method == "ncut" and not shape.even and chooses_regularization(job)
    stages = [
        beginning(),
        checksums(replace(shape, nnz=0), 0),
        *_stages(cost, memory, tries=tries),
    ]
    slow = tuple(replace(stage, seconds=stage.seconds * speed) for stage in stages)
    changes = (
        "graph and vectors stay on disk and are read by blocks of rows; temporary files take "
        f"{size_text(cost.scratch, up=True)}",
    )
    least = cost.least_memory
    return Plan(slow, changes, memory, least, job.method, on_disk=True)


def _stages(cost: StoredCost, memory: int, *, tries: bool) -> list[StagePlan]:
    """The stages after the checksums; `tries`: regularisations are compared before."""
    peak, nnz = cost.peak(memory), cost.nnz
    solving = _SLOWER * duration("eigenvectors", nnz * cost.columns)
    how = "" if cost.has_grids(memory) else "by filters, as coarse grids do not fit"
    at_rest = cost.peak_of_set_up(memory)
    passes = duration("multigrid set-up", nnz)
    out = cost.n * (8 + 4 * cost.columns)
    name, rough = "candidate regularisations", _TRIALS * solving * _FILTERS
    trials = [StagePlan(name, peak, rough, "where degrees are uneven")] if tries else []
    return [
        StagePlan("looking at the graph", at_rest, passes),
        StagePlan("multigrid set-up", at_rest, _SLOWER * 3 * passes),
        *trials,
        StagePlan("eigenvectors", peak, solving * (_FILTERS if how else 1.0), how),
        StagePlan("clusters", at_rest, duration("clusters", cost.n * cost.columns)),
        StagePlan("writing", at_rest, duration("writing", out)),
    ]
