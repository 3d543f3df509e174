"""`mustlink batch`: its arguments and its help."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mustlink.errors import InputError
from mustlink_io.commands.options import JSON, QUIET, memory_size

if TYPE_CHECKING:
    from mustlink_io.batch.arguments import Ready
    from mustlink_io.batch.jobs_file import Settings
    from mustlink_io.batch.run import Limits
    from mustlink_io.batch.state import State

SOME_FAILED = 1
_WAIT = 5.0  # seconds for the children of a batch that was killed


@click.command(short_help="Many jobs from one file, within one memory budget.")
@click.argument("jobs", metavar="JOBS.toml")
@click.option(
    "--memory",
    callback=memory_size,
    help="For all jobs together, as 8GB; by their plans. Default auto: what there is here, where "
    "jobs run side by side; none: no limit.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Jobs side by side; default 1.")
@click.option(
    "--scheduler",
    metavar="local|tcp://HOST:PORT",
    help="Jobs as tasks of Dask, one thread each, done again where a worker is lost: by so many "
    "--workers begun here, or by those of a scheduler; needs mustlink[dask].",
)
@click.option("--resume", is_flag=True, help="Go on; leave alone what has ended.")
@click.option("--retry-failed", is_flag=True, help="With --resume: failed jobs again.")
@click.option("--fresh", is_flag=True, help="Forget earlier runs and begin again.")
@click.option("--dry-run", is_flag=True, help="Show the jobs and their plans; run nothing.")
@click.option("--state", help="Folder for status and logs; default JOBS.state beside the file.")
@click.option("--summary", help="Write a table at the end: .csv or .json.")
@QUIET
@JSON
@click.pass_context
def batch(
    context: click.Context,
    /,
    jobs: str,
    quiet: bool,
    as_json: bool,
    state: str | None,
    **options: Any,
) -> None:
    """Run the jobs of a TOML file, one after another or side by side.

    \b
      mustlink batch jobs.toml --dry-run                what would run
      mustlink batch jobs.toml --memory 8GB --workers 2 --summary table.csv
      mustlink batch jobs.toml --resume                 after an interruption
      mustlink batch jobs.toml --scheduler tcp://head:8786

    \b
    [defaults]                       for the jobs that can take them
    k = 10
    labels = "few/{data}.csv"
    output = "out/{name}.h5"         {data} is the file's name without ending
    [[job]]
    name = "cut"
    data = "in/*.h5:/points"         one job a file
    method = ["ncut", "csp"]         and a method: lists are grids
    k = { iris = 3, wine = 3 }       by the name of the data's file
    standardize = true               or "robust"
    truth = "true/{data}.csv"        the table tells ari and accuracy

    Keys are the long options of cluster, propagate and graph (`command = "propagate"`); relative
    paths start at the file. A failed job does not stop the others. Exit code 0: all done; 1: some
    are not, or with --dry-run could not; 2: the file is wrong and nothing ran; 130: interrupted.
    """
    from mustlink_io.batch.arguments import check, check_keys, fits
    from mustlink_io.batch.jobs_file import Where, expand, load
    from mustlink_io.batch.run import BatchRun, check_summary, row, show, write
    from mustlink_io.batch.state import State
    from mustlink_io.hdf5.locks import locked
    from mustlink_io.terminal.console import emit

    if options["resume"] and options["fresh"]:
        raise InputError("--resume goes on, --fresh begins again; give one of them")
    if options["retry_failed"] and not options["resume"]:
        raise InputError("--retry-failed: give --resume as well")
    where = Where(Path(jobs))
    group = context.find_root().command
    commands = group.commands if isinstance(group, click.Group) else {}
    file = load(where)
    check_keys(file, where, commands)
    specs = expand(file, where, lambda command, values, key: fits(commands, command, values, key))
    ready = [check(spec, where, commands) for spec in specs]
    summary = options["summary"] or (file.batch.summary and where.path(file.batch.summary))
    if summary:
        files = [p for one in ready for p in (*one.inputs.values(), one.output)]
        check_summary(summary, [where.file, *files])
    limits = _limits(options, file.batch)

    def say(line: str) -> None:
        if not quiet:
            click.echo(f"  {line}", err=True)

    if options["dry_run"]:
        context.exit(_dry_run(ready, limits, as_json))
    folder = State(Path(state) if state else where.file.with_name(where.file.name + ".state"))
    # children that were killed with an earlier batch need a moment to end
    with (
        _executor(options["scheduler"], limits) as (limits, executor),
        locked(folder.folder, "state of a batch", wait=_WAIT) as lock,
    ):
        _check_used(folder, options["resume"], options["fresh"])
        running = BatchRun(ready, where, folder, limits, executor, say)
        if options["resume"]:
            running.look_back(options["retry_failed"])
        before = sum(job.before for job in running.jobs)
        if before:
            say(f"note: {before} of {len(ready)} jobs have ended in an earlier run")
        running.run(lock if options["scheduler"] is None else None, fresh=options["fresh"])
        rows = [row(job, folder) for job in running.jobs]
        if summary:
            write(summary, rows)
    outcome = {
        "file": str(where.file),
        "state": str(folder.folder),
        "counts": dict(Counter(job.phase for job in running.jobs)),
        "ended_before": before,
        "jobs": rows,
    }
    emit(outcome, as_json, show)
    if running.stopped_by is not None:
        context.exit(128 + running.stopped_by)
    context.exit(0 if all(job.phase == "done" for job in running.jobs) else SOME_FAILED)


def _limits(options: dict[str, Any], settings: Settings) -> Limits:
    """The command line, then the file, then one worker and what there is.

    A job that runs alone looks itself how much that is.
    """
    from mustlink.core.resources import AUTO, Allowed, automatic_memory, named_memory
    from mustlink_io.batch.run import Limits

    memory = options["memory"] or settings.memory or AUTO
    named, workers = named_memory(memory), options["workers"] or settings.workers or 1
    if named is not None:
        return Limits(named.limit, workers)
    here = Allowed() if workers == 1 or options["scheduler"] else automatic_memory()
    return Limits(here.limit, workers, here=here)


@contextlib.contextmanager
def _executor(scheduler: str | None, limits: Limits) -> Iterator[tuple[Limits, Executor]]:
    """Threads here that wait for a child each, or Dask's workers, whose jobs have a thread each.

    Raises InputError where Dask is not there.
    """
    if scheduler is None:
        with ThreadPoolExecutor(limits.workers) as executor:
            yield limits, executor
        return
    from mustlink_io.workers.dask_cluster import client_of, threads_of

    with client_of(limits.workers, scheduler) as client:
        side_by_side = threads_of(client)
        executor = client.get_executor(pure=False)
        yield replace(limits, workers=side_by_side, cores=side_by_side), executor


def _check_used(state: State, resume: bool, fresh: bool) -> None:
    """Raise InputError if there is something to go on with and no option says what to do."""
    used = Counter("interrupted" if s.phase == "running" else s.phase for s in state.used())
    if fresh:
        state.forget()
    elif used and not resume:
        held = ", ".join(f"{number} {phase}" for phase, number in sorted(used.items()))
        raise InputError(
            f"{state.folder}: has jobs of an earlier run ({held}); give --resume to go on or "
            "--fresh to begin again"
        )


def _dry_run(ready: Sequence[Ready], limits: Limits, as_json: bool) -> int:
    """Show the jobs with their plans; why a plan cannot be made stands in its place.

    Returns 1 if there is one, else 0.
    """
    from mustlink.context.rates import measured_speed
    from mustlink_io.batch.run import admission
    from mustlink_io.terminal.console import clock, emit, size, stdout_console, table

    rows: list[dict[str, Any]] = []
    speed = measured_speed()
    for one in ready:
        found: dict[str, Any] = {"job": one.spec.name, "command": one.spec.command}
        found |= {**one.spec.values, "method": one.method}
        found |= {"planned_bytes": None, "planned_seconds": None}
        planned = admission(one, limits.memory, speed, limits.here)
        if planned.plan is not None:
            found["planned_bytes"] = planned.plan.most_bytes
            found["planned_seconds"] = planned.plan.seconds
            found["method"] = one.method and planned.plan.method
        rows.append({**found, "memory": planned.share, "error": planned.refused})

    def show(result: Any) -> None:
        kinds = ("job", "command", "method", "data", "output")
        cells = [
            [
                *(one[kind] or "" for kind in kinds),
                "" if one["planned_bytes"] is None else size(one["planned_bytes"]),
                "" if one["planned_seconds"] is None else clock(one["planned_seconds"]),
                one["error"] or "",
            ]
            for one in rows
        ]
        table(stdout_console(), (*kinds, "plan", "time", "error"), cells)

    emit({"jobs": rows, "memory": limits.memory, "workers": limits.workers}, as_json, show)
    return int(any(one["error"] for one in rows))
