"""`NCut` of a graph on disk where memory does not do: what runs there, and what it sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from mustlink.check import check_n_clusters
from mustlink.cost.method_cost import Size
from mustlink.cost.process_memory import size_text
from mustlink.cost.stored_cost import StoredCost, least_in_memory
from mustlink.eigen.nested_iteration import guard
from mustlink.eigen.stored_solver import StoredWork
from mustlink.errors import InputError
from mustlink.graph.stored import StoredGraph
from mustlink.methods.clusterer import warn_of_sizes
from mustlink.methods.normalized_cut import note_components, warn_of_gap
from mustlink.methods.stored_cut import StoredCut, has_even_rows, stored_cut
from mustlink.observe import Recorder
from mustlink.result import Report
from mustlink.scores.cuts import scores_of_links
from mustlink.scores.edge_information import information
from mustlink.selection.regularization import (
    CANDIDATES,
    FEWEST,
    Regularization,
    RegularizationTried,
    if_of_points,
)

_GIANT = 0.9  # share of the nodes in one cluster, as in `selection.regularization`
_CLEARLY = 1.05  # likewise
_ROUGH, _STEPS = 1e-2, 12  # sharpness of candidates, and filters


def stays_on_disk(estimator: Any, stored: StoredGraph) -> bool:
    """Whether a graph on disk is too large for the memory of an estimator."""
    size, budget = Size(stored.n_nodes, stored.n_entries), estimator._budget
    return budget is not None and least_in_memory(estimator.cost().of_given(), size) > budget


def fit_on_disk(
    estimator: Any, graph: StoredGraph, recorder: Recorder, given: dict[str, Any], seed: int
) -> None:
    """Set what `NCut.fit` sets, from a graph that is read by blocks of rows; raises InputError.

    `given` is what else `fit` was told, by name. `embedding_` has its rows on disk: slices of it
    are arrays.
    """
    _refuse(estimator, given)
    k = check_n_clusters(estimator.n_clusters, graph.n_nodes)
    recorder.keep_within(estimator._budget)
    cost = StoredCost(graph.n_nodes, graph.n_entries, k + guard(k))
    if estimator._budget is not None:
        cost.check(estimator._budget)
        recorder.note(
            f"memory: graph and vectors stay on disk to stay within {size_text(estimator._budget)}"
        )
    folder = None if estimator._keeper is None else estimator._keeper.scratch
    work = StoredWork(graph, k, recorder, folder, estimator._keeper)
    linked = graph.n_nodes - work.seen.isolated
    if k > linked:
        raise InputError(
            f"n_clusters: {k} clusters asked for, but only {linked} of {graph.n_nodes} nodes have "
            "an edge; ask for fewer"
        )
    cut, regular = _cut(estimator, work, k, seed)
    labels = graph.labels_of_rows(cut.clusters)
    warn_of_sizes(labels, k, recorder)
    warn_of_gap(cut, recorder)
    if regular.tau == 0:
        note_components(work.seen.n_components, k, recorder)
    if k > 1 and not (cut.links - np.diag(cut.links.diagonal())).any():
        recorder.warn(
            "all clusters are whole components of the graph: no edge is cut, and nothing within a "
            "component is told apart; ask for more clusters to cut components, too"
        )
    if work.seen.isolated:
        noun = "node has" if work.seen.isolated == 1 else "nodes have"
        recorder.note(f"{work.seen.isolated} {noun} no edge and cannot be clustered: labelled -1")
    estimator.labels_, estimator.embedding_ = labels, work.leave(cut.embedding)
    estimator.eigenvalues_, estimator.graph_ = cut.values, graph
    estimator._cut_on_disk = cut
    estimator.report_ = Report(
        method=f"NCut ({estimator.variant}), on disk",
        n_nodes=graph.n_rows,
        n_clusters=k,
        choices={
            "regularization": [regular.tau, regular.reason],
            "solver": cut.convergence.solver,
            "graph": dict(graph.info),
        },
        convergence=cut.convergence,
        satisfaction=None,
        **recorder.told(),
        extra={
            "n_components": work.seen.n_components + work.seen.isolated,
            "next_eigenvalue": cut.beyond,
            "regularizations_tried": regular.table,
            **network_of(graph, cut, k),
        },
    )


def network_of(graph: StoredGraph, cut: StoredCut, k: int) -> dict[str, Any]:
    """How a network is cut; nothing of a graph that was made of points."""
    return {} if k < 2 or if_of_points(graph.info) else {"network": scores_of_links(cut.links)[0]}


def _asked_of_memory(estimator: Any, given: dict[str, Any]) -> list[str]:
    """What is asked for that does not run on disk, in words."""
    told = [name for name, value in given.items() if value is not None]
    asked = {
        "variant": estimator.variant == "shi-malik",
        "init": estimator.init != "k-means++",
        "refine": estimator.refine,
        "isolated": estimator.isolated != "drop",
        "solver": estimator.solver not in ("auto", "lobpcg"),
        "n_clusters": not isinstance(estimator.n_clusters, int | np.integer),
    }
    return told + [f"{name}={getattr(estimator, name)!r}" for name, so in asked.items() if so]


def cost_on_disk(estimator: Any, given: dict[str, Any], n: int, nnz: int) -> StoredCost:
    """At least what it takes of n nodes and nnz weights on disk; InputError for what is refused."""
    _refuse(estimator, given)
    return StoredCost(n, nnz, 1)


def _refuse(estimator: Any, given: dict[str, Any]) -> None:
    """Raise InputError for what is asked for and does not run on disk."""
    told = _asked_of_memory(estimator, given)
    if told:
        raise InputError(
            f"memory: {size_text(estimator._budget or 0)} given, in which the graph stays on disk, "
            f"where {told[0]} does not run; leave it out, or give more"
        )


def _cut(estimator: Any, work: StoredWork, k: int, seed: int) -> tuple[StoredCut, Regularization]:
    """The cut, and what was added to the degrees and why, see `selection.regularization`."""
    how: dict[str, Any] = {"variant": estimator.variant, "seed": seed}
    sharp = {**how, "tol": estimator.tol, "max_iter": estimator.max_iter}
    asked, graph = estimator.regularization, work.graph
    if asked != "auto":
        return stored_cut(work, k, tau=float(asked), **sharp), Regularization(float(asked), "given")
    why = "one cluster" if k == 1 else if_of_points(graph.info)
    if not why and graph.n_nodes < FEWEST:
        why = f"less than {FEWEST} nodes"
    if why:
        return stored_cut(work, k, **sharp), Regularization(0.0, why)
    if has_even_rows(work):
        cut = stored_cut(work, k, **sharp)
        if cut.largest <= _GIANT:
            why = "no giant cluster, and no node has far fewer edges than most"
            return cut, Regularization(0.0, why)
    tried: dict[float, RegularizationTried] = {}
    for tau in CANDIDATES:
        if tried and work.recorder.deadline.is_over:
            work.recorder.leave_out(
                f"{len(CANDIDATES) - len(tried)} regularisations were not tried"
            )
            break
        cut = stored_cut(work, k, tau=tau, tol=_ROUGH, max_iter=_STEPS, **how)
        tried[tau] = RegularizationTried(tau, information(cut.links), cut.largest)
    best = max(tried, key=lambda tau: tried[tau].information * (1.0 if tau else _CLEARLY))
    table = ", ".join(f"{one.information:.3f} at {tau:g}" for tau, one in tried.items())
    reason = f"what the clusters tell about an edge, in nats: {table}"
    work.recorder.note(f"regularization: {best:g} of the mean degree; {reason}")
    return stored_cut(work, k, tau=best, **sharp), Regularization(
        best, reason, tuple(tried.values())
    )
