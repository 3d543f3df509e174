"""`mustlink report`: its arguments and its help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mustlink_io.commands.options import JSON
from mustlink_io.terminal.console import facts, stdout_console
from mustlink_io.terminal.summary import emit


@click.command(short_help="A page about a result, with pictures.")
@click.argument("file", metavar="OUT.h5")
@click.option("-o", "output", help="HTML file to write; by default OUT.html beside OUT.h5.")
@click.option(
    "--pictures", "folder", metavar="DIR", help="Write every picture there, as PNG and SVG."
)
@click.option("--image", help="PNG or JPEG whose pixels, row by row, are the nodes.")
@JSON
def report(
    file: str, output: str | None, folder: str | None, image: str | None, as_json: bool
) -> None:
    """Tell what was run, how the graph, the clusters and the constraints look, and what to doubt.

    One page that loads nothing: it can be sent, kept and printed. With --pictures or --json and
    without -o, no page is written. Needs: pip install 'mustlink[plot]' (not for --json alone).

    \b
      mustlink report out.h5                         writes out.html
      mustlink report out.h5 -o report.html
      mustlink report out.h5 --pictures figures      embedding.png, embedding.svg, spectrum.png, …
      mustlink report photo.h5 --image photo.jpg     segments drawn over the photograph
      mustlink report out.h5 --json | jq .constraints
    """
    from mustlink_io.report.make import make

    found: dict[str, Any] = make(
        file, output, folder=folder, image=image, page_wanted=not (folder or as_json)
    )
    emit(found, as_json, show_report)


def show_report(result: Mapping[str, Any]) -> None:
    """Print the warnings of a result, and what was written about it."""
    console = stdout_console()
    facts(console, [("warning", line) for line in result["warnings"]])
    facts(console, [("written", path) for path in result["written"]])
