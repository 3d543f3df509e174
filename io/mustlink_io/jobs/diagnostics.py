"""What a run records: its answers as entries of a file, stages, and how all of it looks."""

from __future__ import annotations

import json
import platform
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.core.observe import Recorder
from mustlink.discretize.memberships import Calibration
from mustlink.graph import DiskGraph, Graph
from mustlink.graph.shares import MixedRows
from mustlink.propagation.held_out import AnswerCalibration
from mustlink_io.hdf5.result import ResultStage
from mustlink_io.hdf5.writing import to_json
from mustlink_io.jobs.methods import opposite

_LIBRARIES = ("numpy", "scipy", "h5py", "numba", "pyamg", "pynndescent", "scikit-learn")


def stages_of(recorder: Recorder) -> list[ResultStage]:
    """Stages so far, as a result tells them."""
    return [
        ResultStage(name=s.name, seconds=s.seconds, peak_bytes=s.peak_bytes)
        for s in recorder.stages
    ]


def now() -> str:
    """Date and time, to the second, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def command_line(command: str, data: str | None, options: Mapping[str, Any]) -> str:
    """Return the words to type for a run; `options` maps flags to values, None is left out.

    True is the flag alone, False its opposite, a list its parts with commas, a mapping its
    items, a tuple the flag with each of its parts.
    """
    words = ["mustlink", command, *([] if data is None else [data])]
    for name, value in options.items():
        if isinstance(value, bool):
            words.append(name if value else opposite(name))
        elif isinstance(value, tuple):
            words += [word for part in value for word in (name, str(part))]
        elif isinstance(value, Mapping):
            if value:
                words += [name, ",".join(f"{kind}={by:g}" for kind, by in value.items())]
        elif isinstance(value, list):
            words += [name, ",".join(str(part) for part in value)]
        elif value is not None:
            words += [name, str(value)]
    return shlex.join(words)


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    import mustlink

    found = {"mustlink": str(mustlink.__version__)}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return {**found, "python": platform.python_version()}


WORST = 10  # broken constraints, and labels answered otherwise, that are named
_BINS = 40
_QUANTILES = {"p01": 0.01, "p25": 0.25, "p75": 0.75, "p99": 0.99}
_MOST_VALUES = 200  # eigenvalues of the graph
_MOST_SOFT = 4_000_000  # entries of a second graph that are looked at one by one

Labels = NDArray[np.int64]


def graph_health(graph: Any) -> dict[str, Any]:
    """Degrees, components and recall of an engine graph, as plain values.

    `histogram` counts nodes by their number of neighbours: `counts[i]` of them have from `edges[i]`
    on and below `edges[i + 1]`, the last bin its upper end included. O(n log n).
    """
    neighbours = np.diff(graph.affinity.indptr)
    sizes = np.bincount(graph.components)
    return {
        "n_nodes": graph.n_nodes,
        **({} if graph.rows is None else {"n_rows": graph.n_rows}),
        "n_edges": graph.n_edges,
        "n_components": graph.n_components,
        "largest_components": sizes[:5].tolist(),
        **health_of(neighbours, graph.degrees, graph.info),
    }


def health_of(
    neighbours: NDArray[Any], degrees: NDArray[Any], info: Mapping[str, Any]
) -> dict[str, Any]:
    """The part of it that neighbours (n,) and degrees (n,) tell, and how the graph was made."""
    return {
        "neighbours": _spread(neighbours),
        "degree": _spread(degrees),
        "histogram": _histogram(neighbours),
        "isolated": int(np.count_nonzero(neighbours == 0)),
        "info": json.loads(to_json(dict(info))),
    }


def _spread(values: NDArray[Any]) -> dict[str, float]:
    found = np.quantile(values, list(_QUANTILES.values()))
    return {
        "least": float(values.min()),
        "median": float(np.median(values)),
        "mean": float(values.mean()),
        "most": float(values.max()),
        **{name: float(value) for name, value in zip(_QUANTILES, found, strict=True)},
    }


def _histogram(neighbours: NDArray[Any]) -> dict[str, list[float]]:
    """Bins of whole numbers, equally wide, or growing where a few nodes have very many."""
    low, high = int(neighbours.min()), int(neighbours.max()) + 1
    if high - low > _BINS and high > 20 * max(float(np.median(neighbours)), 1.0):
        edges = np.unique(np.geomspace(max(low, 1), high, _BINS + 1).round().astype(np.int64))
        edges = np.unique(np.concatenate([[low], edges]))
    else:
        edges = np.arange(low, high + 1, -(-(high - low) // _BINS), dtype=np.int64)
        edges = np.unique(np.append(edges, high))
    counts, _ = np.histogram(neighbours, bins=edges)
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def clusters(graph: Any, labels: Labels) -> dict[str, list[Any]]:
    """Of every cluster that has nodes: number, size, conductance, share of the graph's volume.

    On the graph as it was made, whatever a method did to its weights. O(edges) in blocks of rows.
    """
    from mustlink.discretize.cuts import conductances

    # Equal rows are one node and have one label; sizes count rows.
    of_nodes = labels if graph.rows is None else labels[graph.first_rows]
    return _row_a_cluster(labels, *conductances(graph, of_nodes))


def _row_a_cluster(labels: Labels, names: Any, conductance: Any, share: Any) -> dict[str, Any]:
    sizes = _sizes(labels, int(names.max(initial=-1)) + 1)[names]
    return {
        "names": names.tolist(),
        "sizes": sizes.tolist(),
        "conductance": conductance.tolist(),
        "volume_share": share.tolist(),
    }


def _sizes(labels: Labels, k: int) -> Labels:
    """Rows of each of k clusters or more, by blocks: labels are all that grows with the rows."""
    k = max(k, int(labels.max(initial=-1)) + 1)
    found = np.zeros(k + 1, dtype=np.int64)
    for first in range(0, labels.size, _BLOCK):
        found += np.bincount(labels[first : first + _BLOCK] + 1, minlength=k + 1)
    return found[1:]


def constraints(labels: Labels, known: Any) -> dict[str, Any]:
    """Constraints kept and broken by kind, and the worst of the broken ones by name.

    `known` are engine Constraints. `must` and `cannot` count pairs and add up |belief|; `worst` are
    the broken pairs of largest |belief|. Of labels, which stand for a clique of pairs, `strays`
    are the nodes that are not in the cluster of most of their class.
    """
    from mustlink.discretize.satisfaction import broken_pairs, kept_by_kind

    found: dict[str, Any] = {"kind": known.kind}
    if known.soft is None or known.soft.nnz <= _MOST_SOFT:
        found |= kept_by_kind(labels, known)
        pairs, belief = broken_pairs(labels, known, WORST)
        found["worst"] = [
            {"nodes": pair, "belief": value, "clusters": labels[pair].tolist()}
            for pair, value in zip(pairs.tolist(), belief.tolist(), strict=True)
        ]
    if known.labels is not None:
        found |= label_findings(labels, known.labels)
    return found


def label_findings(labels: Labels, known: Labels) -> dict[str, Any]:
    """How many labels are known, and which nodes are not in the cluster of most of their class."""
    from mustlink.discretize.satisfaction import stray_labels

    nodes, home = stray_labels(labels, known)
    rows = zip(nodes[:WORST].tolist(), home[:WORST].tolist(), strict=True)
    return {
        "n_labels": int(np.count_nonzero(known >= 0)),
        "n_strays": int(nodes.size),
        "strays": [
            {"node": n, "class": int(known[n]), "cluster": int(labels[n]), "home": at}
            for n, at in rows
        ],
    }


def overruled(labels: Labels, known: Labels) -> dict[str, Any]:
    """Of classes, where a label means the answer: the known labels that were answered otherwise."""
    nodes = np.flatnonzero((known >= 0) & (labels != known))
    return {
        "n_overruled": int(nodes.size),
        "overruled": [
            {"node": n, "class": int(known[n]), "answer": int(labels[n])}
            for n in nodes[:WORST].tolist()
        ],
    }


def spectrum(graph: Any) -> dict[str, Any] | None:
    """The smallest eigenvalues of the graph's Laplacian that a fit came by, or None.

    As many as were needed, from the zeros of the components on, rising. A fit whose vectors were
    kept from an earlier run may have needed none.
    """
    from mustlink.eigen.memory_work import known_spectrum

    found = known_spectrum(graph)
    if found is None:
        return None
    zeros = max(graph.n_components - int(np.count_nonzero(graph.degrees == 0)), 1)
    values = np.concatenate([np.zeros(min(zeros, _MOST_VALUES)), found])[:_MOST_VALUES]
    return {"values": np.maximum(values, 0.0).tolist(), "components": zeros}


_BLOCK = 1 << 20  # labels counted at once
_MOST_PAIRS = 2_000_000  # constraints that a result keeps a copy of
_APART = ("row_labels", "column_labels", "sending_labels", "receiving_labels")


def content_of(estimator: Any, side: Constraints | Labels | None) -> dict[str, Any]:
    """Answers, and the labels (n,), -1 unknown, or constraints that they were fitted to.

    More than two million pairs are left out: the file that they came from is named in the result.
    """
    found: dict[str, Any] = {}
    if hasattr(estimator, "labels_"):
        found["/labels"] = np.asarray(estimator.labels_)
    if hasattr(estimator, "label_distributions_"):
        found["/label_distributions"] = estimator.label_distributions_
        found["/confidence"] = np.asarray(estimator.confidence_)
        found["/classes"] = np.asarray(estimator.classes_)
    else:
        if not isinstance(estimator.embedding_, MixedRows):  # larger than the labels by far
            found["/embedding"] = estimator.embedding_
        found["/eigenvalues"] = np.asarray(getattr(estimator, "eigenvalues_", ()), dtype=float)
    tree = getattr(estimator, "_hierarchy", None)
    if tree is not None and tree.labels is estimator.labels_ and len(tree.linkage):
        found["/hierarchy/linkage"] = tree.linkage
        found["/hierarchy/clusters"] = tree.groups
        found["/hierarchy/leaves"] = tree.leaves
    labels = side.labels if isinstance(side, Constraints) else side
    if labels is not None:
        found["/constraints/labels"] = labels
    if isinstance(side, Constraints) and 0 < side.belief.size <= _MOST_PAIRS:
        found |= {"/constraints/pairs": side.pairs, "/constraints/belief": side.belief}
    for name in _APART:
        if hasattr(estimator, f"{name}_"):
            found[f"/{name}"] = np.asarray(getattr(estimator, f"{name}_"))
    return found


def findings_of(estimator: Any, side: Constraints | Labels | None) -> dict[str, Any]:
    """Sizes, and how graph, clusters and what was known look; nothing of an embedding alone."""
    if not hasattr(estimator, "labels_"):
        return {}
    labels, graph = np.asarray(estimator.labels_), getattr(estimator, "graph_", None)
    found: dict[str, Any] = {"finished": now(), "constraints": None}
    spreads = hasattr(estimator, "label_distributions_")
    if spreads:
        classes, known = np.asarray(estimator.classes_), np.asarray(side)
        place = np.searchsorted(classes, labels[labels >= 0])
        found["sizes"] = np.bincount(place, minlength=classes.size).tolist()
        sure = np.asarray(estimator.confidence_)
        found["mean_confidence"] = mean_confidence(sure, labels, known)
        found["constraints"] = {"kind": "labels", **overruled(labels, known)}
    else:
        sizes = _sizes(labels, estimator.report_.n_clusters)
        found["sizes"] = sizes.tolist()
        found["unassigned"] = int(labels.size - sizes.sum())
        if isinstance(side, Constraints):
            found["constraints"] = constraints(labels, side)
        elif side is not None:
            found["constraints"] = {"kind": "labels", **label_findings(labels, side)}
    if isinstance(graph, Graph):  # all edges are at hand
        found["graph"] = graph_health(graph)
        found["clusters"] = clusters(graph, labels)
        if not spreads:
            found["spectrum"] = spectrum(graph)
    elif isinstance(graph, DiskGraph) and not spreads:
        from mustlink.discretize.cuts import scores_of_links

        scores = scores_of_links(estimator._cut_on_disk.links)[1]
        found["clusters"] = _row_a_cluster(labels, *scores)
    return found


def mean_confidence(
    sure: NDArray[Any], labels: NDArray[Any], known: NDArray[np.int64] | None = None
) -> float:
    """The mean (n,) over nodes that have an answer and no label, over all answers without such."""
    return float(sure[guessed(labels, known)].mean())


def guessed(labels: NDArray[Any], known: NDArray[Any] | None) -> NDArray[np.bool_]:
    """Which nodes (n,) have an answer and no label; where there are none, which have an answer."""
    there = labels >= 0
    found = there if known is None else there & (known < 0)
    return found if found.any() else there


def confidence_findings(
    sure: NDArray[Any],
    labels: NDArray[Any],
    known: NDArray[np.int64] | None,
    by: Calibration | AnswerCalibration,
) -> dict[str, Any]:
    """The mean confidence of the answers, and what it is calibrated by; nothing without answers."""
    if not (labels >= 0).any():
        return {}
    mean = mean_confidence(sure, labels, known)
    return {"mean_confidence": mean, "calibration": calibration_findings(by)}


def calibration_findings(by: Calibration | AnswerCalibration) -> dict[str, Any]:
    """Its parameters, how much was held out, and the reliability table of that."""
    if isinstance(by, Calibration):
        found: dict[str, Any] = {**by.trust._asdict(), "n_pairs": by.n_pairs}
    else:
        found = {"intercept": by.intercept, "slope": by.slope, "n_pairs": 0}
    found["n_labels"] = by.n_labels
    if by.reliability is not None:
        table = by.reliability
        found |= {"error": table.error, "width": table.width, "reliability": table.rows()}
    return found
