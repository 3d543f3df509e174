"""`mustlink answer`: its arguments, its help, and what followed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mustlink_io.commands.options import JSON
from mustlink_io.terminal.console import facts, show_notes, stdout_console, title
from mustlink_io.terminal.summary import emit, sizes_line


@click.command(short_help="A result with the answers to such questions.")
@click.argument("result")
@click.argument("answers")
@click.option("-o", "output", help="Result to write; default: in the place of OUT.h5.")
@JSON
def answer(result: str, answers: str, output: str | None, as_json: bool) -> None:
    """Cluster OUT.h5 again with the answers in a table that `mustlink ask` wrote.

    \b
      mustlink ask out.h5 -n 10 -o ask.csv
      mustlink answer out.h5 ask.csv

    All that was told before still counts, but where the table says something else of a row. Told
    is how many rows moved, and whether more answers would still change much: what the result would
    be without a part of them. Where classes have names, an answer that is none of them becomes a
    new class, which is told, too. What OUT.h5 says of names, pictures and columns stays.
    """
    from mustlink_io.ui.answering import answer as compute

    emit(compute(result, answers, output), as_json, show)


def show(told: Mapping[str, Any]) -> None:
    """Print what followed."""
    console = stdout_console()
    title(console, f"{told['output']} written")
    rows = [
        ("answers", f"{told['answers']} counted, {told['unknown']} not known"),
        *([("new classes", ", ".join(told["new_classes"]))] if told["new_classes"] else []),
        ("moved", f"{told['moved']:.2%} of the rows"),
        ("sizes", sizes_line(told["sizes"])),
        ("go on?", told["advice"]),
    ]
    facts(console, rows)
    show_notes(console, [], told["warnings"])
