"""The search by parts as tasks: functions of files and ranges that any process may run, and twice.

Every task reads what earlier ones have finished and writes to places that are its own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.neighbour_graph import Layout, lists_of
from mustlink.kernels import local_joins, nearest_lists
from mustlink.neighbours.centres import Centres
from mustlink.neighbours.partition import SPARE, Desk, within
from mustlink.neighbours.points_by_rows import Prepared
from mustlink.neighbours.refine import Lists
from mustlink.neighbours.shared_files import ListTables, Table, save_whole


@dataclass(frozen=True)
class Folder:
    """What all tasks of a search for k neighbours of n points of d coordinates know."""

    path: Path
    n: int
    d: int
    k: int
    overlap: int
    layout: Layout

    @property
    def length(self) -> int:
        """Entries of a list in the making."""
        return lists_of(self.n, self.k)[0]

    @property
    def width(self) -> int:
        """Neighbours that are kept of every part."""
        return min(self.length, self.k + SPARE)

    @property
    def points(self) -> Table:
        """Coordinates by node."""
        return Table(self.path / "points", "float32", self.d)

    @property
    def members(self) -> Table:
        """Nodes part by part."""
        return Table(self.path / "members", "int32", 1)

    @property
    def places(self) -> Table:
        """Where each node is among the members."""
        return Table(self.path / "places", "int64", self.overlap)

    @property
    def found(self) -> tuple[Table, Table]:
        """What the parts have found, by place: nodes and squared lengths."""
        return (
            Table(self.path / "found", "int32", self.width),
            Table(self.path / "lengths", "float32", self.width),
        )

    @property
    def told(self) -> tuple[Table, Table]:
        """Who names a node, and how many do."""
        return (
            Table(self.path / "told", "int32", lists_of(self.n, self.k)[2]),
            Table(self.path / "counts", "int32", 1),
        )

    def lists(self, sweep: int) -> ListTables:
        """Lists after so many sweeps."""
        return ListTables.after(sweep, self.path, self.length)

    def joined(self, sweep: int, first: int) -> Path:
        """What a sweep has found at the nodes from `first` on."""
        return self.path / f"joined-{sweep}-{first}.npy"


def alone(task: Callable[..., Any], *given: Any) -> Any:
    """Run a task on one thread."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        return task(*given)


def assign_rows(
    rows: Prepared, centres: Centres, overlap: int, first: int, stop: int
) -> NDArray[np.int32]:
    """Nearest centres of rows first:stop, (m, overlap)."""
    with ThreadPoolExecutor(1) as pool:
        return centres.nearest(rows[first:stop], overlap, pool)


def search_parts(folder: Folder, starts: NDArray[np.int64]) -> None:
    """Compare all members of some parts, which lie between `starts` among the members."""
    desk = Desk(int(np.diff(starts).max()), folder.d)
    points = folder.points.mapped()
    ids, lengths = folder.found
    for first, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        members = folder.members.read(first, stop)[:, 0]
        np.take(points, members, axis=0, out=desk.points[: stop - first], mode="clip")
        _, found, squared = within(members, desk, folder.width)
        ids.write(first, found)
        lengths.write(first, squared)


def merge_parts(folder: Folder, first: int, stop: int) -> None:
    """First lists of nodes first:stop, of what their parts have found."""
    lists = Lists.empty(stop - first, folder.length)
    nodes = np.arange(stop - first, dtype=np.int32)
    places = folder.places.read(first, stop)
    found, lengths = (one.mapped() for one in folder.found)
    for level in range(folder.overlap):
        at = places[:, level]
        nearest_lists.merge(nodes, found[at], lengths[at], lists.indices, lists.squared)
    _write(folder.lists(0), first, lists)


def join_nodes(folder: Folder, sweep: int, first: int, stop: int) -> int:
    """Compare who meets at nodes first:stop; returns the number of pairs.

    Keeps what is near enough for a list as it was before the sweep: the list's node, the other,
    and the squared length, by node.
    """
    layout, (_, wide, told) = folder.layout, lists_of(folder.n, folder.k)
    before = folder.lists(sweep)
    counts = folder.told[1].read(first, stop)[:, 0]
    ids = np.zeros((stop - first, wide + told), np.int32)
    sizes = np.zeros((stop - first, 2), np.int32)
    local_joins.members(
        before.indices.read(first, stop), before.fresh.read(first, stop), wide,
        folder.told[0].read(first, stop), counts, 0, ids, sizes,
    )  # fmt: skip
    used = np.arange(ids.shape[1]) < sizes[:, 1:]
    nodes, numbers = np.unique(ids[used], return_inverse=True)
    ids[used] = numbers.ravel()
    points = folder.points.mapped()[nodes]
    indices, squared = before.indices.mapped()[nodes], before.squared.mapped()[nodes]
    fresh = np.zeros(indices.shape, np.uint8)  # marks what comes in
    group = layout.group(folder.n, folder.d, folder.k)
    most = group * (ids.shape[1] * (ids.shape[1] - 1) // 2)
    pairs, lengths = np.empty((most, 2), np.int32), np.empty(most, np.float32)
    compared = 0
    for a in range(0, stop - first, group):
        some = slice(a, a + group)
        kept, looked = local_joins.join(
            points, ids[some], ids[some], sizes[some], squared, pairs, lengths
        )
        compared += looked
        for one, other in ((0, 1), (1, 0)):
            where = np.ascontiguousarray(pairs[:kept, one])
            local_joins.take_in(
                where, nodes[pairs[:kept, other]], lengths[:kept], indices, squared, fresh
            )
    new = fresh > 0
    owner = np.repeat(nodes, new.sum(axis=1))
    save_whole(
        folder.joined(sweep, first), np.stack([owner, indices[new], squared[new].view(np.int32)])
    )
    return int(compared)


def merge_joined(folder: Folder, sweep: int, step: int, first: int, stop: int) -> None:
    """Lists of nodes first:stop after a sweep: what was found at every `step` nodes is put in."""
    before = folder.lists(sweep)
    lists = Lists(*(one.read(first, stop) for one in before))
    np.bitwise_and(lists.fresh, local_joins.UNTOLD, out=lists.fresh)  # all have met
    for start in range(0, folder.n, step):
        found = np.load(folder.joined(sweep, start), mmap_mode="r")
        a, b = np.searchsorted(found[0], [first, stop])
        owner, other, bits = np.array(found[:, a:b])
        owner -= first
        lengths = bits.view(np.float32)
        local_joins.take_in(owner, other, lengths, lists.indices, lists.squared, lists.fresh)
    _write(folder.lists(sweep + 1), first, lists)


def _write(tables: ListTables, first: int, lists: Lists) -> None:
    tables.indices.write(first, lists.indices)
    tables.squared.write(first, lists.squared)
    tables.fresh.write(first, lists.fresh)
