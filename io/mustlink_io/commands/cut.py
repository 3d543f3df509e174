"""`mustlink cut`: a photograph or a stack, along strokes or by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mustlink.errors import InputError
from mustlink_io.commands.options import JSON, QUIET, SEED, THREADS, clusters, numbers
from mustlink_io.terminal.console import emit, observing, stdout_console, table


@click.command(short_help="A photograph, cut along painted strokes or by itself.")
@click.argument("picture")
@click.option(
    "--strokes",
    help="PNG: every opaque colour is a class; of a stack TIFF or .npy, 0 for none, 1, 2, ….",
)
@clusters(
    "Parts, without strokes; auto, the default: as many as the picture shows.", default="auto"
)
@click.option(
    "-o",
    "output",
    required=True,
    help="PNG of labels to write, 0, 1, … in grey; .tif or .npy of a stack.",
)
@click.option(
    "--spacing",
    callback=numbers("numbers, such as 3,1,1"),
    metavar="LIST",
    help="With --strokes: size of a voxel along slices, rows and columns, such as 3,1,1.",
)
@SEED
@THREADS
@QUIET
@JSON
def cut(
    picture: str,
    strokes: str | None,
    n_clusters: int | str,
    output: str,
    spacing: list[float] | None,
    random_state: int | None,
    threads: int | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Give every pixel of a photograph one of the colours that a few strokes have, or a part.

    \b
      mustlink cut photo.png --strokes strokes.png -o cut.png
      mustlink cut photo.png -o cut.png

    Open the photograph in GIMP or any editor with layers, add a transparent layer, and paint on it
    with a pencil (hard edges), a colour for each part: some strokes on what you want, some on what
    is round it. Save that layer alone as PNG, in the size of the photograph.

    Beside cut.png, whose values are the classes in the order of the table, come cut-outline.png,
    to look at, and the cut-outs cut-0.png, cut-1.png, … with transparency. Where it is wrong, add a
    stroke.

    Without strokes the photograph is cut along its edges into connected parts, -k of them or as
    many as it shows; cut.png has their numbers, and cut-outline.png lines round them.

    \b
      mustlink cut stack.tif --strokes strokes.tif -o labels.tif --spacing 3,1,1

    A stack of grey slices (TIFF of 8 or 16 bits or float, or .npy) with strokes in a stack of the
    same size: 0 where nothing is painted, 1, 2, … for the classes; a few slices are enough.
    labels.tif has these values, labels-slices.png shows nine of the slices.
    """
    if strokes is None and spacing is not None:
        raise InputError("--spacing: goes with --strokes; leave it out")
    if strokes is not None and n_clusters != "auto":
        raise InputError("-k: strokes say how many classes there are; leave -k or --strokes out")
    from mustlink_io.jobs.cut import cut as run

    with observing(quiet) as observer:
        result = run(
            picture,
            strokes,
            output,
            n_clusters=n_clusters,
            spacing=None if spacing is None else tuple(spacing),
            random_state=random_state or 0,
            n_jobs=threads,
            observer=observer,
        )
    emit(result, as_json, show_parts if strokes is None else show_cut)


def show_cut(result: Mapping[str, Any]) -> None:
    """Print a row for each class, and where to look."""
    rows: list[tuple[Any, ...]] = [
        (
            one["value"],
            one["colour"] + (" (ground)" if one["is_ground"] else ""),
            f"{one['strokes']:,}",
            f"{one['pixels'] / result['pixels']:.1%}",
            one["cut_out"],
        )
        for one in result["classes"]
    ]
    headers = ["value", "colour", "painted", "of the picture", "cut-out"]
    if "slices" in result:  # which have no cut-outs
        rows, headers = [row[:4] for row in rows], [*headers[:3], "of the stack"]
    table(stdout_console(), headers, rows)
    click.echo(f"{result['output']}: the labels; {result['outline']}: to look at")


def show_parts(result: Mapping[str, Any]) -> None:
    """Print a row for each part, why there are so many, and where to look."""
    rows = [
        (one["value"], one["colour"], f"{one['pixels'] / result['pixels']:.1%}")
        for one in result["parts"]
    ]
    table(stdout_console(), ["value", "line", "of the picture"], rows)
    count = result["n_clusters"]
    click.echo(f"{count} part{'s' * (count != 1)}: {result['why']}")
    click.echo(f"{result['output']}: the labels; {result['outline']}: to look at")
