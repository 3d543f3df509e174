"""`mustlink info`: its arguments, its help, and how what a file holds looks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from mustlink_io.commands.options import JSON
from mustlink_io.terminal.console import (
    clock,
    facts,
    show_notes,
    size,
    stage_table,
    stdout_console,
    table,
    title,
)
from mustlink_io.terminal.summary import constraints_kept, emit, labels_kept


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
    from mustlink_io.jobs.info import describe

    kept = work_folder.listing(file)
    there = Path(file).is_file() or not kept  # a run that was killed leaves its work only
    found = describe(file) if there else {"file": file, "bytes": 0, "entries": []}
    emit(found | kept, as_json, show_info)


def show_info(result: Mapping[str, Any]) -> None:
    """Print what is in a file."""
    console = stdout_console()
    rows = [
        (
            entry["path"],
            " x ".join(f"{s:,}" for s in entry["shape"]) or "-",
            entry["type"] + (f", {entry['nnz']:,} entries" if entry.get("nnz") else ""),
            entry["meaning"],
        )
        for entry in result["entries"]
    ]
    title(console, f"{result['file']}  {size(result['bytes'])}")
    table(console, ("path", "shape", "type", "meaning"), rows)
    if "parameters" in result:
        given = ", ".join(f"{k}={v}" for k, v in result["parameters"].items() if v is not None)
        made = ", ".join(f"{k} {v}" for k, v in result.get("versions", {}).items())
        run: list[tuple[str, Any]] = [("parameters", given), ("versions", made)]
        for item in result.get("inputs", []):
            run.append((f"input {item['role']}", f"{item['name']}  sha256 {item['sha256']}"))
        facts(console, run)
    report = result.get("report")
    if isinstance(report, Mapping):
        kept = [
            ("constraints kept", constraints_kept(report.get("satisfaction"))),
            ("labels kept", labels_kept(report)),
        ]
        facts(console, kept)
        show_notes(console, report.get("notes", []))
    if "stages" in result:
        stage_table(console, result["stages"])
    if "work" in result:
        work = [
            (one["stage"], size(one["bytes"]), clock(one["seconds"]), one["made"], _age(one))
            for one in result["work"]["results"]
        ]
        title(console, f"{result['work']['folder']}  kept for other runs")
        table(console, ("stage", "size", "took", "made", ""), work)


def _age(kept: Mapping[str, Any]) -> str:
    return "stale: other data or version" if kept["stale"] else ""
