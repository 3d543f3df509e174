"""`mustlink demo`: the main job on data of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mustlink_io.commands.options import JSON, QUIET
from mustlink_io.terminal.console import clock, emit, facts, observing, size, stdout_console, table


@click.command(short_help="The main job on data of its own.")
@click.option("-o", "out_dir", default="demo-out", show_default=True, help="Folder to write to.")
@QUIET
@JSON
def demo(out_dir: str, quiet: bool, as_json: bool) -> None:
    """Cluster 100,000 points whose clusters the points alone do not show.

    They spell two words, one below the other. Without side information they are cut between
    columns; with 40 labels, or 400 pairs within a named memory, between the words. Data, results,
    a page about one of them and a picture are written to the folder.
    """
    from mustlink_io.jobs import demo as jobs
    from mustlink_io.report import page

    with observing(quiet) as observer:
        result = jobs.demo(out_dir, observer)
        result["report"] = page.make(result["steps"][1]["output"])["written"][0]
    emit(result, as_json, show_points)


def show_points(result: Mapping[str, Any]) -> None:
    """Print what was run, and what it found."""
    console, graph = stdout_console(), result["graph"]
    for step in (graph, *result["steps"]):
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
            ("their graph", f"{clock(graph['seconds'])}: {graph['output']}"),
            ("report", result["report"]),
            ("look at", result["picture"]),
        ],
    )
