"""How a neighbour graph is made within a budget: the search, its sizes, and bytes of every stage.

Chosen before anything is computed, from the number of points and what a rate is measured for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mustlink.context.rates import ENOUGH, compares_all, visited
from mustlink.core.resources import PROGRAM, size_text
from mustlink.errors import InputError

SYMMETRIC = 1.25  # stored weights for one requested neighbour: near is not always mutual
MOST_SYMMETRIC = 1.75  # the same at most
_KEPT = 1.5  # entries of A + Aᵀ for each of A: 1.2 to 1.4 on sheets, 1.7 on round clusters
LOW = 5  # coordinates up to which a k-d tree is faster than cells, whatever the points fill
NEAR_CELLS = 384  # cells that the members of a cell may visit
AROUND = 64  # centres near each that a point goes on to, until its nearest is found
READ_BACK = 1 << 15  # lists on disk read back at once
_ROOM = 1 << 28  # bytes of buffers: what is useful
_HALVINGS = 5  # of the buffers, until points no longer fit beside them
_LEAST_ROOM = 1 << 24  # bytes of buffers with which centres can just be found
_USUAL = 1 << 31  # bytes of a search on disk where no budget is named
_BLOCKS = 110 << 20  # pairs compared at once when all are
_BRIDGES = 96 << 20  # the same when components are joined, a quarter where points are read
_DESKS = 16  # threads that are counted: their number may not change the graph
_EDGE = 50, 150  # bytes for two cells that are compared, in memory and on disk
_CHUNKS = 4  # times that the cells read beside a block are fewer
_NEAR = 320  # cells that a cell visits, or that visit it, at most
_NEAR_EACH = 36.0  # the same for each cell's members that a point visits: half of it is visited
_RECORDS = 48  # bytes of a neighbour while rows are put together
_FEWEST_ROWS, _MOST_ROWS = 1 << 14, 1 << 19  # of the graph that are put together at once
_DEALT, _AT_ONCE = 24, 1 << 22  # bytes of an entry that is dealt out, and how many are at most
_BRIDGED = 24  # bytes of a node while components are joined by bridges
_OTHER = 16 << 20
_ROWS_BEHIND = 2 * 20  # bytes of a row that two threads hold
_COMPILER = 300 << 20  # bytes while NN-descent is compiled
_TASKS, _LEAST_TASK, _MOST_TASK = 16, 1 << 12, 1 << 18  # at least so many, of so many points


@dataclass(frozen=True)
class Layout:
    """Sizes that the search by cells works with; none depends on the number of threads.

    `parts` centres from a `sample` of rows, on the average `mean` rows near each; `block_bytes` of
    points are read at once, all of it within `room` bytes.
    On disk, a `block` of points is searched at once, and a `chunk` is read beside it; `rows` of the
    graph are put together at once; cells are compared on `desks` at most, one a thread.
    """

    parts: int
    mean: int
    sample: int
    block_bytes: int
    room: int
    block: int = 0
    chunk: int = 0
    rows: int = 0
    desks: int = _DESKS

    @property
    def on_disk(self) -> bool:
        """Whether points and lists are in files."""
        return self.block > 0

    @property
    def largest(self) -> int:
        """Rows beyond which a cell is cut into pieces: four times the usual."""
        return 4 * self.mean


def cell_layout(n: int, d: int, k: int, room: int = _ROOM) -> Layout:
    """Sizes for n points of d coordinates with `room` bytes of buffers.

    About √n / 4 members of a cell, and at least 128 or d / 2: smaller ones leave less to be
    compared, and more that is done once a cell. Of wide points where room is short fewer than
    d / 2: eight of the largest cells are held at once.
    """
    wide = d // 2 if room >= _ROOM else min(d // 2, room // (32 * d))
    mean = max(int(np.sqrt(n) / 4), 128, wide, 2 * (k + 1))
    parts = max(1, n // mean)
    sample = max(1, min(20 * parts, room // 3 // (4 * d)))
    return Layout(
        parts=parts,
        mean=mean,
        sample=min(n, max(sample, parts, 2)),
        block_bytes=max(1 << 20, min(1 << 25, room // 8)),
        room=room,
    )


@dataclass(frozen=True)
class NeighborPlan:
    """How a neighbour graph is to be made, and the peak of each stage.

    `method`: "brute", "tree", "cells", or "stored cells" on disk, "tasks" of an executor.
    `stages` are bytes with all that the process holds, at most, or as expected where the dimension
    of neighbourhoods is known; `least` is the smallest budget that works whatever it is.
    `lean`: W is in single precision. Of a graph on disk `scratch` are the bytes of temporary files
    as a rule, `entries` about how many weights W has.
    """

    method: str
    layout: Layout | None
    stages: dict[str, int]
    least: int
    lean: bool = False
    scratch: int = 0
    entries: int = 0

    @property
    def peak_bytes(self) -> int:
        """Largest of all stages."""
        return max(self.stages.values())


def knn_plan(
    n: int,
    d: int,
    k: int,
    budget: int | None,
    *,
    held: int = 0,
    itemsize: int = 4,
    by_rows: bool = True,
    threads: int = 2,
    by_tasks: bool = False,
    dimension: float | None = None,
) -> NeighborPlan:
    """Choose how to make a neighbour graph within `budget` bytes of resident memory in all.

    Few points are compared all with all where that fits, more by a k-d tree where coordinates are
    few, else by cells, of points on disk where the budget leaves no room for them, or `by_tasks`.
    With a budget, or by tasks, W is in single precision but where all pairs are compared, or a tree
    is used. `held` are bytes of points in memory; `by_rows`: the points would have to be read;
    `threads` search on disk. `dimension` of neighbourhoods, where it is known: then a search on
    disk is expected to visit as many cells. Raises InputError that names the least budget.
    """
    below = PROGRAM + held
    rest = knn_bytes("lean cells", n, d, k)

    def on_disk(sizes: Layout, threads: int, near: int = _NEAR) -> dict[str, int]:
        read = n * (8 * k + 8) + 16 * k * min(n, READ_BACK)
        search = max(_stored_bytes(n, d, k, sizes, threads, near)["kNN graph"], read)
        return _shifted({**rest, "kNN graph": search}, below)

    small = compares_all(n, d, k, tree=d <= LOW)
    by_tasks = by_tasks and not small
    tight = (task_layout if by_tasks else stored_layout)(0, n, d, k)
    least = max(on_disk(tight, 1).values())
    _check_budget(budget, least, f"{n} points of {d} coordinates with {k} neighbours each need")
    room = None if budget is None else budget - below
    if by_tasks:
        sizes = task_layout(room, n, d, k)
        return NeighborPlan("tasks", sizes, on_disk(sizes, 1), least, True)
    method = "brute" if small else "tree" if d <= LOW else "cells"
    stages = knn_bytes(method, n, d, k, itemsize=itemsize)
    stages = _shifted(stages, below + (4 * n * d if by_rows else 0))
    if budget is None and method == "cells":
        return NeighborPlan(method, cell_layout(n, d, k), stages, least)
    if budget is None or (method != "cells" and max(stages.values()) <= budget):
        return NeighborPlan(method, None, stages, least)
    for buffers in (_ROOM >> step for step in range(_HALVINGS)):
        lean = _shifted(knn_bytes("lean cells", n, d, k, room=buffers), below)
        if max(lean.values()) <= budget:
            return NeighborPlan("cells", cell_layout(n, d, k, buffers), lean, least, True)
    sizes = stored_layout(room, n, d, k)
    stages = on_disk(sizes, threads, _near(n, d, sizes, dimension))
    return NeighborPlan("stored cells", sizes, stages, least, True)


def stored_knn_plan(
    n: int, d: int, k: int, budget: int | None = None, *, held: int = 0, threads: int = 2,
    dimension: float | None = None,
) -> NeighborPlan:  # fmt: skip
    """Choose the sizes of a neighbour graph that stays on disk, within `budget` bytes in all.

    Blocks are as large as there is room: the larger, the fewer cells are compared twice. Else as
    `knn_plan`.
    """
    k = max(1, min(k, n - 1))
    below = PROGRAM + held
    least = below + max(_stored_bytes(n, d, k, _least_layout(n, d, k), threads).values())
    of = f"{n} points of {d} coordinates with {k} neighbours each on disk need"
    _check_budget(budget, least, of)
    layout = stored_layout(None if budget is None else budget - below, n, d, k)
    near = _near(n, d, layout, dimension)
    stages = _shifted(_stored_bytes(n, d, k, layout, threads, near), below)
    entries = int(min(SYMMETRIC * n * k, 1.0 * n * (n - 1)))
    scratch = n * (4 * d + 8 * k) + 12 * n * k // 2
    return NeighborPlan("stored cells", layout, stages, least, True, scratch, entries)


def other_plan(
    n: int, k: int, method: str, search: int, rows: int, budget: int | None
) -> NeighborPlan:
    """The plan of sparse rows, or of another distance: a search that takes so many bytes.

    It is what it is; raises InputError where it is more than the budget.
    """
    k = max(1, min(k, n - 1))
    rest = knn_bytes("brute", n, 1, k)
    stages = _shifted({**rest, "kNN graph": search + rows}, PROGRAM + rows)
    least = max(stages.values())
    _check_budget(budget, least, f"{n} rows with {k} neighbours each need")
    return NeighborPlan(method, None, stages, least)


def sparse_bytes(n: int, nnz: int, k: int) -> int:
    """Bytes of the search among sparse rows of so many entries: columns, lists, threads."""
    return 14 * nnz + n * (8 * k + 16) + _ROWS_BEHIND * n + _OTHER


def compared_bytes(n: int, d: int, k: int) -> int:
    """Bytes of comparing rows by another distance: all pairs of few, NN-descent of more."""
    few = all_by_another(n, d) or k >= n // 4
    return 8 * n * (k + d) + _BLOCKS if few else descent_bytes(n, d, k)


def all_by_another(n: int, d: int, seconds: float | None = None) -> bool:
    """Whether all pairs are compared by another distance, which takes so long for a pair."""
    return float(n) ** 2 * (1e-9 * (10 + d) if seconds is None else seconds) <= ENOUGH


def descent_bytes(n: int, d: int, k: int) -> int:
    """Bytes of NN-descent beside the rows: a copy of them, lists with candidates, a forest."""
    return n * (8 * d + 60 * k + 150) + _COMPILER


def _check_budget(budget: int | None, least: int, what: str) -> None:
    if budget is not None and least > budget:
        raise InputError(
            f"memory: {size_text(budget)} given; {what} at least {size_text(least, up=True)}"
        )


def _shifted(stages: dict[str, int], by: int) -> dict[str, int]:
    return {name: int(size + by) for name, size in stages.items()}


# ------------------------------------------------------------------------------ in memory


def knn_bytes(
    method: str, n: int, d: int, k: int = 15, *, itemsize: int = 4, room: int = _ROOM
) -> dict[str, int]:
    """Bytes of each stage of `knn_graph` by a method, beside the program and the caller's points.

    "brute", "tree" and "cells" hold the points in memory; they are not counted, being the caller's
    own single precision array, but copies of another kind (`itemsize` 8, or metric "cosine") are,
    and that in the order of the cells. "lean cells" read points by blocks, with `room` bytes of
    buffers, and write W in single precision.
    """
    k = max(1, min(k, n - 1))
    copied = 12 * n * d if itemsize == 8 else 0
    lists = 8 * n * k
    entries = int(min(_KEPT * n * k, 1.0 * n * (n - 1)))
    if method == "lean cells":
        return {
            "kNN graph": _cell_bytes(n, d, k, room),
            "weights": lists + n * k + 8 * entries + 32 * n,
            "components": 8 * entries + 64 * n + _BRIDGES // 4,
        }
    search = {
        "brute": lists + _BLOCKS,
        "tree": n * (28 * d + 16 * k + 12),
        "cells": _cell_bytes(n, d, k, room),
    }
    return {
        "kNN graph": copied + search[method],
        "weights": copied // 3 + lists + 24 * n * k + 12 * entries + 24 * n,
        "components": copied // 3 + 12 * entries + 64 * n + _BRIDGES,
    }


def _cell_bytes(n: int, d: int, k: int, room: int) -> int:
    """Largest of: sampling, points in the order of the cells, and visits."""
    sizes = cell_layout(n, d, k, room)
    point = 4 * d
    near = min(sizes.parts, NEAR_CELLS)
    block = min(sizes.block_bytes, n * point)
    desks = _DESKS * sizes.largest * _member(d)
    tables = sizes.parts * (point + near * (9 + _EDGE[0])) + desks + 64 * near * 500
    groups = _groups_bytes(sizes.parts)
    bits = n * near // 8 + 8 * sizes.parts * near + groups
    return max(
        _sample_bytes(n, d, k, sizes, _DESKS),
        n * (point + 36) + 3 * block + groups,
        n * (point + 8 * k + 20) + bits + tables,
    )


def _groups_bytes(parts: int) -> int:
    """What is known of the centres around each, by which points find the nearest."""
    return 8 * parts * min(parts, AROUND)


def _member(d: int) -> int:
    """Bytes of a thread for each member of the largest cell."""
    return 2 * 4 * d + 12 * 128 + 4 * 32 + 24


def _sample_bytes(n: int, d: int, k: int, sizes: Layout, threads: int) -> int:
    """Known neighbours, and then centres."""
    point = 4 * d
    blocks = 4 * min(sizes.block_bytes, n * point)
    known = min(500 * k * point, max(50 * k * point, sizes.room // 4)) + blocks + (16 << 20)
    return max(known, (2 * sizes.sample + 3 * sizes.parts) * point + threads * (2 << 20))


# -------------------------------------------------------------------------------- on disk


def stored_layout(room: int | None, n: int, d: int, k: int) -> Layout:
    """The largest sizes of a search on disk that so many bytes have room for, or the smallest."""
    room = _USUAL if room is None else room
    tight = _least_layout(n, d, k)
    usual_cells = cell_layout(n, d, k)
    desks = max(1, min(_DESKS, room // 8 // _desk(usual_cells, d)))
    usual = _ROOM
    while usual > _LEAST_ROOM and 3 * usual > room:  # the cells of the search in memory if they fit
        usual //= 2
    left = room - room // 32 - _fixed(n, d, k, desks)
    each = _held_row(d, tight.mean) + 8 * k + 8
    beside = _held_row(d, tight.mean) + 28
    block = min(n, max(tight.block, left // (each + beside // _CHUNKS)))
    chunk = min(n, max(tight.chunk, block // _CHUNKS))
    rows = min(n, _MOST_ROWS, max(tight.rows, (room - _joined(n, _AT_ONCE)) // (_RECORDS * k)))
    cells = cell_layout(n, d, k, usual)
    found = replace(cells, block=block, chunk=chunk, rows=rows, desks=desks)
    fits = max(_stored_bytes(n, d, k, found, desks).values()) <= room
    return found if fits else tight


def task_layout(room: int | None, n: int, d: int, k: int) -> Layout:
    """Sizes of the search by tasks, of a block each, within `room` bytes of every worker.

    Small blocks give work to many workers, large ones compare fewer cells twice.
    """
    found = stored_layout(room, n, d, k)
    block = max(_LEAST_TASK, min(_MOST_TASK, n // _TASKS))
    return replace(found, block=min(found.block, block))


def _least_layout(n: int, d: int, k: int) -> Layout:
    """The smallest sizes with which the search is still a search."""
    cells = cell_layout(n, d, k, _LEAST_ROOM)
    few = min(n, 8 * cells.largest)
    rows = max(_FEWEST_ROWS, -(-n // (1 << 16)))  # blocks of rows have numbers of 16 bits
    return replace(cells, block=few, chunk=few, rows=min(n, rows), desks=1)


def _near(n: int, d: int, sizes: Layout, dimension: float | None) -> int:
    """Cells that one visits or that visit it, as expected of neighbourhoods, or at most."""
    if dimension is None:
        return _NEAR
    return min(_NEAR, int(_NEAR_EACH * visited(n, d, dimension) / sizes.mean))


def _stored_bytes(
    n: int, d: int, k: int, sizes: Layout, threads: int, near: int = _NEAR
) -> dict[str, int]:
    """Bytes of each stage of a graph on disk, beside what the process held before."""
    point, desks = 4 * d, min(threads, sizes.desks)
    block = min(sizes.block_bytes, n * point)
    fixed, row = _fixed(n, d, k, desks), _held_row(d, sizes.mean, near)
    laid_out = 8 * n + 4 * block + 32 * (block // point) + sizes.parts * point
    read = min(sizes.chunk, n - sizes.block)
    search = max(
        _sample_bytes(n, d, k, sizes, desks),
        laid_out + _groups_bytes(sizes.parts),
        fixed + sizes.chunk * (row + 28 + 8 * k),
        fixed + sizes.block * (row + 8 * k + 8) + read * (row + 28),
    )
    return {
        "kNN graph": search,
        "components": 14 * n + sizes.rows * 16 * k + _OTHER,
        "weights": _joined(n, sizes.rows * k) + sizes.rows * _RECORDS * k,
    }


def _held_row(d: int, mean: int, near: int = _NEAR) -> int:
    """Bytes of a point that is held, and of its visits."""
    return 4 * d + near // 8 + _EDGE[1] * near // mean


def _desk(cells: Layout, d: int) -> int:
    """Bytes of a thread."""
    return cells.largest * _member(d) + (2 << 20)


def _fixed(n: int, d: int, k: int, desks: int) -> int:
    """Bytes that do not depend on the blocks: of every node, every cell, every thread."""
    cells = cell_layout(n, d, k)
    near = min(cells.parts, NEAR_CELLS)
    tables = cells.parts * (near * (12 + 3) + 16 * d) + _groups_bytes(cells.parts)
    return 8 * n + tables + desks * _desk(cells, d) + _OTHER


def _joined(n: int, entries: int) -> int:
    """Bytes while components are bridged and rows of so many entries put together, beside these."""
    dealt = _DEALT * min(entries, _AT_ONCE)
    return (18 + _BRIDGED) * n + max(dealt, _BRIDGES // 4) + _OTHER
