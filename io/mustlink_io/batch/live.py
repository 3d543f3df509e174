"""How a batch looks while it runs: a table on a terminal, lines in a log, nothing with --quiet."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

from mustlink_io.batch.admission import Estimate
from mustlink_io.batch.state import Status
from mustlink_io.terminal.console import clock, size

_ORDER = ("done", "failed", "interrupted", "running", "waiting")
_LATEST = 8  # jobs that ended


@dataclass(frozen=True)
class Snapshot:
    """Where a batch is: jobs by phase; name, last log line, seconds, bytes of those that run."""

    counts: dict[str, int]
    running: list[tuple[str, str, float, int | None]]
    admitted: int
    budget: int | None
    doing: str = ""

    def summary(self) -> str:
        """Return the counts in one line."""
        parts = [f"{self.counts[name]} {name}" for name in _ORDER if self.counts.get(name)]
        if self.budget is not None:
            parts.append(f"memory {size(self.admitted)} of {size(self.budget)}")
        return ", ".join([*parts, self.doing] if self.doing else parts)


class View(Protocol):
    """Is told what happens."""

    def note(self, words: str) -> None:
        """Tell a remark."""

    def started(self, name: str, plan: Estimate | None) -> None:
        """Tell that a job began."""

    def ended(self, status: Status) -> None:
        """Tell how a job ended."""

    def refresh(self, snapshot: Snapshot) -> None:
        """Show where the batch is, twice a second."""


class Quiet:
    """Tells nothing."""

    def note(self, words: str) -> None:
        """Tell nothing."""

    def started(self, name: str, plan: Estimate | None) -> None:
        """Tell nothing."""

    def ended(self, status: Status) -> None:
        """Tell nothing."""

    def refresh(self, snapshot: Snapshot) -> None:
        """Show nothing."""


class EventLines(Quiet):
    """A line for every event."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def note(self, words: str) -> None:
        """Write a remark."""
        self._write(f"note: {words}")

    def started(self, name: str, plan: Estimate | None) -> None:
        """Write that a job began, and what it is expected to take."""
        expected = "" if plan is None else f", {clock(plan.seconds)} and {size(plan.peak_bytes)}"
        self._write(f"{name}: started{expected and expected + ' expected'}")

    def ended(self, status: Status) -> None:
        """Write how a job ended."""
        self._write(f"{status.name}: {ending(status)}")

    def _write(self, line: str) -> None:
        self._stream.write(f"  {line}\n")
        self._stream.flush()


def ending(status: Status) -> str:
    """Return how a job ended, in one line."""
    if status.phase == "done":
        return f"done, {clock(status.seconds or 0.0)}, {size(status.peak_bytes or 0)}"
    return f"{status.phase}: {status.error}" if status.error else status.phase


class LiveTable(Quiet):
    """A table that changes in place: the jobs that run, and those that ended last."""

    def __init__(self, console: Any) -> None:
        from rich.live import Live

        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._ended: deque[Status] = deque(maxlen=_LATEST)
        self._began = time.perf_counter()

    def __enter__(self) -> LiveTable:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def note(self, words: str) -> None:
        """Print a remark above the table."""
        from rich.text import Text

        self._live.console.print(Text(f"  note: {words}", style="yellow"))

    def ended(self, status: Status) -> None:
        """Keep it for the table; failures are printed, so that they stay."""
        from rich.text import Text

        self._ended.append(status)
        if status.phase == "failed":
            self._live.console.print(Text(f"  {status.name}: {ending(status)}", style="red"))

    def refresh(self, snapshot: Snapshot) -> None:
        """Draw the table."""
        self._live.update(self.draw(snapshot), refresh=True)

    def draw(self, snapshot: Snapshot) -> Any:
        """Return the table of a snapshot."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        words = f"{snapshot.summary()}   {clock(time.perf_counter() - self._began)}"
        table = Table(box=SIMPLE_HEAD, pad_edge=False, title=Text(words), title_justify="left")
        table.add_column("job", overflow="ellipsis", no_wrap=True)
        table.add_column("status")
        table.add_column("progress", overflow="ellipsis", no_wrap=True)
        table.add_column("time", justify="right")
        table.add_column("memory", justify="right")
        for status in self._ended:
            colour = {"done": "green", "failed": "red"}.get(status.phase, "yellow")
            table.add_row(
                Text(status.name),
                Text(status.phase, style=colour),
                Text(status.error or ""),
                clock(status.seconds or 0.0),
                size(status.peak_bytes or 0),
            )
        for name, line, seconds, resident in snapshot.running:
            held = "" if resident is None else size(resident)
            table.add_row(Text(name), "running", Text(line), clock(seconds), held)
        return table


@contextlib.contextmanager
def viewing(quiet: bool) -> Iterator[View]:
    """Yield the view that fits stderr."""
    if quiet:
        yield Quiet()
    elif sys.stderr.isatty():
        from rich.console import Console

        with LiveTable(Console(stderr=True)) as table:
            yield table
    else:
        yield EventLines(sys.stderr)
