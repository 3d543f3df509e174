"""`mustlink info` and `clean`: what a file holds, and what runs kept beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mustlink_io.commands.options import JSON
from mustlink_io.terminal.console import (
    clock,
    constraints_kept,
    emit,
    facts,
    labels_kept,
    show_notes,
    size,
    stage_table,
    stdout_console,
    table,
    title,
)

if TYPE_CHECKING:
    from rich.console import Console

    from mustlink_io.hdf5.result import Result
    from mustlink_io.jobs.info import Contents


_MOST_COLUMNS = 100


@click.command(short_help="What is in a file.")
@click.argument("file")
@JSON
def info(file: str, as_json: bool) -> None:
    """List what is in FILE and, of results, how they were made and what is kept beside them.

    \b
      mustlink info data.h5
      mustlink info out.h5 --json | jq .parameters
    """
    from mustlink_io.hdf5 import work_folder
    from mustlink_io.hdf5.locks import lock_file
    from mustlink_io.jobs.info import Contents, describe

    work = work_folder.listing(file)
    begun = work_folder.folder_of(file).is_dir() or lock_file(file).exists()
    if Path(file).is_file() or not begun:
        found = describe(file)
        emit(found.plain() | work, as_json, lambda _: show_info(found, work.get("work")))
        return
    unfinished = _unfinished(file, work)
    known = Contents(file, 0, []).plain() | {"unfinished": unfinished} | work
    emit(known, as_json, lambda _: show_unfinished(unfinished, work.get("work")))


def _unfinished(file: str, work: Mapping[str, Any]) -> str:
    """What to say of an output of which there is only what its run left, or still holds."""
    from mustlink_io.hdf5.locks import is_locked

    if is_locked(file):
        return f"{file}: a run is writing it, it is not there yet"
    if work:
        return f"{file}: unfinished; the same command again goes on from {work['work']['folder']}"
    return f"{file}: unfinished, and nothing is kept of it; run the same command again"


def show_unfinished(words: str, work: Mapping[str, Any] | None) -> None:
    """Print that an output is not there yet, and what is kept for it."""
    console = stdout_console()
    console.print(words, highlight=False, markup=False, soft_wrap=True)
    if work is not None:
        _show_work(console, work)


def show_info(found: Contents, work: Mapping[str, Any] | None) -> None:
    """Print what is in a file, and what is kept beside it."""
    console = stdout_console()
    rows = [
        (
            entry["path"],
            " x ".join(f"{s:,}" for s in entry["shape"]) or "-",
            entry["type"] + (f", {entry['nnz']:,} entries" if entry.get("nnz") else ""),
            entry["meaning"],
        )
        for entry in found.entries
    ]
    title(console, f"{found.file}  {size(found.bytes)}")
    table(console, ("path", "shape", "type", "meaning"), rows)
    if found.columns:
        _show_columns(console, found.columns)
    if found.result is not None:
        _show_result(console, found.result)
    if work is not None:
        _show_work(console, work)


def _show_columns(console: Console, columns: Sequence[Mapping[str, Any]]) -> None:
    shown = columns
    if len(columns) > _MOST_COLUMNS:
        shown = [one for one in columns if one["type"] == "text" or one["missing"]][:_MOST_COLUMNS]
    rows = [(one["name"], one["type"], one["missing"] or "", _range(one)) for one in shown]
    if rows:
        table(console, ("column", "type", "missing", "values"), rows)


def _range(column: Mapping[str, Any]) -> str:
    if column["type"] == "text":
        return f"{column['different']:,} different"
    low, high = column["low"], column["high"]
    if column["type"] == "date" and low is not None:
        return f"{low} to {high}"
    return "none" if low is None else f"{low:g} to {high:g}"


def _show_work(console: Console, work: Mapping[str, Any]) -> None:
    results = [
        (
            one["stage"],
            size(one["bytes"]),
            clock(one["seconds"]),
            one["made"],
            "stale: other data or version" if one["stale"] else "",
        )
        for one in work["results"]
    ]
    title(console, f"{work['folder']}  kept for other runs")
    table(console, ("stage", "size", "took", "made", ""), results)


def _show_result(console: Console, result: Result) -> None:
    known = result.model_fields_set
    if "parameters" in known:
        parameters = ", ".join(f"{k}={v}" for k, v in result.parameters.items() if v is not None)
        made = ", ".join(f"{k} {v}" for k, v in result.versions.items())
        rows = [(f"input {one.role}", f"{one.name}  sha256 {one.sha256}") for one in result.inputs]
        facts(console, [("parameters", parameters), ("versions", made), *rows])
    if "report" in known:
        shares = [
            ("constraints kept", constraints_kept(result.report.satisfaction)),
            ("labels kept", labels_kept(result.report)),
        ]
        facts(console, shares)
        show_notes(console, result.report.notes, result.report.warnings)
    if "stages" in known:
        stage_table(console, result.stages)


@click.command(short_help="Remove what runs kept for later.")
@click.argument("outputs", nargs=-1, required=True, metavar="OUTPUT…")
@click.option("--stale", is_flag=True, help="Only what no run on the latest data would use.")
@JSON
def clean(outputs: tuple[str, ...], stale: bool, as_json: bool) -> None:
    """Remove the results of stages that are kept in OUTPUT.work; OUTPUT itself stays.

    \b
      mustlink info out.h5             what is kept, how large it is, and whether it is stale
      mustlink clean out.h5 --stale
      mustlink clean out.h5
      mustlink clean out/*.h5
    """
    from mustlink_io.hdf5 import work_folder

    emit({"cleaned": [work_folder.clean(one, stale) for one in outputs]}, as_json, show_clean)


def show_clean(result: Mapping[str, Any]) -> None:
    """Print the outcome of `mustlink clean`."""
    for one in result["cleaned"]:
        noun = "result" if one["removed"] == 1 else "results"
        left = f", {one['left']} left" if one["left"] else ""
        click.echo(
            f"{one['folder']}: {one['removed']} {noun} of stages removed, "
            f"{size(one['bytes'])} freed{left}"
        )
