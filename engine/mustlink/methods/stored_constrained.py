"""Constrained methods on a graph that stays on disk: what `fit` and `refit` set."""

from __future__ import annotations

from typing import Any

import numpy as np

from mustlink.at_scale.constrained import Found
from mustlink.at_scale.smooth_vectors import SmoothVectors
from mustlink.check import check_n_clusters
from mustlink.constraints import Constraints
from mustlink.cost.method_cost import StoredCost
from mustlink.cost.process_memory import size_text
from mustlink.eigen.nested_iteration import guard
from mustlink.eigen.stored_solver import StoredWork
from mustlink.errors import InputError
from mustlink.graph.stored import StoredGraph
from mustlink.methods.clusterer import AUTO, USUAL_CLUSTERS, note_alone, warn_of_sizes
from mustlink.methods.constrained_at_scale import (
    DISK,
    check_at_scale,
    fitted,
    vectors_of,
    widest,
)
from mustlink.methods.constraint_doubts import warn_if_broken
from mustlink.methods.stored_cut import RowCut, summed
from mustlink.methods.stored_fit import network_of
from mustlink.observe import Recorder
from mustlink.selection.held_out_choice import Choice

_COUNTS = 'n_clusters: "auto" counts on a graph in memory; give a number, or labels of classes'


def fit_on_disk(
    estimator: Any,
    graph: StoredGraph,
    known: Constraints,
    recorder: Recorder,
    others: dict[str, Any],
    seed: int,
) -> None:
    """Set what a constrained `fit` sets; `embedding_` has its rows on disk. Raises InputError."""
    _refuse(estimator, others)
    if graph.copies is not None:
        raise InputError(
            "graph: has nodes that stand for several rows, of which nothing can be said on disk; "
            "give more memory, or take NCut"
        )
    k = _n_clusters(estimator, known, graph, recorder)
    columns, budget = widest(estimator, k), estimator._budget
    recorder.keep_within(budget)
    if budget is not None:
        cost_on_disk(estimator, k, graph.n_nodes, graph.n_entries).check(budget)
        recorder.note(f"memory: graph and vectors stay on disk to stay within {size_text(budget)}")
    folder = None if estimator._keeper is None else estimator._keeper.scratch
    work = StoredWork(graph, columns, recorder, folder)
    linked = graph.n_nodes - work.isolated
    if k >= linked:
        raise InputError(
            f"n_clusters: {k} clusters asked for, but only {linked} of {graph.n_nodes} nodes have "
            "an edge; ask for fewer"
        )
    _set(estimator, known, k, vectors_of(estimator, work, seed), seed)


def cost_on_disk(estimator: Any, k: int, n: int, nnz: int) -> StoredCost:
    """What a fit of k clusters takes of a graph of n nodes and nnz weights on disk."""
    columns = widest(estimator, k)
    return StoredCost(n, nnz, columns + guard(columns), told=True)


def cost_of_points(
    estimator: Any, others: dict[str, Any], classes: int | None, n: int, nnz: int
) -> StoredCost:
    """At least what a fit takes of n points with nnz neighbours; InputError for what is refused."""
    _refuse(estimator, others)
    if estimator.n_clusters == AUTO and (classes or 0) < 2:
        raise InputError(_COUNTS)
    return cost_on_disk(estimator, 2, n, nnz)


def _refuse(estimator: Any, others: dict[str, Any]) -> None:
    """Raise InputError for what does not run on disk."""
    for name, value in others.items():
        if value is not None:
            raise InputError(f"{name}: does not run {DISK}; leave it out, or give more memory")
    check_at_scale(estimator, DISK)


def refit_on_disk(estimator: Any, known: Constraints, recorder: Recorder) -> None:
    """`refit`: the smooth vectors stay where they are, on disk."""
    had = estimator._vectors
    check_at_scale(estimator, DISK)
    k, kept = (
        _n_clusters(estimator, known, estimator.graph_, recorder),
        estimator._choice_kept(known),
    )
    choice = kept[0] if kept is not None and kept[1] == k else None
    vectors = had.of(had.work.heard_by(recorder))
    _set(estimator, known, k, vectors, estimator._used_seed, choice)


def _set(
    estimator: Any,
    known: Constraints,
    k: int,
    vectors: SmoothVectors,
    seed: int,
    fixed: Choice | None = None,
) -> None:
    work, recorder = vectors.work, vectors.work.recorder
    assert isinstance(work, StoredWork)
    found = fitted(estimator, known, k, vectors, seed, DISK, fixed)
    cut = _cut(work, found, k)
    labels = work.graph.labels_of_rows(cut.clusters)
    warn_of_sizes(labels, k, recorder)
    if work.isolated:
        note_alone(work.isolated, "labelled -1", recorder)
    choice, solution = found.choice, found.solution
    estimator.labels_, estimator.embedding_ = labels, work.leave(found.embedding)
    estimator.eigenvalues_, estimator.costs_ = solution.values, solution.cost
    estimator.graph_, estimator._cut_on_disk = work.graph, cut
    estimator._vectors, estimator._choice, estimator._used_seed = vectors, choice, seed
    if fixed is None:
        estimator._amount = known.n_constraints
    estimator._asked = estimator._questions()
    estimator._acted, estimator._given = found.acts and not known.is_empty, known
    kept = warn_if_broken(labels, known, recorder, "another method")
    parts = work.seen.n_components + work.isolated
    estimator.report_ = estimator._report(
        k, kept, choice, solution, recorder, parts, network_of(work, cut, recorder)
    )


def _cut(work: StoredWork, found: Found, k: int) -> RowCut:
    """The clusters with the weights between them, for who draws them."""
    clusters, told = np.asarray(found.clusters[:]), found.solution
    cut = RowCut(clusters, found.embedding, told.values, told.convergence, None)
    return summed(work, cut, k)


def _n_clusters(estimator: Any, known: Constraints, graph: StoredGraph, recorder: Recorder) -> int:
    """K from 2 on: as many as asked for, or classes are named; raises InputError."""
    asked, classes = estimator.n_clusters, known.classes.size
    if asked in (None, AUTO) and classes > 1:
        asked = classes
    elif asked == AUTO:
        raise InputError(_COUNTS)
    elif asked is None:
        asked = USUAL_CLUSTERS
        recorder.note(f"n_clusters: {asked} taken, for nobody said how many clusters there are")
    k = check_n_clusters(asked, graph.n_nodes)
    if k == 1:
        raise InputError("n_clusters: 1 cluster of a graph on disk is all of it; ask for 2 or more")
    return k
