"""Neighbour lists by parts, as tasks of an executor: processes of this machine or of several.

As `partition`, with two differences: coordinates, lists and what was found lie in files of a folder
that every worker sees, and a sweep of local joins compares lists as they were before it, so that
all its tasks are independent. What is found depends on no worker, and on no number of them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.neighbour_graph import Layout
from mustlink.deadline import NEVER, Deadline
from mustlink.errors import MustlinkError
from mustlink.kernels import local_joins
from mustlink.neighbours import tasks
from mustlink.neighbours.parts import Parts, centres_of, known_neighbours, lay_out, least_overlap
from mustlink.neighbours.points_by_rows import Prepared, near_one
from mustlink.neighbours.refine import Lists, Refined, distances_of, in_rows, measured_recall
from mustlink.neighbours.shared_files import handed_over

_STEP, _TASKS = 8192, 256  # nodes of a task, but no more tasks than these
_REMOVALS = 3  # of a folder: a worker that was given up may have written during the first
_PIECES = 4  # of the sample: each is compared with all points

Advance = Callable[[float], None]


def task_lists(
    rows: Prepared,
    k: int,
    rng: np.random.Generator,
    layout: Layout,
    *,
    executor: Executor,
    n_jobs: int = 1,
    sample: int = 500,
    folder: Any = None,
    deadline: Deadline = NEVER,
    advance: Advance | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.float32], dict[str, Any]]:
    """Find about the k nearest of each point but itself: indices, distances (n, k), and how.

    As `partition_lists`; tasks are run by an executor whose workers see `folder`, and this process
    computes with `n_jobs` threads in between. The same generator gives the same lists for every
    executor. At the `deadline` no sweep begins. Files: about n (4 d + 8 p (k + 3) + 25 k) bytes for
    p parts a point, and what a sweep finds.
    Raises MustlinkError where a task fails, with its cause.
    """
    from threadpoolctl import threadpool_limits

    advance = advance or (lambda _: None)
    rows, unit = near_one(rows)
    with (
        _shared_folder(folder) as path,
        threadpool_limits(1, user_api="blas"),
        ThreadPoolExecutor(n_jobs) as own,
    ):
        rows = handed_over(rows, path, layout.block_bytes)
        n, d = rows.shape
        work = _Work(executor, n)
        with _one_line():
            known = known_neighbours(rows, k, sample, rng, layout, work, _PIECES)
        advance(0.05)
        centres = centres_of(rows, k, rng, layout, own)
        overlap, shared = least_overlap(centres, known, layout, own)
        advance(0.1)
        near = list(work.over_nodes(tasks.assign_rows, rows, centres, overlap))
        parts, places = lay_out(np.concatenate(near), centres.norms.size, layout)
        del near
        place = tasks.Folder(path, n, d, k, overlap, layout)
        _write_parts(place, rows, parts, places)
        del places
        known = replace(known, nodes=parts.numbers()[known.nodes].astype(np.int64))
        advance(0.2)
        _search(place, parts.starts, work, lambda x: advance(0.2 + 0.4 * x))
        refined = Refined(n, [measured_recall(_lists(place, 0), k, known)])
        while refined.go_on(deadline):
            advance(1 - 0.4 * 0.5**refined.sweeps)
            compared = _sweep(place, refined.sweeps, work)
            after = _lists(place, refined.sweeps + 1)
            refined.note(measured_recall(after, k, known), compared)
        indices, squared = in_rows(_lists(place, refined.sweeps), k, parts.order)
        distances = distances_of(rows, indices, squared, layout, unit)
    advance(1.0)
    info = {
        "recall_sample": int(known.nodes.size),
        "parts": parts.starts.size - 1,
        "overlap": overlap,
        "shared": shared,
        **refined.info,
    }
    return indices, distances, info


@dataclass(frozen=True)
class _Work(Executor):
    """Tasks on one thread each, for ranges of n nodes that depend on no number of workers."""

    executor: Executor
    n: int

    @property
    def step(self) -> int:
        """Nodes of a task."""
        return max(_STEP, -(-self.n // _TASKS))

    def submit(self, task: Callable[..., Any], /, *given: Any, **_: Any) -> Future[Any]:
        """Begin one task."""
        return self.executor.submit(tasks.alone, task, *given)

    def each(self, task: Callable[..., Any], given: list[tuple[Any, ...]]) -> Iterator[Any]:
        """Run task(*one) for each; yields results in this order."""
        futures = [self.submit(task, *one) for one in given]
        try:
            for future in futures:
                with _one_line():
                    found = future.result()
                yield found
        finally:
            for future in futures:
                future.cancel()

    def over_nodes(self, task: Callable[..., Any], *given: Any) -> Iterator[Any]:
        """Run task(*given, first, stop) for the nodes first:stop of every range."""
        step, n = self.step, self.n
        return self.each(task, [(*given, a, min(n, a + step)) for a in range(0, n, step)])


@contextmanager
def _shared_folder(where: Any) -> Iterator[Path]:
    """A folder for files of the tasks, which goes at the end."""
    path = Path(tempfile.mkdtemp(prefix=".mustlink-", dir=where)).absolute()
    try:
        yield path
    finally:
        for _ in range(_REMOVALS):
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _one_line() -> Iterator[None]:
    """MustlinkError in one line where a task has failed, wherever it ran."""
    try:
        yield
    except MustlinkError:
        raise
    except FileNotFoundError as error:
        raise MustlinkError(
            f"executor: a worker does not find {error.filename}; all workers must see the points' "
            "file and the folder for temporary files at the same path"
        ) from error
    except CancelledError as error:
        raise MustlinkError(
            "executor: a task of the neighbour search was cancelled, as when the scheduler ends; "
            "see that it runs, and run again"
        ) from error
    except Exception as error:
        words = " ".join(str(error).split())
        raise MustlinkError(
            f"executor: a task of the neighbour search failed ({type(error).__name__}: {words}); "
            "look at the workers' logs and run again"
        ) from error


def _lists(place: tasks.Folder, sweep: int) -> Lists:
    """The lists after a sweep, read where they are looked at."""
    return Lists(*(one.mapped() for one in place.lists(sweep)))


def _write_parts(
    place: tasks.Folder, rows: Prepared, parts: Parts, places: NDArray[np.int64]
) -> None:
    """Write who is in which part, and all coordinates in the order of the nodes."""
    place.members.keep(parts.members[:, None])
    place.places.keep(places[parts.order])
    numbers = parts.numbers()
    points = np.memmap(place.points.path, "float32", "w+", shape=rows.shape)
    for start, block in rows.blocks(place.layout.block_bytes):
        points[numbers[start : start + block.shape[0]]] = block
    points.flush()


def _search(place: tasks.Folder, starts: NDArray[np.int64], work: _Work, advance: Advance) -> None:
    """Search the parts, several a task, and merge what they find into the first lists."""
    for table in place.found:
        table.make(place.n * place.overlap)
    cuts = np.searchsorted(starts, np.arange(work.step, starts[-1], work.step))
    cuts = np.unique([0, *cuts.tolist(), starts.size - 1])
    several = [(place, starts[a : b + 1]) for a, b in pairwise(cuts)]
    for done, _ in enumerate(work.each(tasks.search_parts, several)):
        advance((done + 1) / len(several))
    place.lists(0).make(place.n)
    for _ in work.over_nodes(tasks.merge_parts, place):
        pass
    for table in place.found:
        table.remove()


def _sweep(place: tasks.Folder, sweep: int, work: _Work) -> int:
    """One sweep of local joins, from the lists after `sweep` to the next; pairs compared."""
    before, n = place.lists(sweep), place.n
    told, counts = place.told
    fresh = before.fresh.read(0, n)
    reverse, count = np.zeros((n, told.width), np.int32), np.zeros(n, np.int32)
    local_joins.tell_targets(before.indices.mapped(), fresh, 0, n, reverse, count)
    told.keep(reverse)
    counts.keep(count[:, None])
    before.fresh.keep(fresh)
    compared = sum(work.over_nodes(tasks.join_nodes, place, sweep))
    place.lists(sweep + 1).make(n)
    for _ in work.over_nodes(tasks.merge_joined, place, sweep, work.step):
        pass
    before.remove()
    for first in range(0, n, work.step):
        place.joined(sweep, first).unlink(missing_ok=True)
    return int(compared)
