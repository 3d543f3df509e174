"""What every rank of `ranks.py` does: `mpiexec … ranks_worker.py GRAPH K`; rank 0 prints JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from mustlink.context.method_cost import n_guard_vectors
from mustlink.core.resources import peak_bytes
from mustlink.eigen.lobpcg import Lobpcg, lobpcg
from mustlink.eigen.plain_solve import nested_start
from mustlink.eigen.rank_work import RankWork, world
from mustlink.kernels.threads import threads
from mustlink.space.ranks import Ranks
from mustlink_io.hdf5.graphs import row_slices
from rank_messages import DividedShape, messages_of_cycle, messages_of_step

_STEPS = 2, 6  # of two runs, whose difference is what so many steps send


class Counted(Ranks):
    """Ranks that count what comes to this one, and the CPU seconds between messages."""

    def __init__(self, communicator: Any) -> None:
        super().__init__(communicator)
        self.messages = self.bytes = 0
        self.between: list[float] = []
        self._last = time.thread_time()

    def _count(self, call: Any, own: int, *given: Any) -> Any:
        self.between.append(time.thread_time() - self._last)
        began = time.thread_time()
        found = call(*given)
        self.messages += 1
        if isinstance(found, np.ndarray):
            self.bytes += max(found.nbytes - own, 0)
        # Waiting for others is no work; copying what came is, and much the same on all ranks.
        self.between[-1] += min(time.thread_time() - began, 1e-9 * 2 * getattr(found, "nbytes", 0))
        self._last = time.thread_time()
        return found

    def added(self, values: Any) -> Any:
        return self._count(super().added, 0, values)

    def joined(self, rows: Any) -> Any:
        return self._count(super().joined, np.asarray(rows).nbytes, rows)

    def sent(self, rows: Any, counts: Any) -> Any:
        return self._count(super().sent, 0, rows, counts)

    def gathered(self, rows: Any) -> Any:
        return self._count(super().gathered, 0, rows)

    def told(self, value: Any) -> Any:
        return self._count(super().told, 0, value)

    def told_array(self, values: Any, size: int) -> Any:
        return self._count(super().told_array, 0, values, size)

    def fetched(self, forest: Any, X: Any, size: int) -> Any:
        return self._count(super().fetched, 0, forest, X, size)

    def longest(self) -> float:
        """Σ over the stretches between messages of the longest CPU seconds of a rank."""
        here = np.array(self.between)
        self.between = []
        return float(np.max(self.communicator.allgather(here), axis=0).sum())


def main() -> None:
    path, k = Path(sys.argv[1]), int(sys.argv[2])
    ranks = Counted(world().communicator)
    graph, stages = row_slices(path, None), {}
    with threads(1):
        work: RankWork

        def stage(name: str, run: Any) -> Any:
            ranks.between, began = [], time.perf_counter()
            ranks._last = time.thread_time()
            found = run()
            ranks.added(np.zeros(1))
            wall = time.perf_counter() - began
            stages[name] = {"seconds": wall, "critical": ranks.longest(), "peak": peak_bytes()}
            return found

        work = stage("reading rows", lambda: RankWork.of(graph.read, graph.n_nodes, ranks))
        laplacian = stage("Laplacian", lambda: work.laplacian)
        grids = stage("multigrid set-up", lambda: work.grids)
        found = stage("eigenvectors", lambda: work.smallest_pairs(k))
        b = k + n_guard_vectors(k)
        shape = DividedShape.of(grids)
        rough, totals = laplacian.in_single, []
        start = nested_start(rough, grids, b, 1).astype(np.float32)
        for steps in _STEPS:
            rule = Lobpcg(b, 1e-30, steps, dtype=np.float32)
            before = ranks.messages, ranks.bytes
            how = {"precondition": grids.cycle(), "project": laplacian.null.project}
            lobpcg(rough.apply, start, rule, space=laplacian.space, **how)
            totals.append((ranks.messages - before[0], ranks.bytes - before[1]))
        steps = _STEPS[1] - _STEPS[0]
        a_step = [(two - one) / steps for one, two in zip(*totals, strict=True)]
        before = ranks.messages, ranks.bytes
        grids.cycle()(start)
        a_cycle = [ranks.messages - before[0], ranks.bytes - before[1]]
    told = {
        "stages": stages,
        "iterations": found.convergence.iterations,
        "cycle": {"counted": a_cycle, "model": messages_of_cycle(shape, b)},
        "step": {"counted": a_step, "model": messages_of_step(shape, b)},
        "halo": shape.halos[0],
        "nodes": laplacian.space.held,
        "values": found.values.tolist(),
    }
    every = ranks.communicator.gather(told)
    if ranks.own == 0:
        print(json.dumps({"sizes": grids.sizes, "entries": graph.n_entries, "ranks": every}))


main()
