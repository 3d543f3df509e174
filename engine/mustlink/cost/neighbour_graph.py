"""Memory that neighbour graphs need, by stage, known before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mustlink.cost.process_memory import PROGRAM

BASE_BYTES = PROGRAM  # what a process holds beside points, before a search
SYMMETRIC = 1.25  # stored weights for one neighbour asked for: near is not always mutual
MOST_SYMMETRIC = 1.75  # the same at most
_KEPT = 1.5  # entries of A + Aᵀ for each of A: 1.2 to 1.4 on sheets, 1.7 on round clusters
ROOM = 1 << 28  # bytes of buffers: what is useful
_BLOCKS = 110 << 20  # pairs compared at once when all are
_BRIDGES = 96 << 20  # the same when components are joined, a quarter where points are read
LOW = 5  # coordinates up to which a k-d tree is faster than cells, whatever the points fill
FEW = 64  # coordinates up to which points are held as rows and as panels
NEAR_CELLS = 384  # cells that the members of a cell may visit
AROUND = 64  # centres near each that a point goes on to, until its nearest is found
_DESKS = 16  # threads that are counted: their number may not change the graph
_EDGE = 100  # bytes for two cells that are compared, while it is found when
_JOINED, _TOLD = 60, 30  # neighbours that meet in a local join, and those who name its node


@dataclass(frozen=True)
class Layout:
    """Sizes that the search by cells works with; none depends on the number of threads.

    `parts` centres from a `sample` of rows, on the average `mean` rows near each; `block_bytes` of
    points are read at once, `group_bytes` joined at once, all of it within `room` bytes.
    """

    parts: int
    mean: int
    sample: int
    block_bytes: int
    group_bytes: int
    room: int

    @property
    def largest(self) -> int:
        """Rows beyond which a cell is cut into pieces: four times the usual."""
        return 4 * self.mean

    def group(self, n: int, d: int, k: int) -> int:
        """Nodes at which neighbours meet at once: as many as their pairs leave room for."""
        _, joined, told = lists_of(n, k)
        most = joined + told
        return max(1, min(n, self.group_bytes // (6 * most * most + most * (4 * d + 16))))


def lists_of(n: int, k: int) -> tuple[int, int, int]:
    """Length of the lists while k neighbours are searched, and who meets in a local join.

    Longer lists than asked for lead to more: on 2·10⁵ broad clusters of 20 coordinates, 15
    neighbours, recall ends at 0.90 with lists of 15, 0.966 with 22 and 0.987 with 30. Of each
    list the first are joined, and so many of those who name its node.
    """
    length = min(n - 1, k + max(8, 3 * k // 4))
    return length, min(length, _JOINED), min(length, _TOLD)


def cell_layout(n: int, d: int, k: int, room: int = ROOM) -> Layout:
    """Sizes for n points of d coordinates with `room` bytes of buffers.

    About √n / 4 members of a cell, and at least 128 or d / 2: smaller ones leave less to be
    compared, and more that is done once a cell. Of wide points where room is short fewer than
    d / 2: eight of the largest cells are held at once.
    """
    wide = d // 2 if room >= ROOM else min(d // 2, room // (32 * d))
    mean = max(int(np.sqrt(n) / 4), 128, wide, 2 * (k + 1))
    parts = max(1, n // mean)
    sample = max(1, min(20 * parts, room // 3 // (4 * d)))
    return Layout(
        parts=parts,
        mean=mean,
        sample=min(n, max(sample, parts, 2)),
        block_bytes=max(1 << 20, min(1 << 25, room // 8)),
        group_bytes=max(1 << 21, min(1 << 26, room // 3)),
        room=room,
    )


def knn_bytes(
    n: int, d: int, k: int = 15, *, itemsize: int = 4, room: int = ROOM
) -> dict[str, dict[str, int]]:
    """Bytes of each stage of `knn_graph`, by method, beside BASE_BYTES and the caller's points.

    "brute", "tree" and "cells" hold the points in memory; they are not counted, being the caller's
    own single precision array, but copies of another kind (`itemsize` 8, or metric "cosine") are,
    and that in the order of the cells. "lean cells" read points by blocks, with `room` bytes of
    buffers, and write W in single precision.
    """
    k = max(1, min(k, n - 1))
    copied = 12 * n * d if itemsize == 8 else 0
    lists = 8 * n * k
    entries = int(min(_KEPT * n * k, 1.0 * n * (n - 1)))
    whole = {
        "weights": copied // 3 + lists + 24 * n * k + 12 * entries + 24 * n,
        "components": copied // 3 + 12 * entries + 64 * n + _BRIDGES,
    }
    cells = _cell_bytes(n, d, k, room)
    lean = {
        "weights": lists + n * k + 8 * entries + 32 * n,
        "components": 8 * entries + 64 * n + _BRIDGES // 4,
    }
    return {
        "brute": {"kNN graph": copied + lists + _BLOCKS, **whole},
        "tree": {"kNN graph": copied + n * (28 * d + 16 * k + 12), **whole},
        "cells": {"kNN graph": copied + cells, **whole},
        "lean cells": {"kNN graph": cells, **lean},
    }


def _cell_bytes(n: int, d: int, k: int, room: int) -> int:
    """Largest of: known neighbours, centres, points in the order of the cells, visits, joins."""
    sizes = cell_layout(n, d, k, room)
    point = 4 * d
    panels = point * (n + 16 * sizes.parts) if d <= FEW else 0
    near = min(sizes.parts, NEAR_CELLS)
    block = min(sizes.block_bytes, n * point)
    desks = _DESKS * sizes.largest * (2 * point + 12 * 128 + 4 * 32 + 24)
    tables = sizes.parts * (point + near * (9 + _EDGE // 2)) + desks + 64 * near * 500
    length, _, told = lists_of(n, k)
    groups = groups_bytes(sizes.parts)
    bits = n * near // 8 + 8 * sizes.parts * near + groups
    return max(
        *_sample_bytes(d, k, _DESKS, sizes, block),
        n * (point + 36) + panels + 3 * block + groups,
        n * (point + 9 * length + 20) + panels + bits + tables,
        n * (point + 9 * length + 4 * told + 16) + groups + _joins_bytes(n, d, k, sizes),
    )


def groups_bytes(parts: int) -> int:
    """What is known of the centres around each, by which points find the nearest."""
    return 8 * parts * min(parts, AROUND)


def _sample_bytes(d: int, k: int, threads: int, sizes: Layout, block: int) -> tuple[int, int]:
    """Known neighbours, and centres."""
    point = 4 * d
    known = min(500 * k * point, max(50 * k * point, sizes.room // 4)) + 4 * block + (16 << 20)
    return known, (2 * sizes.sample + 3 * sizes.parts) * point + threads * (2 << 20)


def _joins_bytes(n: int, d: int, k: int, sizes: Layout) -> int:
    _, joined, told = lists_of(n, k)
    met = sizes.group(n, d, k) * (joined + told)
    return met * (6 * (joined + told) + 16) + met * 4 * d
