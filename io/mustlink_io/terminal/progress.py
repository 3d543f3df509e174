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

SHOW_AFTER = 2.0  # seconds: below, a bar or a line only flickers
LOG_EVERY = 10.0
KNOWN = 0.01  # share done from which it says something about the end
_MENTION = 0.1


class Clock:
    """Elapsed and left time of one stage, as told to a person: the time left never grows.

    It is what the share that is done extrapolates to; where that turns out to be wrong by more than
    a factor of 2, nothing is said about the time left any more.
    """

    def __init__(self) -> None:
        self._due: float | None = None  # elapsed time at which the stage was last said to end
        self._wrong = False

    def told(self, elapsed: float, fraction: float | None) -> str:
        """Return both, empty while the stage is short, elapsed alone while no end is in sight."""
        if elapsed < SHOW_AFTER:
            return ""
        if not fraction or fraction < KNOWN or fraction >= 1:
            return clock(elapsed)
        due = elapsed / fraction
        if self._due is not None and due - elapsed > 2 * max(self._due - elapsed, SHOW_AFTER):
            self._wrong = True
        self._due = due if self._due is None else min(due, self._due)
        left = self._due - elapsed
        if self._wrong or left <= 0:
            return clock(elapsed)
        return f"{clock(elapsed)}, {clock(left)} left"


class Lines:
    """Observer for logs: a line per stage, and one every ten seconds of a long stage.

    Where it is `quiet` it tells why a result should not be trusted, and nothing else.
    """

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._stream, self._quiet = stream, quiet
        self._started = self._told = 0.0
        self._clock = Clock()
        self._said: set[str] = set()

    def begin(self, stage: str) -> None:
        """Remember when a stage began."""
        self._started = self._told = time.perf_counter()
        self._clock = Clock()

    def advance(self, stage: str, fraction: float) -> None:
        """Tell how far a long stage is, or for how long it has run where that is not known."""
        now = time.perf_counter()
        if now - self._told >= LOG_EVERY and not self._quiet:
            self._told = now
            share = f"{fraction:.0%}, " if fraction >= KNOWN else ""
            self._write(f"  {stage}: {share}{self._clock.told(now - self._started, fraction)}")

    def end(self, stage: str, seconds: float) -> None:
        """Tell how long a stage took."""
        if seconds >= _MENTION and not self._quiet:
            self._write(f"  {stage}: {clock(seconds)}")

    def note(self, message: str) -> None:
        """Tell a remark, once."""
        if not self._quiet:
            self._say("note", message)

    def warn(self, message: str) -> None:
        """Tell why the result should not be trusted, once."""
        self._say("warning", message)

    def _say(self, kind: str, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            self._write(f"  {kind}: {message}")

    def _write(self, line: str) -> None:
        self._stream.write(line + "\n")
        self._stream.flush()


class Bars:
    """Observer for terminals: a moving bar for the stage that runs, a line for each that ended."""

    def __init__(self, console: Any) -> None:
        from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn
        from rich.text import Text

        class Times(ProgressColumn):
            """Elapsed and left time."""

            max_refresh = 0.2

            def render(self, task: Any) -> Text:
                fraction = task.completed / task.total if task.total else None
                told = clocks.setdefault(task.id, Clock())
                return Text(told.told(task.elapsed or 0.0, fraction), style="dim")

        clocks: dict[Any, Clock] = {}

        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(24),
            Times(),
            console=console,
            transient=True,
        )
        self._tasks: dict[str, Any] = {}
        self._said: set[str] = set()

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
        if stage in self._tasks and fraction >= KNOWN:
            self._progress.update(self._tasks[stage], total=1.0, completed=fraction)

    def end(self, stage: str, seconds: float) -> None:
        """Replace the bar by a line."""
        task = self._tasks.pop(stage, None)
        if task is not None:
            self._progress.remove_task(task)
        if seconds >= _MENTION:
            self._print(f"{stage}  {clock(seconds)}", "green")

    def note(self, message: str) -> None:
        """Print a remark above the bar, once."""
        self._say("note", message, "yellow")

    def warn(self, message: str) -> None:
        """Print why the result should not be trusted above the bar, once."""
        self._say("warning", message, "bold yellow")

    def _say(self, kind: str, message: str, style: str) -> None:
        if message not in self._said:
            self._said.add(message)
            self._print(f"{kind}: {message}", style)

    def _print(self, line: str, style: str) -> None:
        from rich.text import Text

        self._progress.console.print(Text("  " + line, style=style))


@contextlib.contextmanager
def observing(quiet: bool) -> Iterator[Observer]:
    """Yield the observer that fits stderr; Python's warnings go to it while it lasts."""
    with contextlib.ExitStack() as stack:
        observer: Bars | Lines
        if sys.stderr.isatty() and not quiet:
            from rich.console import Console

            observer = stack.enter_context(Bars(Console(stderr=True)))
        else:
            observer = Lines(sys.stderr, quiet=quiet)
        stack.enter_context(warnings.catch_warnings())

        def tell(message: Warning | str, *_: Any, **__: Any) -> None:
            observer.warn(" ".join(str(message).split()))

        warnings.showwarning = tell  # put back by catch_warnings
        yield observer
