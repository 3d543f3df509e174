"""Progress on stderr: bars on a terminal, lines in a log, with --quiet warnings only."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, TextIO

from mustlink.core.observe import Observer
from mustlink_io.terminal.console import clock

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
