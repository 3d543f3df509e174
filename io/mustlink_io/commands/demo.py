"""`mustlink demo`: the main job on data of its own, or a photograph cut along strokes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mustlink_io.commands.options import JSON, QUIET
from mustlink_io.terminal.console import clock, emit, facts, observing, size, stdout_console, table


@click.command(short_help="The main job on data of its own.")
@click.option("-o", "out_dir", default="demo-out", show_default=True, help="Folder to write to.")
@click.option("--photograph", is_flag=True, help="Cut a photograph along strokes instead.")
@QUIET
@JSON
def demo(out_dir: str, photograph: bool, quiet: bool, as_json: bool) -> None:
    """Cluster 100,000 points whose clusters the points alone do not show.

    They spell two words, one below the other. Without side information they are cut between
    columns; with 40 labels, or 400 pairs within a named memory, between the words. Data, results,
    a page about one of them and a picture are written to the folder.

    With --photograph, a photograph is cut along strokes, as `mustlink cut` does. The strokes are
    put beside it as strokes.png: paint on them in any editor, and run it again.
    """
    from mustlink_io.jobs import demo as jobs
    from mustlink_io.report import page

    with observing(quiet) as observer:
        if photograph:
            result = jobs.photograph(out_dir, observer)
        else:
            result = jobs.demo(out_dir, observer)
            result["report"] = page.make(result["steps"][1]["output"])["written"][0]
    emit(result, as_json, show_photograph if photograph else show_points)


def show_points(result: Mapping[str, Any]) -> None:
    """Print what was run, and what it found."""
    console = stdout_console()
    for step in result["steps"]:
        click.echo(f"$ {step['command']}")
    click.echo()
    rows = [
        (
            step["knows"],
            f"{step['ari']:z.3f}",  # no -0.000
            clock(step["planned_seconds"]),
            clock(step["seconds"]),
            size(step["planned_bytes"]),
            size(step["peak_bytes"]),
        )
        for step in result["steps"]
    ]
    table(console, ("side information", "ARI", "planned", "taken", "planned", "peak"), rows)
    facts(
        console,
        [
            ("points", f"{result['n_points']:,} x {result['n_coordinates']}: {result['points']}"),
            ("report", result["report"]),
            ("look at", result["picture"]),
        ],
    )


def show_photograph(result: Mapping[str, Any]) -> None:
    """Print how the photograph was cut."""
    classes, pixels = result["classes"], result["pixels"]
    painted = sum(one["strokes"] for one in classes)
    parts = ", ".join(f"{one['colour']}: {one['pixels'] / pixels:.1%}" for one in classes)
    facts(
        stdout_console(),
        [
            ("image", f"{result['image']}: {pixels:,} pixels"),
            ("strokes", f"{painted:,} pixels in {len(classes)} colours"),
            ("parts", parts),
            ("cut in", clock(result["seconds"])),
            ("peak memory", size(result["peak_bytes"])),
            ("labels", result["output"]),
            ("cut-outs", ", ".join(one["cut_out"] for one in classes)),
            ("look at", f"{result['picture']}, {result['outline']}"),
            ("again", result["command"]),
        ],
    )
