"""Progress and time: the engine reports to an observer and prints nothing itself.

A method runs inside `Recorder.stage(name)`; the recorder measures every stage and forwards
its beginning, progress and end to the observer. `mustlink_io.terminal.console` draws them.

It has the time limit, too. Results depend on the clock only where a limit cuts a step short;
without one no step reads the clock, except for a rival that takes far longer than planned.
"""

from __future__ import annotations

import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, Protocol, Self

from mustlink.core.resources import Allowed, Budget, peak_bytes
from mustlink.errors import DoubtfulResultWarning, InputError, MustlinkError, OutOfMemoryError

_UNITS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "": 1.0}
_LONGEST = 1e12  # seconds: 30,000 years


@dataclass(frozen=True)
class Deadline:
    """The moment `limit` seconds after `began`; never, where the limit is infinite.

    `clock` returns the time in seconds; tests replace it.
    """

    limit: float = math.inf
    began: float = 0.0
    clock: Callable[[], float] = time.perf_counter

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.perf_counter) -> Self:
        """So many seconds from now."""
        return cls(seconds, clock(), clock)

    @classmethod
    def of(cls, limit: float | None, began: float | None = None) -> Deadline:
        """So many seconds after a program `began`, or from now; never if `limit` is None."""
        if limit is None:
            return NEVER
        return cls.after(limit) if began is None else cls(limit, began)

    @property
    def is_set(self) -> bool:
        """Whether there is a limit at all."""
        return self.limit < math.inf

    def remaining(self) -> float:
        """Seconds left, negative when it is over, infinite where there is no limit."""
        return self.began + self.limit - self.clock() if self.is_set else math.inf

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.remaining() <= 0

    def share(self, part: float) -> Deadline:
        """A deadline for a step of the work: a part, in [0, 1], of the time that is left."""
        return Deadline.after(part * self.remaining(), self.clock) if self.is_set else self

    def sooner(self, seconds: float) -> Deadline:
        """The sooner of this one and so many seconds from now."""
        return Deadline.after(seconds, self.clock) if seconds < self.remaining() else self


NEVER = Deadline()


def parse_duration(given: float | str) -> float:
    """Seconds of a duration such as 20, "20s", "5min" or "1h"; raises InputError."""
    if isinstance(given, Real) and not isinstance(given, bool) and 0 < given <= _LONGEST:
        return float(given)
    found = None
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]*)\s*", given.lower())
    if found is None or found[2] not in _UNITS or not 0 < float(found[1]) <= _LONGEST:
        raise InputError(f"time_limit: {given!r} is no duration; write it as 20s, 5min or 1h")
    return float(found[1]) * _UNITS[found[2]]


def duration_text(seconds: float) -> str:
    """A duration for a message: 0.4 s, 20 s, 5 min, 1.5 h."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


# --- Stages and their observer


_NO_THREAD = "can't start new thread"  # for want of memory for its stack
LONG = 2.0  # seconds of compiling from which on it is told
_PACKAGE = str(Path(__file__).parents[1])


class Observer(Protocol):
    """Follows a run; its methods are called from one thread only.

    One that also has `warn(message)` gets there why a result should not be trusted; any other
    gets it by `note`. One that has `compiling(done, total, seconds_left)` is told of kernels that
    are compiled at their first use, where that takes 2 s or more, maybe by another thread, which
    the fit waits for; total and seconds are None where nobody knows. Any other gets one note.
    """

    def begin(self, stage: str) -> None:
        """A stage has begun."""

    def advance(self, stage: str, fraction: float) -> None:
        """A part of the stage, in [0, 1], is done."""

    def end(self, stage: str, seconds: float) -> None:
        """A stage has ended."""

    def note(self, message: str) -> None:
        """A choice, a repair or a warning that a person should read."""


class Silent:
    """The default observer, which ignores everything."""

    def _ignore(self, *args: Any, **kwargs: Any) -> None:
        pass

    begin = advance = end = note = _ignore


class Unheard(Silent):
    """The observer of a trial, the warnings of which do not concern the result."""

    warn = Silent._ignore


@dataclass(frozen=True)
class StageRecord:
    """Seconds of one stage, and the process's high-water mark in bytes when it ended."""

    name: str
    seconds: float
    peak_bytes: int


class Recorder:
    """Measures stages and collects notes for one run.

    `warnings` are those of the `notes` that say why the result should not be trusted. `deadline` is
    the time limit, which everything that can end early checks. What a stage left out for it is in
    `left_out`; results from there on are not those of a fit without a limit, and not stored.
    `budget` is checked whenever a stage advances or ends, see `keep_within`.
    """

    def __init__(self, observer: Observer | None = None, deadline: Deadline = NEVER) -> None:
        self.observer: Observer = observer if observer is not None else Silent()
        self._open: str | None = None
        self.stages: list[StageRecord] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.budget = Budget(None)
        self.deadline = deadline
        self.left_out: list[str] = []
        self.estimator = ""  # whose kernels are needed
        self.progress: Any = None  # of compiling them
        self._told_of_compiling = False

    @contextmanager
    def limited(self, time_limit: float | str | None) -> Iterator[None]:
        """Within so many seconds from now, unless the deadline is sooner; InputError."""
        before = self.deadline
        if time_limit is not None:
            self.deadline = before.sooner(parse_duration(time_limit))
        try:
            yield
        finally:
            self.deadline = before

    def keep_within(self, limit: int | None, held: int = 0, *, enforced: bool = True) -> None:
        """Stop with OutOfMemoryError where the process takes more than `limit` bytes from now on.

        `held` are those of the points. The limit of a fit is that of all its steps. One that is not
        `enforced` is no error.
        """
        if limit is not None and self.budget.limit is None:
            self.budget = Budget(limit, held, enforced=enforced)

    def keep_to(self, allowed: Allowed, held: int = 0) -> None:
        """The same for what a fit is allowed; a note says whose limit it is, if nobody named it."""
        self.keep_within(allowed.limit, held, enforced=allowed.enforced)
        if allowed.limit is not None and allowed.source:
            self.note(f"memory: kept to {allowed.words}")

    @contextmanager
    def stage(self, name: str, since: float | None = None) -> Iterator[Callable[[float], None]]:
        """Run one stage; yields `advance(fraction)`. Stages do not nest.

        `since` is when it began, if that was before now, by `time.perf_counter`. Fractions below
        an earlier one of the stage are not forwarded. Raises OutOfMemoryError where more than the
        budget is taken, or the system has no more.
        """
        if self._open is not None:
            raise MustlinkError(f"stage {name!r} opened inside stage {self._open!r}")
        self._open = name
        _AT_WORK.append(self)
        self.observer.begin(name)
        started = time.perf_counter() if since is None else since
        try:
            yield self._rising(name)
            self.budget.check(name)
        except OutOfMemoryError:
            raise
        except MemoryError as error:
            raise self.budget.exceeded(name) from error
        except RuntimeError as error:
            if _NO_THREAD not in str(error):  # Python has no better name for it
                raise
            raise self.budget.exceeded(name) from error
        finally:
            self._open = None
            _AT_WORK.remove(self)
            seconds = time.perf_counter() - started
            self.stages.append(StageRecord(name, seconds, peak_bytes()))
            self.observer.end(name, seconds)

    def _rising(self, name: str) -> Callable[[float], None]:
        """`advance(fraction)` of one stage, which forwards rising fractions in [0, 1]."""
        most = 0.0

        def advance(fraction: float) -> None:
            nonlocal most
            self.budget.check(name)
            if most <= fraction:  # not of NaN
                most = min(fraction, 1.0)
                self.observer.advance(name, most)

        return advance

    def compiling(self, done: int, total: int | None, seconds_left: float | None) -> None:
        """Tell the observer how many kernels are compiled; no part of the report."""
        tell = getattr(self.observer, "compiling", None)
        if tell is not None:
            tell(done, total, seconds_left)
        elif not self._told_of_compiling:
            self._told_of_compiling = True
            self.observer.note("kernels are compiled at their first use; see mustlink warm")

    def report_parts(self) -> dict[str, tuple[Any, ...]]:
        """Stages, notes and warnings so far, as a `Report` takes them."""
        return {
            "stages": tuple(self.stages),
            "notes": tuple(self.notes),
            "warnings": tuple(self.warnings),
        }

    @property
    def remarks(self) -> list[str]:
        """The notes that are not warnings."""
        return [note for note in self.notes if note not in self.warnings]

    def note(self, message: str) -> None:
        """Add a note to the report and tell the observer, once."""
        self._say(message, self.observer.note)

    def warn(self, message: str) -> None:
        """Note why the result should not be trusted; a Python warning without an observer."""
        if message in self.warnings:
            return
        self.warnings.append(message)
        if type(self.observer) is Silent:
            warnings.warn(message, DoubtfulResultWarning, stacklevel=_outside())
        self._say(message, getattr(self.observer, "warn", self.observer.note))

    def skip_for_time(self, what: str) -> None:
        """Warn of a part that a stage left out for the time limit."""
        self.left_out.append(what)
        self.warn(f"time limit of {duration_text(self.deadline.limit)}: {what}")

    def _say(self, message: str, tell: Callable[[str], None]) -> None:
        if message not in self.notes:
            self.notes.append(message)
            tell(message)


_AT_WORK: list[Recorder] = []  # those with an open stage, of all threads


def at_work() -> list[Recorder]:
    """Recorders with an open stage."""
    return list(_AT_WORK)


def recorded(observer: Observer | Recorder | None) -> Recorder:
    """The caller's observer wrapped for measuring; a recorder as it is."""
    return observer if isinstance(observer, Recorder) else Recorder(observer)


def _outside() -> int:
    """Stack level of the caller's own line: that of the first frame outside this package."""
    frame, level = sys._getframe(2), 2
    while frame.f_back is not None and _PACKAGE in frame.f_code.co_filename:
        frame, level = frame.f_back, level + 1
    return level
