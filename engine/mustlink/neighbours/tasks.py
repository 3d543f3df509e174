"""The search by cells on disk as tasks of an executor: processes of this machine or of several.

Files in a folder are seen by all workers: points, what is known of cells, lists. A file is written
by one process, whole, before any other is told of it, or it is put in place when it is whole: a
task that is done twice, by a worker that was lost and by another, or half, changes nothing that is
read. A task finds the final lists of a block of cells that follow each other: no lists are merged.
What is found depends on no worker, and on no number of them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.stored_neighbours import StoredLayout
from mustlink.deadline import Deadline
from mustlink.errors import MustlinkError
from mustlink.neighbours.cell_blocks import CellSearch, finish
from mustlink.neighbours.cell_rows import CellRows, ListsFile, Scratch, SomeLists, Store
from mustlink.neighbours.cells import (
    Borders,
    Centres,
    Groups,
    Sample,
    Team,
    known_neighbours,
)
from mustlink.neighbours.passes import Passes
from mustlink.neighbours.points_by_rows import Prepared
from mustlink.space.scratch_file import NamedFile

_REMOVALS = 3  # of a folder: a worker that was given up may have written during the first
_PIECES = 4  # of the sample: each is compared with all points


# ---------------------------------------------------------------- files that workers share


@dataclass(frozen=True)
class StoredRows:
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


@dataclass(frozen=True)
class KeptRows:
    """Points (n, d) in single precision in a file of the shared folder."""

    path: Path
    shape: tuple[int, int]

    def __getitem__(self, rows: slice) -> NDArray[np.float32]:
        """Rows a:b."""
        first, stop, _ = rows.indices(self.shape[0])
        d = self.shape[1]
        found = np.fromfile(self.path, np.float32, (stop - first) * d, offset=4 * d * first)
        return found.reshape(-1, d)


@dataclass(frozen=True)
class Folder:
    """What all tasks of a search share: files, and sizes."""

    path: Path
    layout: StoredLayout

    def save(self, name: str, **arrays: Any) -> None:
        """Tell all workers of something, as arrays by name."""
        self._whole(self.path / f"{name}.npz", lambda file: np.savez(file, **arrays))

    def load(self, name: str) -> dict[str, NDArray[Any]]:
        """What workers were told."""
        with np.load(self.path / f"{name}.npz") as found:
            return dict(found)

    def save_groups(self, groups: Groups) -> None:
        """Tell who is whose cell."""
        both = {"centres": groups.centres, "heads": groups.heads}
        arrays = {f"{a}_{b}": c for a, one in both.items() for b, c in vars(one).items()}
        lists = {name: getattr(groups, name) for name in ("near", "around", "gaps")}
        self.save("groups", far=groups.far, **lists, **arrays)

    def groups(self) -> Groups:
        """Who is whose cell."""
        told = self.load("groups")
        centres, heads = (
            Centres(*(told[f"{one}_{field.name}"] for field in fields(Centres)))
            for one in ("centres", "heads")
        )
        lists = told["near"], told["around"], told["gaps"]
        return Groups(centres, heads, *lists, float(told["far"]))

    def borders(self) -> Borders:
        """What the visits are found from."""
        told = self.load("borders")
        numbers = float(told["shared"]), float(told["pairs"])
        return Borders(told["near"], told["gaps"], told["reach"], *numbers)

    @contextmanager
    def search(self, *known: str) -> Iterator[CellSearch]:
        """Where cells lie, their points, and what else is `known`; on one thread."""
        told = self.load("cells")
        starts, centres, k = told["starts"], told["centres"], int(told["k"])
        n, d = int(starts[-1]), centres.shape[1]
        with ThreadPoolExecutor(1) as pool:
            store = Scratch(None, n, d, NamedFile(self.path / "points"))
            cells, layout = CellRows(store, starts, centres), self.layout
            search = CellSearch(cells, k, Team(pool, 1), layout.chunk, layout.desks)
            if "borders" in known:  # of limits only some are looked at
                search.borders = self.borders()
                search.limits = np.load(self.path / "limits.npy", mmap_mode="c")
            if "used" in known:
                search.used = self.load("used")["used"]
            yield search
            store.close()

    def lists(self, after: str, some: slice) -> Path:
        """Where the lists of some cells are after a pass."""
        return self.path / f"{after}-{some.start}.npy"

    def save_lists(self, after: str, some: slice, lists: SomeLists) -> None:
        """Keep the lists of some cells."""
        both = np.stack([lists[0], lists[1].view(np.int32)])
        self._whole(self.lists(after, some), lambda file: np.save(file, both))

    def read_lists(self, after: str, some: slice) -> SomeLists:
        """Lists of some cells after a pass."""
        indices, squared = np.load(self.lists(after, some))
        return indices, squared.view(np.float32)

    @staticmethod
    def _whole(path: Path, save: Callable[[IO[bytes]], None]) -> None:
        """Write a file that is there whole or not at all."""
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}.tmp")
        with open(temporary, "wb") as file:
            save(file)
        os.replace(temporary, path)


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
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        return task(*given)


def assign(folder: Folder, rows: Prepared, some: slice) -> NDArray[np.int32]:
    """Centres whose cells some rows are in."""
    with ThreadPoolExecutor(1) as pool:
        found: NDArray[np.int32] = folder.groups().cell(rows[some], Team(pool, 1))
        return found


def within(folder: Folder, some: slice) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Fill lists with the nearest of the own cell; last squared lengths, and what cells measure."""
    with folder.search() as search:
        lists, limits, mean = search.within(some)
        folder.save_lists("within", some, lists)
        return limits, mean


def visits(folder: Folder, some: slice) -> NDArray[np.int32]:
    """By how many members of some cells each of those near is visited."""
    with folder.search("borders") as search:
        return search.visits(some)


def finished(folder: Folder, some: slice) -> None:
    """Finish the lists of a block of cells."""
    lists = folder.read_lists("within", some)
    with folder.search("borders", "used") as search:
        for _ in finish(search, some, lists):
            pass
    folder.save_lists("finished", some, lists)


# ---------------------------------------------------------------- who hands them out


class TaskPasses(Passes):
    """Passes whose pieces are tasks of an executor; this process computes in between.

    Files: n (4d + 16k) bytes, and 4d a point more unless points are in an HDF5 file.
    """

    def __init__(self, executor: Executor, folder: Path, layout: StoredLayout, team: Team) -> None:
        super().__init__(layout.cells, team, folder, layout.block)
        self._shared, self._work = Folder(folder, layout), _Work(executor)

    def given(self, rows: Prepared) -> Prepared:
        """The points in their HDF5 file, or in a copy."""
        source, (n, d) = rows.source, rows.shape
        file = getattr(source, "file", None)
        if file is not None and getattr(file, "filename", None) and hasattr(source, "name"):
            path = os.path.abspath(os.fsdecode(file.filename))
            return replace(rows, source=StoredRows(path, source.name, (n, d), source.chunks))
        copy = self.folder / "rows"
        with open(copy, "wb") as kept:
            for _, block in rows.blocks(self.sizes.block_bytes):
                block.tofile(kept)
        return Prepared(KeptRows(copy, (n, d)), "euclidean", None, rows.size * rows.unit)

    def known(self, rows: Prepared, k: int, count: int, rng: np.random.Generator) -> Sample:
        """True neighbours of some nodes."""
        with _one_line():
            return known_neighbours(rows, k, count, rng, self.sizes, self._work, _PIECES)

    def cells(self, rows: Prepared, groups: Groups) -> Iterator[tuple[slice, NDArray[np.int32]]]:
        """Yield some rows and the centres whose cells they are in."""
        self._shared.save_groups(groups)
        ranges = groups.bounds(rows)
        found = self._work.each(partial(assign, self._shared, rows), ranges)
        return zip(ranges, found, strict=True)

    def store(self, n: int, d: int) -> Store:
        """A file for the points that workers see."""
        self._points = NamedFile(self.folder / "points", 4 * n * d)
        return Scratch(None, n, d, self._points)

    def within(self, search: CellSearch, lists: ListsFile) -> Iterator[float]:
        """Fill lists with the nearest of the own cell, each block's in a file."""
        self._points.settle()
        cells = search.cells
        self._shared.save("cells", starts=cells.starts, centres=cells.centres, k=search.k)
        search.mean = np.empty(search.counts.size)
        search.limits = np.empty(lists.shape[0], dtype=np.float32)
        for some, found in self._each(within, search):
            search.limits[search.rows(some)], search.mean[some] = found
            yield some.stop / search.counts.size
        np.save(self.folder / "limits.npy", search.limits)

    def visits(self, search: CellSearch) -> Iterator[float]:
        """Find who is visited."""
        self._shared.save("borders", **vars(search.borders))
        search.used = np.zeros(search.borders.near.shape, dtype=np.int32)
        for some, found in self._each(visits, search) if search.used.size else ():
            search.used[some] = found
            yield some.stop / search.counts.size
        self._shared.save("used", used=search.used)

    def finish(
        self,
        search: CellSearch,
        lists: ListsFile,
        short: list[NDArray[np.int64]],
        deadline: Deadline,
    ) -> Iterator[float]:
        """Finish the lists of every block, and take them."""
        done = self._each(finished, search)
        for some in search.cells.ranges(self.block):
            if deadline.is_over:
                done.close()
                found = self._shared.read_lists("within", some)
                search.settle(found, 0)
            else:
                next(done)
                found = self._shared.read_lists("finished", some)
                for after in ("within", "finished"):
                    self._shared.lists(after, some).unlink(missing_ok=True)
            self.write(lists, short, search.rows(some).start, found)
            del found
            yield some.stop / search.counts.size

    def _each(self, task: Callable[..., Any], search: CellSearch) -> Any:
        """Yield every block of cells and what the task finds of it."""
        blocks = search.cells.ranges(self.block)
        found = self._work.each(partial(task, self._shared), blocks)
        try:
            yield from zip(blocks, found, strict=True)
        finally:
            found.close()


@dataclass(frozen=True)
class _Work(Executor):
    """Tasks on one thread each."""

    executor: Executor

    def submit(self, task: Callable[..., Any], /, *given: Any, **_: Any) -> Future[Any]:
        """Begin one task."""
        return self.executor.submit(alone, task, *given)

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
