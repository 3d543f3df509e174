"""Options that several commands share, those of single methods, those that prepare columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from mustlink.preprocessing.request import IMPUTE, STANDARDIZE
from mustlink_io.jobs.methods import EQUAL, KINDS, SMOOTHED, Method

Callback = Callable[[click.Context, click.Parameter, Any], Any]
AT_LEAST_1 = click.IntRange(min=1)


# ------------------------------------------------------------------ what values mean


def memory_size(context: click.Context, parameter: click.Parameter, value: Any) -> int | None:
    """Bytes behind a size such as 4GB."""
    from mustlink.core.process_memory import parse_size

    return None if value is None else parse_size(value)


def _duration(context: click.Context, parameter: click.Parameter, value: Any) -> float | None:
    from mustlink.core.deadline import parse_duration

    return None if value is None else parse_duration(value)


def cluster_count(context: click.Context, parameter: click.Parameter, value: str) -> int | str:
    """A number of clusters, or auto."""
    if value == "auto":
        return value
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a whole number nor auto.") from None


def _number_or_file(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    try:
        return None if value is None else float(value)
    except ValueError:
        return value


def _number_or(*words: str) -> Callback:
    """Return a callback that takes a number or one of the words."""

    def convert(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        if value is None or value in words:
            return value
        try:
            number = float(value)
        except ValueError:
            listed = " or ".join(words)
            raise click.BadParameter(f"{value!r} is neither a number nor {listed}") from None
        whole = parameter.name in ("subspace", "new_edges") and number.is_integer()
        return int(number) if whole else number

    return convert


def numbers(what: str, *words: str, positive: bool = False) -> Callback:
    """Return a callback that takes a list of numbers, called `what` in errors, or a word."""

    def convert(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        if value is None or value in words:
            return value
        try:
            found = [float(word) for word in value.split(",")]
        except ValueError:
            found = []
        if not found or (positive and not all(0 < one < float("inf") for one in found)):
            no = f"neither {', '.join(words)} nor a" if words else "no"
            raise click.BadParameter(f"{value!r} is {no} list of {what}")
        return found

    return convert


def _kind_weights(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> dict[str, float] | None:
    if value is None:
        return None
    found = {}
    for word in value.split(","):
        kind, _, number = word.strip().partition("=")
        if kind in found:
            raise click.BadParameter(f"{kind} is given twice; give it one weight")
        try:
            found[kind] = float(number)
        except ValueError:
            found[kind] = -1.0
        if kind not in KINDS or not 0 <= found[kind] < float("inf"):
            raise click.BadParameter(
                f"{word.strip()!r} is no weight of a kind; write as must=2,labels=0.5, of "
                f"{', '.join(KINDS)}, and numbers of at least 0"
            )
    return found


def _weights_file(context: click.Context, parameter: click.Parameter, value: Any) -> str | None:
    """The name of a file; raises InputError for a kernel, which the option was of before."""
    if value is not None:
        from mustlink_io.formats.priors import refuse_kernel

        refuse_kernel(value)
    return value


def several(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options to a command, in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


# ------------------------------------------------------------------ of several commands

QUIET = click.option(
    "--quiet", is_flag=True, help="No progress and no notes on stderr, only warnings."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
THREADS = click.option("--threads", type=AT_LEAST_1, help="Threads; default all.")
SEED = click.option(
    "--seed", "random_state", type=click.IntRange(min=0), help="Same seed, same answer; default 0."
)
NEIGHBORS = click.option(
    "--neighbors", "n_neighbors", type=int, help="Of a point; default 15; srcp, e2cp: 20."
)
METRIC = click.option("--metric", type=click.Choice(["euclidean", "cosine"]))
EDGE_WEIGHTS = click.option(
    "--edge-weights",
    "weights",
    type=click.Choice(["local", "gaussian", "connectivity"]),
    help="Of graph edges; default local scaling.",
)
MEMORY = click.option(
    "--memory", callback=memory_size, help="As 4GB: the most that the process may take."
)
TIME = click.option(
    "--time",
    "time_limit",
    callback=_duration,
    help="As 20s, 5min or 1h: what is left out then is told, and the best answer so far written.",
)
WORKERS = click.option(
    "--workers",
    type=AT_LEAST_1,
    help="Neighbours by so many processes that Dask begins here; needs mustlink[dask].",
)
SCHEDULER = click.option(
    "--scheduler",
    metavar="tcp://HOST:PORT",
    help="Neighbours by the workers of a Dask scheduler, which see the files at the same path.",
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
WEIGHTS = click.option(
    "--weights",
    "sample_weight",
    metavar="FILE[:DATASET]",
    callback=_weights_file,
    help="How often every row counts, a number >= 0 each: HDF5, .npy, .csv[:COLUMN] (the column "
    "may be one of DATA, which then is no coordinate).",
)
BELIEF: dict[str, Any] = {"metavar": "NUMBER|FILE[:DATASET]", "callback": _number_or_file}
BELIEFS = click.option(
    "--beliefs",
    metavar="KIND=NUMBER,...",
    callback=_kind_weights,
    help="What must-links, cannot-links, pairs of labels and of a second graph weigh against one "
    "another: must=2,cannot=1,labels=0.5,graph=0.1; default 1 each.",
)
INTO = (
    click.option(
        "-o",
        "output",
        help="HDF5 file to write; of data in .h5ad also a .h5ad: a copy with the result in it.",
    ),
    IN_PLACE,
    KEY,
    OVERWRITE,
)
OF_GRAPH = (
    VIEW,
    click.option(
        "--view-weights",
        "graph_weights",
        metavar="auto|equal|LIST",
        callback=numbers("numbers, such as 0.7,0.3", "auto", "equal"),
        help="Of DATA and of every --view, such as 0.7,0.3. Default auto: as well as each ranks "
        "must-links above cannot-links, without constraints the others' edges above random pairs.",
    ),
    AS,
    click.option(
        "--affinity",
        type=click.Choice(["knn", "precomputed", "rbf"]),
        help="Default knn for points, precomputed for a graph.",
    ),
    NEIGHBORS,
    METRIC,
    EDGE_WEIGHTS,
)
ITERATION = (
    click.option(
        "--tol",
        type=float,
        help="Residual to reach; default by the number of nodes. srcp, e2cp: accuracy of what is "
        "spread; default 0.001.",
    ),
    click.option("--max-iter", type=AT_LEAST_1, help="Most iterations of the solver."),
)
OF_RUN = (
    click.option(
        "--ranks",
        type=AT_LEAST_1,
        metavar="P",
        help="Divide the nodes of a graph in HDF5 among P ranks of MPI; see docs/scale.md.",
    ),
    SEED,
    THREADS,
    MEMORY,
    TIME,
    WORKERS,
    SCHEDULER,
    click.option(
        "--resume",
        is_flag=True,
        help="Keep what stages found in OUT.h5.work after the run, for runs with other parameters. "
        "Work of 10 s or more is kept anyway; a run that was killed always goes on from there.",
    ),
    click.option("--fresh", is_flag=True, help="Ignore what earlier runs left there."),
    click.option(
        "--no-model",
        is_flag=True,
        help="Leave out of OUT.h5 the graph and its smooth vectors, which mustlink.load and later "
        "commands on it need.",
    ),
    QUIET,
    JSON,
)


# ------------------------------------------------------------------ of single methods


def _own(names: str, kind: Any, help: str, name: str | None = None) -> Any:
    """An option of some methods: a flag (bool), a choice of words, a callback or a type."""
    how: dict[str, Any]
    if kind is bool:
        how = {"is_flag": True, "default": None}
    elif isinstance(kind, tuple):
        how = {"type": click.Choice(kind)}
    elif callable(kind) and not isinstance(kind, type | click.ParamType):
        how = {"callback": kind}
    else:
        how = {"type": kind}
    return click.option(names, *([] if name is None else [name]), help=help, **how)


_SHARES = numbers("shares above 0, such as 0.5,0.3,0.2", EQUAL, SMOOTHED, positive=True)
_BETAS = ("auto", "paper", "paper-max", "tight", "search", "wide", "wide-printed")
_ASSIGN = ("auto", "sign", "split", "kmeans", "sign-kmeans", "cost-weighted", "sphere")
_INIT = ("auto", "labels", "k-means++", "spectral", "relaxed", "neighborhoods")
CLUSTER_OWN = (
    _own("--beta", _number_or(*_BETAS), f"csp: {', '.join(_BETAS)}, or a fraction below 1."),
    _own("--balanced/--unbalanced", bool, "csp, sssc: must-links as a whole weigh as much as "
         "cannot-links, or all pairs alike; without either csp takes them alike, sssc in "
         "the full problem not."),
    _own("--n-vectors", AT_LEAST_1, "csp: feasible vectors that are clustered; default K - 1."),
    _own("--gamma", _number_or("auto", "search"), "sssc: auto, search, or below 1."),
    _own("--must-weight", float, "sssc: of must-links; default 1."),
    _own("--cannot-weight", float, "sssc: of cannot-links; default 1."),
    _own("--normalized", bool, "sl: with the normalised Laplacian."),
    _own("--noise", _number_or("auto"), "ap: auto, or how loose pairs are."),
    _own("--prior", ("laplacian", "affinity"),
         "ap: covariance before the pairs; default laplacian."),
    _own("--mu", float, "srcp: how fast pairs fade with distance; default 0.2. fast-ge: shift of "
         "the pencil; default 0.001."),
    _own("--alpha", float, "e2cp: in (0, 1), how far pairs spread; default 0.8."),
    _own("--new-edges", _number_or("all"), "srcp, e2cp: per node, where pairs that were spread say "
         "must-link, or all of them; default 20."),
    _own("--normalize/--no-normalize", bool, "srcp, e2cp: scale what was spread to 1; default "
         "yes."),
    _own("--power", _number_or("auto"), "srcp, e2cp: of what was spread; auto, or in (0, 1]: below "
         "1, far pairs count more."),
    _own("--eigen-solver", ("auto", "dense", "lobpcg", "shift-invert"),
         "srcp, e2cp: for the adjusted graph's cut."),
    _own("--eigen-tol", float, "srcp, e2cp: residual of the adjusted graph's cut."),
    _own("--subspace", _number_or("auto", "exact"), "csp, sssc, sl, ap, fast-ge: auto, exact, or a "
         "dimension."),
    _own("--assign", _ASSIGN, "From embedding to clusters; not all ways for every method."),
    _own("--init", _INIT, "ncut, csp, sssc, sl, ap, fast-ge: k-means starts at the labels, "
         "k-means++, auto. sskk: auto, spectral, relaxed, neighborhoods."),
    _own("--penalty", _number_or("auto"), "sskk: of a broken constraint."),
    _own("--volume", ("links", "graph"), "sskk: what degrees count."),
    _own("--sigma", _number_or("auto"), "sskk: diagonal shift; csc-gfhf: width of the "
         "similarity."),
    _own("--variant", ("auto", "luxburg", "ng", "shi-malik"),
         "ncut: default luxburg; srcp, e2cp: default auto."),
    _own("--regularization", _number_or("auto"), "ncut, csp, disim, sssc, sl, ap, fast-ge: added "
         "to every degree, in units of the mean one; auto, 0, or such as 0.3."),
    _own("--class-mass/--no-class-mass", bool, "csc-gfhf: scale every class to its share of the "
         "labels; default yes."),
    _own("--class-shares", _SHARES, "csc-gfhf: equal, or as 0.5,0.3,0.2: to these shares "
         "instead."),
    _own("--kernel-tol", float, "csc-gfhf: share of the similarity left out."),
    _own("--max-rank", AT_LEAST_1, "csc-gfhf: most columns; default 200."),
)  # fmt: skip

PROPAGATE_OWN = (
    _own("--center", ("auto", "rows", "degrees"), "poisson: what has mean 0, which decides between "
         "classes. Default auto: rows where the graph is one of points, degrees (Calder et al.) "
         "where it was given."),
    _own("--class-mass", bool, "gfhf, llgc, lelp, gwem, cluster-kernel, lnp: scale every class to "
         "its share of the labels; for few labels, equally many a class."),
    _own("--class-shares", _SHARES, "As 0.5,0.3,0.2, in the order of the classes, or equal, or "
         "smoothed (the labels' shares, ten labels added to every class): to these shares instead; "
         "poisson too. For few labels, not equally many a class."),
    _own("--alpha", _number_or("auto"), "llgc, lnp: in (0, 1), how far labels travel; default "
         "0.99, llgc down to 0.9 where labels are many, and on a graph what labels held out "
         "choose. ncut, and lelp, llelp, ltsalp with --orthogonal: weight of the labels."),
    _own("--refine/--no-refine", bool, "Go on to what a block model of the network finds likelier, "
         "labels held; default no, for llgc on a graph what labels held out choose."),
    _own("--gamma", float, "tik-reg: weight of smoothness; default 0.001."),
    _own("--normalized", bool, "green: of the normalised Laplacian."),
    _own("--orthogonal", bool, "lelp, llelp, ltsalp: balanced, with soft labels (LELPC, LLELPC, "
         "LTSALPC)."),
    _own("--steps", AT_LEAST_1, "gwem: of the walk; default 20.", "n_steps"),
    _own("--variant", str, "gwem: em (default), fixed-point; lnp: iteration (default), minimizer."),
    _own("--em-steps", AT_LEAST_1, "gwem: most steps of EM; default 10."),
    _own("--components", AT_LEAST_1, "cluster-kernel: eigenvectors, default one a class; ltsalp: "
         "of a tangent space, default 2.", "n_components"),
    _own("--rows", ("sphere", "plain"), "cluster-kernel: length of the eigenvectors' rows."),
    _own("--reg", float, "lnp, llelp: ridge of the local fits; default 0.001."),
)  # fmt: skip


def method_help(methods: Mapping[str, Method]) -> str:
    """Every method with what it is."""
    return "; ".join(f"{name}: {method.summary}" for name, method in methods.items()) + "."


# ------------------------------------------------------------------ that prepare columns

# What an option stands for without a value, and the words that it takes from behind a blank.
_USUAL = {"--standardize": STANDARDIZE, "--impute": IMPUTE}


class PreparingCommand(click.Command):
    """A command with `--standardize` and `--impute`, alone or as `--standardize=robust`.

    The word behind one of them is its value only if it is one that it knows: in
    `--standardize points.h5` the file is DATA.
    """

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Join options and their values before click reads them."""
        return super().parse_args(context, _joined(args))


def _joined(args: list[str]) -> list[str]:
    found: list[str] = []
    words = iter(range(len(args)))
    for at in words:
        word, behind = args[at], args[at + 1] if at + 1 < len(args) else ""
        if word == "--":
            return [*found, *args[at:]]
        if word not in _USUAL:
            found.append(word)
            continue
        if behind in _USUAL[word]:
            next(words)
        else:
            behind = _USUAL[word][0]
        found.append(f"{word}={behind}")
    return found


def _columns(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[str | int, ...] | None:
    """Names or numbers behind lists such as 1,2,service; those of one option add up."""
    if not value:
        return None
    words = [word.strip() for one in value for word in one.split(",")]
    if not all(words):
        shown = next(one for one in value if not all(map(str.strip, one.split(","))))
        raise click.BadParameter(f"{shown!r} is no list of columns, such as 1,2 or port,service")
    words = list(dict.fromkeys(words))
    return tuple(int(word) if word.isdecimal() else word for word in words)


def _option(flag: str, **given: Any) -> Any:
    usual = _USUAL[flag][0]
    return click.option(flag, is_flag=False, flag_value=usual, **given)


COLUMN_STEPS = (
    click.option("--drop", callback=_columns, multiple=True, metavar="COLUMNS",
        help="As id,3: leave out these columns (names, or numbers from 0), whatever is in them."),
    _option("--impute", type=click.Choice(IMPUTE),
        help="Fill missing values (NaN, empty cells) by column; default mean, of one-hot columns "
        "the most frequent value."),
    click.option("--one-hot", callback=_columns, multiple=True, metavar="COLUMNS",
        help="As port,2: one column of 0 and 1 for every value of these, which may be text."),
    _option("--standardize", type=click.Choice(STANDARDIZE),
        help="At last: columns less their mean, by their standard deviation; robust: less their "
        "median, by the distance of their quartiles."),
)  # fmt: skip
PREPARING = (
    *COLUMN_STEPS,
    click.option("--drop-missing", is_flag=True, default=None,
        help="Or leave out rows with missing values; their label is -1."),
)  # fmt: skip


# ------------------------------------------------------------------ what commands ask


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


def program_began() -> float | None:
    """When the process of this command began, if it is one of its own; by `time.perf_counter`."""
    found: float | None = click.get_current_context().find_root().obj
    return found
