"""Answers of a fitted estimator as entries of a result file, and what is found out about them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.graph import DiskGraph, Graph
from mustlink.propagation.held_out import AnswerCalibration
from mustlink.selection.calibration import Calibration
from mustlink_io.jobs import diagnostics
from mustlink_io.jobs.diagnostics import now

_MOST_PAIRS = 2_000_000  # constraints that a result keeps a copy of
Labels = NDArray[np.int64]
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
        classes, given = np.asarray(estimator.classes_), np.asarray(side)
        place = np.searchsorted(classes, labels[labels >= 0])
        found["sizes"] = np.bincount(place, minlength=classes.size).tolist()
        sure = np.asarray(estimator.confidence_)
        found["mean_confidence"] = mean_confidence(sure, labels, given)
        found["constraints"] = {"kind": "labels", **diagnostics.overruled(labels, given)}
    else:
        assigned = labels[labels >= 0]
        k = estimator.report_.n_clusters
        found["sizes"] = np.bincount(assigned, minlength=k).tolist()
        found["unassigned"] = int(labels.size - assigned.size)
        if isinstance(side, Constraints):
            found["constraints"] = diagnostics.constraints(labels, side)
        elif side is not None:
            found["constraints"] = {"kind": "labels", **diagnostics.given_labels(labels, side)}
    if isinstance(graph, Graph):  # all edges are at hand
        found["graph"] = diagnostics.graph_health(graph)
        found["clusters"] = diagnostics.clusters(graph, labels)
        if not spreads:
            found["spectrum"] = diagnostics.spectrum(graph)
    elif isinstance(graph, DiskGraph) and not spreads:
        links = estimator._cut_on_disk.links
        found["clusters"] = diagnostics.clusters_of_links(links, labels)
    return found


def mean_confidence(
    sure: NDArray[Any], labels: NDArray[Any], given: NDArray[np.int64] | None = None
) -> float:
    """The mean (n,) over nodes that have an answer and no label, over all answers without such."""
    return float(sure[guessed(labels, given)].mean())


def guessed(labels: NDArray[Any], given: NDArray[Any] | None) -> NDArray[np.bool_]:
    """Which nodes (n,) have an answer and no label; where there are none, which have an answer."""
    there = labels >= 0
    found = there if given is None else there & (given < 0)
    return found if found.any() else there


def confidence_findings(
    sure: NDArray[Any],
    labels: NDArray[Any],
    given: NDArray[np.int64] | None,
    by: Calibration | AnswerCalibration,
) -> dict[str, Any]:
    """The mean confidence of the answers, and what it is calibrated by; nothing without answers."""
    if not (labels >= 0).any():
        return {}
    mean = mean_confidence(sure, labels, given)
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
