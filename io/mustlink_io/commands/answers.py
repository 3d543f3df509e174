"""`mustlink ask`, `answer` and `ui`: questions to a person, answers, and a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mustlink.errors import InputError
from mustlink_io.commands.options import (
    COLUMN_STEPS,
    ID,
    JSON,
    QUIET,
    SEED,
    THREADS,
    PreparingCommand,
    clusters,
    several,
)
from mustlink_io.terminal.console import (
    emit,
    facts,
    observing,
    show_notes,
    sizes_line,
    stdout_console,
    title,
)

# As in mustlink.advice, which takes a second to import.
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
@click.option("--show", help="A folder with a picture for each row, whose file the table names.")
@click.option("-o", "output", help="Table to write; default: the terminal.")
@QUIET
def ask(
    result: str,
    count: int,
    kind: str,
    strategy: str,
    show: str | None,
    output: str | None,
    quiet: bool,
) -> None:
    """Write the questions whose answers would help OUT.h5 most, a table with a column to fill in.

    \b
      mustlink ask out.h5 -n 10 -o ask.csv
      mustlink answer out.h5 ask.csv
      mustlink ask out.h5 -n 20 --kind pairs -o ask.csv

    `row` counts from 0, `name` is what the data call it, `now` its class so far, `sure` the share
    that the method gives it (of csp, sssc and fast-ge calibrated by what is known), `second` and
    `third` the next classes with theirs; then the columns of the row, where the data are a table
    that is still there. Fill in `answer`: a class, or of pairs yes or no; leave it empty, or ?,
    where you do not know: that is not asked again. Rows that have a label are never asked.
    """
    from pathlib import Path

    from mustlink_io.formats.labels import check_replaceable, questions_text
    from mustlink_io.hdf5 import writing
    from mustlink_io.ui.answering import ask as compute

    if output is not None:
        writing.check_output(output, (Path(result),), None)
        check_replaceable(Path(output))
    header, lines = compute(result, count, kind, strategy, show)
    text = questions_text(header, lines)
    if output is None:
        click.echo(text, nl=False)
        return
    with writing.atomic(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    if not quiet:
        click.echo(f"{len(lines)} question{'' if len(lines) == 1 else 's'} in {output}")


@click.command(short_help="A result with the answers to such questions.")
@click.argument("result")
@click.argument("answers")
@click.option(
    "-o",
    "output",
    help="Result to write; default: in the place of OUT.h5, which stays as OUT.h5.before.",
)
@click.option("--new-classes", is_flag=True, help="Answers may name classes that are new.")
@QUIET
@JSON
def answer(
    result: str,
    answers: str,
    output: str | None,
    new_classes: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Cluster OUT.h5 again with the answers in a table that `mustlink ask` wrote.

    \b
      mustlink ask out.h5 -n 10 -o ask.csv
      mustlink answer out.h5 ask.csv

    Earlier answers still count, unless the table says something else of a row. The output says how
    many rows moved, and whether more answers would still change much: what the result would be
    without a part of them. An answer that is no class yet is an error, unless there may be
    --new-classes. What OUT.h5 says of names, pictures and columns stays.
    """
    from mustlink_io.ui.answering import answer as compute

    emit(compute(result, answers, output, new_classes=new_classes), as_json, show, quiet=quiet)


def show(outcome: Mapping[str, Any]) -> None:
    """Print what followed."""
    console = stdout_console()
    title(console, f"{outcome['output']} written")
    rows = [
        ("method", outcome["method"]),
        ("answers", f"{outcome['answers']} counted, {outcome['unknown']} not known"),
        ("known before", _known_before(outcome["guessed"])),
        *([("new classes", ", ".join(outcome["new_classes"]))] if outcome["new_classes"] else []),
        ("moved", f"{outcome['moved']:.2%} of the rows"),
        ("sizes", sizes_line(outcome["sizes"], _words(outcome["names"]))),
        ("go on?", outcome["advice"]),
        ("before", outcome["before"]),
    ]
    facts(console, rows)
    show_notes(console, [], outcome["warnings"])


def _known_before(guessed: Mapping[str, int]) -> str | None:
    """How many answers on single rows the result had already."""
    if not guessed["of"]:
        return None
    return f"{guessed['right']} of {guessed['of']} answers on rows are what the result said"


def _words(names: list[str]) -> list[str]:
    """Names, unless they are numbers alone."""
    return [] if all(one.isdigit() for one in names) else names


@click.command(
    cls=PreparingCommand, short_help="A local page: paint, label, answer, and see what follows."
)
@click.argument("data")
@click.option(
    "--strokes", help="Of a picture: PNG that strokes are kept in; default DATA-strokes.png."
)
@clusters(
    "Clusters of data that are no result yet; auto, the default: as many as they show.",
    default="auto",
)
@click.option("--labels", help="Labels of some rows of such data, as of the cluster command.")
@several(ID, *COLUMN_STEPS)
@click.option("--map", "map_of", help="Two coordinates for every row; default: found from the fit.")
@click.option(
    "--show", help="What a question shows: a folder of pictures, FILE.h5:DATASET or .npy."
)
@click.option("-o", "output", help="Where `save` writes: labels of a picture, else the model.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Default: a free one.")
@click.option("--no-open", is_flag=True, help="Open no browser; tell the address alone.")
@SEED
@THREADS
@QUIET
def ui(data: str, port: int, no_open: bool, quiet: bool, **options: Any) -> None:
    """Open a page in the browser on which you answer and see what follows.

    \b
      mustlink ui photo.png

    Paint a stroke of each class on the picture; the cut follows. Strokes are kept in
    photo-strokes.png after each, so that the same command goes on where it was, also after a kill;
    `save` writes photo-cut.png and an outline.

    \b
      mustlink ui data.h5 -k 10 --show data.h5:/images
      mustlink ui data.ui.h5

    Points or a graph: a map of all nodes, coloured by cluster, confidence or doubt. Draw round
    some with the lasso and label them, click two to say whether they belong together, or let
    yourself be asked; the clusters follow. Each answer is kept in data.ui.h5.answers at once;
    `save` writes the model with them, which the second command goes on from.

    The page is for this machine alone: it listens on 127.0.0.1, and the address that is told has a
    token without which nothing is answered. It loads nothing from elsewhere and takes no files.
    On a server: --no-open --port 5006 there, `ssh -L 5006:127.0.0.1:5006 server` here, and open
    the address here. Ctrl-C ends it.
    """
    from mustlink_io.jobs.methods import steps_of
    from mustlink_io.ui import opening
    from mustlink_io.ui.parts import check_display

    if not no_open:
        check_display()
    how = {"random_state": options.pop("random_state") or 0, "n_jobs": options.pop("threads")}
    strokes, output = options.pop("strokes"), options.pop("output")
    options = {name: value for name, value in options.items() if value is not None}
    steps = steps_of(options)
    if opening.is_picture(data):
        refuse(
            {
                "-k": options["n_clusters"] != "auto",
                "--labels": options.get("labels"),
                "--id": options.get("ids"),
                "--map": options.get("map_of"),
                "--show": options.get("show"),
                **dict.fromkeys(steps.options(), True),
            }
        )
        page = opening.page_of_picture(data, strokes, output, **how)
    else:
        refuse({"--strokes": strokes})
        with observing(quiet) as observer:
            more = {**options, **how, "steps": steps, "observer": observer}
            page = opening.page_of_file(data, output=output, **more)
    page.serve(port, opened=not no_open, tell=click.echo)


def refuse(options: Mapping[str, Any]) -> None:
    """Raise InputError for an option that says nothing of this kind of data."""
    for name, value in options.items():
        if value:
            raise InputError(f"{name}: is not for this kind of data; see mustlink ui --help")
