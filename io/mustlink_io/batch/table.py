"""The summary of a batch: a row a job, as CSV, JSON or HDF5, and on stdout."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mustlink.errors import InputError
from mustlink_io.batch.run import Item
from mustlink_io.batch.state import State
from mustlink_io.hdf5 import writing
from mustlink_io.hdf5.result import Report
from mustlink_io.hdf5.writing import to_json
from mustlink_io.jobs.diagnostics import versions
from mustlink_io.jobs.score import score
from mustlink_io.terminal.console import clock, size, stdout_console, table

ENDINGS = (".csv", ".json", ".h5", ".hdf5")
_SHOWN = 60  # characters of an error on a terminal; the files have all


def row(item: Item, state: State) -> dict[str, Any]:
    """Return what there is to tell about one job; None where nothing is known."""
    spec, status = item.ready.spec, item.status
    found = (state.result(spec.name) if item.phase == "done" else None) or {}
    told = Report.model_validate(found)
    used = found.get("parameters", {}).get("method")  # where none was named, by what the data are
    kept = told.satisfaction
    shares = {name: share for name, share, _ in kept.asked} if kept else {}
    scores, wrong = _scores(item)
    values = {key: value for key, value in spec.values.items() if key not in ("output", "method")}
    return {
        "job": spec.name,
        "status": item.phase,
        "command": spec.command,
        "method": item.ready.method and (used or item.ready.method),
        **values,
        "output": str(item.ready.output),
        "n_nodes": told.n_nodes,
        "n_clusters": None if told.sizes is None else sum(1 for n in told.sizes if n),
        "kept": kept.on_balance if kept else None,
        "must_kept": shares.get("must-links"),
        "cannot_kept": shares.get("cannot-links"),
        **scores,
        "converged": told.convergence.reason if told.convergence else None,
        "seconds": status.seconds if status else None,
        "peak_bytes": status.peak_bytes if status else None,
        "planned_seconds": status.plan_seconds if status else None,
        "planned_bytes": status.plan_bytes if status else None,
        "attempts": status.attempts if status else 0,
        "exit_code": status.exit_code if status else None,
        "error": (status.error if status else None) or wrong,
        "log_file": str(log) if (log := state.place(spec.name) / "log.txt").exists() else None,
    }


def _scores(item: Item) -> tuple[dict[str, Any], str | None]:
    """How a result agrees with the truth of the job, if it has one; what is wrong with these."""
    if item.ready.truth is None:
        return {}, None
    nothing = {"ari": None, "accuracy": None}
    if item.phase != "done" or item.ready.method is None:
        return nothing, None
    try:
        found = score(str(item.ready.output), item.ready.truth)["truth"]
    except InputError as error:
        return nothing, str(error)
    return {"ari": found["ari"], "accuracy": found["accuracy"]}, None


def columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return every column once; what only some jobs have stands among the parameters."""
    found: list[str] = []
    for one in rows:
        at = 0
        for name in one:
            if name in found:
                at = found.index(name) + 1
            else:
                found.insert(at, name)
                at += 1
    return found


def check_summary(path: str | Path, others: Sequence[Path]) -> None:
    """Raise InputError unless a summary can be written; `others` are files it must not replace."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise InputError(f"{path}: unknown ending; a summary is {', '.join(ENDINGS)}")
    writing.check_output(path, others)


def write(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows as the ending says, whole or not at all. Raises InputError.

    In HDF5 every column is a dataset `/jobs/NAME` with a value a job: numbers as float64, NaN where
    unknown; anything else as UTF-8 text, empty where unknown.
    """
    suffix, names = Path(path).suffix.lower(), columns(rows)
    if suffix not in (".csv", ".json"):
        with writing.create_h5(path) as file:
            _write_h5(file, names, rows)
        return
    with writing.atomic(path) as temporary:
        if suffix == ".json":
            temporary.write_text(to_json({"jobs": rows, "versions": versions()}) + "\n", "utf-8")
        else:
            with open(temporary, "w", newline="", encoding="utf-8") as text:
                writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)


def _write_h5(file: h5py.File, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    group = file.create_group("jobs")
    group.attrs["columns"] = json.dumps(list(names))
    for name in names:
        values = [one.get(name) for one in rows]
        if any(v is not None for v in values) and all(_is_number(v) for v in values):
            data = np.array([np.nan if v is None else v for v in values], dtype=np.float64)
            group.create_dataset(name, data=data)
        else:
            words = ["" if v is None else str(v) for v in values]
            group.create_dataset(name, data=words, dtype=h5py.string_dtype())


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def show(result: Mapping[str, Any]) -> None:
    """Print the table of a batch that ended."""
    console = stdout_console()
    scored = any("ari" in one for one in result["jobs"])
    rows = [
        (
            one["job"],
            one["status"],
            "" if one["n_nodes"] is None else one["n_nodes"],
            "" if one["n_clusters"] is None else one["n_clusters"],
            _kept(one),
            *([_share(one.get("ari"))] if scored else []),
            "" if one["seconds"] is None else clock(one["seconds"]),
            "" if one["peak_bytes"] is None else size(one["peak_bytes"]),
            _short(one["error"]) if one["error"] else one["output"],
        )
        for one in result["jobs"]
    ]
    more = ["ARI"] if scored else []
    names = (
        "job",
        "status",
        "nodes",
        "clusters",
        "kept",
        *more,
        "time",
        "memory",
        "output or error",
    )
    table(console, names, rows)
    counts = ", ".join(f"{number} {name}" for name, number in result["counts"].items())
    console.print(f"{counts}; logs in {result['state']}", highlight=False, markup=False)


def _kept(one: Mapping[str, Any]) -> str:
    """Constraints kept on balance, and of must-links and cannot-links."""
    if one["kept"] is None:
        return ""
    kinds = [one[name] for name in ("must_kept", "cannot_kept")]
    told = "/".join("-" if share is None else f"{share:.0%}" for share in kinds)
    return f"{one['kept']:.1%} ({told})"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _short(words: str) -> str:
    return words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"
