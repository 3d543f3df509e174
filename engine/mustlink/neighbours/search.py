"""How neighbours are searched: all pairs, k-d tree, cells in memory or on disk, or NN-descent.

And what is decided before: where points are, and how they are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.neighbour_graph import LOW
from mustlink.cost.neighbour_plan import Plan, knn_plan
from mustlink.cost.process_memory import give_back
from mustlink.cost.stored_neighbours import StoredLayout
from mustlink.deadline import Deadline
from mustlink.neighbours.exact import drop_own, exact_neighbours, measured_recall
from mustlink.neighbours.points_by_rows import Prepared, prepare, single_precision
from mustlink.observe import Recorder

# n²(d + 130) up to which all pairs are compared: as long as that takes no longer than cells do with
# the loading of their kernels, 1.5 s of 19,000 points. A fixed rule: same seed, same graph.
BRUTE_WORK = 6e10
_TREE_WORK = 5e9  # the same where a k-d tree is used beyond: 6,000 points
_SHARE = 0.4  # of the time that is left when the search begins, after which sweeps end
_LOW_RECALL = 0.9
_ALL_EQUAL = 0.99  # of the points without a neighbour but duplicates: distances tell nothing

Found = tuple[NDArray[np.int32], NDArray[np.float32], dict[str, Any]]


def threads_for(n_jobs: int | None) -> int:
    """Threads for the search by cells."""
    from mustlink.kernels.blocks import workers

    return workers() if n_jobs is None else min(n_jobs, workers())


def compares_all(n: int, d: int, k: int) -> bool:
    """Whether the neighbours of n points of d coordinates are found by comparing all pairs."""
    most = min(BRUTE_WORK, _TREE_WORK) if d <= LOW else BRUTE_WORK
    return n * n * (d + 130.0) <= most or k >= n // 4


@dataclass(frozen=True, eq=False)
class Search:
    """A search for the k nearest of every point, itself excluded.

    `sample` random points are compared with exact lists; a `plan` says how, and with what sizes,
    where not all pairs are; a `folder` is for what is written to disk. Where it `descends`, these
    are found by NN-descent; an `executor` runs the tasks of a plan by tasks.
    """

    k: int
    seed: int
    n_jobs: int | None
    recorder: Recorder
    sample: int
    plan: Plan | None = None
    folder: Any = None
    descends: bool = False
    executor: Executor | None = None

    @property
    def way(self) -> Any:
        """What of the plan decides which lists are found."""
        if self.descends:
            return "descent"
        if self.plan is None or self.plan.layout is None:
            return None
        sizes = self.plan.layout
        return self.plan.method, sizes.cells if isinstance(sizes, StoredLayout) else sizes

    def lists(self, X: NDArray[np.float32] | Prepared) -> Found:
        """Indices (n, k), lengths (n, k), how they were found, and the recall of some nodes."""
        if self.descends and not compares_all(X.shape[0], X.shape[1], self.k):
            assert isinstance(X, np.ndarray)
            return self._by_descent(X)
        method = "brute" if self.plan is None else self.plan.method
        if method not in ("brute", "tree"):
            return self._by_cells(X if isinstance(X, Prepared) else prepare(X, "euclidean"))
        assert isinstance(X, np.ndarray)
        if method == "tree":
            return self._by_tree(X)
        n = X.shape[0]
        with self.recorder.stage("kNN graph") as advance:
            indices, distances = exact_neighbours(X, np.arange(n), self.k, advance)
        return indices, distances, {"method": "brute", "recall": 1.0, "recall_sample": n}

    def tell_recall(self, info: dict[str, Any]) -> None:
        """Warn of a low recall."""
        if info["recall"] < _LOW_RECALL:
            self.recorder.warn(
                f"kNN graph: only {info['recall']:.3f} of the true neighbours found (sample of "
                f"{info['recall_sample']}); raise n_neighbors or reduce the dimension"
            )

    def tell_equal(self, distances: NDArray[np.float32]) -> None:
        """Warn where (nearly) no point is at any distance from its neighbours, lists (n, k)."""
        n = distances.shape[0]
        self.tell_copies(n - int(np.count_nonzero(distances.any(axis=1))), n)

    def tell_copies(self, equal: int, n: int) -> None:
        """Warn where (nearly) all of n points, `equal` of them, have copies for neighbours."""
        if equal >= _ALL_EQUAL * n and n > 1:
            self.recorder.warn(
                f"kNN graph: {equal} of {n} points are equal to all their neighbours, distances "
                "tell nothing about them; check that the right columns were read"
            )

    @contextmanager
    def in_time(self) -> Iterator[tuple[Deadline, Callable[[float], None]]]:
        """The stage of a search, with its share of the time: which one ended early is told."""
        until = self.recorder.deadline.share(_SHARE)
        with self.recorder.stage("kNN graph") as advance:
            yield until, advance
        if until.is_over:  # what was kept from such a search is less
            self.recorder.leave_out("neighbours are searched less far than usual")

    def _by_descent(self, X: NDArray[np.float32]) -> Found:
        """Lists of NN-descent, on one thread: on several its lists depend on their number."""
        from pynndescent import NNDescent

        with self.recorder.stage("compiling kNN kernels"):
            tiny = np.random.default_rng(0).standard_normal((512, 8)).astype(np.float32)
            NNDescent(tiny, n_neighbors=4, random_state=0, n_jobs=1)
        with self.in_time():
            found = NNDescent(X, n_neighbors=self.k + 1, random_state=self.seed, n_jobs=1)
            nodes, lengths = found.neighbor_graph
            indices, distances = drop_own(nodes, lengths, np.arange(X.shape[0]))
        with self.recorder.stage("kNN recall"):
            size = min(X.shape[0], max(1, self.sample))
            some = np.random.default_rng(self.seed).choice(X.shape[0], size, replace=False)
            recall = measured_recall(X, some, distances[some])
        return indices, distances, {"method": "descent", "recall": recall, "recall_sample": size}

    def _by_tree(self, X: NDArray[np.float32]) -> Found:
        from mustlink.kernels.k_d_tree import nearest_in_tree
        from mustlink.kernels.threads import threads

        with self.recorder.stage("kNN graph"), threads(self.n_jobs):
            indices, lengths = nearest_in_tree(X.astype(np.float64), self.k)
        info = {"method": "tree", "recall": 1.0, "recall_sample": X.shape[0]}
        return indices, lengths.astype(np.float32), info

    def _by_cells(self, rows: Prepared) -> Found:
        """What cells find in their share of the time, and a note where a budget chose how."""
        from mustlink.neighbours.cell_search import cell_lists

        plan = self.plan
        assert plan is not None
        assert plan.layout is not None
        with self.in_time() as (until, advance):
            indices, distances, info = cell_lists(
                rows,
                self.k,
                np.random.default_rng(self.seed),
                plan.layout,
                n_jobs=threads_for(self.n_jobs),
                sample=self.sample,
                deadline=until,
                advance=advance,
                folder=self.folder,
                executor=self.executor if plan.method == "tasks" else None,
            )
        give_back()
        if plan.lean:
            where = {"stored cells": " on disk", "tasks": " by tasks"}.get(plan.method, "")
            why = "" if plan.method == "tasks" else ", as a memory was named"
            self.recorder.note(
                f"kNN graph: found in {info['parts']} parts{where} and weighted in single "
                f"precision{why}; recall {info['recall']:.3f}"
            )
        return indices, distances, {"method": plan.method, **info}


def planned(
    X: NDArray[np.float32] | Prepared,
    k: int,
    budget: int | None,
    n_jobs: int | None,
    recorder: Recorder,
    *,
    by_tasks: bool,
) -> tuple[NDArray[np.float32] | Prepared, Plan | None, int]:
    """The points in memory if they may be, the plan, and k as possible; raises InputError."""
    n, d = X.shape
    k = _possible(k, n, recorder)
    if not isinstance(X, Prepared):
        plan = knn_plan(n, d, k, None, small=compares_all(n, d, k))
        return X, plan, k
    small = compares_all(n, d, k)
    plan = knn_plan(
        n,
        d,
        k,
        budget,
        held=X.held,
        itemsize=8 if X.shift is not None or X.metric == "cosine" else 4,
        by_rows=not X.held,
        small=small,
        threads=threads_for(n_jobs),
        by_tasks=by_tasks,
    )
    if plan.lean:
        return X, plan, k
    if isinstance(X.source, np.ndarray):
        return single_precision(X.source, X.metric), plan, k
    found = np.empty((n, d), dtype=np.float32)
    for start, block in X.blocks():
        found[start : start + block.shape[0]] = block
    return found, plan, k


def _possible(k: int, n: int, recorder: Recorder) -> int:
    """Return k, or n - 1 with a note."""
    if k > n - 1:
        recorder.note(f"n_neighbors: {k} asked of {n} points, {n - 1} used")
    return min(k, n - 1)
