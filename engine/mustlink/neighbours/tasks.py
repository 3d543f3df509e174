"""Tasks of the search over cells: functions of files and ranges, for any process, done even twice.

Every task reads what earlier passes have finished, and returns what it finds or puts it into a file
of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.stored_neighbours import StoredLayout
from mustlink.neighbours.cells import Borders, Groups
from mustlink.neighbours.parts import Centres
from mustlink.neighbours.points_by_rows import Prepared
from mustlink.neighbours.refine import Team
from mustlink.neighbours.scratch import Scratch, save_arrays, save_whole, saved
from mustlink.neighbours.stored_cells import CellRows
from mustlink.neighbours.stored_lists import SomeLists, StoredSearch, finish
from mustlink.space.scratch_file import NamedFile

_LISTS = ("near", "around", "gaps")  # of groups


@dataclass(frozen=True)
class Folder:
    """What all tasks of a search for the k nearest share: files, and sizes."""

    path: Path
    layout: StoredLayout

    @property
    def points(self) -> Path:
        """Coordinates by node."""
        return self.path / "points"

    @property
    def limits(self) -> Path:
        """Last squared lengths of the lists within cells, by node."""
        return self.path / "limits"

    def save_groups(self, groups: Groups) -> None:
        """Tell who is whose cell."""
        parts = {"centres": groups.centres, "heads": groups.heads}
        arrays = {f"{a}_{b}": c for a, one in parts.items() for b, c in vars(one).items()}
        lists = {name: getattr(groups, name) for name in _LISTS}
        save_arrays(self.path / "groups.npz", far=groups.far, **lists, **arrays)

    def groups(self) -> Groups:
        """Who is whose cell."""
        found = saved(self.path / "groups.npz")
        centres, heads = (
            Centres(*(found[f"{name}_{part}"] for part in ("middle", "at", "norms")))
            for name in ("centres", "heads")
        )
        near, around, gaps = (found[name] for name in _LISTS)
        return Groups(centres, heads, near, around, gaps, float(found["far"]))

    def save_cells(self, search: StoredSearch) -> None:
        """Tell where cells lie."""
        cells = search.cells
        k, d = search.k, cells.shape[1]
        save_arrays(self.path / "cells.npz", starts=cells.starts, centres=cells.centres, k=k, d=d)

    def save_borders(self, borders: Borders) -> None:
        """Tell how far visits reach."""
        save_arrays(self.path / "borders.npz", **vars(borders))

    def save_used(self, used: NDArray[np.int32]) -> None:
        """Tell who is visited."""
        save_arrays(self.path / "used.npz", used=used)

    @contextmanager
    def search(self, team: Team) -> Iterator[StoredSearch]:
        """Where cells lie, and their points."""
        found = saved(self.path / "cells.npz")
        k, d = int(found["k"]), int(found["d"])
        with Scratch(None, int(found["starts"][-1]), d, NamedFile(self.points)) as file:
            cells = CellRows(file, found["starts"], found["centres"])
            yield StoredSearch(cells, k, self.layout, team)

    def read_borders(self, search: StoredSearch) -> None:
        """What the visits are found from."""
        known = saved(self.path / "borders.npz")
        numbers = float(known["shared"]), float(known["pairs"])
        search.borders = Borders(known["near"], known["gaps"], known["reach"], *numbers)
        search.limits = np.asarray(np.memmap(self.limits, np.float32, "c"))

    def read_used(self, search: StoredSearch) -> None:
        """Who is visited."""
        search.used = saved(self.path / "used.npz")["used"]

    def lists(self, after: str, some: slice) -> Path:
        """Where the lists of some cells are after a pass."""
        return self.path / f"{after}-{some.start}.npy"

    def save_lists(self, after: str, some: slice, lists: SomeLists) -> None:
        """Keep the lists of some cells."""
        both = np.stack([lists[0], lists[1].view(np.int32)])
        save_whole(self.lists(after, some), lambda file: np.save(file, both))

    def read_lists(self, after: str, some: slice) -> SomeLists:
        """Lists of some cells after a pass."""
        indices, squared = np.load(self.lists(after, some))
        return indices, squared.view(np.float32)


def alone(task: Callable[..., Any], *given: Any) -> Any:
    """Run a task on one thread."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        return task(*given)


@contextmanager
def _one() -> Iterator[Team]:
    with ThreadPoolExecutor(1) as pool:
        yield Team(pool, 1)


def assign(folder: Folder, rows: Prepared, some: slice) -> NDArray[np.int32]:
    """Centres whose cells some rows are in."""
    with _one() as team:
        return folder.groups().cell(rows[some], team)


def within(folder: Folder, some: slice) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Fill lists with the nearest of the own cell; last squared lengths, and what cells measure."""
    with _one() as team, folder.search(team) as search:
        lists, limits, mean = search.within(some)
        folder.save_lists("within", some, lists)
        return limits, mean


def visits(folder: Folder, some: slice) -> NDArray[np.int32]:
    """By how many members of some cells each of those near is visited."""
    with _one() as team, folder.search(team) as search:
        folder.read_borders(search)
        return search.visits(some)


def finished(folder: Folder, some: slice) -> None:
    """Finish the lists of a block of cells."""
    lists = folder.read_lists("within", some)
    with _one() as team, folder.search(team) as search:
        folder.read_borders(search)
        folder.read_used(search)
        for _ in finish(search, some, lists):
            pass
    folder.save_lists("finished", some, lists)
