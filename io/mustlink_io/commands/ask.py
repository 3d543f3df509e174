"""`mustlink ask`: its arguments, its help, and where the questions go."""

from __future__ import annotations

import click

# As in mustlink.queries, which takes a second to import.
STRATEGIES = ("auto", "walks", "neighbourhoods", "random")


@click.command(short_help="Which labels or pairs would help most.")
@click.argument("result")
@click.option("-n", "count", type=click.IntRange(min=1), default=10, help="Questions; default 10.")
@click.option(
    "--kind",
    type=click.Choice(["labels", "pairs"]),
    default="labels",
    help="The class of a row, the default, or whether two rows belong together.",
)
@click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    default="auto",
    help="Default auto, which is walks for labels and neighbourhoods for pairs.",
)
@click.option("-o", "output", help="Table to write; default: the terminal.")
def ask(result: str, count: int, kind: str, strategy: str, output: str | None) -> None:
    """Write the questions whose answers would help OUT.h5 most, a table with a column to fill in.

    \b
      mustlink ask out.h5 -n 10 -o ask.csv
      mustlink answer out.h5 ask.csv
      mustlink ask out.h5 -n 20 --kind pairs -o ask.csv

    `row` counts from 0, `name` is what the data call it, `now` its class so far. Fill in `answer`:
    a class, new ones too, or of pairs yes or no; leave it empty, or ?, where you do not know: that
    is not asked again. Rows that have a label are never asked.
    """
    from pathlib import Path

    from mustlink_io.hdf5 import store
    from mustlink_io.ui.answering import ask as compute

    if output is not None:
        store.check_output(output, (Path(result),))
    text = compute(result, count, kind, strategy)
    if output is None:
        click.echo(text, nl=False)
        return
    Path(output).write_text(text, encoding="utf-8")
    asked = text.count("\n") - 1
    click.echo(f"{asked} question{'' if asked == 1 else 's'} in {output}")
