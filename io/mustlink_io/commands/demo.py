"""`mustlink demo`: its arguments, its help, and how its answer looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mustlink_io.commands.options import JSON, QUIET
from mustlink_io.terminal.console import facts, size, stage_table, stdout_console
from mustlink_io.terminal.summary import emit, sizes_line

if TYPE_CHECKING:
    from mustlink_io.hdf5.result_parts import Stage


@click.command(short_help="A photograph, cut along strokes.")
@click.option("-o", "out_dir", default="demo-out", show_default=True, help="Folder to write to.")
@QUIET
@JSON
def demo(out_dir: str, quiet: bool, as_json: bool) -> None:
    """Cut a photograph along strokes that ship with mustlink, with and without them."""
    from mustlink_io.jobs.demo import run as run_demo
    from mustlink_io.terminal.progress import observing

    with observing(quiet) as observer:
        result = run_demo(out_dir, observer)
    if as_json or not quiet:
        emit(result.flat(), as_json, lambda told: show_demo(told, result.stages))


def show_demo(result: Mapping[str, Any], stages: Sequence[Stage]) -> None:
    """Print what `mustlink demo` did."""
    console = stdout_console()
    facts(
        console,
        [
            ("image", f"{result['image']}: {result['n_nodes']:,} pixels"),
            ("strokes", f"{result['stroke_pixels']:,} pixels of {', '.join(result['classes'])}"),
            ("obeyed", f"{result['obeyed']:.1%} of them ({result['obeyed_without']:.1%} without)"),
            ("sizes", sizes_line(result["sizes"])),
            ("peak memory", size(result["peak_bytes"])),
            ("wrote", ", ".join(result["files"])),
        ],
    )
    stage_table(console, stages)
