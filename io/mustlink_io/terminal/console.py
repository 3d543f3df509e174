"""How results look on a terminal: facts and tables drawn by rich, numbers for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mustlink_io.terminal.progress import clock

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


def stdout_console() -> Console:
    """Return the console on stdout."""
    console = Console(highlight=False)
    # a file or a pipe has no width: do not cut names there
    return console if console.is_terminal else Console(highlight=False, width=160)


def facts(console: Console, rows: Sequence[tuple[str, Any]]) -> None:
    """Print pairs of a name and a value, one a line; None is left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            grid.add_row(name, Text(str(value)))
    console.print(grid)


def table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table, numbers to the right."""
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


def stage_table(console: Console, stages: Sequence[Mapping[str, Any]]) -> None:
    """Print time and memory of stages; several runs of one stage are one line.

    What was kept for another run at once is left out.
    """
    merged: dict[str, tuple[int, float, float]] = {}
    for stage in stages:
        times, seconds, _ = merged.get(stage["name"], (0, 0.0, 0.0))
        merged[stage["name"]] = (times + 1, seconds + stage["seconds"], stage["peak_bytes"])
    rows = [
        (name if times == 1 else f"{name} ({times} times)", clock(seconds), size(peak))
        for name, (times, seconds, peak) in merged.items()
        if seconds >= _WORTH_A_LINE or not name.startswith(_KEEPING)
    ]
    table(console, ("stage", "time", "peak memory so far"), rows)


def show_notes(console: Console, notes: Sequence[str]) -> None:
    """Print remarks of a run."""
    for note in notes:
        console.print(Text(f"note: {note}", style="yellow"))
