"""`mustlink ui`: its arguments, its help, and where its page is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mustlink.errors import InputError
from mustlink_io.commands.options import QUIET, SEED, THREADS, cluster_count
from mustlink_io.terminal.progress import observing


@click.command(short_help="A local page: paint, label, answer, and see what follows.")
@click.argument("data")
@click.option(
    "--strokes", help="Of a picture: PNG that strokes are kept in; default DATA-strokes.png."
)
@click.option(
    "-k",
    "n_clusters",
    metavar="K|auto",
    callback=cluster_count,
    default="auto",
    help="Clusters of data that are no result yet; auto, the default: as many as they show.",
)
@click.option("--labels", help="Labels of some nodes of such data, -1 for unknown.")
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
def ui(
    data: str,
    strokes: str | None,
    n_clusters: int | str,
    labels: str | None,
    map_of: str | None,
    show: str | None,
    output: str | None,
    port: int,
    no_open: bool,
    random_state: int | None,
    threads: int | None,
    quiet: bool,
) -> None:
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
    from mustlink_io.ui import opening
    from mustlink_io.ui.page import check_display

    if not no_open:
        check_display()
    if opening.is_picture(data):
        refuse({"-k": n_clusters != "auto", "--labels": labels, "--map": map_of, "--show": show})
        page = opening.page_of_picture(
            data, strokes, output, random_state=random_state or 0, n_jobs=threads
        )
    else:
        refuse({"--strokes": strokes})
        with observing(quiet) as observer:
            page = opening.page_of_file(
                data,
                output=output,
                n_clusters=n_clusters,
                labels=labels,
                map_of=map_of,
                show=show,
                random_state=random_state or 0,
                n_jobs=threads,
                observer=observer,
            )
    page.serve(port, opened=not no_open, tell=click.echo)


def refuse(given: Mapping[str, Any]) -> None:
    """Raise InputError for an option that says nothing of this kind of data."""
    for name, value in given.items():
        if value:
            raise InputError(f"{name}: is not for this kind of data; see mustlink ui --help")
