"""How neighbours are searched: all pairs, k-d tree, cells in memory or on disk, or NN-descent."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.neighbor_cost import NeighborPlan, knn_plan, other_plan
from mustlink.core.observe import Recorder
from mustlink.core.process_memory import give_back
from mustlink.neighbors.distances import BY_CELLS, AnyRows, ComparedRows, descent_lists, in_time
from mustlink.neighbors.exact import exact_neighbours, measured_recall
from mustlink.neighbors.points_by_rows import ROWWISE, Prepared, prepare

_LOW_RECALL = 0.9
_ALL_EQUAL = 0.99  # of the points without a neighbour but duplicates: distances tell nothing

Points = NDArray[np.float32] | Prepared | AnyRows
Found = tuple[NDArray[np.int32], NDArray[np.float32], dict[str, Any]]


def any_rows(points: Any, metric: Any, recorder: Recorder | None = None) -> AnyRows | None:
    """Rows to be compared by a metric; None for dense ones that cells know. Raises InputError."""
    if sp.issparse(points) or metric == "jaccard":
        from mustlink.neighbors.sparse_points import SparseRows

        return SparseRows.of(points, metric)
    if metric in BY_CELLS:
        return None
    return ComparedRows.of(points, metric, recorder)


def threads_for(n_jobs: int | None) -> int:
    """Threads for the search by cells."""
    from mustlink.kernels.threads import workers

    return workers() if n_jobs is None else min(n_jobs, workers())


def possible(k: int, n: int, recorder: Recorder) -> int:
    """Return k, or n - 1 with a note."""
    if k > n - 1:
        recorder.note(f"n_neighbors: {k} asked of {n} points, {n - 1} used")
    return min(k, n - 1)


def planned(
    X: Points,
    k: int,
    budget: int | None,
    n_jobs: int | None,
    *,
    by_tasks: bool = False,
) -> tuple[Points, NeighborPlan]:
    """The points, in memory if they may be, and the plan; raises InputError."""
    n, d = X.shape
    if isinstance(X, AnyRows):
        return X, other_plan(n, k, *X.plan(k), budget)
    if not isinstance(X, Prepared):
        return X, knn_plan(n, d, k, None)
    plan = knn_plan(
        n,
        d,
        k,
        budget,
        held=X.held,
        itemsize=8 if X.shift is not None or X.metric in ROWWISE else 4,
        by_rows=not X.held,
        threads=threads_for(n_jobs),
        by_tasks=by_tasks,
    )
    if plan.lean:
        return X, plan
    if isinstance(X.source, np.ndarray):
        return X[0:n], plan
    found = np.empty((n, d), dtype=np.float32)
    for start, block in X.blocks():
        found[start : start + block.shape[0]] = block
    return found, plan


def neighbour_lists(
    X: Points,
    k: int,
    plan: NeighborPlan,
    seed: int,
    recorder: Recorder,
    *,
    n_jobs: int | None = None,
    sample: int = 500,
    folder: Any = None,
    executor: Executor | None = None,
) -> Found:
    """Indices (n, k), lengths (n, k) of the nearest of every point, itself excluded, and how.

    The search is that of the plan; `sample` random points are compared with exact lists, `folder`
    is for what is written to disk, an `executor` runs the tasks of a plan by tasks.
    """
    if isinstance(X, AnyRows):
        from mustlink.kernels.threads import threads

        with threads(n_jobs):
            return X.lists(k, seed, recorder, sample)
    n = X.shape[0]
    exact = {"method": plan.method, "recall": 1.0, "recall_sample": n}
    if plan.method == "descent":
        return _by_descent(np.asarray(X), k, seed, recorder, sample)
    if plan.method == "brute":
        with recorder.stage("kNN graph") as advance:
            return *exact_neighbours(np.asarray(X), np.arange(n), k, advance), exact
    if plan.method == "tree":
        from mustlink.kernels.k_d_tree import nearest_in_tree
        from mustlink.kernels.threads import threads

        with recorder.stage("kNN graph"), threads(n_jobs):
            indices, lengths = nearest_in_tree(np.asarray(X, dtype=np.float64), k)
        return indices, lengths.astype(np.float32), exact
    from mustlink.neighbors.cell_search import cell_lists

    assert plan.layout is not None
    with in_time(recorder) as (until, advance):
        indices, distances, info = cell_lists(
            X if isinstance(X, Prepared) else prepare(X, "euclidean"),
            k,
            np.random.default_rng(seed),
            plan.layout,
            n_jobs=threads_for(n_jobs),
            sample=sample,
            deadline=until,
            advance=advance,
            folder=folder,
            executor=executor if plan.method == "tasks" else None,
        )
    give_back()
    if plan.lean:
        where = {"stored cells": " on disk", "tasks": " by tasks"}.get(plan.method, "")
        why = "" if plan.method == "tasks" else ", as a memory was named"
        recorder.note(
            f"kNN graph: found in {info['parts']} parts{where} and weighted in single "
            f"precision{why}; recall {info['recall']:.3f}"
        )
    return indices, distances, {"method": plan.method, **info}


def warn_of_recall(info: dict[str, Any], recorder: Recorder) -> None:
    """Warn of a low recall."""
    if info["recall"] < _LOW_RECALL:
        recorder.warn(
            f"kNN graph: only {info['recall']:.3f} of the true neighbours found (sample of "
            f"{info['recall_sample']}); raise n_neighbors or reduce the dimension"
        )


def warn_of_copies(equal: int, n: int, recorder: Recorder) -> None:
    """Warn where (nearly) all of n points, `equal` of them, have copies for neighbours."""
    if equal >= _ALL_EQUAL * n and n > 1:
        recorder.warn(
            f"kNN graph: {equal} of {n} points are equal to all their neighbours, distances "
            "tell nothing about them; check that the right columns were read"
        )


def _by_descent(
    X: NDArray[np.float32], k: int, seed: int, recorder: Recorder, sample: int
) -> Found:
    """Lists of NN-descent, with their recall."""
    n = X.shape[0]
    indices, distances = descent_lists(X, k, seed, recorder)
    with recorder.stage("kNN recall"):
        size = min(n, max(1, sample))
        some = np.random.default_rng(seed).choice(n, size, replace=False)
        recall = measured_recall(X, some, distances[some])
    return indices, distances, {"method": "descent", "recall": recall, "recall_sample": size}
