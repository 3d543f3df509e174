"""Results for a person, on stdout: tables drawn by rich from the values that --json prints.

Notes of a run are not repeated here: they went to stderr, and `mustlink info` shows them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mustlink_io.progress import clock


def size(n_bytes: float) -> str:
    """Return bytes for a person: 512 B, 1.3 MB, 2.1 GB."""
    value = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def _console() -> Console:
    console = Console(highlight=False)
    # a file or a pipe has no width: do not cut names there
    return console if console.is_terminal else Console(highlight=False, width=160)


def _facts(console: Console, rows: Sequence[tuple[str, Any]]) -> None:
    """Print pairs of a name and a value, one a line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            grid.add_row(name, Text(str(value)))
    console.print(grid)


def _table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table, numbers to the right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for at, name in enumerate(columns):
        numeric = all(isinstance(row[at], int | float) or row[at] == "" for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _sizes(sizes: Sequence[int]) -> str:
    shown = ", ".join(f"{count:,}" for count in sizes[:20])
    return shown + (f", … ({len(sizes)} clusters)" if len(sizes) > 20 else "")


def _kept(kept: Mapping[str, Any] | None) -> str | None:
    """Return the satisfaction of constraints in one line."""
    if kept is None:
        return None
    parts = [
        f"{kept[key]:.1%} of {int(kept[count]):,} {name}"
        for key, count, name in (
            ("must_kept", "n_must", "must-links"),
            ("cannot_kept", "n_cannot", "cannot-links"),
        )
        if kept.get(count)
    ]
    return ", ".join(parts) or None


def _stages(console: Console, stages: Sequence[Mapping[str, Any]]) -> None:
    merged: dict[str, tuple[int, float, float]] = {}
    for stage in stages:
        times, seconds, _ = merged.get(stage["name"], (0, 0.0, 0.0))
        merged[stage["name"]] = (times + 1, seconds + stage["seconds"], stage["peak_bytes"])
    rows = [
        (name if times == 1 else f"{name} ({times} times)", clock(seconds), size(peak))
        for name, (times, seconds, peak) in merged.items()
    ]
    _table(console, ("stage", "time", "peak memory so far"), rows)


def _notes(console: Console, notes: Sequence[str]) -> None:
    for note in notes:
        console.print(Text(f"note: {note}", style="yellow"))


def _choices(choices: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what was decided for the caller, as (name, value and reason)."""
    rows = []
    for name, value in choices.items():
        if name == "graph":  # told by `mustlink graph`
            continue
        shown = value
        if isinstance(value, Mapping):
            shown = ", ".join(f"{k} {_cell(v)}" for k, v in value.items())
        elif isinstance(value, list | tuple):
            shown = ": ".join(_cell(v) for v in value)
        rows.append((f"  {name}", _cell(shown)))
    return rows


def show_cluster(result: Mapping[str, Any]) -> None:
    """Print the outcome of `mustlink cluster`."""
    console = _console()
    _stages(console, result["stages"])
    convergence = result.get("convergence") or {}
    unassigned = result["unassigned"]
    values = ", ".join(f"{v:.4g}" for v in result["eigenvalues"][:12])
    _facts(
        console,
        [
            ("method", result["method"]),
            ("nodes", f"{result['n_nodes']:,}"),
            ("cluster sizes", _sizes(result["sizes"])),
            ("unassigned", f"{unassigned:,} nodes (label -1)" if unassigned else None),
            ("eigenvalues", values or None),
            ("constraints kept", _kept(result.get("satisfaction"))),
            *_choices(result.get("choices") or {}),
            ("convergence", convergence.get("status")),
            ("time, peak memory", f"{clock(result['seconds'])}, {size(result['peak_bytes'])}"),
            ("written", result["output"]),
        ],
    )


def show_graph(result: Mapping[str, Any]) -> None:
    """Print the health of a graph."""
    console = _console()
    info = result["info"]
    recall = info.get("recall")
    parts = result["largest_components"]
    largest = ", ".join(f"{count:,}" for count in parts)
    more = ", …" if result["n_components"] > len(parts) else ""
    spread = [
        (name, *(values[key] for key in ("least", "median", "mean", "most")))
        for name, values in (
            ("neighbours", result["neighbours"]),
            ("degree (sum of weights)", result["degree"]),
        )
    ]
    _table(console, ("", "least", "median", "mean", "most"), spread)
    sample = (
        f"{recall:.4f}, measured on {info.get('recall_sample', 0):,} points" if recall else None
    )
    _facts(
        console,
        [
            ("nodes, edges", f"{result['n_nodes']:,}, {result['n_edges']:,}"),
            ("components", f"{result['n_components']:,} (largest: {largest}{more})"),
            ("joined by bridges", info.get("n_bridges") or None),
            ("isolated nodes", result["isolated"] or None),
            ("recall of neighbours", sample),
            ("time, peak memory", f"{clock(result['seconds'])}, {size(result['peak_bytes'])}"),
            ("written", result["output"]),
        ],
    )


def show_info(result: Mapping[str, Any]) -> None:
    """Print what is in a file."""
    console = _console()
    rows = [
        (
            entry["path"],
            " x ".join(f"{s:,}" for s in entry["shape"]) or "-",
            entry["type"] + (f", {entry['nnz']:,} entries" if entry.get("nnz") else ""),
            entry["meaning"],
        )
        for entry in result["entries"]
    ]
    console.print(Text(f"{result['file']}  {size(result['bytes'])}", style="bold"))
    _table(console, ("path", "shape", "type", "meaning"), rows)
    if "parameters" in result:
        given = ", ".join(f"{k}={v}" for k, v in result["parameters"].items() if v is not None)
        made = ", ".join(f"{k} {v}" for k, v in result.get("versions", {}).items())
        facts: list[tuple[str, Any]] = [("parameters", given), ("versions", made)]
        for item in result.get("inputs", []):
            facts.append((f"input {item['role']}", f"{item['name']}  sha256 {item['sha256']}"))
        _facts(console, facts)
    report = result.get("report")
    if isinstance(report, Mapping):
        _facts(console, [("constraints kept", _kept(report.get("satisfaction")))])
        _notes(console, report.get("notes", []))
    if "stages" in result:
        _stages(console, result["stages"])


def show_score(result: Mapping[str, Any]) -> None:
    """Print scores."""
    console = _console()
    truth = result.get("truth") or {}
    unassigned = result["unassigned"]
    _facts(
        console,
        [
            ("nodes", f"{result['n_nodes']:,}"),
            ("cluster sizes", _sizes(result["sizes"])),
            ("unassigned", f"{unassigned:,} nodes (label -1)" if unassigned else None),
            ("nodes of known class", f"{truth['n_known']:,}" if truth else None),
            ("adjusted Rand index", f"{truth['ari']:.4f}" if truth else None),
            ("mutual information", f"{truth['nmi']:.4f} (normalised)" if truth else None),
            ("accuracy", f"{truth['accuracy']:.4f} (best matching)" if truth else None),
            ("constraints kept", _kept(result.get("satisfaction"))),
            ("normalised cut", f"{result['mncut']:.4g}" if "mncut" in result else None),
        ],
    )


def show_demo(result: Mapping[str, Any]) -> None:
    """Print what `mustlink demo` did."""
    console = _console()
    _facts(
        console,
        [
            ("image", f"{result['image']}: {result['n_nodes']:,} pixels"),
            ("strokes", f"{result['stroke_pixels']:,} pixels of {', '.join(result['classes'])}"),
            ("obeyed", f"{result['obeyed']:.1%} of them ({result['obeyed_without']:.1%} without)"),
            ("sizes", _sizes(result["sizes"])),
            ("peak memory", size(result["peak_bytes"])),
            ("wrote", ", ".join(result["files"])),
        ],
    )
    _stages(console, result["stages"])
