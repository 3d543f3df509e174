"""`NCut` of a graph on disk where memory does not do: what runs there, and what it sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from mustlink.check import check_n_clusters
from mustlink.cost.method_cost import Given, StoredCost, home_for
from mustlink.cost.process_memory import size_text
from mustlink.eigen.nested_iteration import guard
from mustlink.eigen.stored_solver import StoredWork
from mustlink.errors import InputError
from mustlink.graph.stored import StoredGraph
from mustlink.methods.clusterer import note_alone, warn_of_components, warn_of_sizes
from mustlink.methods.normalized_cut import note_components, warn_of_gap
from mustlink.methods.stored_cut import CutsByRows, RowCut
from mustlink.observe import Recorder
from mustlink.result import Report
from mustlink.scores.cuts import scores_of_links
from mustlink.selection.regularization import decided_cut


def stays_on_disk(estimator: Any, stored: StoredGraph) -> bool:
    """Whether a graph on disk is too large for the memory of an estimator."""
    given = Given(stored.n_nodes, stored.n_entries)
    return home_for(estimator._budget, estimator.cost(), given).name != "memory"


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
    how: dict[str, Any] = {"variant": estimator.variant, "tol": estimator.tol, "seed": seed}
    cuts = CutsByRows(work, k, max_iter=estimator.max_iter, **how)
    cut, regular = decided_cut(cuts, estimator.regularization, k)
    labels = graph.labels_of_rows(cut.clusters)
    if regular.tau == 0:
        note_components(work.seen.n_components, k, recorder)
    warn_of_sizes(labels, k, recorder)
    if work.isolated:
        note_alone(work.isolated, "labelled -1", recorder)
    warn_of_gap(cut, recorder)
    network = network_of(work, cut, recorder)
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
            **network,
        },
    )


def network_of(work: StoredWork, cut: RowCut, recorder: Recorder) -> dict[str, Any]:
    """How a network is cut, and a doubt where it is not; nothing of what was made of points."""
    if not work.look.is_network:
        return {}
    if not (cut.links - np.diag(cut.links.diagonal())).any():
        there = work.seen.component
        parts = np.zeros(work.n_nodes, dtype=np.int32) if there is None else there[:]
        warn_of_components(parts, np.asarray(cut.clusters), recorder)
    return {"network": scores_of_links(cut.links)[0]}


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
