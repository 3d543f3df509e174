"""`mustlink graph` and `convert`: data become graphs, and other formats."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from mustlink_io.commands.options import (
    COLUMN_STEPS,
    EDGE_WEIGHTS,
    ID,
    IN_PLACE,
    JSON,
    KEY,
    MEMORY,
    METRIC,
    NEIGHBORS,
    PREPARING,
    QUIET,
    SCHEDULER,
    SEED,
    THREADS,
    TIME,
    WEIGHTS,
    WORKERS,
    PreparingCommand,
    memory_size,
    output_of,
    program_began,
    several,
)
from mustlink_io.hdf5.file_names import USUAL
from mustlink_io.jobs.methods import steps_of
from mustlink_io.terminal.console import clock, emit, facts, size, stdout_console, table


@click.command(cls=PreparingCommand, short_help="Points, or a picture's pixels, to a graph.")
@click.argument("data")
@click.option("-o", "output", required=True, help="HDF5 file to write.")
@several(WEIGHTS, ID, *PREPARING, NEIGHBORS, METRIC, EDGE_WEIGHTS)
@several(SEED, THREADS, MEMORY, TIME, WORKERS, SCHEDULER, QUIET, JSON)
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
    from mustlink_io.jobs.graph import GraphJob
    from mustlink_io.terminal.console import observing
    from mustlink_io.workers.dask_cluster import executor_of

    limits = {name: params.pop(name) for name in ("threads", "memory", "time_limit")}
    weights, ids = params.pop("sample_weight"), params.pop("ids")
    where = params.pop("workers"), params.pop("scheduler")
    steps = steps_of(params)
    chosen = {name: value for name, value in params.items() if value is not None}
    files: Any = {"data": data, "output": output, "weights": weights, "ids": ids}
    files["began"] = program_began()
    with observing(quiet) as observer, executor_of(*where) as executor:
        job = GraphJob(**files, **limits, params=chosen, steps=steps, executor=executor)
        result = job.run(observer)
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


@click.command(
    cls=PreparingCommand,
    short_help="From one format to another; results into tables, .h5ad, .graphml.",
)
@click.argument("source", metavar="IN")
@click.argument("out", required=False)
@click.option("-o", "output", help="File to write, the same as OUT.")
@click.option(
    "--to", "form", type=click.Choice(list(USUAL)[::-1]), help="Format; default by OUT's ending."
)
@click.option(
    "--into", metavar="FILE", help="Put the result IN into a copy of this .h5ad or .graphml."
)
@click.option(
    "--memory",
    callback=memory_size,
    default="auto",
    help="As 4GB, from 710MB on: edges in text become a graph in .h5, never in memory whole. "
    "Default auto: so where they could need more than there is; none: never.",
)
@click.option(
    "--overwrite",
    is_flag=True,
    help="Replace a file OUT that is there; and of --into what the file has under the key.",
)
@several(*COLUMN_STEPS, IN_PLACE, KEY, QUIET, JSON)
def convert(
    source: str,
    out: str | None,
    output: str | None,
    into: str | None,
    form: str | None,
    quiet: bool,
    as_json: bool,
    memory: int | str,
    **options: Any,
) -> None:
    """Convert points, a graph or a result IN to OUT.

    \b
      mustlink convert points.csv points.h5             empty cells become NaN
      mustlink convert t.csv t.h5 --drop id --one-hot port --impute
      mustlink convert pbmc.h5ad:/obsp/connectivities cells.metis
      mustlink convert edges.tsv g.h5 --memory 1GB      edges are not in memory together
      mustlink convert graph.graphml graph.h5           names of nodes are kept in /names
      mustlink convert out.h5 labels.csv                node, name, cluster, class, confidence
      mustlink convert out.h5 labels.png                of a picture
      mustlink convert out.h5:/embedding embedding.npy
      mustlink convert out.h5:/membership shares.csv
      mustlink convert out.h5 --into pbmc.h5ad -o new.h5ad
      mustlink convert out.h5 --into pbmc.h5ad --in-place --key stroke_clusters
      mustlink convert out.h5 --into net.graphml -o new.graphml    for Gephi, Cytoscape, …

    Into .h5ad clusters go as obs/KEY, categories of text like scanpy's leiden, the embedding as
    obsm/X_KEY and the parameters as uns/KEY; what is there under the name is replaced only if
    mustlink wrote it, or with --overwrite. Into .graphml they go as the node attribute KEY.

    A file OUT that is there stays, but with --overwrite, or where it is HDF5 that mustlink wrote.
    """
    from mustlink_io.jobs import convert as job

    if out is not None and output is not None:
        raise click.UsageError("OUT is given twice; leave out -o")
    steps, output = steps_of(options), out or output
    if into is None:
        if options["in_place"]:
            raise click.UsageError("--in-place belongs to --into FILE")
        if output is None:
            raise click.UsageError("Missing argument 'OUT'.")
        result = job.convert(source, output, form, steps, memory, overwrite=options["overwrite"])
    else:
        unfit = {
            "--to": form,
            "--memory": None if memory == "auto" else memory,
            **dict.fromkeys(steps.options(), True),
        }
        for name in (name for name, value in unfit.items() if value is not None):
            raise click.UsageError(f"{name}: is not for --into; leave it out")
        in_place = options.pop("in_place")
        target = output_of(into, output, in_place)
        if not in_place and os.path.exists(target) and os.path.samefile(target, into):
            raise click.UsageError(
                f"{target}: is the file of --into itself; to change it: --in-place"
            )
        result = job.convert_into(source, into, target, **options)
    for warning in result["warnings"]:
        click.echo(f"warning: {warning}", err=True)
    if not quiet:
        for note in result["notes"]:
            click.echo(note, err=True)
    emit(result, as_json, _show)


def _show(result: Mapping[str, Any]) -> None:
    sizes = " x ".join(f"{part:,}" for part in result["shape"])
    facts(
        stdout_console(),
        [
            ("read", f"{result['source']}: {result['kind']}, {sizes}"),
            ("into", result.get("into")),
            ("key", result.get("key")),
            ("written", f"{result['output']}: {result['to']}, {size(result['bytes'])}"),
        ],
    )
