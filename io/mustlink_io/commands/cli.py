"""The `mustlink` command: arguments, exit codes, and where words go.

Results go to stdout, progress to stderr. Bad input is one line and exit code 2, Ctrl-C is 130.
Heavy modules are imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from mustlink.errors import InputError
from mustlink_io.commands.batch import batch
from mustlink_io.commands.cluster import cluster
from mustlink_io.commands.convert import convert
from mustlink_io.commands.options import (
    JSON,
    MEMORY,
    METRIC,
    NEIGHBORS,
    QUIET,
    SEED,
    THREADS,
    WEIGHTS,
)
from mustlink_io.commands.plan import plan
from mustlink_io.commands.propagate import propagate
from mustlink_io.commands.report import report
from mustlink_io.commands.suggest import suggest

BAD_INPUT, INTERRUPTED, TERMINATED = 2, 130, 143


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(arguments))


def _terminate(*_: Any) -> NoReturn:
    """Unwind, so that temporary files go."""
    raise SystemExit(TERMINATED)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        given = list(sys.argv[1:] if arguments is None else arguments)
        return cli.main(args=given, prog_name="mustlink", standalone_mode=False) or 0
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "mustlink"
        return _complain(f"{error.format_message().rstrip('.')}; see {command} --help")
    except click.ClickException as error:
        return _complain(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("mustlink: interrupted\n")
        return INTERRUPTED
    except (InputError, OSError) as error:
        return _complain(str(error))
    except MemoryError:
        return _complain("out of memory")


def _complain(words: str) -> int:
    line = "".join(c if c.isprintable() else "?" for c in " ".join(words.split()))
    sys.stderr.write(f"mustlink: {line}\n")
    return BAD_INPUT


def _version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        import mustlink

        click.echo(f"mustlink {getattr(mustlink, '__version__', 'unknown')}")
        context.exit()


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version,
    help="Show the version.",
)  # fmt: skip
@click.pass_context
def cli(context: click.Context) -> None:
    """Cluster very large graphs with side information.

    Points or a graph in; labels of a few nodes, must-link and cannot-link pairs, or a second
    graph beside them; clusters out, or the class of every node.

    \b
      mustlink demo                                     a photograph, cut along strokes
      mustlink info data.h5                             what is in a file
      mustlink suggest data.h5 --labels few.csv         which method, and why
      mustlink plan data.h5 -k 10 --memory 4GB          time and memory, told before
      mustlink cluster data.h5 -k 10 -o out.h5          points or graph to clusters
      mustlink cluster data.h5:/points -k 10 --labels few.csv -o out.h5
      mustlink propagate data.h5 --labels few.csv -o out.h5   a few labels to all nodes
      mustlink batch jobs.toml --workers 2              many jobs, one after another or at once
      mustlink report out.h5                            a page about a result, with pictures
      mustlink score out.h5 --truth data.h5:/labels     how good they are
      mustlink convert out.h5 labels.csv                to other formats, and into .h5ad

    Data: FILE.h5 or FILE.h5:DATASET, .h5ad, .npy, .npz, .mtx, .csv, .parquet,
    .metis, .graphml, or an edge list (.edges, .txt, .tsv) with lines "i j [weight]".
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


cli.add_command(cluster)
cli.add_command(propagate)
cli.add_command(plan)
cli.add_command(batch)
cli.add_command(convert)
cli.add_command(report)
cli.add_command(suggest)


@cli.command(short_help="Points, or a picture's pixels, to a graph.")
@click.argument("data")
@click.option("-o", "output", required=True, help="HDF5 file to write.")
@NEIGHBORS
@METRIC
@WEIGHTS
@SEED
@THREADS
@MEMORY
@QUIET
@JSON
def graph(data: str, output: str, quiet: bool, as_json: bool, **params: Any) -> None:
    """Join points with their nearest neighbours; print degree, components, recall.

    Of a picture, pixels with those around them and those that look alike; labels of pixels may then
    be an array (height, width), and `mustlink report` draws the segments.

    \b
      mustlink graph points.h5 -o graph.h5 --neighbors 20
      mustlink graph points.h5 -o graph.h5 --memory 2GB
      mustlink graph edges.tsv -o graph.h5         check and convert a graph
      mustlink graph photo.png -o photo.h5         pixels, row by row (.jpg, too)
      mustlink cluster graph.h5 -k 10 -o out.h5    then cluster it, many times
    """
    from mustlink_io.jobs.graph import run_graph
    from mustlink_io.terminal.progress import observing
    from mustlink_io.terminal.summary import emit, show_graph

    limits = {name: params.pop(name) for name in ("threads", "memory")}
    given = {name: value for name, value in params.items() if value is not None}
    with observing(quiet) as observer:
        result = run_graph(data, output, given, observer, **limits)
    emit(result, as_json, show_graph)


@cli.command(short_help="What is in a file.")
@click.argument("file")
@JSON
def info(file: str, as_json: bool) -> None:
    """List what is in FILE and, of results, how they were made and what is kept beside them.

    \b
      mustlink info data.h5
      mustlink info out.h5 --json | jq .parameters
    """
    from mustlink_io.hdf5 import work_folder
    from mustlink_io.jobs.info import describe
    from mustlink_io.terminal.summary import emit, show_info

    kept = work_folder.listing(file)
    there = Path(file).is_file() or not kept  # a run that was killed leaves its work only
    found = describe(file) if there else {"file": file, "bytes": 0, "entries": []}
    emit(found | kept, as_json, show_info)


@cli.command(short_help="Remove what runs kept for later.")
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
    from mustlink_io.terminal.summary import emit, show_clean

    emit({"cleaned": [work_folder.clean(one, stale) for one in outputs]}, as_json, show_clean)


@cli.command(short_help="How good labels are.")
@click.argument("labels")
@click.option("--truth", help="True classes, -1 unknown.")
@click.option("--constraints", help="Pairs to count as kept or broken.")
@click.option("--graph", "graph_file", help="Graph on which to measure the normalised cut.")
@JSON
def score(
    labels: str, truth: str | None, constraints: str | None, graph_file: str | None, as_json: bool
) -> None:
    """Compare the labels in OUT.h5 with the truth, constraints, or a graph.

    \b
      mustlink score out.h5 --truth data.h5:/labels
      mustlink score out.h5 --constraints pairs.csv --graph graph.h5 --json
    """
    from mustlink_io.jobs.score import score as compute
    from mustlink_io.terminal.summary import emit, show_score

    emit(compute(labels, truth, constraints, graph_file), as_json, show_score)


@cli.command(short_help="A photograph, cut along strokes.")
@click.option("-o", "out_dir", default="demo-out", show_default=True, help="Folder to write to.")
@QUIET
@JSON
def demo(out_dir: str, quiet: bool, as_json: bool) -> None:
    """Cut a photograph along strokes that ship with mustlink, with and without them."""
    from mustlink_io.jobs.demo import run as run_demo
    from mustlink_io.terminal.progress import observing
    from mustlink_io.terminal.summary import emit, show_demo

    with observing(quiet) as observer:
        result = run_demo(out_dir, observer)
    if as_json or not quiet:
        emit(result, as_json, show_demo)
