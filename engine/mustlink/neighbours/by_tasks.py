"""The search by cells on disk as tasks of an executor: processes of this machine or of several.

A task finds the final lists of a block of cells that follow each other, from points and what is
known of all cells, which lie in files of a folder that every worker sees: no lists are merged. What
is found depends on no worker, and on no number of them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.stored_neighbours import StoredLayout
from mustlink.deadline import Deadline
from mustlink.errors import MustlinkError
from mustlink.neighbours import tasks
from mustlink.neighbours.cells import Groups
from mustlink.neighbours.parts import Sample, known_neighbours
from mustlink.neighbours.points_by_rows import Prepared
from mustlink.neighbours.refine import Team
from mustlink.neighbours.scratch import Scratch, handed_over
from mustlink.neighbours.stored_lists import ListsFile, StoredSearch
from mustlink.neighbours.stored_search import Passes, keep_finished, lists_by_disk
from mustlink.space.scratch_file import NamedFile

_REMOVALS = 3  # of a folder: a worker that was given up may have written during the first
_PIECES = 4  # of the sample: each is compared with all points


def task_lists(
    rows: Prepared,
    k: int,
    rng: np.random.Generator,
    layout: StoredLayout,
    *,
    executor: Executor,
    folder: Any = None,
    **how: Any,
) -> tuple[NDArray[np.int32], NDArray[np.float32], dict[str, Any]]:
    """Find about the k nearest of each point but itself: indices, distances (n, k), and how.

    The lists of `lists_by_disk`, which explains what else is given; tasks are run by an executor
    whose workers see `folder`, and this process computes with threads in between. At the deadline
    blocks that are not finished stay as their cells have filled them. Files: n (4d + 16k) bytes,
    and 4d a point more unless points are in an HDF5 file.
    Raises MustlinkError where a task fails, with its cause.
    """
    with _shared_folder(folder) as path:
        passes = partial(TaskPasses, executor)
        return lists_by_disk(rows, k, rng, layout, folder=path, passes=passes, **how)


class TaskPasses(Passes):
    """Passes whose pieces are tasks of an executor; the folder goes at the end."""

    def __init__(self, executor: Executor, folder: Path, layout: StoredLayout, team: Team) -> None:
        super().__init__(folder, layout, team)
        self._shared, self._work = tasks.Folder(folder, layout), _Work(executor)

    def given(self, rows: Prepared) -> Prepared:
        """The points in their HDF5 file, or in a copy."""
        return handed_over(rows, self._shared.path, self.layout.cells.block_bytes)

    def known(self, rows: Prepared, k: int, count: int, rng: np.random.Generator) -> Sample:
        """True neighbours of some nodes."""
        with _one_line():
            return known_neighbours(rows, k, count, rng, self.layout.cells, self._work, _PIECES)

    def cells(self, rows: Prepared, groups: Groups) -> Iterator[tuple[slice, NDArray[np.int32]]]:
        """Yield some rows and the centres whose cells they are in."""
        self._shared.save_groups(groups)
        ranges = groups.bounds(rows)
        found = self._work.each(partial(tasks.assign, self._shared, rows), ranges)
        return zip(ranges, found, strict=True)

    def file(self, n: int, d: int) -> Scratch:
        """A file for the points that workers see."""
        self._points = NamedFile(self._shared.points, 4 * n * d)
        return Scratch(None, n, d, self._points)

    def within(self, search: StoredSearch, lists: ListsFile) -> Iterator[float]:
        """Fill lists with the nearest of the own cell, each block's in a file."""
        n = lists.shape[0]
        self._points.settle()
        self._shared.save_cells(search)
        search.mean = np.empty(search.counts.size)
        search.limits = np.empty(n, dtype=np.float32)
        blocks = self._blocks(search)
        for some, found in zip(blocks, self._each(tasks.within, blocks), strict=True):
            search.limits[search.rows(some)], search.mean[some] = found
            yield some.stop / search.counts.size
        search.limits.tofile(self._shared.limits)

    def visits(self, search: StoredSearch) -> Iterator[float]:
        """Find who is visited."""
        self._shared.save_borders(search.borders)
        search.used = np.zeros(search.borders.near.shape, dtype=np.int32)
        blocks = self._blocks(search) if search.used.size else []
        for some, found in zip(blocks, self._each(tasks.visits, blocks), strict=True):
            search.used[some] = found
            yield some.stop / search.counts.size
        self._shared.save_used(search.used)

    def finish(
        self,
        search: StoredSearch,
        lists: ListsFile,
        short: list[NDArray[np.int64]],
        deadline: Deadline,
    ) -> Iterator[float]:
        """Finish the lists of every block, and take them."""
        blocks = self._blocks(search)
        done = self._each(tasks.finished, blocks)
        for some in blocks:
            first = search.rows(some).start
            if deadline.is_over:
                done.close()
                found = self._shared.read_lists("within", some)
                search.settle(found, 0)
            else:
                next(done)
                found = self._shared.read_lists("finished", some)
                for after in ("within", "finished"):
                    self._shared.lists(after, some).unlink(missing_ok=True)
            keep_finished(lists, short, first, found)
            del found
            yield some.stop / search.counts.size

    def _blocks(self, search: StoredSearch) -> list[slice]:
        return search.cells.ranges(self.layout.block)

    def _each(self, task: Callable[..., Any], blocks: list[slice]) -> Any:
        return self._work.each(partial(task, self._shared), blocks)


@dataclass(frozen=True)
class _Work(Executor):
    """Tasks on one thread each."""

    executor: Executor

    def submit(self, task: Callable[..., Any], /, *given: Any, **_: Any) -> Future[Any]:
        """Begin one task."""
        return self.executor.submit(tasks.alone, task, *given)

    def each(self, task: Callable[..., Any], given: list[slice]) -> Any:
        """Run task(one) for each; yields results in this order."""
        futures = [self.submit(task, one) for one in given]
        try:
            for future in futures:
                with _one_line():
                    found = future.result()
                yield found
        finally:
            for future in futures:
                future.cancel()


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
