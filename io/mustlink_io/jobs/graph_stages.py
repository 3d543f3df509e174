"""The stages of a job up to its graph: reading, checksums, and neighbours of points."""

from __future__ import annotations

from typing import Any

from mustlink.cost.method_cost import Size
from mustlink.cost.neighbour_plan import Plan as GraphPlan
from mustlink.cost.neighbour_plan import knn_plan
from mustlink.cost.process_memory import PROGRAM
from mustlink.cost.search_time import cells_work, tree_work
from mustlink_io.jobs.data_shape import Shape
from mustlink_io.jobs.plan import StagePlan
from mustlink_io.jobs.rates import START, duration

READER = 90 * 10**6  # bytes of the program before the engine is loaded
_BLOCK = 96 * 10**6  # of a block that is read, checked and converted
_WALKS = 3 * 16 * 8  # bytes a node: blocks of walks by which graphs are compared
_ROW = 40  # bytes of finding out which rows are equal
_AGAIN = 1.3  # times the search in memory: cells of two blocks on disk are compared twice


def beginning() -> StagePlan:
    """Until the program has loaded."""
    return StagePlan("start of the program", READER, START)


def reading(shape: Shape, held: int, lazy: bool) -> StagePlan:
    """Data that are read and checked, `held` from then on; `lazy`: by blocks, when needed."""
    peak = READER + held + (_BLOCK if shape.d else 12 * shape.nnz)
    how = "by blocks, nothing kept" if lazy else ""
    return StagePlan("reading", peak, duration("reading", shape.file_bytes), how)


def checksums(shape: Shape, held: int) -> StagePlan:
    """Every byte of the files once."""
    there = held + (0 if shape.d else 12 * shape.nnz)
    return StagePlan("checksums", READER + there, duration("checksums", shape.file_bytes))


def equal_rows(shape: Shape, held: int) -> StagePlan:
    """Which rows of points are equal."""
    seconds = duration("equal rows", shape.n * shape.d)
    return StagePlan("equal rows", PROGRAM + held + _ROW * shape.n + _BLOCK, seconds)


def joining(job: Any, size: Size, held: int) -> list[StagePlan]:
    """Several graphs compared and added up, where there are several."""
    if not job.views:
        return []
    how = "given" if "graph_weights" in job.params else "chosen"
    seconds = duration("comparing graphs", size.nnz) if how == "chosen" else 0.0
    peak = PROGRAM + held + 2 * size.graph + _WALKS * size.n
    return [StagePlan("weights of the graphs", peak, seconds, how)]


def graph_plan(shape: Shape, k: int, memory: int | None, held: int, lazy: bool) -> GraphPlan:
    """How the graph of points would be made."""
    from mustlink.neighbours.search import compares_all

    small = compares_all(shape.n, shape.d, k)
    return knn_plan(shape.n, shape.d, k, memory, held=held, by_rows=lazy, small=small)


def graph_stages(graph: GraphPlan, shape: Shape, k: int, nnz: int) -> list[StagePlan]:
    """Neighbours, weights and components."""
    n, d = shape.n, shape.d
    seconds = {
        "brute": duration("brute", n * n * (d + 130.0) / 130.0),
        "tree": duration("tree", tree_work(n, d, k)),
        "cells": duration("cells", cells_work(n, d, k)),
        "stored cells": duration("cells", _AGAIN * cells_work(n, d, k)),
    }
    return [
        StagePlan("kNN graph", graph.stages["kNN graph"], seconds[graph.method], graph.method),
        StagePlan("weights", graph.stages["weights"], duration("weights", nnz)),
        StagePlan("components", graph.stages["components"], duration("components", nnz)),
    ]
