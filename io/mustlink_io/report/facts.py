"""The facts of a result file, as plain values: what `mustlink report --json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.formats import annotate
from mustlink_io.hdf5 import store
from mustlink_io.jobs.info import describe
from mustlink_io.report import arrays, recorded
from mustlink_io.report.arrays import Arrays

_ASKED = {"pairs": "pairs", "labels": "labels", "graph": "a second graph", "matrix": "a matrix"}


@dataclass(frozen=True)
class Result:
    """Facts as plain values, and the arrays that pictures are made of."""

    facts: dict[str, Any]
    arrays: Arrays


def read(path: str) -> Result:
    """Read a result of `mustlink cluster`, `propagate` or `demo`; raises InputError."""
    place = formats.parse(path)
    if place.suffix == annotate.ENDING and not place.part:
        raise InputError(
            f"{path}: AnnData holds the result, but not what a report tells of the run; run the "
            "same command with -o out.h5, then: mustlink report out.h5"
        )
    if place.suffix not in formats.HDF5 or place.part:
        raise InputError(f"{path}: no result; give the .h5 file that a run wrote, as: out.h5")
    told = describe(path)
    report = told.get("report")
    with store.open_h5(place.path) as file:
        if not isinstance(report, Mapping) or store.find(file, "/labels") is None:
            raise InputError(
                f"{path}: no result of a run (no /report with /labels in it); give the file that "
                "mustlink cluster or mustlink propagate wrote"
            )
        held = arrays.load(file)
        constraints = recorded.part(recorded.Constraints, report, "constraints")
        names = arrays.node_names(file, _named(constraints), held.labels.size)
    facts = _facts(told, report, held, constraints, names)
    return Result({"file": Path(path).name, **facts}, held)


def _named(asked: recorded.Constraints | None) -> list[int]:
    """Nodes that the page names."""
    if asked is None:
        return []
    ends = [node for one in asked.worst for node in one.nodes]
    return ends + [s.node for s in asked.strays] + [o.node for o in asked.overruled]


def _facts(
    told: Mapping[str, Any],
    report: Mapping[str, Any],
    held: Arrays,
    asked: recorded.Constraints | None,
    names: Mapping[int, str],
) -> dict[str, Any]:
    kind = "classes" if held.confidence is not None else "clusters"
    warnings = recorded.lines(report, "warnings")
    graph = recorded.part(recorded.Graph, report, "graph")
    data = recorded.part(recorded.Data, report, "data")
    parameters = told.get("parameters") or {}
    facts = {
        "kind": kind,
        "method": recorded.words(report, "method") or "unknown method",
        "finished": recorded.words(report, "finished"),
        "command": recorded.words(report, "command"),
        "n_nodes": int(held.labels.size),
        "warnings": warnings,
        "notes": [note for note in recorded.lines(report, "notes") if note not in warnings],
        "data": None if data is None else data.model_dump(),
        "inputs": told.get("inputs") or [],
        "graph": None if graph is None else graph.model_dump(),
        "spectrum": _spectrum(report, held),
        kind: _groups(report, held),
        "unassigned": int(np.count_nonzero(held.labels < 0)),
        "constraints": _constraints(report, asked, names),
        "stages": _stages(told.get("stages") or []),
        "choices": _choices(report),
        "parameters": {name: _shallow(v) for name, v in parameters.items() if v is not None},
        "versions": told.get("versions") or {},
        "seconds": sum(stage["seconds"] for stage in told.get("stages") or []),
        "peak_bytes": max((s["peak_bytes"] for s in told.get("stages") or []), default=0),
    }
    if kind == "classes":
        facts["confidence"] = _confidence(held)
        facts["labels_kept"] = recorded.number(report, "labels_kept")
        facts["n_labels"] = recorded.number(report, "n_labels")
    facts["missing"] = _missing(facts)
    return facts


def _spectrum(report: Mapping[str, Any], held: Arrays) -> dict[str, Any] | None:
    """The graph's eigenvalues if they go beyond K, else those of the method."""
    found = recorded.part(recorded.Spectrum, report, "spectrum")
    own = [] if held.eigenvalues is None else held.eigenvalues.tolist()
    k = recorded.number(report, "n_clusters")
    count = None if k is None else int(k)
    beyond = recorded.number(report, "next_eigenvalue")
    if found is not None and (count is None or len(found.values) >= count):
        values = [*found.values]
        if beyond is not None and len(values) == count:
            values.append(beyond)
        return {"of": "graph", "values": values, "n_clusters": count}
    if not own:
        return None
    if beyond is not None and len(own) == count:
        return {"of": "graph", "values": [*own, beyond], "n_clusters": count}
    return {"of": "method", "values": own, "n_clusters": None}


def _groups(report: Mapping[str, Any], held: Arrays) -> list[dict[str, Any]]:
    """A row a cluster or class with nodes; conductance is None where a run did not record it."""
    names, sizes = np.unique(held.labels[held.labels >= 0], return_counts=True)
    found = recorded.part(recorded.Clusters, report, "clusters")
    rows: dict[int, tuple[float, float]] = {}
    if found is not None:
        columns = (found.names, found.conductance, found.volume_share)
        rows = {name: (phi, share) for name, phi, share in zip(*columns, strict=True)}
    return [
        {
            "name": name,
            "label": held.names.get(name),
            "size": size,
            "conductance": rows.get(name, (None, None))[0],
            "volume_share": rows.get(name, (None, None))[1],
        }
        for name, size in zip(names.tolist(), sizes.tolist(), strict=True)
    ]


def _constraints(
    report: Mapping[str, Any], asked: recorded.Constraints | None, names: Mapping[int, str]
) -> dict[str, Any] | None:
    """What was asked and kept; of an older file, what its satisfaction tells."""
    kept = report.get("satisfaction")
    if asked is None and not isinstance(kept, Mapping):
        return None
    found: dict[str, Any] = (asked or recorded.Constraints(kind="none")).model_dump()
    found["kind"] = None if asked is None else _ASKED.get(asked.kind, "labels and pairs")
    if isinstance(kept, Mapping):
        for kind in ("must", "cannot"):
            found[kind] = found.get(kind) or _counted(kept, kind)
    for row in [*found["strays"], *found["overruled"]]:
        row["name"] = names.get(row["node"])
    for row in found["worst"]:
        row["names"] = [names.get(node) for node in row["nodes"]]
    return found


def _counted(kept: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    """Pairs of a kind from the shares that every version recorded; weights are not in them."""
    n, share = recorded.number(kept, f"n_{kind}"), recorded.number(kept, f"{kind}_kept")
    if not n or share is None or not 0 <= share <= 1:
        return None
    return {"n": int(n), "kept": round(n * share), "weight": None, "weight_kept": None}


def _stages(stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Stages with several runs of one added up, in order of their first."""
    merged: dict[str, dict[str, Any]] = {}
    for stage in stages:
        row = merged.setdefault(
            stage["name"], {"name": stage["name"], "times": 0, "seconds": 0.0, "peak_bytes": 0}
        )
        row["times"] += 1
        row["seconds"] += stage["seconds"]
        row["peak_bytes"] = max(row["peak_bytes"], stage["peak_bytes"])
    return list(merged.values())


def _choices(report: Mapping[str, Any]) -> dict[str, Any]:
    """What was decided for the caller."""
    found = report.get("choices")
    chosen = _shallow(found) if isinstance(found, Mapping) else {}
    chosen.pop("graph", None)  # told under the graph's health
    convergence = report.get("convergence")
    if isinstance(convergence, Mapping) and isinstance(convergence.get("status"), str):
        chosen["convergence"] = convergence["status"]
    return chosen


def _shallow(value: Any, depth: int = 4) -> Any:
    """A value without what lies deeper than anything that runs record: a file can hold any JSON."""
    if isinstance(value, Mapping):
        return {k: _shallow(v, depth - 1) for k, v in value.items()} if depth else "…"
    if isinstance(value, list):
        return [_shallow(v, depth - 1) for v in value] if depth else "…"
    return value


def _confidence(held: Arrays) -> dict[str, Any]:
    """Confidence of the nodes that were not given a label, or of all where that is unknown."""
    assert held.confidence is not None
    answered = held.labels >= 0
    guessed = answered if held.given is None else answered & (held.given < 0)
    sure = held.confidence[guessed if guessed.any() else answered]
    counts, edges = np.histogram(np.clip(sure, 0, 1), bins=20, range=(0.0, 1.0))
    return {
        "mean": float(sure.mean()) if sure.size else None,
        "below_tenth": int(np.count_nonzero(sure < 0.1)),
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
    }


def _missing(facts: Mapping[str, Any]) -> list[str]:
    """What the page would show, had an earlier version recorded it."""
    wanted = {
        "command": "the command line",
        "data": "the shape of the data",
        "graph": "the health of the graph",
    }
    found = [what for key, what in wanted.items() if facts[key] is None]
    groups = facts[facts["kind"]]
    if groups and groups[0]["conductance"] is None:
        found.append("the conductance of the clusters")
    asked = facts["constraints"]
    if asked is not None and asked["kind"] is None:
        found.append("which constraints were broken")
    return found
