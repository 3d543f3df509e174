"""The search by cells on disk as tasks of an executor: processes of this machine or of several.

Files in a folder are seen by all workers: points, what is known of cells, lists. A file is written
by one process, whole, before any other reads it, or it is put in place when it is whole: a
task that is done twice, by a worker that was lost and by another, or half, changes nothing that is
read. A task finds the final lists of a block of cells that follow each other: no lists are merged.
What is found depends on no worker, and on no number of them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.context.neighbor_cost import Layout
from mustlink.core.observe import Deadline
from mustlink.errors import MustlinkError
from mustlink.graph.shares import each_part
from mustlink.kernels.threads import threads
from mustlink.neighbors.cell_blocks import CellSearch, Measured, SearchBackend, finish
from mustlink.neighbors.cell_rows import CellRows, Lists, SomeLists, Store
from mustlink.neighbors.cells import Borders, Centres, Groups, QuerySample, Team, known_neighbours
from mustlink.neighbors.points_by_rows import Prepared
from mustlink.space.disk import DiskBlock, NamedFile

_REMOVALS = 3  # of a folder: a worker that was given up may have written during the first
_AT_ONCE = 32  # results of parts that wait for those before them
_PIECES = 4  # of the sample: each is compared with all points


# ---------------------------------------------------------------- files that workers share


@dataclass(frozen=True)
class FileRows:
    """Points in a dataset of an HDF5 file: every process opens it for itself."""

    path: str
    name: str
    shape: tuple[int, int]
    chunks: tuple[int, ...] | None

    def __getitem__(self, rows: slice) -> Any:
        """Rows a:b."""
        import h5py

        with h5py.File(self.path, "r") as file:
            return file[self.name][rows]


def file_rows(points: Any) -> Any:
    """Points (n, d) as every process reads them, None where they are not in a file.

    They are a dataset of an HDF5 file, or rows whose copy in another process opens their file, as
    they say by `opens_itself`.
    """
    import h5py

    if getattr(points, "opens_itself", False):
        return points
    if not (isinstance(points, h5py.Dataset) and getattr(points.file, "filename", None)):
        return None
    path = os.path.abspath(os.fsdecode(points.file.filename))
    n, d = points.shape
    return FileRows(path, points.name, (int(n), int(d)), points.chunks)


@dataclass(frozen=True)
class Folder:
    """What all tasks of a search share: files, and sizes."""

    path: Path
    layout: Layout

    def save(self, name: str, value: Any) -> None:
        """Write the arrays and numbers of something, so that its file is whole or not there."""
        path = self.path / name
        temporary = path.with_name(f"{name}.{uuid.uuid4().hex[:12]}.tmp")
        with open(temporary, "wb") as file:
            np.savez(file, *_leaves(value))
        os.replace(temporary, path)

    def load(self, name: str) -> list[Any]:
        """Read the arrays and numbers that were written, in their order."""
        with np.load(self.path / name, allow_pickle=False) as file:
            found = [file[f"arr_{number}"] for number in range(len(file.files))]
        return [one if one.ndim else one.item() for one in found]

    def groups(self) -> Groups:
        """The groups of centres."""
        leaves, each = self.load("groups"), len(fields(Centres))
        both = Centres(*leaves[:each]), Centres(*leaves[each : 2 * each])
        return Groups(*both, *leaves[2 * each :])

    def lists(self, after: str, some: slice) -> SomeLists:
        """Lists of some cells after a pass."""
        indices, squared = self.load(f"{after}-{some.start}")
        return indices, squared

    @contextmanager
    def search(self, *known: str) -> Iterator[CellSearch]:
        """Where cells lie, their points, and what else is `known`; on one thread."""
        starts, centres, k = self.load("cells")
        file = NamedFile(self.path / "points")
        shape = int(starts[-1]), centres.shape[1]
        store = DiskBlock(None, shape, np.float32, file)
        with ThreadPoolExecutor(1) as pool:
            cells, sizes = CellRows(store, starts, centres), self.layout
            search = CellSearch(cells, k, Team(pool, 1), sizes.chunk, sizes.desks)
            if "used" in known:
                (search.used,) = self.load("used")
            if "borders" in known:  # of limits only some are looked at
                search.borders = Borders(*self.load("borders"))
                search.limits = np.load(self.path / "limits.npy", mmap_mode="c")
            yield search
        file.close()


def _leaves(value: Any) -> list[NDArray[Any]]:
    """The arrays and numbers of records and tuples, in order."""
    if is_dataclass(value):
        value = tuple(getattr(value, field.name) for field in fields(value))
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in _leaves(part)]
    return [np.asarray(value)]


@contextmanager
def shared_folder(where: Any) -> Iterator[Path]:
    """A folder for files of the tasks, which goes at the end."""
    path = Path(tempfile.mkdtemp(prefix=".mustlink-", dir=where)).absolute()
    try:
        yield path
    finally:
        for _ in range(_REMOVALS):
            shutil.rmtree(path, ignore_errors=True)


# ---------------------------------------------------------------- tasks, for any process


def alone(task: Callable[..., Any], *given: Any) -> Any:
    """Run a task on one thread."""
    with threads(1):
        return task(*given)


def assign(folder: Folder, rows: Prepared, some: slice) -> NDArray[np.int32]:
    """Centres whose cells some rows are in."""
    groups = folder.groups()
    with ThreadPoolExecutor(1) as pool:
        return groups.cell(rows[some], Team(pool, 1))


def within(folder: Folder, some: slice) -> Measured:
    """Fill lists with the nearest of the own cell; last squared lengths, and what cells measure."""
    with folder.search() as search:
        lists, measured = search.within(some)
        folder.save(f"within-{some.start}", lists)
        return measured


def visits(folder: Folder, some: slice) -> NDArray[np.int32]:
    """By how many members of some cells each of those near is visited."""
    with folder.search("borders") as search:
        return search.visits(some)


def finished(folder: Folder, some: slice) -> None:
    """Finish the lists of a block of cells."""
    lists = folder.lists("within", some)
    with folder.search("borders", "used") as search:
        for _ in finish(search, some, lists):
            pass
    folder.save(f"finished-{some.start}", lists)


# ---------------------------------------------------------------- the process that submits them


class TaskPasses(SearchBackend):
    """Passes whose pieces are tasks of an executor; this process computes in between.

    Files: n (4d + 16k) bytes, and 4d a point more unless points are in an HDF5 file.
    """

    def __init__(self, executor: Executor, folder: Path, sizes: Layout, team: Team) -> None:
        super().__init__(sizes, team, folder)
        self.at_once = False
        self._shared, self._work = Folder(folder, sizes), _Work(executor)

    def given(self, rows: Prepared) -> Prepared:
        """The points in their HDF5 file, or in a copy."""
        import h5py

        there, (n, d) = file_rows(rows.source), rows.shape
        if there is not None:
            return replace(rows, source=there)
        path = str(self.folder / "rows.h5")
        with h5py.File(path, "w") as file:
            copy = file.create_dataset("points", (n, d), np.float32)
            for start, block in rows.blocks(self.sizes.block_bytes):
                copy[start : start + block.shape[0]] = block
        there = FileRows(path, "points", (n, d), None)
        return Prepared(there, "euclidean", None, rows.size * rows.unit)

    def known(self, rows: Prepared, k: int, count: int, rng: np.random.Generator) -> QuerySample:
        """True neighbours of some nodes."""
        with _one_line():
            return known_neighbours(rows, k, count, rng, self.sizes, self._work, _PIECES)

    def cells(self, rows: Prepared, groups: Groups) -> Iterator[tuple[slice, NDArray[np.int32]]]:
        """Yield some rows and the centres whose cells they are in."""
        self._shared.save("groups", groups)
        return self._work.each(partial(assign, self._shared, rows), groups.bounds(rows))

    def store(self, n: int, d: int) -> Store:
        """A file for the points that workers see."""
        self._points = NamedFile(self.folder / "points", 4 * n * d)
        return DiskBlock(None, (n, d), np.float32, self._points)

    def within(self, search: CellSearch, lists: Lists) -> Iterator[tuple[slice, Measured]]:
        """Fill lists with the nearest of the own cell, each block's in a file."""
        self._points.settle()
        cells = search.cells
        self._shared.save("cells", (cells.starts, cells.centres, search.k))
        yield from self._each(within, search)
        np.save(self.folder / "limits.npy", search.limits)

    def visits(self, search: CellSearch) -> Iterator[tuple[slice, NDArray[np.int32]]]:
        """Count visits."""
        self._shared.save("borders", search.borders)
        yield from self._each(visits, search) if search.borders.near.size else ()
        self._shared.save("used", search.used)

    def finish(
        self, search: CellSearch, lists: Lists, deadline: Deadline, advance: Callable[[float], None]
    ) -> Iterator[tuple[slice, SomeLists]]:
        """Finish the lists of every block, and take them."""
        done = self._each(finished, search)
        for some in search.cells.ranges(self.sizes.block):
            if deadline.is_over:
                done.close()
                found = self._shared.lists("within", some)
                search.settle(found, 0)
            else:
                next(done)
                found = self._shared.lists("finished", some)
                for after in ("within", "finished"):
                    (self.folder / f"{after}-{some.start}").unlink(missing_ok=True)
            yield some, found
            del found
            advance(some.stop / search.counts.size)

    def _each(self, task: Callable[..., Any], search: CellSearch) -> Any:
        """Yield every block of cells and what the task finds of it."""
        return self._work.each(partial(task, self._shared), search.cells.ranges(self.sizes.block))


@dataclass(frozen=True)
class _Work(Executor):
    """Tasks on one thread each."""

    executor: Executor

    def submit(self, task: Callable[..., Any], /, *given: Any, **_: Any) -> Future[Any]:
        """Begin one task."""
        return self.executor.submit(alone, task, *given)

    def each(
        self, task: Callable[..., Any], given: Iterable[slice], most: int | None = None
    ) -> Any:
        """Run task(one) for each; yields all with their results, in this order.

        At `most` so many are submitted and not yet taken, None: all.
        """
        left, waiting = iter(given), deque[tuple[slice, Future[Any]]]()
        try:
            while True:
                for one in islice(left, None if most is None else most - len(waiting)):
                    waiting.append((one, self.submit(task, one)))
                if not waiting:
                    return
                one, future = waiting.popleft()
                with _one_line():
                    found = future.result()
                yield one, found
        finally:
            for _, future in waiting:
                future.cancel()


class WorkerRows:
    """Points (n, d) in a file, whose parts tasks of an executor go through.

    A pass is a task for every part, of which a few are on their way; this process adds up what
    comes back, in the order of the rows. So it finds the same with any number of workers.
    """

    def __init__(self, points: Any, there: Any, executor: Executor) -> None:
        self.source, self.shape, self.dtype = points, there.shape, points.dtype
        self._file = there
        self._work: _Work | None = _Work(executor)

    def __getitem__(self, rows: Any) -> Any:
        return self.source[rows]

    def each(self, task: Callable[..., Any], parts: Iterable[slice]) -> Iterator[Any]:
        """Every part with its task(source, part), in order; by workers while there are some."""
        if self._work is None:
            yield from each_part(self.source, task, parts)
        else:
            yield from self._work.each(partial(task, self._file), parts, _AT_ONCE)

    def leave(self) -> None:
        """Let this process do what is left: the fit is over, and the executor may end."""
        self._work = None


def leave_workers(graph: Any) -> None:
    """Let the rows of a graph of representatives be read here from now on."""
    points = getattr(getattr(graph, "shares", None), "points", None)
    if isinstance(points, WorkerRows):
        points.leave()


def on_workers(points: Any, executor: Executor | None) -> Any:
    """Points whose passes are done by the executor, if they are in a file; else as given."""
    there = None if executor is None else file_rows(points)
    return points if executor is None or there is None else WorkerRows(points, there, executor)


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
