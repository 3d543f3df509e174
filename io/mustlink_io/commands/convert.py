"""`mustlink convert`: its arguments and its help."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from mustlink_io.commands.options import (
    IN_PLACE,
    JSON,
    KEY,
    OVERWRITE,
    QUIET,
    memory_size,
    output_of,
    several,
)
from mustlink_io.commands.preparing_options import COLUMN_STEPS, PreparingCommand
from mustlink_io.hdf5.file_names import USUAL
from mustlink_io.jobs.methods import steps_of

if TYPE_CHECKING:
    from mustlink.preparation.request import Preparation


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
    help="As 4GB, from 710MB on: edges in text or a sparse .npz become a graph in .h5, never in "
    "memory whole.",
)
@several(*COLUMN_STEPS, IN_PLACE, KEY, OVERWRITE, QUIET, JSON)
def convert(
    source: str,
    out: str | None,
    output: str | None,
    into: str | None,
    form: str | None,
    quiet: bool,
    as_json: bool,
    memory: int | None,
    **given: Any,
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
    """
    from mustlink_io.terminal.summary import emit

    if out is not None and output is not None:
        raise click.UsageError("OUT is given twice; leave out -o")
    steps = steps_of(given)
    if into is None:
        for name in ("in_place", "overwrite"):
            if given[name]:
                raise click.UsageError(f"--{name.replace('_', '-')} belongs to --into FILE")
        result = _convert(source, out or output, form, steps, memory)
    else:
        if not steps.is_nothing:
            raise click.UsageError(f"{steps.options()[0]}: is for columns of points, not --into")
        if form is not None:
            raise click.UsageError("--to: the copy of --into has its format; leave it out")
        if memory is not None:
            raise click.UsageError("--memory: is for edges into .h5, not --into; leave it out")
        result = _convert_into(source, into, out or output, **given)
    for warning in result["warnings"]:
        click.echo(f"warning: {warning}", err=True)
    if not quiet:
        for note in result["notes"]:
            click.echo(note, err=True)
    emit(result, as_json, _show)


def _convert(
    source: str, output: str | None, form: str | None, steps: Preparation, memory: int | None
) -> dict[str, Any]:
    from mustlink_io.jobs import convert as job

    if output is None:
        raise click.UsageError("Missing argument 'OUT'.")
    return job.convert(source, output, form, steps, memory)


def _convert_into(
    source: str, into: str, output: str | None, *, in_place: bool, key: str, overwrite: bool
) -> dict[str, Any]:
    from mustlink_io.jobs import convert as job

    output = output_of(into, output, in_place)
    if not in_place and os.path.exists(output) and os.path.samefile(output, into):
        raise click.UsageError(f"{output}: is the file of --into itself; to change it: --in-place")
    return job.convert_into(source, into, output, key=key, overwrite=overwrite)


def _show(result: Mapping[str, Any]) -> None:
    """Print what was written."""
    from mustlink_io.terminal.console import facts, size, stdout_console

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
