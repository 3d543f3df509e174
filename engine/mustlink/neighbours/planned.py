"""What is decided before neighbours are searched: where points are, and how they are compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.neighbour_plan import Plan, held_beside, knn_plan
from mustlink.cost.process_memory import resident_bytes
from mustlink.neighbours.points_by_rows import Prepared, single_precision
from mustlink.neighbours.search import compares_all, threads_for
from mustlink.observe import Recorder


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
        base=held_beside(resident_bytes(), X.held),
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
