"""How progress and results look on a terminal: bars, lines, facts and tables, numbers for a person.

Notes of a run are not repeated in a summary: they went to stderr, and `mustlink info` shows them.
rich is imported when something is drawn, so that `--help` answers at once.
"""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from mustlink.core.observe import Observer

if TYPE_CHECKING:
    from rich.console import Console

    from mustlink_io.hdf5.result import (
        BoundedCut,
        Network,
        ResultBaseline,
        ResultCalibration,
        ResultConstraints,
        ResultReport,
        ResultStability,
        ResultStage,
        Satisfaction,
    )


_KEEPING = "keeping: "  # stages that write results of others
_WORTH_A_LINE = 0.1  # seconds


def size(n_bytes: float) -> str:
    """Return bytes for a person: 512 B, 1.3 MB, 2.1 GB."""
    value = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def clock(seconds: float) -> str:
    """Return a duration for a person: 0.4 s, 12.3 s, 4:05, 1:02:03."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def planned_time(plan: Mapping[str, Any]) -> str:
    """The seconds of a plan, after "at least" or the like where that is all it says."""
    return f"{plan['seconds_are']} {clock(plan['seconds'])}".strip()


def stdout_console() -> Console:
    """Return the console on stdout."""
    from rich.console import Console

    console = Console(highlight=False)
    # a file or a pipe has no width: do not cut names there
    return console if console.is_terminal else Console(highlight=False, width=160)


def title(console: Console, words: str) -> None:
    """Print a line that names what follows."""
    from rich.text import Text

    console.print(Text(words, style="bold"))


def facts(console: Console, rows: Sequence[tuple[str, Any]]) -> None:
    """Print pairs of a name and a value, one a line; None is left out."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            grid.add_row(name, Text(str(value)))
    console.print(grid)


def table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table, numbers to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, pad_edge=False)
    for at, name in enumerate(columns):
        numeric = all(isinstance(row[at], int | float) or row[at] == "" for row in rows)
        drawn.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(value_text(value)) for value in row))
    console.print(drawn)


def value_text(value: Any) -> str:
    """Return a value for a person: numbers to 4 digits, lists and mappings by their parts."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {value_text(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        numbers = all(isinstance(part, float) for part in value)  # else a value and its reason
        return (", " if numbers else ": ").join(value_text(part) for part in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def stage_table(console: Console, stages: Sequence[ResultStage]) -> None:
    """Print time and memory of stages; several runs of one stage are one line.

    What is stored at once for another run is left out.
    """
    from mustlink_io.hdf5.result import merged

    rows = [
        (
            one["name"] if one["times"] == 1 else f"{one['name']} ({one['times']} times)",
            clock(one["seconds"]),
            size(one["peak_bytes"]),
        )
        for one in merged(stages)
        if one["seconds"] >= _WORTH_A_LINE or not one["name"].startswith(_KEEPING)
    ]
    table(console, ("stage", "time", "peak memory so far"), rows)


def show_notes(console: Console, notes: Sequence[str], warnings: Sequence[str]) -> None:
    """Print remarks of a run, what should not be relied on first; older files list that twice."""
    from rich.text import Text

    for warning in warnings:
        console.print(Text(f"warning: {warning}", style="bold yellow"))
    for note in notes:
        if note not in warnings:
            console.print(Text(f"note: {note}", style="yellow"))


def emit(
    result: Mapping[str, Any], as_json: bool, show: Callable[[Any], None], *, quiet: bool = False
) -> None:
    """Print a result as one JSON object or for a person; if `quiet`, its warnings, on stderr."""
    from mustlink_io.hdf5.writing import to_json

    if as_json:
        click.echo(to_json(result))
    elif quiet:
        for warning in result["warnings"]:
            click.echo(f"warning: {warning}", err=True)
    else:
        show(result)


def sizes_line(sizes: Sequence[int], names: Sequence[Any] = (), of: str = "clusters") -> str:
    """Return sizes in one line; with names, unless these are 0, 1, 2 …, `name: size`."""
    named = bool(names) and list(names) != list(range(len(names)))
    shown = ", ".join(
        f"{names[at]}: {count:,}" if named else f"{count:,}" for at, count in enumerate(sizes[:20])
    )
    return shown + (f", … ({len(sizes)} {of})" if len(sizes) > 20 else "")


def with_name(number: int, name: str) -> int | str:
    """Return a cluster by its number, with the class of most of its labelled nodes."""
    return f"{number} ({name[:40]})" if name else number


def nodes_left(count: int | None) -> str | None:
    """Return how many nodes have no cluster."""
    return f"{count:,} {'node' if count == 1 else 'nodes'} (label -1)" if count else None


def constraints_kept(kept: Satisfaction | None) -> str | None:
    """Return the satisfaction of constraints in one line, the two kinds on average first."""
    if kept is None or (kept.on_average is None and not kept.n_unclustered):
        return None
    apart = f"{int(kept.n_unclustered):,} more are of nodes in no cluster"
    if kept.on_average is None:
        return apart
    kinds = ", ".join(f"{share:.1%} of {count:,} {name}" for name, share, count in kept.kinds)
    words = kinds if len(kept.kinds) == 1 else f"{kept.on_average:.1%} on average: {kinds}"
    return f"{words}; {apart}" if kept.n_unclustered else words


def on_network(scores: Network | None, names: Sequence[Any] = ()) -> str | None:
    """Return the scores on the edges of a network in one line; clusters may have names."""
    from mustlink.core.result import network_in_words

    if scores is None:
        return None
    found = scores.model_dump()
    return network_in_words({**found, "worst_cluster": _called(found["worst_cluster"], names)})


def _called(number: int | None, names: Sequence[Any]) -> Any:
    return names[number] if number is not None and number < len(names) else number


def bounded_cut(found: BoundedCut | None) -> str | None:
    """Return the normalised cut beside the least there can be, in one line."""
    from mustlink.core.result import ncut_in_words

    return None if found is None else ncut_in_words(found.model_dump())


def held_out(scores: ResultBaseline | Mapping[str, Any] | None) -> str | None:
    """Return the shares of held-out labels that methods answer rightly, in one line."""
    if scores is None:
        return None
    found = scores if isinstance(scores, Mapping) else scores.model_dump()
    shares = ", ".join(
        f"{found['method'] if name == 'ours' else name} {share:.0%}"
        for name, share in found["right"].items()
    )
    words = f"{shares} of {found['held_out']:,} right, on a sample of {found['sampled']:,} points"
    single = found["single"]
    some = "1 class of one label is" if single == 1 else f"{single} classes of one label are"
    return words + (f"; {some} not held out" if single else "")


def stability_row(found: ResultStability | None, names: Sequence[Any] = ()) -> str | None:
    """Return how far the clusters were found again, and the least stable; they may have names."""
    if found is None:
        return None
    there = [(value, at) for at, value in enumerate(found.clusters) if value is not None]
    value, at = min(there, default=(0.0, 0))
    least = f"; least, of cluster {_called(at, names)}: {value:.2f}" if there else ""
    return f"{found.mean:.2f} (adjusted Rand index without {found.share:.0%} of the edges){least}"


def feasible(report: ResultReport) -> str | None:
    """Return how many of the vectors wanted there are, and of how many feasible cuts."""
    from mustlink.core.result import feasible_in_words

    if report.feasible is None:
        return None
    cuts = None if report.cuts is None else report.cuts.model_dump()
    return feasible_in_words(report.feasible.model_dump(), cuts)


def choice_rows(choices: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the choices of the program, as (name, value and reason)."""
    rows = []
    for name, value in choices.items():
        if name == "graph":  # `mustlink graph` shows it, but for the weights of several
            if "graph_weights" in value:
                names = value.get("views") or [""] * len(value["graph_weights"])
                pairs = zip(names, map(value_text, value["graph_weights"]), strict=True)
                weights = ", ".join(f"{name} {weight}".strip() for name, weight in pairs)
                rows.append(("  graphs", f"weights {weights}: {value['why']}"))
            continue
        rows.append((f"  {name}", value_text(value)))
    return rows


def calibrated(by: ResultCalibration | None) -> str | None:
    """Return by what confidence was calibrated, None where that is not known."""
    if by is None:
        return None
    what = [f"{n:,} {noun}" for n, noun in ((by.n_labels, "labels"), (by.n_pairs, "pairs")) if n]
    return f"calibrated by {' and '.join(what)} held out" if what else "not calibrated"


def mean_confidence(report: ResultReport) -> str | None:
    """Return how sure the answers are on average, and what that is calibrated by; None if nothing.

    A share that was never compared with labels or pairs is no chance to be right.
    """
    by = report.calibration
    if report.mean_confidence is None or by is None:
        return None
    if not by.n_labels + by.n_pairs:
        return "in the file, not calibrated: there are too few labels and pairs to compare with"
    return f"{report.mean_confidence:.3f}, {calibrated(by)}"


def prior_row(constraints: ResultConstraints | None) -> str | None:
    """Return how many answers are the likeliest class of the prior."""
    if constraints is None or constraints.prior is None:
        return None
    found = constraints.prior
    return (
        f"of {found.n_believed:,} nodes, mean belief {found.mean_belief:.3g}; "
        f"{found.n_as_believed:,} are answered as it says"
    )


def labels_kept(report: ResultReport) -> str | None:
    """Return how many labels were answered with their own class."""
    if report.labels_kept is None or report.n_labels is None:
        return None
    return f"{report.labels_kept:.1%} of the {int(report.n_labels):,} given"


# --- Progress on stderr: bars on a terminal, lines in a log, with --quiet warnings only

LOG_EVERY = 10.0  # seconds
KNOWN = 0.01  # share done from which it is shown
_MENTION = 0.1  # seconds


def compiling_text(done: int, total: int | None, seconds_left: float | None) -> str:
    """How far compiling is, in words."""
    if total is None:
        return f"compiling kernel {done + 1}"
    left = "" if seconds_left is None else f", {clock(seconds_left)} left"
    return f"compiling {done + 1} of {total} kernels{left}"


class LogLines:
    """Observer for logs: a line per stage, and one every ten seconds of a long stage.

    With `quiet` it writes why a result should not be trusted, and nothing else.
    """

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._stream, self._quiet = stream, quiet
        self._started = self._last = 0.0
        self._compiling = -LOG_EVERY
        self._remarks: set[str] = set()

    def begin(self, stage: str) -> None:
        """Remember when a stage began."""
        self._started = self._last = time.perf_counter()

    def advance(self, stage: str, fraction: float) -> None:
        """Write how far a long stage is, where that is known, and for how long it has run."""
        now = time.perf_counter()
        if now - self._last >= LOG_EVERY and not self._quiet:
            self._last = now
            share = f"{fraction:.0%}, " if fraction >= KNOWN else ""
            self._write(f"  {stage}: {share}{clock(now - self._started)}")

    def end(self, stage: str, seconds: float) -> None:
        """Write how long a stage took."""
        if seconds >= _MENTION and not self._quiet:
            self._write(f"  {stage}: {clock(seconds)}")

    def note(self, message: str) -> None:
        """Write a remark, once."""
        if not self._quiet:
            self._once("note", message)

    def warn(self, message: str) -> None:
        """Write why the result should not be trusted, once."""
        self._once("warning", message)

    def compiling(self, done: int, total: int | None, seconds_left: float | None) -> None:
        """Write how many kernels are compiled, at first and every ten seconds."""
        now = time.perf_counter()
        if not self._quiet and now - self._compiling >= LOG_EVERY:
            self._compiling = now
            self._write(f"  {compiling_text(done, total, seconds_left)}")

    def _once(self, kind: str, message: str) -> None:
        if message not in self._remarks:
            self._remarks.add(message)
            self._write(f"  {kind}: {message}")

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


class Bars(LogLines):
    """Observer for terminals: a moving bar for the stage that runs, a line for each that ended."""

    def __init__(self, console: Any) -> None:
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        super().__init__(console.file)
        left = TimeRemainingColumn(compact=True)
        columns = (TextColumn("{task.description}"), BarColumn(24), TimeElapsedColumn(), left)
        self._progress = Progress(SpinnerColumn(), *columns, console=console, transient=True)
        self._tasks: dict[str, Any] = {}
        self._kernels: Any = None

    def __enter__(self) -> Bars:
        self._progress.start()
        self._progress.console.show_cursor(True)  # a second Ctrl-C leaves no time to bring it back
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, stage: str) -> None:
        """Show a stage; its bar pulses until a fraction is known."""
        self._tasks[stage] = self._progress.add_task(stage, total=None)

    def advance(self, stage: str, fraction: float) -> None:
        """Move the bar."""
        self._compiled()
        if stage in self._tasks and fraction >= KNOWN:
            self._progress.update(self._tasks[stage], total=1.0, completed=fraction)

    def end(self, stage: str, seconds: float) -> None:
        """Replace the bar by a line."""
        self._compiled()
        if stage in self._tasks:
            self._progress.remove_task(self._tasks.pop(stage))
        super().end(stage, seconds)

    def compiling(self, done: int, total: int | None, seconds_left: float | None) -> None:
        """Show a bar of kernels below that of the stage, until this goes on."""
        if self._kernels is None:
            self._kernels = self._progress.add_task("")
        words = compiling_text(done, total, seconds_left)
        self._progress.update(
            self._kernels, description=words, total=total, completed=done, refresh=True
        )

    def _compiled(self) -> None:
        if self._kernels is not None:
            self._progress.remove_task(self._kernels)
            self._kernels = None

    def _write(self, line: str) -> None:
        """Print above the bar."""
        from rich.text import Text

        kind = line.split(":", maxsplit=1)[0].strip()
        style = {"note": "yellow", "warning": "bold yellow"}.get(kind, "green")
        self._progress.console.print(Text(line, style=style))


@contextlib.contextmanager
def observing(quiet: bool) -> Iterator[Observer]:
    """Yield the observer that fits stderr; Python's warnings go to it while it lasts."""
    with contextlib.ExitStack() as stack:
        observer = LogLines(sys.stderr, quiet=quiet)
        if sys.stderr.isatty() and not quiet:
            from rich.console import Console

            observer = stack.enter_context(Bars(Console(stderr=True)))
        stack.enter_context(warnings.catch_warnings())

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            observer.warn(" ".join(str(message).split()))

        warnings.showwarning = show  # put back by catch_warnings
        yield observer
