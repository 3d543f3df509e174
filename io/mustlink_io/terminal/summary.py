"""Results for a person, on stdout, from the values that --json prints.

Notes of a run are not repeated here: they went to stderr, and `mustlink info` shows them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from rich.text import Text

from mustlink.cost.resident import size_text
from mustlink_io.hdf5.plain_json import to_json
from mustlink_io.hdf5.store import text
from mustlink_io.terminal.console import (
    cell,
    facts,
    show_notes,
    size,
    stage_table,
    stdout_console,
    table,
)
from mustlink_io.terminal.progress import clock

_QUANTILES = (("0", "least"), ("0.01", "1 %"), ("0.5", "median"), ("0.99", "99 %"), ("1", "most"))


def emit(result: Mapping[str, Any], as_json: bool, show: Callable[[Any], None]) -> None:
    """Print a result as one JSON object or for a person."""
    if as_json:
        click.echo(to_json(result))
    else:
        show(result)


def _sizes(sizes: Sequence[int], names: Sequence[Any] = (), of: str = "clusters") -> str:
    """Return sizes in one line; with names, unless these are 0, 1, 2 …, `name: size`."""
    named = bool(names) and list(names) != list(range(len(names)))
    shown = ", ".join(
        f"{names[at]}: {count:,}" if named else f"{count:,}" for at, count in enumerate(sizes[:20])
    )
    return shown + (f", … ({len(sizes)} {of})" if len(sizes) > 20 else "")


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


def _choices(choices: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what was decided for the caller, as (name, value and reason)."""
    rows = []
    for name, value in choices.items():
        if name == "graph":  # told by `mustlink graph`
            continue
        shown = value
        if isinstance(value, Mapping):
            shown = ", ".join(f"{k} {cell(v)}" for k, v in value.items())
        elif isinstance(value, list | tuple):
            numbers = all(isinstance(v, float) for v in value)  # else a value and its reason
            shown = (", " if numbers else ": ").join(cell(v) for v in value)
        rows.append((f"  {name}", cell(shown)))
    return rows


def show_cluster(result: Mapping[str, Any]) -> None:
    """Print the outcome of `mustlink cluster`."""
    console = stdout_console()
    stage_table(console, result["stages"])
    convergence = result.get("convergence") or {}
    unassigned = result["unassigned"]
    values = ", ".join(f"{v:.4g}" for v in result["eigenvalues"][:12])
    facts(
        console,
        [
            ("method", result["method"]),
            ("nodes", f"{result['n_nodes']:,}"),
            ("cluster sizes", _sizes(result["sizes"], _cluster_names(result))),
            ("unassigned", f"{unassigned:,} nodes (label -1)" if unassigned else None),
            ("eigenvalues", values or None),
            ("constraints kept", _kept(result.get("satisfaction"))),
            ("edges", _adjusted(result.get("adjustment"))),
            ("  F on them", _spread_of(result.get("adjustment"))),
            *_choices(result.get("choices") or {}),
            ("convergence", convergence.get("status")),
            ("time, peak memory", f"{clock(result['seconds'])}, {size(result['peak_bytes'])}"),
            ("written", result["output"]),
        ],
    )


def _cluster_names(result: Mapping[str, Any]) -> Sequence[Any]:
    """Numbers of clusters, with the class that most labelled nodes of each have."""
    names = [text(name)[:40] for name in result.get("class_names", ())]
    return [f"{at} ({name})" if name else at for at, name in enumerate(names)]


def _adjusted(edges: Mapping[str, Any] | None) -> str | None:
    """Return what spread constraints did to the graph in one line."""
    if edges is None:
        return None
    kinds = ("strengthened", "weakened", "added", "untouched")
    return ", ".join(f"{edges[kind]:,} {kind}" for kind in kinds)


def _spread_of(edges: Mapping[str, Any] | None) -> str | None:
    """Return how F is distributed over the edges that it changes."""
    if edges is None or not edges["strengthened"] + edges["weakened"]:
        return None
    F = edges["F"]
    return ", ".join(f"{name} {F[at]:.3g}" for at, name in _QUANTILES)


def show_propagate(result: Mapping[str, Any]) -> None:
    """Print the outcome of `mustlink propagate`."""
    console = stdout_console()
    stage_table(console, result["stages"])
    convergence = result.get("convergence") or {}
    choices = {
        name: value
        for name, value in (result.get("choices") or {}).items()
        if value is not False and name != "solver"  # named under convergence
    }
    unanswered = result["unanswered"]
    facts(
        console,
        [
            ("method", result["method"]),
            ("nodes", f"{result['n_nodes']:,}"),
            ("labels kept", _labels_kept(result)),
            ("class sizes", _sizes(result["sizes"], _class_names(result), "classes")),
            ("unanswered", f"{unanswered:,} nodes (label -1)" if unanswered else None),
            ("mean confidence", f"{result['mean_confidence']:.3f}"),
            *_choices(choices),
            ("convergence", convergence.get("status")),
            ("time, peak memory", f"{clock(result['seconds'])}, {size(result['peak_bytes'])}"),
            ("written", result["output"]),
        ],
    )


def _class_names(result: Mapping[str, Any]) -> Sequence[Any]:
    """Names of the classes, else their numbers."""
    return [text(name) for name in result.get("class_names", ())] or result["classes"]


def _labels_kept(result: Mapping[str, Any]) -> str | None:
    """Return how many of the given labels were answered with their own class."""
    if "labels_kept" not in result:
        return None
    return f"{result['labels_kept']:.1%} of the {int(result['n_labels']):,} given"


def show_graph(result: Mapping[str, Any]) -> None:
    """Print the health of a graph."""
    console = stdout_console()
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
    table(console, ("", "least", "median", "mean", "most"), spread)
    sample = (
        f"{recall:.4f}, measured on {info.get('recall_sample', 0):,} points" if recall else None
    )
    facts(
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
    console.print(Text(f"{result['file']}  {size(result['bytes'])}", style="bold"))
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
            ("constraints kept", _kept(report.get("satisfaction"))),
            ("labels kept", _labels_kept(report)),
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
        console.print(Text(f"{result['work']['folder']}  kept for other runs", style="bold"))
        table(console, ("stage", "size", "took", "made", ""), work)


def _age(kept: Mapping[str, Any]) -> str:
    return "stale: other data or version" if kept["stale"] else ""


def show_score(result: Mapping[str, Any]) -> None:
    """Print scores."""
    console = stdout_console()
    truth = result.get("truth") or {}
    unassigned = result["unassigned"]
    facts(
        console,
        [
            ("nodes", f"{result['n_nodes']:,}"),
            ("cluster sizes", _sizes(result["sizes"], result["names"])),
            ("unassigned", f"{unassigned:,} nodes (label -1)" if unassigned else None),
            ("nodes of known class", f"{truth['n_known']:,}" if truth else None),
            ("right class", f"{truth['right']:.4f}" if "right" in truth else None),
            ("adjusted Rand index", f"{truth['ari']:.4f}" if truth else None),
            ("mutual information", f"{truth['nmi']:.4f} (normalised)" if truth else None),
            ("accuracy", f"{truth['accuracy']:.4f} (best matching)" if truth else None),
            ("constraints kept", _kept(result.get("satisfaction"))),
            ("normalised cut", f"{result['mncut']:.4g}" if "mncut" in result else None),
        ],
    )


def show_report(result: Mapping[str, Any]) -> None:
    """Print the warnings of a result, and what was written about it."""
    console = stdout_console()
    facts(console, [("warning", line) for line in result["warnings"]])
    facts(console, [("written", path) for path in result["written"]])


def show_demo(result: Mapping[str, Any]) -> None:
    """Print what `mustlink demo` did."""
    console = stdout_console()
    facts(
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
    stage_table(console, result["stages"])


def show_clean(result: Mapping[str, Any]) -> None:
    """Print the outcome of `mustlink clean`."""
    for one in result["cleaned"]:
        noun = "result" if one["removed"] == 1 else "results"
        left = f", {one['left']} left" if one["left"] else ""
        click.echo(
            f"{one['folder']}: {one['removed']} {noun} of stages removed, "
            f"{size(one['bytes'])} freed{left}"
        )


def show_plan(result: Mapping[str, Any]) -> None:
    """Print the plan of a run."""
    console = stdout_console()
    rows = [
        (one["name"], clock(one["seconds"]), size(one["peak_bytes"]), one["how"])
        for one in result["stages"]
    ]
    table(console, ("stage", "time", "memory", "how"), rows)
    what = f"{result['n']:,} points of {result['d']:,} coordinates"
    if not result["d"]:
        what = f"{result['n']:,} nodes, {result['nnz']:,} weights"
    memory = result["memory"]
    facts(
        console,
        [
            ("data", f"{result['data']}: {what}"),
            ("method", result["method"]),
            ("time, peak memory", f"{clock(result['seconds'])}, {size(result['peak_bytes'])}"),
            ("memory given", None if memory is None else size(memory)),
            ("least that works", size_text(result["least_memory"], up=True)),
            *(("to fit", change) for change in result["changes"]),
        ],
    )
