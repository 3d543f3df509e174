"""How results look on a terminal: facts and tables drawn by rich, numbers for a person.

rich is imported when something is drawn, so that `--help` answers at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from mustlink_io.hdf5.result_parts import Stage

_KEEPING = "keeping: "  # stages that write down what others found
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
        drawn.add_row(*(Text(cell(value)) for value in row))
    console.print(drawn)


def cell(value: Any) -> str:
    """Return a value for a person."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def stage_table(console: Console, stages: Sequence[Stage]) -> None:
    """Print time and memory of stages; several runs of one stage are one line.

    What was kept for another run at once is left out.
    """
    merged: dict[str, tuple[int, float, float]] = {}
    for stage in stages:
        times, seconds, _ = merged.get(stage.name, (0, 0.0, 0.0))
        merged[stage.name] = (times + 1, seconds + stage.seconds, stage.peak_bytes)
    rows = [
        (name if times == 1 else f"{name} ({times} times)", clock(seconds), size(peak))
        for name, (times, seconds, peak) in merged.items()
        if seconds >= _WORTH_A_LINE or not name.startswith(_KEEPING)
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
