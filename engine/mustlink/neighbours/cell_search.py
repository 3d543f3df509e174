"""Neighbour lists of points by k-means cells, of which near ones are compared.

One search for points in memory and on disk, by threads of this process or by tasks of an executor:
centres from a sample, every point in the cell of the nearest, lists within cells, and with as many
others as a sample of known neighbours asks for. In memory visits that would take too long are cut
short, and lists improved by local joins; on disk visits go farther instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.neighbour_graph import READ_BACK, Layout, lists_of
from mustlink.deadline import NEVER, Deadline
from mustlink.kernels import nearest_lists
from mustlink.neighbours.cell_blocks import CellSearch, Passes, mean_squares, search_all
from mustlink.neighbours.cell_rows import (
    CellRows,
    InMemory,
    ListsFile,
    lay_out,
)
from mustlink.neighbours.cells import (
    Sample,
    Team,
    borders_of,
    centres_of,
    grouped,
)
from mustlink.neighbours.exact import exact_streamed
from mustlink.neighbours.joins import Lists, Refined, in_rows, measured_recall, refine
from mustlink.neighbours.points_by_rows import Prepared, near_one

_SURE = 0.95  # share of known neighbours compared from which lists are left as they are
_SHORT = 2048  # lists made full at once

Found = tuple[NDArray[np.int32], NDArray[np.float32], dict[str, Any]]
Advance = Callable[[float], None]


def cell_lists(
    rows: Prepared,
    k: int,
    rng: np.random.Generator,
    layout: Layout,
    *,
    n_jobs: int = 1,
    sample: int = 500,
    deadline: Deadline = NEVER,
    advance: Advance | None = None,
    folder: Any = None,
    executor: Executor | None = None,
) -> Found:
    """Find about the k nearest of each point but itself: indices, distances (n, k), and how.

    Ascending, ties to the smaller index. Recall is measured on `sample` nodes. The same generator
    gives the same lists for any number of threads; at the `deadline` the search ends where it is.

    With the sizes of a search in memory all points are held: memory as `knn_bytes` says. With those
    of one on disk lists are found by `stored_lists`, and read: by the `executor` where one is
    given, whose workers must see the folder; then blocks that are not finished at the deadline stay
    as their cells have filled them.
    Cost O(n C d) for C cells, and for each point with as many others as `info["visited"]` says.
    Raises InputError where files do not fit, MustlinkError where a task fails, with its cause.
    """
    how: dict[str, Any] = dict(n_jobs=n_jobs, sample=sample, deadline=deadline, advance=advance)
    if not layout.on_disk:
        return _in_memory(rows, k, rng, layout, **how)
    if executor is None:
        return _read_back(stored_lists(rows, k, rng, layout, folder=folder, **how), rows)
    from mustlink.neighbours.tasks import TaskPasses, shared_folder

    with shared_folder(folder) as path:
        passes = partial(TaskPasses, executor, path, layout)
        found = stored_lists(rows, k, rng, layout, folder=path, passes=passes, **how)
        return _read_back(found, rows)


@dataclass
class _Begun:
    """Cells of all points and true neighbours of some nodes, whose cells are `owner` (m,) and, of
    their neighbours, `others` (u,); points are multiplied by `unit`, a power of two.
    """

    rows: Prepared
    unit: float
    known: Sample
    cells: CellRows
    owner: NDArray[np.int32]
    others: NDArray[np.int32]


@contextmanager
def _crew(n_jobs: int) -> Iterator[Team]:
    """Threads that run beside each other, and products that run on one."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_jobs) as pool:
        yield Team(pool, n_jobs)


def _begun(
    rows: Prepared,
    k: int,
    rng: np.random.Generator,
    sizes: Layout,
    sample: int,
    by: Passes,
    held: bool,
    tell: Advance,
) -> _Begun:
    """Centres, and every point in the cell of the nearest, in memory or in a file."""
    team = by.team
    rows, unit = near_one(rows)
    rows = by.given(rows)
    store = InMemory(np.empty(rows.shape, dtype=np.float32)) if held else by.store(*rows.shape)
    known = by.known(rows, k, sample, rng)
    tell(0.05)
    groups = grouped(centres_of(rows, k, rng, sizes, team.pool), known.points, rng, team)
    tell(0.1)
    cells, places, first = lay_out(
        rows, groups, sizes, store, by.cells(rows, groups), known.nodes,
        lambda x: tell(0.1 + 0.1 * x),
    )  # fmt: skip
    owner = np.searchsorted(cells.starts, places, side="right") - 1
    others = first[groups.cell(known.others, team)]
    known = replace(known, nodes=places)
    return _Begun(rows, unit, known, cells, owner.astype(np.int32), others)


def _in_memory(
    rows: Prepared,
    k: int,
    rng: np.random.Generator,
    layout: Layout,
    *,
    n_jobs: int,
    sample: int,
    deadline: Deadline,
    advance: Advance | None,
) -> Found:
    """`cell_lists` of points that are held."""
    tell = advance or (lambda _: None)
    n = rows.shape[0]
    with _crew(n_jobs) as team:
        begun = _begun(rows, k, rng, layout, sample, Passes(layout, team), True, tell)
        rows, unit, known = begun.rows, begun.unit, begun.known
        search = CellSearch(begun.cells, k, team)
        cells = search.everything()
        search.borders = borders = borders_of(
            cells.centres,
            search.counts,
            mean_squares(cells),
            known,
            begun.owner,
            begun.others,
            team,
        )
        tell(0.25)
        sure = borders.shared >= _SURE
        lists = Lists.empty(n, min(k, n - 1) if sure else lists_of(n, k)[0])
        for done in search_all(search, cells, (lists.indices, lists.squared)):
            tell(0.25 + (0.7 if sure else 0.45) * done)
            if deadline.is_over:
                break
        count, order, points = search.counts.size, begun.cells.order, cells.points
        del begun, search, cells
        if sure:
            refined = Refined(n, [measured_recall(lists, k, known)])
        else:
            refined = refine(lists, k, layout, points, known, team, deadline, tell)
        del points
    indices, squared = in_rows(lists, k, order)
    del lists
    for nodes, numbers, lengths in _full(rows, np.flatnonzero(indices[:, -1] < 0), k, layout):
        indices[nodes], squared[nodes] = numbers, lengths
    distances = _lengths(squared, unit)
    tell(1.0)
    info = {
        "recall_sample": int(known.nodes.size),
        "parts": count,
        "visited": borders.pairs,
        "shared": borders.shared,
        **refined.info,
    }
    return indices, distances, info


@dataclass(frozen=True, eq=False)
class StoredLists:
    """Neighbours of nodes numbered cell by cell, their squared lengths and points, all on disk.

    Coordinates are multiplied by `unit`, a power of two. `info` is how they were found.
    """

    cells: CellRows
    lists: ListsFile
    unit: float
    info: dict[str, Any]

    @property
    def points(self) -> Prepared:
        """Points as they were before they were multiplied, in the order of the nodes."""
        return Prepared(self.cells, "euclidean", None, 1.0, 1 / self.unit)


def stored_lists(
    rows: Prepared,
    k: int,
    rng: np.random.Generator,
    layout: Layout,
    *,
    n_jobs: int = 1,
    sample: int = 500,
    folder: Any = None,
    deadline: Deadline = NEVER,
    advance: Advance | None = None,
    passes: Callable[[Team], Passes] | None = None,
) -> StoredLists:
    """Find about the k nearest of each point but itself, as `cell_lists`, and leave them on disk.

    The same generator and cells give the same lists for any number of threads, and those found in
    memory up to the choice among equally far ones, as long as local joins are not needed there:
    here visits go farther instead. n (d + 2k) numbers of 4 bytes are written to `folder`. Whoever
    makes the `passes` finds the same. Raises InputError where files do not fit.
    """
    tell = advance or (lambda _: None)
    with _crew(n_jobs) as team:
        by = passes(team) if passes else Passes(layout, team, folder)
        begun = _begun(rows, k, rng, layout, sample, by, False, tell)
        known, cells = begun.known, begun.cells
        search = CellSearch(cells, k, team, layout.chunk, layout.desks)
        lists, count = ListsFile(folder, rows.shape[0], k), search.counts.size
        search.mean, search.limits = np.empty(count), np.empty(rows.shape[0], dtype=np.float32)
        for some, measured in by.within(search, lists):
            search.limits[search.rows(some)], search.mean[some] = measured
            tell(0.2 + 0.2 * some.stop / count)
        search.borders = borders = borders_of(
            cells.centres, search.counts, search.mean, known, begun.owner, begun.others, team,
            joined=False,
        )  # fmt: skip
        search.used = np.zeros(borders.near.shape, dtype=np.int32)
        for some, used in by.visits(search):
            search.used[some] = used
            tell(0.4 + 0.05 * some.stop / count)
        short = []
        for some, found in by.finish(search, lists, deadline, lambda x: tell(0.45 + 0.55 * x)):
            first = search.rows(some).start
            lists.write(first, *found)
            short.append(first + np.flatnonzero(found[0][:, -1] < 0))
            del found
    info = {
        "recall": _recall(lists, known),
        "recall_sample": int(known.nodes.size),
        "parts": count,
        "visited": borders.pairs,
        "shared": borders.shared,
    }
    plain = Prepared(cells, "euclidean", None, 1.0)
    for nodes, indices, squared in _full(plain, np.concatenate(short), k, layout):
        for node, numbers, lengths in zip(nodes, indices, squared, strict=True):
            lists.write(int(node), numbers, lengths)
    return StoredLists(cells, lists, begun.unit, info)


def _recall(lists: ListsFile, known: Sample) -> float:
    """Share of each list of known nodes that is no farther than the true last one."""
    limits = known.reach * (1 + 1e-5) + 1e-12
    near = [
        np.sqrt(lists.read(slice(int(node), int(node) + 1))[1][0]) <= limit
        for node, limit in zip(known.nodes, limits, strict=True)
    ]
    return float(np.mean(near))


def _read_back(found: StoredLists, rows: Prepared) -> Found:
    """Lists in the order of the points, ascending, ties to the smaller index."""
    (n, k), order = found.lists.shape, found.cells.order
    indices, distances = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
    for first in range(0, n, READ_BACK):
        nodes = slice(first, min(first + READ_BACK, n))
        numbers, squared = found.lists.read(nodes)
        numbers = order[numbers]
        nearest_lists.order_ties(numbers, squared)
        indices[order[nodes]], distances[order[nodes]] = numbers, _lengths(squared, found.unit)
    return indices, distances, found.info


def _lengths(squared: NDArray[np.float32], unit: float) -> NDArray[np.float32]:
    """Distances in place of squares of points that were multiplied by `unit`."""
    distances: NDArray[np.float32] = np.sqrt(squared, out=squared)
    if unit != 1:
        distances /= np.float32(unit)
    return distances


def _full(
    rows: Prepared, short: NDArray[np.int64], k: int, layout: Layout
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]]:
    """Lists (m, k) of nodes that are not full, of points in small cells only, compared with all."""
    batch = max(1, min(_SHORT, layout.block_bytes // (8 * k * rows.shape[1])))
    for a in range(0, short.size, batch):
        nodes = short[a : a + batch]
        found, _ = exact_streamed(rows, nodes, k, layout.block_bytes)
        gap = rows.gather(found.ravel()).reshape(*found.shape, -1)
        gap = gap - rows.gather(nodes)[:, None, :]
        lengths = np.einsum("ijk,ijk->ij", gap, gap)
        order = np.lexsort((found, lengths), axis=1)
        yield nodes, np.take_along_axis(found, order, 1), np.take_along_axis(lengths, order, 1)
