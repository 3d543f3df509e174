"""Progress: the engine tells an observer what it does and prints nothing itself.

A method runs inside `Recorder.stage(name)`; the recorder measures every stage and forwards
its beginning, progress and end to the observer. `mustlink_io.progress` draws them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from mustlink.errors import MustlinkError
from mustlink.memory import peak_bytes


class Observer(Protocol):
    """Whoever wants to follow a run; every method may be called from one thread only."""

    def begin(self, stage: str) -> None:
        """Tell that a stage has begun."""

    def advance(self, stage: str, fraction: float) -> None:
        """Tell which part of the stage, in [0, 1], is done."""

    def end(self, stage: str, seconds: float) -> None:
        """Tell that a stage has ended."""

    def note(self, message: str) -> None:
        """Say something that a person should read (a choice made, a repair, a doubt)."""


class Silent:
    """The default observer."""

    def begin(self, stage: str) -> None:
        """Ignore."""

    def advance(self, stage: str, fraction: float) -> None:
        """Ignore."""

    def end(self, stage: str, seconds: float) -> None:
        """Ignore."""

    def note(self, message: str) -> None:
        """Ignore."""


@dataclass(frozen=True)
class StageRecord:
    """Seconds of one stage, and the process's high-water mark in bytes when it ended."""

    name: str
    seconds: float
    peak_bytes: int


class Recorder:
    """Measures stages and collects notes for one run."""

    def __init__(self, observer: Observer | None = None) -> None:
        self.observer: Observer = observer if observer is not None else Silent()
        self._open: str | None = None
        self.stages: list[StageRecord] = []
        self.notes: list[str] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[float], None]]:
        """Run one stage; yields `advance(fraction)`. Stages do not nest."""
        if self._open is not None:
            raise MustlinkError(f"stage {name!r} opened inside stage {self._open!r}")
        self._open = name
        self.observer.begin(name)
        started = time.perf_counter()
        try:
            yield lambda fraction: self.observer.advance(name, fraction)
        finally:
            self._open = None
            seconds = time.perf_counter() - started
            self.stages.append(StageRecord(name, seconds, peak_bytes()))
            self.observer.end(name, seconds)

    def note(self, message: str) -> None:
        """Keep a remark for the report and tell the observer, once."""
        if message not in self.notes:
            self.notes.append(message)
            self.observer.note(message)
