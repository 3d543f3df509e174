"""The summary of a batch: a row a job, as CSV or JSON, and on stdout."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mustlink.errors import InputError
from mustlink_io.batch.children import LOG
from mustlink_io.batch.run import BatchJob
from mustlink_io.batch.state import State
from mustlink_io.hdf5 import writing
from mustlink_io.hdf5.result import ResultReport
from mustlink_io.hdf5.writing import to_json
from mustlink_io.jobs.diagnostics import versions
from mustlink_io.jobs.score import score
from mustlink_io.terminal.console import clock, size, stdout_console, table

ENDINGS = (".csv", ".json")
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
    if Path(path).suffix.lower() not in ENDINGS:
        raise InputError(f"{path}: unknown ending; a summary is {', '.join(ENDINGS)}")
    writing.check_output(path, others)


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
    console.print(f"{counts}; logs in {result['state']}", highlight=False, markup=False)
