"""`mustlink clean`: its arguments, its help, and how its answer looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mustlink_io.commands.options import JSON
from mustlink_io.terminal.console import size
from mustlink_io.terminal.summary import emit


@click.command(short_help="Remove what runs kept for later.")
@click.argument("outputs", nargs=-1, required=True, metavar="OUTPUT…")
@click.option("--stale", is_flag=True, help="Only what no run on the latest data would use.")
@JSON
def clean(outputs: tuple[str, ...], stale: bool, as_json: bool) -> None:
    """Remove the results of stages that are kept in OUTPUT.work; OUTPUT itself stays.

    \b
      mustlink info out.h5             what is kept, how large it is, and whether it is stale
      mustlink clean out.h5 --stale
      mustlink clean out.h5
      mustlink clean out/*.h5
    """
    from mustlink_io.hdf5 import work_folder

    emit({"cleaned": [work_folder.clean(one, stale) for one in outputs]}, as_json, show_clean)


def show_clean(result: Mapping[str, Any]) -> None:
    """Print the outcome of `mustlink clean`."""
    for one in result["cleaned"]:
        noun = "result" if one["removed"] == 1 else "results"
        left = f", {one['left']} left" if one["left"] else ""
        click.echo(
            f"{one['folder']}: {one['removed']} {noun} of stages removed, "
            f"{size(one['bytes'])} freed{left}"
        )
