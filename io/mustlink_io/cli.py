"""The `mustlink` command: arguments, exit codes, and where words go.

Results go to stdout, progress to stderr. Bad input is one line and exit code 2, Ctrl-C is 130.
Heavy modules are imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import click

from mustlink.errors import InputError
from mustlink_io.methods import METHODS
from mustlink_io.options import (
    JSON,
    METRIC,
    NEIGHBORS,
    QUIET,
    SEED,
    THREADS,
    WEIGHTS,
    memory_size,
    own_options,
)

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
    line = " ".join(words.split())
    sys.stderr.write(f"mustlink: {line}\n")
    return BAD_INPUT


def _emit(result: dict[str, Any], as_json: bool, show: Callable[[Any], None]) -> None:
    """Print a result as one JSON object or for a person."""
    if as_json:
        from mustlink_io.records import to_json

        click.echo(to_json(result))
    else:
        show(result)


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
    graph beside them; clusters out.

    \b
      mustlink demo                                     a photograph, cut along strokes
      mustlink info data.h5                             what is in a file
      mustlink cluster data.h5 -k 10 -o out.h5          points or graph to clusters
      mustlink cluster data.h5:/points -k 10 --labels few.csv -o out.h5
      mustlink score out.h5 --truth data.h5:/labels     how good they are

    Data: FILE.h5 or FILE.h5:DATASET, .h5ad, .npy, .npz, .mtx, .csv, or an edge list
    (.edges, .txt, .tsv) with lines "i j [weight]".
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cli.command(short_help="Points or a graph to clusters.")
@click.argument("data")
@click.option("-k", "n_clusters", type=int, required=True, help="Number of clusters.")
@click.option(
    "-m",
    "method",
    type=click.Choice(list(METHODS)),
    help="; ".join(f"{name}: {method.summary}" for name, method in METHODS.items())
    + ". Default: csp with side information, else ncut.",
)
@click.option("-o", "output", required=True, help="HDF5 file to write.")
@click.option("--labels", help="Known labels, -1 unknown: H5[:DATASET], .npy, .csv, .txt.")
@click.option("--constraints", help="CSV with header i,j,belief; H5:GROUP; or a second graph.")
@click.option("--strict", is_flag=True, help="Contradictory constraints are an error.")
@own_options
@click.option(
    "--affinity",
    type=click.Choice(["knn", "precomputed", "rbf"]),
    help="Default knn for points, precomputed for a graph.",
)
@NEIGHBORS
@METRIC
@WEIGHTS
@click.option(
    "--solver",
    type=click.Choice(["auto", "dense", "lobpcg", "shift-invert", "lanczos"]),
    help="Of the eigenproblem.",
)
@click.option("--tol", type=float, help="Residual to reach; default by the number of nodes.")
@click.option("--max-iter", type=click.IntRange(min=1), help="Most iterations of the solver.")
@click.option("--isolated", type=click.Choice(["drop", "assign"]), help="Drop: label -1.")
@SEED
@THREADS
@click.option(
    "--memory", callback=memory_size, help="As 4GB: refused if surely too small; excess is told."
)
@QUIET
@JSON
def cluster(
    data: str,
    n_clusters: int,
    method: str | None,
    output: str,
    labels: str | None,
    constraints: str | None,
    strict: bool,
    threads: int | None,
    memory: int | None,
    quiet: bool,
    as_json: bool,
    **params: Any,
) -> None:
    """Cluster DATA into K clusters; OUT.h5 gets /labels, /embedding, /report.

    \b
      mustlink cluster points.h5:/points -k 10 -o out.h5
      mustlink cluster points.h5 -k 10 --labels few.csv -o out.h5
      mustlink cluster graph.mtx -k 5 -m csp --constraints pairs.csv -o out.h5
      mustlink cluster points.npy -k 8 --json --quiet -o out.h5 | jq .sizes

    \b
    few.csv      one label a line, -1 unknown; or the header node,label
    pairs.csv    i,j,belief     belief > 0: must-link, < 0: cannot-link;
                 0,17,1         nodes are numbered from 0
                 0,23,-1
    """
    from mustlink_io.jobs import ClusterJob, run_cluster
    from mustlink_io.progress import observing
    from mustlink_io.summary import show_cluster

    job = ClusterJob(
        data=data,
        output=output,
        n_clusters=n_clusters,
        method=method or ("csp" if labels or constraints else "ncut"),
        labels=labels,
        constraints=constraints,
        params={name: value for name, value in params.items() if value is not None},
        strict=strict,
        threads=threads,
        memory=memory,
    )
    with observing(quiet) as observer:
        result = run_cluster(job, observer)
    _emit(result, as_json, show_cluster)


@cli.command(short_help="Points to a neighbour graph.")
@click.argument("data")
@click.option("-o", "output", required=True, help="HDF5 file to write.")
@NEIGHBORS
@METRIC
@WEIGHTS
@SEED
@THREADS
@QUIET
@JSON
def graph(
    data: str, output: str, threads: int | None, quiet: bool, as_json: bool, **params: Any
) -> None:
    """Join points with their nearest neighbours; print degree, components, recall.

    \b
      mustlink graph points.h5 -o graph.h5 --neighbors 20
      mustlink graph edges.tsv -o graph.h5         check and convert a graph
      mustlink cluster graph.h5 -k 10 -o out.h5    then cluster it, many times
    """
    from mustlink_io.graphs import run_graph
    from mustlink_io.progress import observing
    from mustlink_io.summary import show_graph

    given = {name: value for name, value in params.items() if value is not None}
    with observing(quiet) as observer:
        result = run_graph(data, output, given, observer, threads=threads)
    _emit(result, as_json, show_graph)


@cli.command(short_help="What is in a file.")
@click.argument("file")
@JSON
def info(file: str, as_json: bool) -> None:
    """List what is in FILE and, of results, how they were made.

    \b
      mustlink info data.h5
      mustlink info out.h5 --json | jq .parameters
    """
    from mustlink_io.contents import describe
    from mustlink_io.summary import show_info

    _emit(describe(file), as_json, show_info)


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
    from mustlink_io.compare import score as compute
    from mustlink_io.summary import show_score

    _emit(compute(labels, truth, constraints, graph_file), as_json, show_score)


@cli.command(short_help="A photograph, cut along strokes.")
@click.option("-o", "out_dir", default="demo-out", show_default=True, help="Folder to write to.")
@QUIET
@JSON
def demo(out_dir: str, quiet: bool, as_json: bool) -> None:
    """Cut a photograph along strokes that ship with mustlink, with and without them."""
    from mustlink_io.demo import run as run_demo
    from mustlink_io.progress import observing

    with observing(quiet) as observer:
        run_demo(out_dir, observer, as_json, quiet)
