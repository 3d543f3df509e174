"""The batch itself: admits jobs within a budget, runs them, remembers how they went."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from mustlink.context.fit_plan import Plan
from mustlink.context.rates import measured_speed
from mustlink.core.process_memory import cores, size_text
from mustlink.errors import InputError
from mustlink_io import system
from mustlink_io.batch.arguments import Ready, argument_list
from mustlink_io.batch.children import Child, Running, stop
from mustlink_io.batch.jobs_file import Where
from mustlink_io.batch.state import (
    LOG,
    PART,
    RESULT,
    State,
    Status,
    finished,
    key,
    now,
    stamps,
    standing,
    version,
)
from mustlink_io.jobs.planning import plan_job
from mustlink_io.terminal.console import clock, size

MARGIN = 1.2  # of an estimate: what it may be off by
_GRAIN = 10**6  # shares are whole megabytes


@dataclass(frozen=True)
class Admission:
    """The plan of a job, the memory it is admitted with, or why it is not."""

    plan: Plan | None = None
    share: int | None = None
    refused: str | None = None


def admission(ready: Ready, budget: int | None, speed: float) -> Admission:
    """Plan a job for the memory it may have: its own, within the budget of the batch."""
    own = ready.job.memory
    most = min((size for size in (own, budget) if size is not None), default=None)
    plan = None
    try:
        plan = plan_job(replace(ready.job, memory=most), speed=speed)
        return Admission(plan, None if most is None else share(plan, most))
    except InputError as error:
        return Admission(plan, None, str(error))
    except Exception as error:  # a hostile file must not stop the other jobs
        return Admission(plan, None, f"plan: {type(error).__name__}: {error}")


def share(plan: Plan, most: int) -> int:
    """Return the memory that a job is admitted with: its plan, a fifth more, at most `most`.

    Raises InputError when no plan fits.
    """
    if plan.least > most:
        raise InputError(
            f"memory: needs at least {size_text(plan.least, up=True)} by its plan, but at "
            f"most {size_text(most)} are allowed; raise --memory or the job's own memory"
        )
    enough = max(int(plan.most_bytes * MARGIN), plan.least)  # less the job would refuse
    wanted = -(-enough // _GRAIN) * _GRAIN
    return min(wanted, most)


def admit(
    waiting: Sequence[int],
    running: Sequence[int],
    shares: Mapping[int, int],
    budget: int | None,
    workers: int,
) -> int | None:
    """Return the job to start now, or None; jobs are numbers in the order of the file.

    The first that waits is started as soon as its share fits beside those that run. Until then a
    later one may overtake it, but only where all that overtook it leave room for its share: it
    waits for jobs that ran when it came to be the first and for no other, so that nothing starves.
    """
    if not waiting or len(running) >= workers:
        return None
    first, *others = waiting
    if budget is None:
        return first
    used = sum(shares[job] for job in running)
    if used + shares[first] <= budget:
        return first
    overtook = sum(shares[job] for job in running if job > first)
    for job in others:
        fits = used + shares[job] <= budget
        if fits and overtook + shares[job] + shares[first] <= budget:
            return job
    return None


class View:
    """A line on stderr for every event, nothing where it is `quiet`."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet

    def note(self, words: str) -> None:
        """Write a remark."""
        self._write(f"note: {words}")

    def started(self, name: str, plan: Plan | None) -> None:
        """Write that a job began, and what it is expected to take."""
        expected = ""
        if plan is not None:
            expected = f", {clock(plan.seconds)} and {size(plan.peak_bytes)} expected"
        self._write(f"{name}: started{expected}")

    def ended(self, status: Status) -> None:
        """Write how a job ended."""
        told = f"{status.phase}: {status.error}" if status.error else str(status.phase)
        if status.phase == "done":
            told = f"done, {clock(status.seconds or 0.0)}, {size(status.peak_bytes or 0)}"
        self._write(f"{status.name}: {told}")

    def _write(self, line: str) -> None:
        if not self._quiet:
            sys.stderr.write(f"  {line}\n")
            sys.stderr.flush()


Phase = Literal["waiting", "running", "done", "failed", "interrupted"]
Begin = Callable[[Sequence[str], Path, Path, int | None], Running]
GRACE = 10.0  # seconds from SIGTERM to SIGKILL
_POLL = 0.05  # seconds


@dataclass(frozen=True)
class Limits:
    """What the jobs of a batch share: memory in bytes (None: no limit), workers, cores."""

    memory: int | None = None
    workers: int = 1
    cores: int = field(default_factory=cores)

    def threads(self, ready: Ready) -> int:
        """Threads of a job: its own number, else the cores divided among the workers."""
        return ready.job.threads or max(1, self.cores // self.workers)


@dataclass
class Item:
    """A job on its way through the batch; `before` is true if it ended in an earlier run."""

    ready: Ready
    phase: Phase = "waiting"
    status: Status | None = None
    before: bool = False
    plan: Plan | None = None
    memory: int | None = None
    child: Running | None = None

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.ready.spec.name


class Batch:
    """The jobs of one file, and the state they leave on disk."""

    def __init__(
        self,
        jobs: Sequence[Ready],
        where: Where,
        state: State,
        limits: Limits,
        view: View,
        begin: Begin = Child,
    ) -> None:
        self.items = [Item(ready) for ready in jobs]
        self.stopped_by: int | None = None
        self._where, self._state, self._limits, self._view = where, state, limits, view
        self._begin = begin
        self._signals: list[int] = []

    def look_back(self, retry_failed: bool) -> None:
        """Find out what earlier runs left: jobs that ended are not begun again."""
        names = {item.name for item in self.items}
        others = sum(1 for status in self._state.used() if status.name not in names)
        if others:
            self._view.note(f"{others} jobs of earlier runs are no longer in {self._where.file}")
        for item in self.items:
            item.status, why = standing(item.ready, self._state)
            if why:
                self._view.note(f"{item.name}: is run again: {why}")
            if item.status is None:
                continue
            phase = item.status.phase
            item.before = phase == "done" or (phase == "failed" and not retry_failed)
            item.phase = phase if item.before else "waiting"

    def run(self, lock: int | None, fresh: bool = False) -> None:
        """Run all jobs that wait; returns when all have ended, or after a signal.

        Then `stopped_by` is the signal, and the jobs that ran are interrupted. Raises InputError
        when the state cannot be written; the jobs that run are ended before.
        """
        with _listening(self._signals):
            try:
                self._plan()
                self._loop(lock, fresh)
            finally:
                self._stop()

    # ------------------------------------------------------------ steps

    def _plan(self) -> None:
        """Estimate the jobs that wait, where there is a budget; those that exceed it fail."""
        if self._limits.memory is None:
            return
        speed = measured_speed()
        for item in self.items:
            if item.phase == "waiting" and not self._signals:
                found = admission(item.ready, self._limits.memory, speed)
                item.plan, item.memory = found.plan, found.share
                if found.refused is not None:
                    self._refuse(item, found.refused)

    def _refuse(self, item: Item, words: str) -> None:
        status = self._status(item, item.status.attempts if item.status else 0)
        error = " ".join(words.split())
        self._end(item, status.model_copy(update={"phase": "failed", "error": error}), True)

    def _loop(self, lock: int | None, fresh: bool) -> None:
        while not self._signals:
            self._admit(lock, fresh)
            running = [item for item in self.items if item.phase == "running"]
            if not running:
                return
            for item in running:
                if item.child is not None and item.child.poll():
                    self._judge(item, item.child)
            time.sleep(_POLL)

    def _admit(self, lock: int | None, fresh: bool) -> None:
        while True:
            waiting = [at for at, item in enumerate(self.items) if item.phase == "waiting"]
            running = [at for at, item in enumerate(self.items) if item.phase == "running"]
            shares = {at: self.items[at].memory or 0 for at in (*waiting, *running)}
            chosen = admit(waiting, running, shares, self._limits.memory, self._limits.workers)
            if chosen is None or self._signals:
                return
            self._start(self.items[chosen], lock, fresh)

    def _start(self, item: Item, lock: int | None, fresh: bool) -> None:
        ready, place = item.ready, self._state.place(item.name)
        limits = {"threads": self._limits.threads(ready)}
        memory = item.memory or ready.job.memory
        if memory is not None:
            limits["memory"] = memory
        words = argument_list(ready.spec, self._where, ready.command, limits, fresh)
        try:
            ready.output.parent.mkdir(parents=True, exist_ok=True)
            status = self._status(item, 1 + (item.status.attempts if item.status else 0))
        except OSError as error:  # an input went away since it was checked
            self._refuse(item, f"{error.filename}: {error.strerror}")
            return
        status = status.model_copy(update={"arguments": words, **limits})
        for name in (RESULT, PART):  # of an earlier attempt
            (place / name).unlink(missing_ok=True)
        self._state.write(status)  # before it starts: what was begun is never forgotten
        try:
            item.child = self._begin(words, place / LOG, place / PART, lock)
        except OSError as error:
            words_of = f"could not be started: {error.strerror}"
            self._end(item, status.model_copy(update={"phase": "failed", "error": words_of}))
            return
        item.phase, item.status = "running", status
        self._view.started(item.name, item.plan)

    def _status(self, item: Item, attempts: int) -> Status:
        return Status(
            name=item.name,
            phase="running",
            key=key(item.ready.spec),
            version=version(),
            arguments=[],
            inputs=stamps(item.ready),
            attempts=attempts,
            started=now(),
            started_ns=time.time_ns(),
            plan_bytes=item.plan.peak_bytes if item.plan else None,
            plan_seconds=item.plan.seconds if item.plan else None,
        )

    def _judge(self, item: Item, child: Running, stopping: bool = False) -> None:
        assert item.status is not None
        status = item.status.model_copy(
            update={
                "seconds": child.seconds,
                "exit_code": child.code,
                "peak_bytes": child.peak_bytes,
            }
        )
        result = self._state.result(item.name, PART) if child.code == 0 else None
        if result is not None and item.ready.output.exists():
            self._state.keep_result(item.name)
            status = finished(item.ready, status, result)
        elif stopping:
            status = status.model_copy(update={"phase": "interrupted"})
        else:
            words = child.complaint() if child.code else "ended without a result"
            status = status.model_copy(update={"phase": "failed", "error": words})
        if status.phase != "done":
            (self._state.place(item.name) / PART).unlink(missing_ok=True)
        self._end(item, status)

    def _end(self, item: Item, status: Status, planned: bool = False) -> None:
        status = status.model_copy(update={"planned": planned})
        item.status, item.child = status, None
        item.phase = status.phase
        self._state.write(status)
        self._view.ended(status)

    def _stop(self) -> None:
        """End what still runs; nothing does unless there was a signal or an error."""
        children = [item.child for item in self.items if item.child is not None]
        if self._signals:
            self.stopped_by = self._signals[0]
            self._signals.clear()
            self._view.note(f"stopping {len(children)} running jobs; --resume goes on")
        stop(children, GRACE, self._signals)
        for item in self.items:
            if item.child is not None:
                self._judge(item, item.child, stopping=True)


@contextlib.contextmanager
def _listening(signals: list[int]) -> Iterator[None]:
    """Collect Ctrl-C, SIGTERM and SIGHUP in a list, so that they never strike between two steps."""

    def note(number: int, frame: Any) -> None:
        signals.append(number)

    before: dict[int, Any] = {}
    with contextlib.suppress(ValueError):  # not the main thread
        for number in system.ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                before[number] = signal.signal(number, note)
    try:
        yield
    finally:
        for caught, handler in before.items():
            signal.signal(caught, handler)
