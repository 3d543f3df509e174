"""`mustlink graph`: its arguments, its help, and how a graph's health looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mustlink_io.commands.options import (
    EDGE_WEIGHTS,
    JSON,
    MEMORY,
    METRIC,
    NEIGHBORS,
    QUIET,
    SCHEDULER,
    SEED,
    THREADS,
    TIME,
    WEIGHTS,
    WORKERS,
    program_began,
    several,
)
from mustlink_io.commands.preparing_options import PREPARING, PreparingCommand
from mustlink_io.terminal.console import clock, facts, size, stdout_console, table
from mustlink_io.terminal.summary import emit


@click.command(cls=PreparingCommand, short_help="Points, or a picture's pixels, to a graph.")
@click.argument("data")
@click.option("-o", "output", required=True, help="HDF5 file to write.")
@several(WEIGHTS, *PREPARING)
@NEIGHBORS
@METRIC
@EDGE_WEIGHTS
@SEED
@THREADS
@MEMORY
@TIME
@WORKERS
@SCHEDULER
@QUIET
@JSON
def graph(data: str, output: str, quiet: bool, as_json: bool, **params: Any) -> None:
    """Join points with their nearest neighbours; print degree, components, recall.

    Of a picture, pixels with those around them and those that look alike; labels of pixels may then
    be an array (height, width), and `mustlink report` draws the segments.

    \b
      mustlink graph points.h5 -o graph.h5 --neighbors 20
      mustlink graph points.h5 -o graph.h5 --memory 2GB
      mustlink graph points.h5 -o graph.h5 --workers 4
      mustlink graph edges.tsv -o graph.h5         check and convert a graph
      mustlink graph photo.png -o photo.h5         pixels, row by row (.jpg, too)
      mustlink cluster graph.h5 -k 10 -o out.h5    then cluster it, many times
    """
    from mustlink_io.jobs.graph import run_graph
    from mustlink_io.jobs.methods import steps_of
    from mustlink_io.terminal.progress import observing
    from mustlink_io.workers.dask_cluster import executor_of

    limits = {name: params.pop(name) for name in ("threads", "memory", "time_limit")}
    limits["began"] = program_began()
    weights = params.pop("sample_weight")
    where = params.pop("workers"), params.pop("scheduler")
    steps = steps_of(params)
    given = {name: value for name, value in params.items() if value is not None}
    with observing(quiet) as observer, executor_of(*where) as executor:
        how = {"weights": weights, "steps": steps, "executor": executor, **limits}
        result = run_graph(data, output, given, observer, **how)
    emit(result, as_json, show_graph)


def show_graph(result: Mapping[str, Any]) -> None:
    """Print the health of a graph."""
    console = stdout_console()
    info = result["info"]
    recall = info.get("recall")
    parts = result["largest_components"]
    largest = ", ".join(f"{count:,}" for count in parts)
    more = ", …" if result["n_components"] > len(parts) else ""
    spread = [
        (name, *(values[key] for key in ("least", "median", "mean", "most")))
        for name, values in (
            ("neighbours", result["neighbours"]),
            ("degree (sum of weights)", result["degree"]),
        )
    ]
    table(console, ("", "least", "median", "mean", "most"), spread)
    sample = (
        f"{recall:.4f}, measured on {info.get('recall_sample', 0):,} points" if recall else None
    )
    facts(
        console,
        [
            ("nodes, edges", f"{result['n_nodes']:,}, {result['n_edges']:,}"),
            ("components", f"{result['n_components']:,} (largest: {largest}{more})"),
            ("joined by bridges", info.get("n_bridges") or None),
            ("isolated nodes", result["isolated"] or None),
            ("recall of neighbours", sample),
            ("time, peak memory", f"{clock(result['seconds'])}, {size(result['peak_bytes'])}"),
            ("written", result["output"]),
        ],
    )
