"""How neighbours are searched: all pairs compared, NN-descent, or by parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.neighbour_graph import Plan
from mustlink.cost.process_memory import give_back
from mustlink.deadline import Deadline
from mustlink.neighbours import descent
from mustlink.neighbours.exact import drop_own, exact_neighbours, measured_recall
from mustlink.neighbours.points_by_rows import Prepared
from mustlink.observe import Recorder

# n²(d + 130) up to which all pairs are compared: 8 s, when the other way took 16 s to compile in
# every process. A fixed rule, not one that asks what is compiled: same seed, same graph.
BRUTE_WORK = 2e11
_FEW = 150  # points whose lists are compared with exact ones where time is short
_SHARE = 0.4  # of the time that is left when the search begins, after which sweeps end
# Seconds of NN-descent, on two cores at 3 GHz: of its kernels in a new process, and for a point,
# times √coordinates, log₁₀ points and neighbours over 15.
_COMPILING, _DESCENDING = 16.0, 5e-7
_LOW_RECALL = 0.9
_ALL_EQUAL = 0.99  # of the points without a neighbour but duplicates: distances tell nothing

Found = tuple[NDArray[np.int32], NDArray[np.float32], dict[str, Any]]


def threads_for(n_jobs: int | None) -> int:
    """Threads for the search by parts."""
    from mustlink.kernels.blocks import workers

    return workers() if n_jobs is None else min(n_jobs, workers())


def compares_all(n: int, d: int, k: int) -> bool:
    """Whether the neighbours of n points of d coordinates are found by comparing all pairs."""
    return n * n * (d + 130.0) <= BRUTE_WORK or k >= n // 4


def descent_seconds(n: int, d: int, k: int) -> float:
    """About how long NN-descent takes for k neighbours of n points of d coordinates."""
    compiling = 0.0 if descent.is_compiled() else _COMPILING
    return float(compiling + _DESCENDING * n * np.sqrt(d) * np.log10(max(n, 10)) * k / 15)


def too_slow(n: int, d: int, k: int, deadline: Deadline) -> float:
    """Seconds of NN-descent where a time limit does not leave them, else 0."""
    if compares_all(n, d, k):
        return 0.0
    seconds = descent_seconds(n, d, k)
    return seconds if seconds > _SHARE * deadline.remaining() else 0.0


@dataclass(frozen=True, eq=False)
class Search:
    """A search for the k nearest of every point, itself excluded.

    `sample` random points are compared with exact lists; `plan` and a `folder` for what is written
    to disk belong to the search by parts.
    """

    k: int
    seed: int
    n_jobs: int | None
    recorder: Recorder
    sample: int
    plan: Plan | None = None
    folder: Any = None

    @property
    def way(self) -> Any:
        """What of the plan decides which lists are found."""
        return None if self.plan is None else (self.plan.method, self.plan.layout)

    def sampled(
        self, X: NDArray[np.float32] | Prepared, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Nodes whose lists are compared with exact ones; none where the lists are exact."""
        n, d = X.shape
        if isinstance(X, Prepared) or compares_all(n, d, self.k):
            return np.empty(0, dtype=np.int64)
        return np.sort(rng.choice(n, size=min(n, max(1, self.sample)), replace=False))

    def lists(self, X: NDArray[np.float32] | Prepared, looked_at: NDArray[np.int64]) -> Found:
        """Indices (n, k), lengths (n, k), how they were found, and the recall of some nodes."""
        if isinstance(X, Prepared):
            return self._by_parts(X)
        n, d = X.shape
        if compares_all(n, d, self.k):
            with self.recorder.stage("kNN graph") as advance:
                indices, distances = exact_neighbours(X, np.arange(n), self.k, advance)
            return indices, distances, {"method": "brute", "recall": 1.0, "recall_sample": n}
        return self._by_descent(X, looked_at)

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

    def _by_descent(self, X: NDArray[np.float32], looked_at: NDArray[np.int64]) -> Found:
        if not descent.is_compiled():
            with self.recorder.stage("compiling kNN kernels"):
                descent.compile_kernels()
        until = self.recorder.deadline.share(_SHARE)
        with self.recorder.stage("kNN graph") as advance:
            lists = descent.neighbour_lists(X, self.k + 1, self.seed, self.n_jobs, advance, until)
            indices, distances = drop_self(*lists)
            del lists
        self._tell_end(until)
        with self.recorder.stage("kNN recall"):
            recall = measured_recall(X, looked_at, distances[looked_at])
        info = {"method": "pynndescent", "recall": recall, "recall_sample": int(looked_at.size)}
        return indices, distances, info

    def _tell_end(self, until: Deadline) -> None:
        """Say where sweeps may have been left out: what was kept from such a search is less."""
        if until.is_over:
            self.recorder.leave_out("neighbours are searched with fewer sweeps")

    def _by_parts(self, rows: Prepared) -> Found:
        """By parts, and a note that it was the budget's doing."""
        from mustlink.neighbours.partition import partition_lists

        assert self.plan is not None
        assert self.plan.layout is not None
        until = self.recorder.deadline.share(_SHARE)
        n, d = rows.shape
        hurried = too_slow(n, d, self.k, self.recorder.deadline) > 0
        with self.recorder.stage("kNN graph") as advance:
            indices, distances, info = partition_lists(
                rows,
                self.k,
                np.random.default_rng(self.seed),
                self.plan.layout,
                n_jobs=threads_for(self.n_jobs),
                sample=min(self.sample, _FEW) if hurried else self.sample,
                folder=self.folder,
                in_memory=self.plan.in_memory,
                deadline=until,
                advance=advance,
            )
        give_back()
        self._tell_end(until)
        why = "time is short" if self.recorder.left_out else "a memory was named"
        where = "" if self.plan.in_memory else " on disk"
        self.recorder.note(
            f"kNN graph: found in {info['parts']} parts{where} and weighted in single precision, "
            f"as {why}; recall {info['recall']:.3f}"
        )
        return indices, distances, {"method": "partition", **info}


def drop_self(
    indices: NDArray[np.int32], distances: NDArray[np.float32]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Take the own index out of lists (n, k+1); where it is absent the farthest goes."""
    return drop_own(indices, distances, np.arange(indices.shape[0]))
