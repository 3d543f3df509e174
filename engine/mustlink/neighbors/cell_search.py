"""Neighbour lists of points by k-means cells, of which near ones are compared.

One search for points in memory and on disk, by threads of this process or by tasks of an executor:
centres from a sample, every point in the cell of the nearest, lists within cells, and with as many
others as a sample of known neighbours asks for.
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

from mustlink.context.neighbor_cost import READ_BACK, Layout
from mustlink.core.observe import NEVER, Deadline
from mustlink.kernels import nearest_lists
from mustlink.neighbors.cell_blocks import CellSearch, SearchBackend
from mustlink.neighbors.cell_rows import CellRows, Lists, lay_out
from mustlink.neighbors.cells import QuerySample, Team, borders_of, centres_of, grouped
from mustlink.neighbors.exact import exact_streamed
from mustlink.neighbors.points_by_rows import Prepared, near_one

_SHORT = 2048  # lists made full at once
_RENUMBERED = 1 << 16  # lists whose entries are renumbered at once

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

    With the sizes of a search in memory all points are held: memory as `knn_bytes` says. Those of
    one on disk are searched by the `executor` where one is given, whose workers must see the
    folder; then blocks that are not finished at the deadline stay as their cells have filled them.
    Cost O(n C d) for C cells, and for each point with as many others as `info["visited"]` says.
    Raises InputError where files do not fit, MustlinkError where a task fails, with its cause.
    """
    how: dict[str, Any] = dict(n_jobs=n_jobs, sample=sample, deadline=deadline, advance=advance)
    if executor is None:
        found = search_cells(rows, k, rng, layout, folder=folder, **how)
        read = _read_back if layout.on_disk else partial(_in_rows, rows, layout)
        return *read(found), found.info
    from mustlink.neighbors.tasks import TaskPasses, shared_folder

    with shared_folder(folder) as path:
        passes = partial(TaskPasses, executor, path, layout)
        found = search_cells(rows, k, rng, layout, folder=path, passes=passes, **how)
        return *_read_back(found), found.info


@contextmanager
def _crew(n_jobs: int) -> Iterator[Team]:
    """Threads that run beside each other, and products that run on one."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_jobs) as pool:
        yield Team(pool, n_jobs)


@dataclass(frozen=True, eq=False)
class CellLists:
    """Neighbours of nodes numbered cell by cell, their squared lengths and points.

    Coordinates are multiplied by `unit`, a power of two. `info` is how they were found.
    """

    cells: CellRows
    lists: Any
    unit: float
    info: dict[str, Any]

    @property
    def points(self) -> Prepared:
        """Points as they were before they were multiplied, in the order of the nodes."""
        return Prepared(self.cells, "euclidean", None, 1.0, 1 / self.unit)


def search_cells(
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
    passes: Callable[[Team], SearchBackend] | None = None,
) -> CellLists:
    """Find about the k nearest of each point but itself, as `cell_lists`, in the order of cells.

    The same generator and cells give the same lists for any number of threads, in memory and on
    disk up to the choice among equally far ones. On disk n (d + 2k) numbers of 4 bytes are written
    to `folder`. All `passes` find the same. Raises InputError where files do not fit.
    """
    tell = advance or (lambda _: None)
    with _crew(n_jobs) as team:
        by = passes(team) if passes else SearchBackend(layout, team, folder)
        rows, unit = near_one(rows)
        rows = by.given(rows)
        n, d = rows.shape
        store = by.store(n, d)
        known = by.known(rows, k, sample, rng)
        tell(0.05)
        groups = grouped(centres_of(rows, k, rng, layout, team.pool), known.points, rng, team)
        tell(0.1)
        cells, places, first = lay_out(
            rows, groups, layout, store, by.cells(rows, groups), known.nodes,
            lambda x: tell(0.1 + 0.1 * x),
        )  # fmt: skip
        owner = np.searchsorted(cells.starts, places, side="right") - 1
        others = first[groups.cell(known.others, team)]
        known = replace(known, nodes=places)

        search = CellSearch(cells, k, team, layout.chunk, layout.desks)
        lists = Lists(n, k, on_disk=layout.on_disk, folder=folder)
        count = search.counts.size
        search.mean, search.limits = np.empty(count), np.empty(n, dtype=np.float32)
        for some, measured in by.within(search, lists):
            search.limits[search.rows(some)], search.mean[some] = measured
            tell(0.2 + 0.2 * some.stop / count)
        search.borders = borders = borders_of(
            cells.centres, search.counts, search.mean, known, owner.astype(np.int32), others, team
        )
        if not by.at_once:
            search.used = np.zeros(borders.near.shape, dtype=np.int32)
            for some, used in by.visits(search):
                search.used[some] = used
                tell(0.4 + 0.05 * some.stop / count)
        short = []
        for some, found in by.finish(search, lists, deadline, lambda x: tell(0.45 + 0.55 * x)):
            start = search.rows(some).start
            lists.write(start, *found)
            short.append(start + np.flatnonzero(found[0][:, -1] < 0))
            del found
    info = {
        "recall": _recall(lists, known),
        "recall_sample": int(known.nodes.size),
        "parts": count,
        "visited": borders.pairs,
        "shared": borders.shared,
    }
    if layout.on_disk:
        plain = Prepared(cells, "euclidean", None, 1.0)
        for nodes, indices, squared in _full(plain, np.concatenate(short), k, layout):
            for node, numbers, lengths in zip(nodes, indices, squared, strict=True):
                lists.write(int(node), numbers[None], lengths[None])
    return CellLists(cells, lists, unit, info)


def _recall(lists: Lists, known: QuerySample) -> float:
    """Share of each list of known nodes that is no farther than the true last one."""
    limits = known.radii * (1 + 1e-5) + 1e-12
    near = [
        np.sqrt(lists.read(slice(int(node), int(node) + 1))[1][0]) <= limit
        for node, limit in zip(known.nodes, limits, strict=True)
    ]
    return float(np.mean(near))


def _read_back(found: CellLists) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Lists of a file in the order of the points, ascending, ties to the smaller index."""
    (n, k), order = found.lists.shape, found.cells.order
    indices, distances = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
    for first in range(0, n, READ_BACK):
        nodes = slice(first, min(first + READ_BACK, n))
        numbers, squared = found.lists.read(nodes)
        numbers = order[numbers]
        nearest_lists.order_ties(numbers, squared)
        indices[order[nodes]], distances[order[nodes]] = numbers, _lengths(squared, found.unit)
    return indices, distances


def _in_rows(
    rows: Prepared, layout: Layout, found: CellLists
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The same of lists in memory, in their place; those that are not full are made so."""
    order, indices, squared = found.cells.order, found.lists.indices, found.lists.values
    for start in range(0, indices.shape[0], _RENUMBERED):
        some = indices[start : start + _RENUMBERED]
        some[some >= 0] = order[some[some >= 0]]
    for values in (indices, squared):
        nearest_lists.reorder(values.view(np.int32), order)
    nearest_lists.order_ties(indices, squared)
    rows, _ = near_one(rows)
    short = np.flatnonzero(indices[:, -1] < 0)
    for nodes, numbers, lengths in _full(rows, short, indices.shape[1], layout):
        indices[nodes], squared[nodes] = numbers, lengths
    return indices, _lengths(squared, found.unit)


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
        found = exact_streamed(rows, nodes, k, layout.block_bytes)
        gap = rows.gather(found.ravel()).reshape(*found.shape, -1)
        gap = gap - rows.gather(nodes)[:, None, :]
        lengths = np.einsum("ijk,ijk->ij", gap, gap)
        order = np.lexsort((found, lengths), axis=1)
        yield nodes, np.take_along_axis(found, order, 1), np.take_along_axis(lengths, order, 1)
