"""A result file: its arrays, checked, and the facts of `mustlink report --json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from mustlink.core.state import chosen
from mustlink.errors import InputError
from mustlink_io import formats
from mustlink_io.formats import anndata, results
from mustlink_io.formats.shown import Show, shown
from mustlink_io.hdf5 import result, store
from mustlink_io.hdf5.result import LARGEST, ResultCalibration, ResultConstraints, ResultReport
from mustlink_io.jobs.diagnostics import guessed
from mustlink_io.jobs.models import load_model
from mustlink_io.jobs.points import RowSource
from mustlink_io.pictures.charts import is_shares
from mustlink_io.report.profiles import Material, described
from mustlink_io.terminal.console import calibrated

_MOST_SHARES = 50_000_000  # of rows in clusters
_MOST_PARTS, _MOST_NUMBERS = 1_000, 100_000  # of a hierarchy that is drawn
_ITEMS = {
    "labels": "/labels",
    "embedding": "/embedding",
    "eigenvalues": "/eigenvalues",
    "pairs": "/constraints/pairs",
    "belief": "/constraints/belief",
    "known": "/constraints/labels",
    "confidence": "/confidence",
    "classes": "/classes",
    "image": "/image",
    "linkage": "/hierarchy/linkage",
    "parts": "/hierarchy/clusters",
}


@dataclass(frozen=True)
class Arrays:
    """What a result holds of labels (n,), embedding (n, k), pairs (m, 2), …; None is absent.

    `names` are those of clusters or classes, by number.
    """

    labels: NDArray[np.int64]
    embedding: NDArray[Any] | None = None
    eigenvalues: NDArray[Any] | None = None
    pairs: NDArray[Any] | None = None
    belief: NDArray[Any] | None = None
    known: NDArray[Any] | None = None
    confidence: NDArray[Any] | None = None
    classes: NDArray[Any] | None = None
    image: NDArray[Any] | None = None
    linkage: NDArray[Any] | None = None
    parts: NDArray[Any] | None = None
    names: Mapping[int, str] = field(default_factory=dict)


def load(file: h5py.File) -> Arrays:
    """Read all there is; raises InputError for what does not fit together."""
    dims: dict[str, int] = {}
    found = {
        name: store.read(file, path, dims, path)
        for name, path in _ITEMS.items()
        if store.find(file, path) is not None
    }
    if not found["labels"].size or found["labels"].dtype.kind == "f":
        raise InputError(f"{file.filename}:/labels: damaged: not one whole number a node")
    labels = found["labels"].astype(np.int64)
    n, pairs = labels.size, found.get("pairs")
    for name in ("embedding", "eigenvalues", "belief", "confidence"):
        if name in found and not (np.abs(found[name], dtype=np.float64) < LARGEST).all():
            raise InputError(f"{file.filename}:{_ITEMS[name]}: damaged: values that are no numbers")
    if (pairs is None) != ("belief" not in found):
        raise InputError(f"{file.filename}:/constraints: damaged: pairs without belief")
    if pairs is not None and pairs.size and (pairs.min() < 0 or pairs.max() >= n):
        raise InputError(f"{file.filename}:/constraints/pairs: damaged: nodes that do not exist")
    if "image" in found and found["image"].shape[0] * found["image"].shape[1] != n:
        raise InputError(f"{file.filename}:/image: damaged: its pixels are not the {n} nodes")
    _check_tree(file, found)
    if "known" in found:
        found["known"] = found["known"].astype(np.int64)
    names = results.names_in(file, "/class_names", "/classes")
    printable = {number: store.text(name) for number, name in names.items()}
    return Arrays(**{**found, "labels": labels}, names=printable)


def _check_tree(file: h5py.File, found: dict[str, Any]) -> None:
    tree, parts = found.get("linkage"), found.get("parts")
    if tree is None and parts is None:
        return
    where = f"{file.filename}:/hierarchy"
    if tree is None or parts is None or not 0 < len(tree) < _MOST_PARTS:
        raise InputError(f"{where}: damaged: no linkage with the clusters of its parts")
    from scipy.cluster.hierarchy import is_valid_linkage  # imports scipy.spatial

    small = np.abs(tree, dtype=np.float64) < LARGEST
    if not small.all() or not is_valid_linkage(tree.astype(np.float64)):
        raise InputError(f"{where}/linkage: damaged: no linkage")
    if parts.min() < 0 or parts.max() >= _MOST_NUMBERS:
        raise InputError(f"{where}/clusters: damaged: clusters that do not exist")
    found["linkage"] = tree.astype(np.float64)


def node_names(file: h5py.File, nodes: Iterable[int], n: int) -> dict[int, str]:
    """Names of some nodes, where the file has /names; the others are not read."""
    wanted = tuple(sorted({node for node in nodes if 0 <= node < n}))
    if not wanted or store.find(file, "/names") is None:
        return {}
    store.try_first(file, "/names", _names, wanted, n)
    return dict(zip(wanted, _names(file, wanted, n), strict=True))


def _names(file: h5py.File, wanted: tuple[int, ...], n: int) -> list[str]:
    data = store.dataset(file, "/names", values=False)
    if data.shape != (n,) or data.dtype.kind not in "OSU":
        raise InputError(f"{file.filename}:/names: damaged: not one text for each of {n} nodes")
    return [store.text(data[node]) for node in wanted]


_KINDS = {
    "pairs": "pairs",
    "labels": "labels",
    "soft labels": "soft labels",
    "graph": "a second graph",
    "matrix": "a matrix",
}
_AS_THEY_ARE = (
    "data",
    "graph",
    "baseline",
    "held_out",
    "stability",
    "network",
    "ncut",
    "feasible",
    "cuts",
)  # parts of a report


@dataclass(frozen=True)
class ReadResult:
    """A result that was read: facts as plain values, and the arrays that pictures are made of.

    `graph` is that of the model, where it is of use; `show` makes HTML of a row.
    """

    facts: dict[str, Any]
    arrays: Arrays
    graph: Any = None
    show: Show | None = None


def read(path: str, show: str | None = None) -> ReadResult:
    """Read a result of `mustlink cluster` or `propagate`; raises InputError.

    `show` names a folder of pictures or a dataset with an entry for every row.
    """
    place = formats.parse(path)
    if place.suffix == anndata.ENDING and not place.part:
        raise InputError(
            f"{path}: AnnData holds the result, but not the record of the run; run the "
            "same command with -o out.h5, then: mustlink report out.h5"
        )
    if place.suffix not in formats.HDF5 or place.part:
        raise InputError(f"{path}: no result; give the .h5 file that a run wrote, as: out.h5")
    with store.open_h5(place.path) as file:
        record = result.read(file, str(place)) or result.Result()
        if "report" not in record.model_fields_set or store.find(file, "/labels") is None:
            raise InputError(
                f"{path}: no result of a run (no /report with /labels in it); give the file that "
                "mustlink cluster or mustlink propagate wrote"
            )
        held = load(file)
        names = node_names(file, _named(record.report.constraints), held.labels.size)
        every = store.find(file, "/names") is not None
        has_model = store.find(file, "/model") is not None
        called = store.texts(file, "/names") if every else None
        shares, groups = _shares(file, held)
        coded = results.names_in(file, "/constraints/class_names")
        by_class = {number: store.text(one) for number, one in coded.items()}
    facts = _facts(record, record.report, held, names)
    shows = None if show is None else shown(show, held.labels.size)
    graph, report = _graph(place.path, record.report, held), record.report
    about = described(
        Material(
            held.labels,
            RowSource.of(record.inputs, report.command, held.labels.size, place.path.parent),
            groups,
            held.known,
            shares,
            called if called is not None and len(called) == held.labels.size else None,
            None if graph is None else graph.affinity,
            None if graph is None else graph.rows,
            is_network=_is_network(report, held),
            is_shown=shows is not None,
        )
    )
    for one in about["suspects"]:
        given = one["given"]
        one["label"] = by_class.get(given)
        if one["label"] is None and held.classes is not None:
            one["label"] = held.names.get(given)
    return ReadResult(
        {"file": Path(path).name, **facts, "about": about, "has_model": has_model},
        held,
        graph,
        shows,
    )


def _is_network(report: ResultReport, held: Arrays) -> bool:
    return report.data is not None and report.data.kind == "graph" and held.image is None


def _graph(path: Path, report: ResultReport, held: Arrays) -> Any:
    """The graph of the model, where it tells something: of networks, labels and classes."""
    if held.known is None and held.classes is None and not _is_network(report, held):
        return None
    try:
        graph = chosen(load_model(path, light=True)).graph_
    except InputError:
        return None
    return graph if graph.shares is None and graph.n_rows == held.labels.size else None


def _shares(file: h5py.File, held: Arrays) -> tuple[NDArray[np.float64] | None, list[int]]:
    """Shares (n, K) of every row in the groups (K,), which have these numbers.

    As stored; else ∝ 1/(‖x_i − μ_c‖² + v_c) of the embedding, μ_c and v_c means of a cluster and of
    squared distances from it. None where there are too many, or nothing.
    """
    groups = np.unique(held.labels[held.labels >= 0])
    n, k = held.labels.size, groups.size
    if n * max(k, 1) > _MOST_SHARES:
        return None, groups.tolist()
    for name in ("/label_distributions", "/membership"):
        if store.find(file, name) is not None:
            P = store.read(file, name, {}, name).astype(np.float64)
            numbers = groups if held.classes is None else held.classes
            if held.classes is None:
                numbers = np.arange(P.shape[1])
            if P.shape == (n, len(numbers)) and np.isfinite(P).all():
                return P, [int(one) for one in numbers]
    X = held.embedding
    if X is None or not X.shape[1] or k < 2:
        return None, groups.tolist()
    columns = np.arange(X.shape[1])
    if np.isin(groups, columns).all() and is_shares(X):
        return X.astype(np.float64), columns.tolist()  # shares of the classes
    P = np.empty((n, k))
    for at, group in enumerate(groups.tolist()):
        mine = X[held.labels == group]
        mean = mine.mean(axis=0)
        spread = float(((mine - mean) ** 2).sum(axis=1).mean())
        P[:, at] = 1.0 / (((X - mean) ** 2).sum(axis=1) + spread + 1e-300)
    return P / P.sum(axis=1, keepdims=True), groups.tolist()


def _named(found: ResultConstraints | None) -> list[int]:
    if found is None:
        return []
    ends = [node for one in found.worst for node in one.nodes]
    return ends + [s.node for s in found.strays] + [o.node for o in found.overruled]


def _facts(
    record: result.Result, report: ResultReport, held: Arrays, names: Mapping[int, str]
) -> dict[str, Any]:
    kind = "classes" if held.classes is not None else "clusters"
    parts = {name: getattr(report, name) for name in _AS_THEY_ARE}
    facts = {
        "kind": kind,
        "method": report.method or "unknown method",
        "finished": report.finished,
        "command": report.command,
        "n_nodes": int(held.labels.size),
        "warnings": report.warnings,
        "notes": [note for note in report.notes if note not in report.warnings],
        **{name: None if one is None else one.model_dump() for name, one in parts.items()},
        "inputs": [one.plain() for one in record.inputs],
        "spectrum": _spectrum(report, held),
        kind: _groups(report, held),
        "unassigned": int(np.count_nonzero(held.labels < 0)),
        "constraints": _constraints(report, names),
        "stages": result.merged(record.stages),
        "choices": _choices(report),
        "parameters": {name: _shallow(v) for name, v in record.parameters.items() if v is not None},
        "versions": record.versions,
        "seconds": record.seconds,
        "peak_bytes": record.peak_bytes,
    }
    if held.confidence is not None:
        facts["confidence"] = {**_confidence(held), **_reliability(report.calibration)}
    if kind == "classes":
        facts["labels_kept"] = report.labels_kept
        facts["n_labels"] = report.n_labels
    return facts


def _spectrum(report: ResultReport, held: Arrays) -> dict[str, Any] | None:
    """The graph's eigenvalues if they go beyond K, else those of the method."""
    found, count, beyond = report.spectrum, report.n_clusters, report.next_eigenvalue
    own = [] if held.eigenvalues is None else held.eigenvalues.tolist()
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


def _groups(report: ResultReport, held: Arrays) -> list[dict[str, Any]]:
    """A row a cluster or class with nodes; conductance is None where a run did not record it."""
    names, sizes = np.unique(held.labels[held.labels >= 0], return_counts=True)
    found = report.clusters
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


def _constraints(report: ResultReport, names: Mapping[int, str]) -> dict[str, Any] | None:
    """The constraints and how they are kept; without them, by the satisfaction."""
    recorded, kept = report.constraints, report.satisfaction
    if recorded is None and kept is None:
        return None
    found: dict[str, Any] = (recorded or ResultConstraints(kind="none")).model_dump()
    found["kind"] = None if recorded is None else _KINDS.get(recorded.kind, "labels and pairs")
    if kept is not None:
        found["must"] = found["must"] or _counted(kept.n_must, kept.must_kept)
        found["cannot"] = found["cannot"] or _counted(kept.n_cannot, kept.cannot_kept)
    for row in [*found["strays"], *found["overruled"]]:
        row["name"] = names.get(row["node"])
    for row in found["worst"]:
        row["names"] = [names.get(node) for node in row["nodes"]]
    return found


def _counted(n: float, share: float | None) -> dict[str, Any] | None:
    """Pairs of a kind from the shares that every version recorded; weights are not in them."""
    if not n or share is None or not 0 <= share <= 1:
        return None
    return {"n": int(n), "kept": round(n * share), "weight": None, "weight_kept": None}


def _choices(report: ResultReport) -> dict[str, Any]:
    chosen = _shallow(report.choices or {})
    chosen.pop("graph", None)  # it is in the graph's health
    if report.convergence is not None and report.convergence.status is not None:
        chosen["convergence"] = report.convergence.status
    return chosen


def _shallow(value: Any, depth: int = 4) -> Any:
    """A value without what lies deeper than anything that runs record: a file can hold any JSON."""
    if isinstance(value, Mapping):
        return {k: _shallow(v, depth - 1) for k, v in value.items()} if depth else "…"
    if isinstance(value, list):
        return [_shallow(v, depth - 1) for v in value] if depth else "…"
    return value


def _confidence(held: Arrays) -> dict[str, Any]:
    """Confidence of the nodes without a known label, or of all where that is not recorded."""
    assert held.confidence is not None
    sure = held.confidence[guessed(held.labels, held.known)]
    counts, edges = np.histogram(np.clip(sure, 0, 1), bins=20, range=(0.0, 1.0))
    return {
        "mean": float(sure.mean()) if sure.size else None,
        "below_tenth": int(np.count_nonzero(sure < 0.1)),
        "below_half": int(np.count_nonzero(sure < 0.5)),
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
    }


def _reliability(by: ResultCalibration | None) -> dict[str, Any]:
    """By what confidence was calibrated, and how often such answers were right."""
    found: dict[str, Any] = {"calibrated": calibrated(by), "reliability": [], "error": None}
    found["held_out"] = 0 if by is None else by.n_labels + by.n_pairs
    if by is not None:
        found |= {"reliability": [one.model_dump() for one in by.reliability], "error": by.error}
        found |= {"width": by.width, "of": "labels" if by.n_labels else "pairs"}
    return found
