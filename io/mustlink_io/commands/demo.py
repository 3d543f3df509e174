"""`mustlink demo`: its arguments, its help, and how its answer looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mustlink_io.commands.options import JSON, QUIET
from mustlink_io.terminal.console import clock, facts, size, stdout_console
from mustlink_io.terminal.progress import observing
from mustlink_io.terminal.summary import emit


@click.command(short_help="A photograph, cut along strokes.")
@click.option("-o", "out_dir", default="demo-out", show_default=True, help="Folder to write to.")
@QUIET
@JSON
def demo(out_dir: str, quiet: bool, as_json: bool) -> None:
    """Cut a photograph along strokes that ship with mustlink, as `mustlink cut` does.

    The strokes are put beside it as strokes.png: paint on them in any editor, and run it again.
    """
    from mustlink_io.jobs.demo import run as run_demo

    with observing(quiet) as observer:
        result = run_demo(out_dir, observer)
    emit(result, as_json, show_demo)


def show_demo(result: Mapping[str, Any]) -> None:
    """Print what `mustlink demo` did."""
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
