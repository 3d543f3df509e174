"""What a job will take, told before anything runs: bytes by counting, seconds by rates.

The bytes are those of the arrays that live at the same time (`mustlink.budget`,
`mustlink.graph.budget`). The seconds are rates measured on two cores at 3 GHz, times how much
slower a small piece of the same work is on this machine.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mustlink import budget
from mustlink.errors import InputError
from mustlink.graph.budget import COMPILER_BYTES, knn_plan
from mustlink.graph.budget import Plan as GraphPlan
from mustlink.memory import PROGRAM
from mustlink_io import formats, matrices, store
from mustlink_io.methods import METHODS, PROPAGATORS

_READER = 90 * 10**6  # bytes of the program before the engine is loaded
_BLOCK = 96 * 10**6  # of a block that is read, checked and converted
LAZY = 8  # points of more than this part of the memory are read when needed, block by block
SYMMETRIC = 1.25  # stored weights for one neighbour asked for: who is whose neighbour is not mutual
_EIGEN_METHODS = {"ncut": 1, "srcp": 1, "e2cp": 1, "csc-gfhf": 1}  # times K columns; others 4
_SMOOTH = 4
_CLASSES = 10  # where nobody says how many

# Seconds for a million of what is named, measured; see bench/plan.py.
_RATES = {
    "reading": 0.0025,  # bytes read and checked
    "checksums": 0.001,  # bytes
    "brute": 4e-3,  # pairs of points, times coordinates over 130
    "pynndescent": 0.5,  # points times √coordinates times log₁₀ points
    "partition": 0.34,  # the same
    "weights": 0.10,  # stored weights
    "components": 0.03,
    "checking the graph": 0.045,
    "order of the nodes": 0.025,
    "Laplacian": 0.04,
    "multigrid set-up": 0.03,
    "eigenvectors": 0.015,  # stored weights times columns
    "spread": 3.0,  # nodes
    "clusters": 0.045,  # numbers in the embedding
    "writing": 0.004,  # bytes
}
_START = 1.5  # seconds until the program has loaded
_COMPILING = 16.0  # seconds of pynndescent's kernels, in every process
_STANDARD = 0.033  # seconds of `_sample_work` on the machine of the rates


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


@dataclass(frozen=True)
class Shape:
    """Size of the data: n points of d coordinates, or n nodes with `nnz` stored weights (d = 0)."""

    n: int
    d: int
    nnz: int
    file_bytes: int


def shape_of(text: str) -> Shape:
    """Sizes of a data set, from the header where the format has one; raises InputError."""
    place = formats.parse(text)
    store.check_readable(place.path)
    size = place.path.stat().st_size
    declared = formats.declared_shape(text)
    if declared is None or len(declared) != 2:
        loaded = formats.load(text)
        n, d = (int(part) for part in loaded.value.shape)
        is_graph = loaded.kind == "graph"
        return Shape(n, 0 if is_graph else d, int(loaded.value.nnz) if is_graph else 0, size)
    n, d = (int(part) for part in declared)
    nnz = _entries(place) if n == d and place.suffix in formats.HDF5 else None
    return Shape(n, d, 0, size) if nnz is None else Shape(n, 0, nnz, size)


def _entries(place: formats.Place) -> int | None:
    """Stored weights of a sparse matrix in HDF5; None for anything else."""
    with store.open_h5(place.path) as file:
        names = [place.part] if place.part else list(formats.DATA_NAMES)
        for name in names:
            item = store.find(file, name)
            if item is not None:
                return int(item["indices"].size) if matrices.is_csr_group(item) else None
    return None


def shape_named(text: str) -> Shape | None:
    """The size that a text such as `10000000x16` names, for data that are not there yet."""
    found = re.fullmatch(r"([1-9]\d{0,11})x([1-9]\d{0,6})", text)
    if found is None:
        return None
    n, d = int(found.group(1)), int(found.group(2))
    return Shape(n, d, 0, 4 * n * d)


def plan_job(job: Any, *, shape: Shape | None = None, speed: float = 1.0) -> Plan:
    """Plan a job of `mustlink cluster` or `mustlink propagate`; raises InputError.

    `speed` is how many times slower than the machine of the rates this one is. The error for a
    memory that is too small names the least that works.
    """
    shape = shape_of(job.data) if shape is None else shape
    memory, k = job.memory, job.neighbours
    is_points = shape.d > 0 and job.params.get("affinity") != "precomputed"
    points = 4 * shape.n * shape.d if is_points else 0
    lazy = memory is not None and points > memory // LAZY
    held = 0 if lazy else points
    stages = [StagePlan("start of the program", _READER, _START)]
    stages += [_reading(shape, held, lazy), _checksums(shape, held)]
    changes = ["points are read by blocks of rows, not held"] if lazy else []
    graph: GraphPlan | None = None
    nnz, stored = shape.nnz, 8
    if is_points:
        k = min(k, shape.n - 1)
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
        stages.append(StagePlan("checking the graph", peak, _seconds("checking the graph", nnz)))
    columns, least_columns, clusters = _columns(job)
    single = budget.wants_single(shape.n, nnz, columns, None if memory is None else memory - held)
    fit, note = _fitting(shape.n, nnz, columns, memory, held, single, stored)
    if single:
        changes.append("vectors are in single precision")
    if note:
        changes.append(note)
    if graph is not None and graph.method == "pynndescent":
        held += COMPILER_BYTES  # stays
    stages += _solving(shape.n, nnz, fit, clusters, held, single, stored, job)
    slow = tuple(replace(stage, seconds=stage.seconds * speed) for stage in stages)
    rest = budget.eigen_bytes(shape.n, nnz, least_columns, single=True, stored=4 if points else 8)
    least = max(rest, 0 if graph is None else _least_graph(shape, k))
    found = Plan(slow, tuple(changes), memory, least)
    if memory is not None and max(least, min(found.peak_bytes, least)) > memory:
        raise InputError(
            f"--memory: {memory / 1e9:.2f} GB given, but {job.data} with -m {job.method} needs at "
            f"least {np.ceil(least / 1e7) / 100:.2f} GB"
        )
    return found


def _reading(shape: Shape, held: int, lazy: bool) -> StagePlan:
    peak = _READER + held + _BLOCK if shape.d else _READER + 12 * shape.nnz
    how = "by blocks, nothing kept" if lazy else ""
    return StagePlan("reading", peak, _seconds("reading", shape.file_bytes), how)


def _checksums(shape: Shape, held: int) -> StagePlan:
    there = held if shape.d else 12 * shape.nnz
    return StagePlan("checksums", _READER + there, _seconds("checksums", shape.file_bytes))


def _graph_plan(shape: Shape, k: int, memory: int | None, held: int) -> GraphPlan:
    from mustlink.graph.knn import BRUTE_WORK

    small = shape.n**2 * (shape.d + 130.0) <= BRUTE_WORK or k >= shape.n // 4
    return knn_plan(shape.n, shape.d, k, memory, held=held, by_rows=held == 0, small=small)


def _least_graph(shape: Shape, k: int) -> int:
    return knn_plan(shape.n, shape.d, k, None, by_rows=True).least


def _graph_stages(graph: GraphPlan, shape: Shape, k: int, nnz: int) -> list[StagePlan]:
    n, d = shape.n, shape.d
    work = n * np.sqrt(d) * np.log10(max(n, 10))
    seconds = {
        "brute": _seconds("brute", n * n * (d + 130.0) / 130.0),
        "pynndescent": _COMPILING + _seconds("pynndescent", work * k / 15),
        "partition": _seconds("partition", work * k / 15),
    }
    return [
        StagePlan("kNN graph", graph.stages["kNN graph"], seconds[graph.method], graph.method),
        StagePlan("weights", graph.stages["weights"], _seconds("weights", nnz)),
        StagePlan("components", graph.stages["components"], _seconds("components", nnz)),
    ]


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
    n: int, nnz: int, columns: int, memory: int | None, held: int, single: bool, stored: int
) -> tuple[int, str]:
    """Columns that fit into the memory, and what to say if they are less than wished for."""
    if memory is None:
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
        StagePlan("order of the nodes", at_rest, _seconds("order of the nodes", nnz)),
        StagePlan("Laplacian", at_rest, _seconds("Laplacian", nnz)),
        StagePlan("multigrid set-up", at_rest, _seconds("multigrid set-up", nnz)),
    ]
    if job.methods is METHODS and METHODS[job.method].estimator in ("SRCP", "E2CP"):
        share = (2 * 10**9 if job.memory is None else job.memory // 4) // 4
        found.append(StagePlan("constraint propagation", at_rest + share, _seconds("spread", n)))
    name = "propagating" if job.methods is PROPAGATORS else "eigenvectors"
    peak = held + budget.eigen_bytes(n, nnz, columns, single=single, stored=stored)
    found.append(StagePlan(name, peak, _seconds("eigenvectors", nnz * columns)))
    found.append(
        StagePlan("clusters", at_rest + vectors + 3 * embedding, _seconds("clusters", n * clusters))
    )
    out = n * (8 + 8 * clusters)
    found.append(StagePlan("writing", at_rest + vectors + 2 * out, _seconds("writing", out)))
    return found


def _seconds(name: str, amount: float) -> float:
    return float(_RATES[name] * amount / 1e6)


def measured_speed() -> float:
    """How many times slower this machine is than that of the rates: a tenth of a second of work."""
    _sample_work()
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        _sample_work()
        taken.append(time.perf_counter() - started)
    return min(taken) / _STANDARD


def _sample_work() -> None:
    """Products of a sparse matrix and of points, as in the stages that take longest."""
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    n, degree = 40_000, 15
    columns = rng.integers(0, n, n * degree)
    W = sp.csr_matrix((np.ones(n * degree), columns, np.arange(0, n * degree + 1, degree)), (n, n))
    X: Any = np.ones((n, 12))
    P = rng.standard_normal((1000, 64)).astype(np.float32)
    for _ in range(3):
        X = (W @ X) / degree
        P @ P.T
