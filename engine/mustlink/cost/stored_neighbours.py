"""Memory and disk that a neighbour graph takes whose points, lists and weights are on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mustlink.cost.neighbour_graph import (
    BASE_BYTES,
    FEW,
    NEAR_CELLS,
    ROOM,
    SYMMETRIC,
    Layout,
    cell_layout,
    groups_bytes,
)
from mustlink.cost.process_memory import size_text
from mustlink.errors import InputError

_LEAST = 1 << 24  # bytes of buffers with which centres can just be found
_USUAL = 1 << 31  # bytes where none are named
_CHUNKS = 4  # times that the cells read beside a block are fewer
_NEAR = 320  # cells that a cell visits, or that visit it
_EDGE = 150  # bytes of a pair of cells that are compared
_RECORDS = 48  # bytes of a neighbour while rows are put together
_FEWEST_ROWS, _MOST_ROWS = 1 << 14, 1 << 19  # of the graph that are put together at once
_DEALT = 96 << 20  # while entries are dealt out
_BRIDGED = 24  # bytes of a node while components are joined by bridges
_OTHER = 16 << 20
READ_BACK = 1 << 15  # lists read back at once
_TASKS, _LEAST_TASK, _MOST_TASK = 16, 1 << 12, 1 << 18  # at least so many, of so many points
_THREADS = 16  # that are counted: their number may not change the graph


@dataclass(frozen=True)
class StoredLayout:
    """Sizes of the search by `cells` on disk: members of a block, and of the cells read beside it.

    `rows` of the graph are put together at once; cells are compared on at most so many `desks`, one
    a thread. None depends on the number of threads.
    """

    cells: Layout
    block: int
    chunk: int
    rows: int
    desks: int = 16

    @property
    def parts(self) -> int:
        """Cells that points are divided into."""
        return self.cells.parts

    @property
    def sample(self) -> int:
        """Rows from which cells are found."""
        return self.cells.sample


@dataclass(frozen=True)
class StoredPlan:
    """How a neighbour graph on disk is to be made: sizes, and the peak of each stage.

    `stages` are bytes with all that the process holds, `least` is the smallest budget that works,
    `scratch` the bytes of temporary files as a rule, `entries` about how many weights W has.
    """

    layout: StoredLayout
    stages: dict[str, int]
    least: int
    scratch: int
    entries: int

    @property
    def peak_bytes(self) -> int:
        """Largest of all stages."""
        return max(self.stages.values())


def stored_knn_plan(
    n: int,
    d: int,
    k: int,
    budget: int | None = None,
    *,
    base: int = BASE_BYTES,
    held: int = 0,
    threads: int = 2,
) -> StoredPlan:
    """Choose the sizes of a neighbour graph on disk within `budget` bytes of memory in all.

    `base`: what the process holds without the points, `held` bytes of points in memory. Blocks are
    as large as there is room: the larger, the fewer cells are compared twice. Raises InputError
    that names the least budget.
    """
    k = max(1, min(k, n - 1))
    below = base + held
    tight = _least(n, d, k)
    least = below + max(_stages(n, d, k, tight, threads).values())
    if budget is not None and least > budget:
        raise InputError(
            f"memory: {size_text(budget)} given; {n} points of {d} coordinates with {k} neighbours "
            f"each on disk need at least {size_text(least, up=True)}"
        )
    layout = sizes_within(None if budget is None else budget - below, n, d, k)
    stages = {name: below + size for name, size in _stages(n, d, k, layout, threads).items()}
    entries = int(min(SYMMETRIC * n * k, 1.0 * n * (n - 1)))
    crossing = 12 * n * k // 2
    return StoredPlan(layout, stages, least, n * (4 * d + 8 * k) + crossing, entries)


def sizes_within(room: int | None, n: int, d: int, k: int) -> StoredLayout:
    """The largest sizes that so many bytes have room for, at least the smallest."""
    room = _USUAL if room is None else room
    tight = _least(n, d, k)
    desks = max(1, min(_THREADS, room // 8 // _desk(n, d, k)))
    usual = ROOM
    while usual > _LEAST and 3 * usual > room:  # the cells of the search in memory where they fit
        usual //= 2
    left = room - room // 32 - _fixed(n, d, k, desks)
    each = _block_row(d, k, tight) + _chunk_row(d, tight) // _CHUNKS
    block = min(n, max(tight.block, left // each))
    chunk = min(n, max(tight.chunk, block // _CHUNKS))
    rows = min(n, _MOST_ROWS, max(tight.rows, (room - _joined(n)) // (_RECORDS * k)))
    found = StoredLayout(cell_layout(n, d, k, usual), block, chunk, rows, desks)
    fits = max(_stages(n, d, k, found, desks).values()) <= room
    return found if fits else tight


def task_sizes(room: int | None, n: int, d: int, k: int) -> StoredLayout:
    """Sizes of the search by tasks, of a block each, within `room` bytes of every worker.

    Small blocks give work to many workers, large ones compare fewer cells twice.
    """
    found = sizes_within(room, n, d, k)
    block = max(_LEAST_TASK, min(_MOST_TASK, n // _TASKS))
    return replace(found, block=min(found.block, block))


def _least(n: int, d: int, k: int) -> StoredLayout:
    """The smallest sizes with which the search is still a search."""
    cells = cell_layout(n, d, k, _LEAST)
    few = min(n, 8 * cells.largest)
    rows = max(_FEWEST_ROWS, -(-n // (1 << 16)))  # blocks of rows have numbers of 16 bits
    return StoredLayout(cells, few, few, min(n, rows), 1)


def _panel(d: int, mean: int) -> int:
    return 4 * d * (mean + 16) // mean if d <= FEW else 0


def _block_row(d: int, k: int, layout: StoredLayout) -> int:
    """Bytes of a point of a block with its list, and who it visits."""
    mean = layout.cells.mean
    return 4 * d + _panel(d, mean) + 8 * k + 8 + _NEAR // 8 + _EDGE * _NEAR // mean


def _chunk_row(d: int, layout: StoredLayout) -> int:
    """Bytes of a point that is read beside a block."""
    mean = layout.cells.mean
    return 4 * d + _panel(d, mean) + 28 + _NEAR // 8 + _EDGE * _NEAR // mean


def _desk(n: int, d: int, k: int) -> int:
    """Bytes of a thread."""
    return cell_layout(n, d, k).largest * (2 * 4 * d + 12 * 128 + 4 * 32 + 24) + (2 << 20)


def _fixed(n: int, d: int, k: int, desks: int) -> int:
    """Bytes that do not depend on the blocks: of every node, every cell, every thread."""
    parts = cell_layout(n, d, k).parts
    near = min(parts, NEAR_CELLS)
    tables = parts * (near * (12 + 3) + 16 * d) + groups_bytes(parts)
    return 8 * n + tables + desks * _desk(n, d, k) + _OTHER


def _stages(n: int, d: int, k: int, layout: StoredLayout, threads: int) -> dict[str, int]:
    """Bytes of each stage beside what the process held before."""
    sizes, point = layout.cells, 4 * d
    block = min(sizes.block_bytes, n * point)
    known = min(500 * k * point, max(50 * k * point, sizes.room // 4)) + 4 * block + (16 << 20)
    desks = min(threads, layout.desks)
    centres = (2 * sizes.sample + 3 * sizes.parts) * point + desks * (2 << 20)
    fixed = _fixed(n, d, k, desks)
    search = max(
        known,
        centres,
        8 * n + 4 * block + 32 * (block // point) + sizes.parts * point + groups_bytes(sizes.parts),
        fixed + layout.chunk * (_chunk_row(d, layout) + 8 * k),
        fixed
        + layout.block * _block_row(d, k, layout)
        + min(layout.chunk, n - layout.block) * _chunk_row(d, layout),
    )
    return {
        "kNN graph": search,
        "components": 14 * n + layout.rows * 16 * k + _OTHER,
        "weights": _joined(n) + layout.rows * _RECORDS * k,
    }


def stored_lists_bytes(n: int, d: int, k: int, layout: StoredLayout, threads: int) -> int:
    """Bytes of a search whose lists are read back in the order of the points."""
    read = n * (8 * k + 8) + 16 * k * min(n, READ_BACK)
    return max(_stages(n, d, k, layout, threads)["kNN graph"], read)


def _joined(n: int) -> int:
    """Bytes while components are bridged and rows put together, beside these."""
    return (18 + _BRIDGED) * n + _DEALT + _OTHER
