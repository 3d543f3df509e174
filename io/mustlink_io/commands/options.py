"""Options that several commands share, those made from parameters of the engine's estimators."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import click

from mustlink.core.metrics import METRICS
from mustlink.core.state import unbound
from mustlink.errors import InputError, spelt_alike
from mustlink.preprocessing.request import IMPUTE, STANDARDIZE
from mustlink_io.jobs.methods import EQUAL, KINDS, SMOOTHED, Method, flag, opposite

Callback = Callable[[click.Context, click.Parameter, Any], Any]
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Name(click.Choice):  # type: ignore[type-arg]
    """One of some names; another is told with the one that is spelt alike."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The name; raises click.BadParameter."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            near = spelt_alike(str(value), self.choices)
            if near is None:
                raise
            self.fail(f"{value!r} is none; did you mean {near}?", param, ctx)


AT_LEAST_1 = click.IntRange(min=1)


# ------------------------------------------------------------------ what values mean


def memory_size(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Bytes behind a size such as 4GB, or the word auto or none."""
    from mustlink.core.resources import named_memory

    found = None if value is None else named_memory(value)
    return value if found is None or found.limit is None else found.limit


def _duration(context: click.Context, parameter: click.Parameter, value: Any) -> float | None:
    from mustlink.core.observe import parse_duration

    return None if value is None else parse_duration(value)


def _count_or_auto(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> int | str | None:
    if value is None or value == "auto":
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


def clusters(help: str, **how: Any) -> Decorator:
    """The option of the number of clusters, or auto."""
    how = {"metavar": "K|auto", "callback": _count_or_auto, "help": help, **how}
    return click.option("-k", "n_clusters", **how)


def file_option(flag: str, *name: str, help: str, **how: Any) -> Decorator:
    """An option that names a file, or a dataset in it."""
    return click.option(flag, *name, help=help, **{"metavar": "FILE[:DATASET]", **how})


def several(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options to a command, in this order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


# ------------------------------------------------------------------ of several commands

QUIET = click.option(
    "--quiet",
    is_flag=True,
    help="No progress and no notes, only warnings; of a fit no summary, but for --json.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
THREADS = click.option("--threads", type=AT_LEAST_1, help="Threads; default all.")
SEED = click.option(
    "--seed", "random_state", type=click.IntRange(min=0), help="Same seed, same answer; default 0."
)
NEIGHBORS = click.option(
    "--neighbors",
    "n_neighbors",
    type=int,
    help="Neighbours of a point; default 15; srcp, e2cp: 20.",
)
REPRESENTATIVES = click.option(
    "--representatives",
    metavar="P|auto",
    callback=_count_or_auto,
    help="So many points stand for all, each a mixture of the nearest five; for many rows, and for "
    "noise. auto: where a graph of all rows does not fit memory or time, or evidence is for them.",
)
METRIC = click.option(
    "--metric",
    metavar="NAME",
    help=f"Distance of points: {', '.join(METRICS)} (latitude and longitude in degrees, distances "
    "in km), or another name of pynndescent. Default euclidean, of sparse rows "
    "cosine; these take dot, euclidean, hellinger and jaccard, too, else they become dense.",
)
EDGE_WEIGHTS = click.option(
    "--edge-weights",
    "weights",
    type=click.Choice(["local", "gaussian", "connectivity"]),
    help="Weights of graph edges; default local scaling.",
)
MEMORY = click.option(
    "--memory",
    callback=memory_size,
    default="auto",
    help="As 4GB: the most that the process may take. Default auto: what there is here (limits of "
    "cgroups, Slurm, LSF and the process, 4/5 of the machine's available memory), where a run "
    "could need more; none: no limit.",
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
    help="Neighbours, or passes of --representatives, by so many processes that Dask begins here; "
    "needs mustlink[dask].",
)
SCHEDULER = click.option(
    "--scheduler",
    metavar="tcp://HOST:PORT",
    help="Neighbours, or passes of --representatives, by the workers of a Dask scheduler, which "
    "see the files at the same path.",
)
KEY = click.option(
    "--key", default="mustlink", help="Name of the result in a .h5ad or .graphml; default mustlink."
)
IN_PLACE = click.option(
    "--in-place", is_flag=True, help="Put the result into the data file itself, a .h5ad."
)
OVERWRITE = click.option(
    "--overwrite",
    is_flag=True,
    help="Replace what the file has under that name already, or a result with answers of a person.",
)
AS = click.option(
    "--as",
    "read_as",
    type=click.Choice(["points", "bipartite"]),
    help="What a matrix is: rows that are points, or rows and columns that are nodes, joined by "
    "its entries (column j of n rows is node n + j; labels may be of one side alone). Of an edge "
    "list: first and second ends. Default: square sparse is a graph, else points.",
)
VIEW = file_option(
    "--view",
    "views",
    multiple=True,
    metavar="[NAME=]FILE[:PART]",
    help="Other columns of the same rows, NAME=FILE with any name, of which neighbours are "
    "searched: points, sparse rows, a table of numbers and words, texts (FILE.csv:COLUMN, a "
    "key of .jsonl, a folder). Or another graph of the same nodes. In the same order, or with the "
    "same names; may be repeated. The graphs are added up, each divided by its volume.",
)
TEXT = click.option(
    "--text",
    metavar="COLUMN",
    help="DATA are texts: a column of a .csv or .parquet, a key of a .jsonl, or a folder of text "
    "files in UTF-8 (then any word). Rows are tf-idf, which stay sparse, by cosine.",
)
ID = click.option(
    "--id",
    "ids",
    metavar="COLUMN",
    help="The column that names the rows of a table, no coordinate: labels, pairs and answers may "
    "then call rows by it, and results do. Default: `node`, `name` or `index` as first column, or "
    "the first one if it is text and each cell another.",
)
WEIGHTS = file_option(
    "--weights",
    "sample_weight",
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
    TEXT,
    ID,
    click.option(
        "--affinity",
        type=click.Choice(["auto", "knn", "precomputed", "precomputed_nearest_neighbors", "rbf"]),
        help="Default auto: knn for points, precomputed for a graph. The longest name: the sparse "
        "matrix has distances to neighbours, as scikit-learn makes it, and not weights.",
    ),
    NEIGHBORS,
    METRIC,
    EDGE_WEIGHTS,
    REPRESENTATIVES,
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

_SHARES = numbers("shares above 0, such as 0.5,0.3,0.2", EQUAL, SMOOTHED, positive=True)
# What is no parameter of an estimator, or is checked with the graph only.
_BY_HAND: dict[str, dict[str, Any]] = {
    "class_shares": {
        "callback": _SHARES,
        "help": "Shares to which --class-mass scales: as 0.5,0.3,0.2 in the order of the classes, "
        "or equal, or smoothed, which adds ten labels to every class first.",
    },
    "isolated": {
        "type": click.Choice(["drop", "assign"]),
        "help": "Nodes without an edge: drop, the default, gives them label -1.",
    },
}


class Value(click.ParamType):  # type: ignore[type-arg]
    """A number, or where it is `worded` a word; whether it makes sense the estimator checks."""

    def __init__(self, number: type, worded: bool) -> None:
        self.number, self.worded = number, worded
        self.name = {int: "INTEGER", float: "NUMBER"}[number] + ("|WORD" if worded else "")

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Any:
        """The number, else the word."""
        try:
            return self.number(value)
        except ValueError:
            if not self.worded:
                self.fail(f"{value!r} is no {self.name.lower()}", parameter, context)
            return value


def _option_of(name: str, methods: Mapping[str, Method]) -> click.Option:
    """The option of a parameter, by annotations, defaults, docstrings and checks of estimators."""
    if name in _BY_HAND:
        return click.Option([flag(name), name], **_BY_HAND[name])
    kinds, words = set[str](), dict[str, None]()
    texts: dict[str, list[str]] = {}  # methods by what is said of them
    for key, method in methods.items():
        if name not in method.options:
            continue
        parameter = inspect.signature(method.kind).parameters[name]
        kinds |= set(str(parameter.annotation).split(" | "))
        usual, allowed = parameter.default, _allowed(method.kind, name)
        if allowed.startswith("choose "):
            words |= dict.fromkeys(allowed.removeprefix("choose ").split(" | "))
        if isinstance(usual, bool):
            usual, allowed = "yes" if usual else "no", ""
        allowed = re.sub(r"^(choose|give) (an integer$)?", "", allowed)
        usual = "" if usual is None else f"default {usual}"
        parts = (first_clause(method.kind, name), allowed.replace('"', ""), usual)
        texts.setdefault("; ".join(filter(None, parts)), []).append(key)
    keys_of = {text: ", ".join(keys) for text, keys in texts.items()}
    text = " ".join(f"{keys}: {text}." if text else f"{keys}." for text, keys in keys_of.items())
    if name == "class_mass" or "bool" in kinds:
        spelt = f"{flag(name)}/{opposite(flag(name))}"
        return click.Option([spelt, name], is_flag=True, default=None, help=text)
    number = float if "float" in kinds else int if "int" in kinds else None
    what = Value(number, "str" in kinds) if number else click.Choice([*words])
    return click.Option([flag(name), name], type=what, help=text)


def _allowed(kind: Any, name: str) -> str:
    """What the check of an estimator tells to do about a word that it does not know."""
    try:
        unbound(kind, **{name: "?"})._check()
    except ValueError as error:
        return str(error).rpartition("; ")[2] if isinstance(error, InputError) else ""
    return ""


# A paragraph, sentence or item of a list that begins with names, maybe with a symbol or a bound.
_POINT = re.compile(r"(?:(?<=[.;])\s+|\n\n|(?:^|\s)\* )(?=`)")
_HEAD = re.compile(
    r"((?:`\w+(?:=True)?`(?: \([^)]*\))?(?:, | and )?)+)"
    r"(?: \w(?= |:))?(?: in \([^)]*\)| >=? \d)?(?::| is)? "
)
_ENDS = re.compile(r"(?<!eq)(?<!Alg)\.(?= |$)|;")


def first_clause(kind: type, name: str) -> str:
    """What the docstring of an estimator, or of a base, says first of a parameter."""
    for base in kind.__mro__:
        for point in _POINT.split(inspect.cleandoc(vars(base).get("__doc__") or "")):
            text = " ".join(point.split())
            head = _HEAD.match(text)
            if head is None or name not in re.findall(r"`(\w+)", head.group(1)):
                continue
            sentence = _ENDS.split(text[head.end() :], maxsplit=1)[0]
            clause = re.split(r":| \(", sentence, maxsplit=1)[0]
            if len(clause) > 2 and not re.search(r"^\"|\b(see|as (in|of)) `", sentence):
                return clause.replace("`", "").replace('"', "")
    return ""


def with_methods(
    own: list[click.Parameter], methods: Mapping[str, Method]
) -> list[click.Parameter]:
    """The command's own parameters, with those of its methods before the weights of rows."""
    at = next(at for at, one in enumerate(own) if one.name == "sample_weight")
    names = dict.fromkeys(name for one in methods.values() for name in sorted(one.options))
    besides = {str(one.name) for one in own}
    made = [_option_of(name, methods) for name in names if name not in besides]
    return [*own[:at], *made, *own[at:]]


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


class FitCommand(PreparingCommand):
    """A command that fits, whose parameters are completed when they are first needed.

    Some are made from the engine, which takes seconds to import.
    """

    def __init__(
        self,
        *arguments: Any,
        completed: Callable[[list[click.Parameter]], list[click.Parameter]],
        **given: Any,
    ) -> None:
        self._completed: Any = completed
        self._params: list[click.Parameter] = []
        super().__init__(*arguments, **given)

    @property
    def params(self) -> list[click.Parameter]:
        """All of them."""
        if self._completed is not None:
            completed, self._completed = self._completed, None
            self._params = completed(self._params)
        return self._params

    @params.setter
    def params(self, own: list[click.Parameter]) -> None:
        self._params = own


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


DROP = click.option("--drop", callback=_columns, multiple=True, metavar="COLUMNS",
    help="As id,3: leave out these columns (names, or numbers from 0), whatever is in them.",
)  # fmt: skip
COLUMN_STEPS = (
    DROP,
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
