"""The batch itself: starts jobs within the limits and records how they ended."""

from __future__ import annotations

import contextlib
import csv
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from mustlink.context.fit_plan import Plan
from mustlink.context.rates import measured_speed
from mustlink.core.resources import AUTO, Allowed, cores, named_memory, size_text
from mustlink.errors import InputError
from mustlink_io import system
from mustlink_io.batch import children
from mustlink_io.batch.arguments import Ready, argument_list
from mustlink_io.batch.children import LOG, RESULT, STOP, Ended, now
from mustlink_io.batch.jobs_file import Where
from mustlink_io.batch.state import JobStatus, State, key, stamps, version
from mustlink_io.hdf5 import writing
from mustlink_io.hdf5.result import ResultReport
from mustlink_io.hdf5.writing import make_folder, to_json
from mustlink_io.jobs.diagnostics import versions
from mustlink_io.jobs.planning import plan_job
from mustlink_io.jobs.score import score
from mustlink_io.terminal.console import clock, size, stdout_console, table

MARGIN = 1.2  # of an estimate: what it may be off by
_GRAIN = 10**6  # shares are whole megabytes
_POLL = 0.05  # seconds


@dataclass(frozen=True)
class Admission:
    """The plan of a job, the memory it is admitted with, or why it is not.

    `named` is whether the job is to keep to its share.
    """

    plan: Plan | None = None
    share: int | None = None
    refused: str | None = None
    named: bool = True


def admission(
    ready: Ready, budget: int | None, speed: float, here: Allowed | None = None
) -> Admission:
    """Plan a job for the memory it may have: its own, within the budget of the batch.

    Its share is what the plan takes and a fifth more, at most what it was planned for. The budget
    of a batch may be what there is `here`: a job that names no memory is then planned without
    where that is enough, and runs alone, to say itself what is wrong, where there is no plan.
    """
    own = named_memory(ready.job.memory)
    sizes = (None if own is None else own.limit, budget)
    most = min((size for size in sizes if size is not None), default=None)
    automatic = here is not None and bool(here.source) and own is None
    try:
        wanted = AUTO if automatic else most
        plan = plan_job(replace(ready.job, memory=wanted), speed=speed, here=here)
    except InputError as error:
        return Admission(share=most, named=False) if automatic else Admission(refused=str(error))
    except Exception as error:  # a hostile file must not stop the other jobs
        return Admission(refused=f"plan: {type(error).__name__}: {error}")
    if most is None:
        return Admission(plan)
    if plan.least > most and not automatic:
        words = (
            f"memory: needs at least {size_text(plan.least, up=True)} by its plan, but at "
            f"most {size_text(most)} are allowed; raise --memory or the job's own memory"
        )
        return Admission(plan, refused=words)
    enough = max(int(plan.most_bytes * MARGIN), plan.least)  # with less the job would refuse
    share = min(-(-enough // _GRAIN) * _GRAIN, most)
    return Admission(plan, share, named=not automatic or plan.memory is not None)


@dataclass(frozen=True)
class Limits:
    """What the jobs of a batch share: memory in bytes (None: no limit), workers, cores.

    `here` is whose limit the memory is, where nobody named one.
    """

    memory: int | None = None
    workers: int = 1
    cores: int = field(default_factory=cores)
    here: Allowed | None = None

    def threads(self, ready: Ready) -> int:
        """Threads of a job: its own number, else the cores divided among the workers."""
        return ready.job.threads or max(1, self.cores // self.workers)

    def admit(self, share: int, shares: Sequence[int]) -> bool:
        """Whether a job of this share of the memory may start beside those that run."""
        if len(shares) >= self.workers:
            return False
        return self.memory is None or sum(shares) + share <= self.memory


@dataclass
class BatchJob:
    """A job on its way through the batch; `before` is true if it ended in an earlier run."""

    ready: Ready
    phase: Literal["waiting", "running", "done", "failed", "interrupted"] = "waiting"
    status: JobStatus | None = None
    before: bool = False
    plan: Plan | None = None
    memory: int | None = None
    named: bool = True
    future: Future[Ended] | None = None

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.ready.spec.name


class BatchRun:
    """The jobs of one file, done by an executor; `say` reports every event in a line."""

    def __init__(
        self,
        jobs: Sequence[Ready],
        where: Where,
        state: State,
        limits: Limits,
        executor: Executor,
        say: Callable[[str], None],
    ) -> None:
        self.jobs = [BatchJob(ready) for ready in jobs]
        self.stopped_by: int | None = None
        self._where, self._state, self._limits = where, state, limits
        self._executor, self._say = executor, say
        self._signals: list[int] = []

    def look_back(self, retry_failed: bool) -> None:
        """Take up the state of earlier runs: jobs that ended are not begun again."""
        names = {job.name for job in self.jobs}
        others = sum(1 for status in self._state.used() if status.name not in names)
        if others:
            self._say(f"note: {others} jobs of earlier runs are no longer in {self._where.file}")
        for job in self.jobs:
            job.status, why = self._state.standing(job.ready)
            if why:
                self._say(f"note: {job.name}: is run again: {why}")
            if job.status is not None:
                phase = job.status.phase
                job.before = phase == "done" or (phase == "failed" and not retry_failed)
                job.phase = phase if job.before else "waiting"

    def run(self, lock: int | None, fresh: bool = False) -> None:
        """Run all jobs that wait; returns when all have ended, or after a signal.

        Then `stopped_by` is the signal, and the jobs that ran are interrupted. Raises InputError
        when the state cannot be written; the jobs that run are ended before.
        """
        with _listening(self._signals):
            try:
                self._plan()
                while not self._signals:
                    self._start_waiting(lock, fresh)
                    running = [job.future for job in self.jobs if job.future is not None]
                    if not running:
                        return
                    wait(running, timeout=_POLL, return_when=FIRST_COMPLETED)
                    self._take_ended()
            finally:
                self._stop()

    def _plan(self) -> None:
        if self._limits.memory is None:
            return
        speed = measured_speed()
        for job in self.jobs:
            if job.phase == "waiting" and not self._signals:
                found = admission(job.ready, self._limits.memory, speed, self._limits.here)
                job.plan, job.memory, job.named = found.plan, found.share, found.named
                if found.refused is not None:
                    self._end(job, self._new_status(job), stored=False, error=found.refused)

    def _start_waiting(self, lock: int | None, fresh: bool) -> None:
        """Start jobs in the order of the file while the next one fits beside those that run."""
        for job in self.jobs:
            if job.phase != "waiting":
                continue
            shares = [other.memory or 0 for other in self.jobs if other.phase == "running"]
            if self._signals or not self._limits.admit(job.memory or 0, shares):
                return
            self._start(job, lock, fresh)

    def _start(self, job: BatchJob, lock: int | None, fresh: bool) -> None:
        ready, place = job.ready, self._state.place(job.name)
        limits = {"threads": self._limits.threads(ready)}
        memory = (job.memory if job.named else None) or ready.job.memory
        if isinstance(memory, int):
            limits["memory"] = memory
        words = argument_list(ready.spec, self._where, ready.command, limits, fresh)
        status = self._new_status(job).model_copy(update={"arguments": words, **limits})
        try:
            make_folder(ready.output.parent)
        except InputError as error:
            self._end(job, status, error=str(error))
            return
        status = status.model_copy(update={"attempts": status.attempts + 1})
        self._state.tidy(job.name)
        (place / RESULT).unlink(missing_ok=True)  # of an earlier attempt
        self._state.write(status)  # before it starts: what was begun is never forgotten
        expected = ""
        if job.plan is not None:
            expected = f", {clock(job.plan.seconds)} and {size(job.plan.peak_bytes)} expected"
        self._say(f"{job.name}: started{expected}")
        job.phase, job.status = "running", status
        job.future = self._executor.submit(
            children.run_job, words, str(place.absolute()), children.PROGRAM, os.getcwd(), lock
        )

    def _new_status(self, job: BatchJob) -> JobStatus:
        return JobStatus(
            name=job.name,
            phase="running",
            key=key(job.ready.spec),
            version=version(),
            arguments=[],
            inputs=stamps(job.ready.inputs),
            attempts=job.status.attempts if job.status else 0,
            started=now(),
            started_ns=time.time_ns(),
            plan_bytes=job.plan.peak_bytes if job.plan else None,
            plan_seconds=job.plan.seconds if job.plan else None,
        )

    def _take_ended(self, stopping: bool = False) -> None:
        for job in self.jobs:
            if job.future is None or not job.future.done():
                continue
            assert job.status is not None
            try:
                end = job.future.result()
                error = end.complaint() if end.code else "ended without a result"
            except Exception as failure:  # no process, workers lost again and again, ...
                end = Ended(1)
                error = f"could not be run: {type(failure).__name__}: {failure}"
            result = self._state.result(job.name) if end.code == 0 else None
            status = job.status.model_copy(
                update={
                    "seconds": end.seconds,
                    "exit_code": end.code,
                    "peak_bytes": (result or {}).get("peak_bytes") or end.peak_bytes,
                }
            )
            output = stamps({"output": job.ready.output}).get("output")
            if result is not None and output is not None:
                self._end(job, status, phase="done", output=output)
            elif stopping:
                self._end(job, status, phase="interrupted")
            else:
                self._end(job, status, error=error)

    def _end(
        self,
        job: BatchJob,
        status: JobStatus,
        phase: str = "failed",
        stored: bool = True,
        **update: Any,
    ) -> None:
        """Record how a job ended; with more memory a plan may be another, which is not stored."""
        if update.get("error"):
            update["error"] = " ".join(update["error"].split())
        status = status.model_copy(update={"phase": phase, **update})
        job.status, job.phase, job.future = status, status.phase, None
        if stored:
            self._state.tidy(job.name)
            self._state.write(status)
        words = f"{phase}: {status.error}" if status.error else phase
        if phase == "done":
            words = f"done, {clock(status.seconds or 0.0)}, {size(status.peak_bytes or 0)}"
        self._say(f"{job.name}: {words}")

    def _stop(self) -> None:
        """End the jobs that still run, after a signal or an error."""
        running = [job for job in self.jobs if job.future is not None]
        if self._signals:
            self.stopped_by = self._signals[0]
            self._say(f"note: stopping {len(running)} running jobs; --resume goes on")
        for job in running:
            with contextlib.suppress(OSError):  # then it runs to its end
                (self._state.place(job.name) / STOP).touch()
        wait([job.future for job in running if job.future is not None])
        self._take_ended(stopping=True)


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


# --- The summary of a batch: a row a job, as CSV or JSON, and on stdout

ENDINGS = {".csv": b"job,status,command,", ".json": b'{"jobs": [{"job": '}  # and how each begins
_SHOWN = 60  # characters of an error on a terminal; the files have all


def row(job: BatchJob, state: State) -> dict[str, Any]:
    """Return the row of one job; None where a value is not known."""
    spec, status = job.ready.spec, job.status
    found = (state.result(spec.name) if job.phase == "done" else None) or {}
    report = ResultReport.model_validate(found)
    method = found.get("parameters", {}).get("method")  # where none was named, by what the data are
    kept = report.satisfaction
    shares = {name: share for name, share, _ in kept.kinds} if kept else {}
    scores, wrong = _scores(job)
    values = {key: value for key, value in spec.values.items() if key not in ("output", "method")}
    return {
        "job": spec.name,
        "status": job.phase,
        "command": spec.command,
        "method": job.ready.method and (method or job.ready.method),
        **values,
        "output": str(job.ready.output),
        "n_nodes": report.n_nodes,
        "n_clusters": None if report.sizes is None else sum(1 for n in report.sizes if n),
        "kept": kept.on_average if kept else None,
        "must_kept": shares.get("must-links"),
        "cannot_kept": shares.get("cannot-links"),
        **scores,
        "converged": report.convergence.reason if report.convergence else None,
        "seconds": status.seconds if status else None,
        "peak_bytes": status.peak_bytes if status else None,
        "planned_seconds": status.plan_seconds if status else None,
        "planned_bytes": status.plan_bytes if status else None,
        "attempts": status.attempts if status else 0,
        "exit_code": status.exit_code if status else None,
        "error": (status.error if status else None) or wrong,
        "log_file": str(log) if (log := state.place(spec.name) / LOG).exists() else None,
    }


def _scores(job: BatchJob) -> tuple[dict[str, Any], str | None]:
    """How a result agrees with the truth of the job, if it has one; or the error of these."""
    if job.ready.truth is None:
        return {}, None
    found: dict[str, Any] = {"ari": None, "accuracy": None}
    if job.phase != "done" or job.ready.method is None:
        return found, None
    try:
        truth = score(str(job.ready.output), job.ready.truth)["truth"]
    except InputError as error:
        return found, str(error)
    return {name: truth[name] for name in found}, None


def check_summary(path: str | Path, others: Sequence[Path]) -> None:
    """Raise InputError unless a summary can be written; `others` are files it must not replace."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"{path}: unknown ending; a summary is {', '.join(ENDINGS)}")
    writing.check_output(path, others, ENDINGS[ending])


def write(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows as the ending says, whole or not at all. Raises InputError."""
    with writing.atomic(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as f:
        if Path(path).suffix.lower() == ".json":
            f.write(to_json({"jobs": rows, "versions": versions()}) + "\n")
        else:
            names = dict.fromkeys(name for one in rows for name in one)
            writer = csv.DictWriter(f, list(names), restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def show(result: Mapping[str, Any]) -> None:
    """Print the table of a batch that ended."""
    scored = any("ari" in one for one in result["jobs"])
    names = ["job", "status", "nodes", "clusters", "kept", *(["ARI"] if scored else [])]
    rows = []
    for one in result["jobs"]:
        kept, ari = one["kept"], one.get("ari")
        cells = [one["job"], one["status"], one["n_nodes"], one["n_clusters"]]
        cells += [None if kept is None else f"{kept:.1%}"]
        cells += [None if ari is None else f"{ari:.4f}"] if scored else []
        cells += [None if one["seconds"] is None else clock(one["seconds"])]
        cells += [None if one["peak_bytes"] is None else size(one["peak_bytes"])]
        error = one["error"] or ""
        short = error if len(error) <= _SHOWN else error[: _SHOWN - 1] + "…"
        cells += [short or one["output"]]
        rows.append(["" if value is None else value for value in cells])
    console = stdout_console()
    table(console, (*names, "time", "memory", "output or error"), rows)
    counts = ", ".join(f"{number} {name}" for name, number in result["counts"].items())
    words = f"{counts}; logs in {result['state']}"
    if result["counts"].get("failed"):
        words += "; --resume --retry-failed runs those that failed again"
    console.print(words, highlight=False, markup=False)
