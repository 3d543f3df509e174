"""What a job will take, told before anything runs: bytes by counting, seconds by rates.

The bytes are those of the arrays that live at the same time (`mustlink.cost.vectors`,
`mustlink.cost.neighbour_search`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mustlink.cost import vectors as budget
from mustlink.cost.neighbour_search import COMPILER_BYTES, knn_plan
from mustlink.cost.neighbour_search import Plan as GraphPlan
from mustlink.cost.resident import PROGRAM, size_text
from mustlink.errors import InputError
from mustlink_io.jobs.data_shape import Shape, shape_of
from mustlink_io.jobs.methods import METHODS, PROPAGATORS
from mustlink_io.jobs.rates import COMPILING, START, duration

_READER = 90 * 10**6  # bytes of the program before the engine is loaded
_BLOCK = 96 * 10**6  # of a block that is read, checked and converted
LAZY = 8  # points of more than this part of the memory are read when needed, block by block
SYMMETRIC = 1.25  # stored weights for one neighbour asked for: who is whose neighbour is not mutual
_EIGEN_METHODS = {"ncut": 1, "srcp": 1, "e2cp": 1, "csc-gfhf": 1}  # times K columns; others 4
_MOST_SYMMETRIC = 1.75  # the same at most
_WITHOUT_NULL = {"ncut", "srcp", "e2cp"}
_SMOOTH = 4
_CLASSES = 10  # where nobody says how many


@dataclass(frozen=True)
class StagePlan:
    """One stage: peak of the process in bytes, seconds, and how it is done where that varies."""

    name: str
    peak_bytes: int
    seconds: float
    how: str = ""


@dataclass(frozen=True)
class Plan:
    """The stages of a job, what is changed to fit `memory`, and the least memory that works."""

    stages: tuple[StagePlan, ...]
    changes: tuple[str, ...]
    memory: int | None
    least: int

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
            "memory": self.memory,
            "least_memory": self.least,
            "changes": list(self.changes),
        }


def plan_job(job: Any, *, shape: Shape | None = None, speed: float = 1.0) -> Plan:
    """Plan a job of `mustlink cluster` or `mustlink propagate`; raises InputError.

    `speed` is how many times slower than the machine of the rates this one is. The error for a
    memory that is too small names the least that works.
    """
    shape = shape_of(job.data) if shape is None else shape
    memory, k = job.memory, job.neighbours
    is_points = shape.d > 0 and job.params.get("affinity") != "precomputed"
    k = min(k, shape.n - 1)
    if getattr(job, "n_clusters", 0) > shape.n:
        raise InputError(f"-k {job.n_clusters}: more clusters than the {shape.n} nodes")
    least = _least(shape, k, job, is_points)
    if memory is not None and least > memory:
        raise InputError(
            f"--memory: {size_text(memory)} given, but {job.data} with -m {job.method} needs at "
            f"least {size_text(least, up=True)}"
        )
    points = 4 * shape.n * shape.d if is_points else 0
    lazy = memory is not None and points > memory // LAZY
    held = 0 if lazy else points
    stages = [StagePlan("start of the program", _READER, START)]
    stages += [_reading(shape, held, lazy), _checksums(shape, held)]
    changes = ["points are read by blocks of rows, not held"] if lazy else []
    graph: GraphPlan | None = None
    nnz, stored = shape.nnz, 8
    if is_points:
        graph = _graph_plan(shape, k, memory, held)
        nnz, stored = int(SYMMETRIC * shape.n * k), 4 if graph.lean else 8
        stages += _graph_stages(graph, shape, k, nnz)
        if graph.method == "partition":
            parts = graph.layout.parts if graph.layout else 0
            changes.append(f"neighbours are searched in {parts} parts, from a file on disk")
        if graph.lean:
            changes.append("weights of the graph are in single precision")
    else:
        peak = PROGRAM + int(2.2 * budget.graph_bytes(shape.n, nnz))
        stages.append(StagePlan("checking the graph", peak, duration("checking the graph", nnz)))
    columns, _, clusters = _columns(job)
    needs = _needs(job)
    rest = None if memory is None else memory - held
    single = budget.wants_single(shape.n, nnz, columns, rest, needs)
    fit, note = _fitting(shape.n, nnz, columns, held, single, stored, job)
    if single:
        changes.append(
            "the graph is in single precision"
            if job.methods is PROPAGATORS
            else "graph and vectors are in single precision"
        )
    if note:
        changes.append(note)
    if graph is not None and graph.method == "pynndescent":
        held += COMPILER_BYTES  # stays
    stages += _solving(shape.n, nnz, fit, clusters, held, single, stored, job)
    slow = tuple(replace(stage, seconds=stage.seconds * speed) for stage in stages)
    return Plan(slow, tuple(changes), memory, least)


def _least(shape: Shape, k: int, job: Any, is_points: bool) -> int:
    """The least memory of a job, with as many weights as neighbours of high dimension have."""
    nnz = int(_MOST_SYMMETRIC * shape.n * k) if is_points else shape.nnz
    columns = _columns(job)[1]
    least = _needs(job)(shape.n, nnz, columns, single=True) + budget.RESERVE
    if not is_points:
        return max(least, int(PROGRAM + 2.2 * budget.graph_bytes(shape.n, nnz)))
    least = max(least, knn_plan(shape.n, shape.d, k, None, by_rows=True).least)
    points = 4 * shape.n * shape.d
    return least if points > least // LAZY else least + points  # few points are held


def _reading(shape: Shape, held: int, lazy: bool) -> StagePlan:
    peak = _READER + held + _BLOCK if shape.d else _READER + 12 * shape.nnz
    how = "by blocks, nothing kept" if lazy else ""
    return StagePlan("reading", peak, duration("reading", shape.file_bytes), how)


def _checksums(shape: Shape, held: int) -> StagePlan:
    there = held if shape.d else 12 * shape.nnz
    return StagePlan("checksums", _READER + there, duration("checksums", shape.file_bytes))


def _graph_plan(shape: Shape, k: int, memory: int | None, held: int) -> GraphPlan:
    from mustlink.neighbours.knn import BRUTE_WORK

    small = shape.n**2 * (shape.d + 130.0) <= BRUTE_WORK or k >= shape.n // 4
    return knn_plan(shape.n, shape.d, k, memory, held=held, by_rows=held == 0, small=small)


def _graph_stages(graph: GraphPlan, shape: Shape, k: int, nnz: int) -> list[StagePlan]:
    n, d = shape.n, shape.d
    work = n * np.sqrt(d) * np.log10(max(n, 10)) * k / 15
    parts = n**1.5 * (1 + d / 120) * k / 15
    seconds = {
        "brute": duration("brute", n * n * (d + 130.0) / 130.0),
        "pynndescent": COMPILING + duration("pynndescent", work),
        "partition": duration("partition", parts),
    }
    return [
        StagePlan("kNN graph", graph.stages["kNN graph"], seconds[graph.method], graph.method),
        StagePlan("weights", graph.stages["weights"], duration("weights", nnz)),
        StagePlan("components", graph.stages["components"], duration("components", nnz)),
    ]


def _spreads(job: Any) -> bool:
    return job.methods is METHODS and METHODS[job.method].estimator in ("SRCP", "E2CP")


def _needs(job: Any) -> budget.Needs:
    """What counts the bytes of the job's main stage."""
    if job.methods is PROPAGATORS:
        return budget.propagation_bytes
    return budget.spread_bytes if _spreads(job) else budget.eigen_bytes


def _columns(job: Any) -> tuple[int, int, int]:
    """Eigenvectors computed at a time, the least that do, and clusters or classes."""
    k = int(getattr(job, "n_clusters", _CLASSES) or _CLASSES)
    if job.methods is PROPAGATORS:
        return k, k, k
    subspace = job.params.get("subspace")
    if isinstance(subspace, int):
        return subspace, subspace, k
    return _EIGEN_METHODS.get(job.method, _SMOOTH) * k, k, k


def _fitting(
    n: int, nnz: int, columns: int, held: int, single: bool, stored: int, job: Any
) -> tuple[int, str]:
    """Columns that fit into the memory, and what to say if they are less than wished for."""
    memory = job.memory
    if memory is None or _needs(job) is not budget.eigen_bytes:
        return columns, ""
    most = budget.most_columns(n, nnz, memory - held, single=single, stored=stored)
    if most >= columns:
        return columns, ""
    return max(most, 1), f"at most {max(most, 1)} smooth vectors instead of {columns}"


def _solving(
    n: int, nnz: int, columns: int, clusters: int, held: int, single: bool, stored: int, job: Any
) -> list[StagePlan]:
    """The stages after the graph."""
    at_rest = PROGRAM + held + budget.operator_bytes(n, nnz, single=single, stored=stored)
    vectors = columns * n * budget.entry_bytes(single)
    embedding = clusters * n * budget.entry_bytes(single)
    found = [
        StagePlan("order of the nodes", at_rest, duration("order of the nodes", nnz)),
        StagePlan("Laplacian", at_rest, duration("Laplacian", nnz)),
        StagePlan("multigrid set-up", at_rest, duration("multigrid set-up", nnz)),
    ]
    if _spreads(job):
        share = (2 * 10**9 if job.memory is None else job.memory // 4) // 4
        found.append(StagePlan("constraint propagation", at_rest + share, duration("spread", n)))
    name = "propagating" if job.methods is PROPAGATORS else "eigenvectors"
    if job.method in _WITHOUT_NULL:  # the constant vector is known
        columns -= 1
    peak = held + _needs(job)(n, nnz, columns, single=single, stored=stored, usual=True)
    found.append(StagePlan(name, peak, duration("eigenvectors", nnz * columns)))
    found.append(
        StagePlan("clusters", at_rest + vectors + 3 * embedding, duration("clusters", n * clusters))
    )
    found.append(StagePlan("looking at the result", at_rest, duration("looking", nnz)))
    out = n * (8 + 8 * clusters)
    found.append(StagePlan("writing", at_rest + vectors + 2 * out, duration("writing", out)))
    return found
