"""What a job on ranks will take: bytes of one of them at every stage, and seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mustlink.check import as_integer
from mustlink.cost.rank_cost import RankCost
from mustlink.errors import InputError
from mustlink.space.division import Division
from mustlink_io.jobs import on_ranks, propagate_on_ranks
from mustlink_io.jobs.data_shape import Shape
from mustlink_io.jobs.methods import PROPAGATORS
from mustlink_io.jobs.plan import STEPS, Plan, StagePlan
from mustlink_io.jobs.rates import START, duration

_ALONG = 0.85  # of what so many ranks would do at their best, as a rule
_SINGLE = 1e-4  # residual down to which vectors are in single precision
_DOUBLE = 8  # bytes of a number
_SMOOTH = 4  # times K: vectors of a subspace, where the caller says nothing


def plan_on_ranks(job: Any, shape: Shape, ranks: int, speed: float) -> Plan:
    """The plan of a rank of a job with --ranks; raises InputError."""
    of_labels = job.methods is PROPAGATORS
    (propagate_on_ranks.refuse if of_labels else on_ranks.refuse)(job)
    if shape.d:
        raise InputError(f"{job.data}: --ranks takes a graph; make one by: mustlink graph")
    Division(shape.n, ranks)
    share = 1.0 if ranks == 1 else _ALONG * ranks
    start = StagePlan("start of the program", RankCost(0, 0, 0, ranks).started, START)
    told = f"memory is that of one rank of {ranks}" if ranks > 1 else "memory is that of the rank"
    stages = [start, *(_spreading if of_labels else _cutting)(job, shape, ranks, share)]
    slow = tuple(replace(stage, seconds=stage.seconds * speed) for stage in stages)
    least = max(stage.peak_bytes for stage in stages)
    unsure: dict[str, Any] = {"promise": "at least", "why": (STEPS,)} if of_labels else {}
    return Plan(slow, (told,), None, least, job.method, **unsure)


def _reading(cost: RankCost, shape: Shape, share: float) -> StagePlan:
    """Every rank reads its rows."""
    return StagePlan("reading rows", cost.reading, duration("reading", shape.file_bytes) / share)


def _spreading(job: Any, shape: Shape, ranks: int, share: float) -> list[StagePlan]:
    """The stages of `mustlink propagate`."""
    classes, grounded = job.stated_cost().columns, job.method == "gfhf"
    cost = RankCost(shape.n, shape.nnz, classes, ranks, _DOUBLE)
    peak, written = cost.propagating(grounded=grounded), shape.n * (16 + _DOUBLE * classes)
    return [
        _reading(cost, shape, share),
        StagePlan("multigrid set-up", cost.set_up, duration("multigrid set-up", cost.nnz) / share),
        StagePlan("propagating", peak, duration("propagating", cost.nnz * classes) / share),
        StagePlan("writing", cost.answer(classes), duration("writing", written), "rank 0"),
    ]


def _cutting(job: Any, shape: Shape, ranks: int, share: float) -> list[StagePlan]:
    """The stages of `mustlink cluster`."""
    from mustlink.eigen.nested_iteration import guard
    from mustlink.eigen.plain_solve import default_tolerance

    job.check_count(shape.n)
    k = job.n_clusters
    if job.method != "ncut":
        given = job.params.get("subspace", _SMOOTH * k)
        k = _SMOOTH * k if isinstance(given, str) else as_integer(given, "subspace", 1)
    tol = job.params.get("tol") or default_tolerance(shape.n)
    cost = RankCost(shape.n, shape.nnz, k + guard(k), ranks, 4 if tol >= _SINGLE else 8)
    pairs = duration("eigenvectors", cost.nnz * cost.columns)
    answer = duration("clusters", cost.n * job.n_clusters)
    written = shape.n * (8 + 8 * job.n_clusters)
    return [
        _reading(cost, shape, share),
        StagePlan("multigrid set-up", cost.set_up, duration("multigrid set-up", cost.nnz) / share),
        StagePlan("eigenvectors", cost.solving, pairs / share),
        StagePlan("clusters", cost.solving, answer / share),
        StagePlan("writing", cost.answer(job.n_clusters), duration("writing", written), "rank 0"),
    ]
