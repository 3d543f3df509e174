"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from mustlink.errors import InputError


def output_of(source: str, output: str | None, in_place: bool) -> str:
    """The file to write: `output`, or with `in_place` the source itself; raises UsageError."""
    from mustlink_io.hdf5.file_names import parse

    if in_place and output is None:
        return str(parse(source).path)
    if in_place:
        raise click.UsageError("--in-place writes to the data file; leave out -o")
    if output is None:
        raise click.UsageError("Missing option '-o'.")
    return output


def memory_size(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> int | None:
    """Bytes behind a size such as 4GB."""
    from mustlink.cost.process_memory import parse_size

    return None if value is None else parse_size(value)


def duration(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Seconds behind a duration such as 5min."""
    from mustlink.deadline import parse_duration

    return None if value is None else parse_duration(value)


def cluster_count(context: click.Context, parameter: click.Parameter, value: str) -> int | str:
    """A number of clusters, or auto."""
    if value == "auto":
        return value
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a whole number nor auto.") from None


def number_or_file(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> float | str | None:
    """A number, or the name of a file."""
    try:
        return None if value is None else float(value)
    except ValueError:
        return value


def program_began() -> float | None:
    """When the process of this command began, if it is one of its own; by `time.perf_counter`."""
    found: float | None = click.get_current_context().find_root().obj
    return found


QUIET = click.option(
    "--quiet", is_flag=True, help="No progress and no notes on stderr, only warnings."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
THREADS = click.option("--threads", type=click.IntRange(min=1), help="Threads; default all.")
SEED = click.option(
    "--seed", "random_state", type=click.IntRange(min=0), help="Same seed, same answer; default 0."
)
NEIGHBORS = click.option(
    "--neighbors", "n_neighbors", type=int, help="Of a point; default 15; srcp, e2cp: 20."
)
MEMORY = click.option(
    "--memory",
    callback=memory_size,
    help="As 4GB: the most that the process may take.",
)
TIME = click.option(
    "--time",
    "time_limit",
    callback=duration,
    help="As 20s, 5min or 1h: what is left out then is told, and the best answer so far written.",
)
WORKERS = click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Neighbours by so many processes that Dask begins here; needs mustlink[dask].",
)
SCHEDULER = click.option(
    "--scheduler",
    metavar="tcp://HOST:PORT",
    help="Neighbours by the workers of a Dask scheduler, which see the files at the same path.",
)
RANKS = click.option(
    "--ranks",
    type=click.IntRange(min=1),
    metavar="P",
    help="Divide the nodes of a graph in HDF5 among P ranks of MPI; see docs/scale.md.",
)
RESUME = click.option(
    "--resume",
    is_flag=True,
    help="Keep what stages found in OUT.h5.work after the run, for runs with other parameters. "
    "Work of 10 s or more is kept anyway; a run that was killed always goes on from there.",
)
FRESH = click.option("--fresh", is_flag=True, help="Ignore what earlier runs left there.")
NO_MODEL = click.option(
    "--no-model",
    is_flag=True,
    help="Leave out of OUT.h5 the graph and its smooth vectors, which mustlink.load and later "
    "commands on it need.",
)
OUTPUT = click.option(
    "-o",
    "output",
    help="HDF5 file to write; of data in .h5ad also a .h5ad: a copy with the result in it.",
)
KEY = click.option(
    "--key", default="mustlink", help="Name of the result in a .h5ad or .graphml; default mustlink."
)
IN_PLACE = click.option(
    "--in-place", is_flag=True, help="Put the result into the data file itself, a .h5ad."
)
OVERWRITE = click.option(
    "--overwrite", is_flag=True, help="Replace what the file has under that name already."
)
AFFINITY = click.option(
    "--affinity",
    type=click.Choice(["knn", "precomputed", "rbf"]),
    help="Default knn for points, precomputed for a graph.",
)
TOL = click.option(
    "--tol",
    type=float,
    help="Residual to reach; default by the number of nodes. srcp, e2cp: accuracy of what is "
    "spread; default 0.001.",
)
MAX_ITER = click.option(
    "--max-iter", type=click.IntRange(min=1), help="Most iterations of the solver."
)
AS = click.option(
    "--as",
    "read_as",
    type=click.Choice(["points", "bipartite"]),
    help="What a matrix is: rows that are points, or rows and columns that are nodes, joined by "
    "its entries (column j of n rows is node n + j; labels may be of one side alone). Of an edge "
    "list: first and second ends. Default: square sparse is a graph, else points.",
)
VIEW = click.option(
    "--view",
    "views",
    multiple=True,
    metavar="FILE[:DATASET]",
    help="Another graph of the same nodes, in the same order, as mustlink graph makes of another "
    "table; may be repeated. Their sum is taken, each divided by its volume.",
)
METRIC = click.option("--metric", type=click.Choice(["euclidean", "cosine"]))


def weights_file(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """The name of a file; raises InputError for a kernel, which the option was of before."""
    if value is not None:
        from mustlink_io.formats.sample_weights import refuse_kernel

        refuse_kernel(value)
    return value


def view_weights(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> list[float] | str | None:
    """Numbers behind a list such as 0.7,0.3; the words auto and equal stay."""
    if value is None or value in ("auto", "equal"):
        return value
    try:
        return [float(word) for word in value.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is neither auto, equal nor a list of numbers, such as 0.7,0.3"
        ) from None


VIEW_WEIGHTS = click.option(
    "--view-weights",
    "graph_weights",
    metavar="auto|equal|LIST",
    callback=view_weights,
    help="Of DATA and of every --view, such as 0.7,0.3. Default auto: as well as each ranks "
    "must-links above cannot-links, without constraints the others' edges above random pairs.",
)
WEIGHTS = click.option(
    "--weights",
    "sample_weight",
    metavar="FILE[:DATASET]",
    callback=weights_file,
    help="How often every row counts, a number >= 0 each: HDF5, .npy, .csv[:COLUMN] (the column "
    "may be one of DATA, which then is no coordinate).",
)
EDGE_WEIGHTS = click.option(
    "--edge-weights",
    "weights",
    type=click.Choice(["local", "gaussian", "connectivity"]),
    help="Of graph edges; default local scaling.",
)


def several(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options to a command, in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def check_no_workers(where: tuple[int | None, str | None]) -> None:
    """Raise InputError for workers, or a scheduler of some, beside ranks."""
    if any(where):
        raise InputError(
            "--ranks: takes a graph, whose neighbours are known; leave out --workers "
            "and --scheduler, and give them to mustlink graph"
        )
