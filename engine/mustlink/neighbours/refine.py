"""Neighbour lists compared with the lists of their own neighbours, coordinates read from disk."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.neighbour_graph import REFINED, Layout
from mustlink.kernels import nearest_lists
from mustlink.neighbours.exact import exact_streamed
from mustlink.neighbours.points_by_rows import Prepared
from mustlink.neighbours.scratch import Scratch


@dataclass(frozen=True)
class Team:
    """Threads that work through tasks; what they compute does not depend on their number."""

    pool: ThreadPoolExecutor
    workers: int


@dataclass(frozen=True)
class Lists:
    """Neighbour lists (n, k) in the making: numbers and squared lengths, ascending, -1 and Inf."""

    indices: NDArray[np.int32]
    squared: NDArray[np.float32]


def sweep(
    order: NDArray[np.int32],
    home: NDArray[np.int64],
    scratch: Scratch,
    lists: Lists,
    layout: Layout,
    team: Team,
) -> Iterator[float]:
    """Compare every point with its neighbours' neighbours, in groups of rows that lie together.

    `order` (n,) lists the nodes as they lie in the scratch file, `home` (n,) says where. Yields
    the share that is done. Later groups see the lists of earlier ones.
    """
    n, k = lists.indices.shape
    wide = min(k, REFINED)
    limit = np.array(layout.group(n, scratch.width, k, wide))
    local = np.full(n, -1, dtype=np.int32)
    found = np.empty(limit[1], dtype=np.int32)
    points = np.empty((limit[1], scratch.width), dtype=np.float32)
    buffer = np.empty(
        (max(1, layout.block_bytes // (16 * scratch.width)), scratch.width), np.float32
    )
    start = 0
    while start < n:
        stop, count = nearest_lists.collect(order, start, limit, wide, lists.indices, local, found)
        ids = found[:count]
        ids = ids[np.argsort(home[ids])]
        local[ids] = np.arange(count, dtype=np.int32)
        scratch.gather(home[ids], points[:count], buffer)
        rows = order[start:stop]
        nodes, squared = lists.indices[rows], lists.squared[rows]
        step = -(-rows.size // team.workers)

        def task(
            a: int,
            rows: NDArray[np.int32] = rows,
            step: int = step,
            count: int = count,
            squared: NDArray[np.float32] = squared,
            nodes: NDArray[np.int32] = nodes,
        ) -> None:
            part = slice(a, a + step)
            nearest_lists.refine(
                rows[part], wide, lists.indices, local, points[:count], squared[part], nodes[part]
            )

        list(team.pool.map(task, range(0, rows.size, step)))
        lists.indices[rows], lists.squared[rows] = nodes, squared
        local[ids] = -1
        start = stop
        yield start / n


def complete(rows: Prepared, lists: Lists, layout: Layout) -> None:
    """Fill lists that are not full, of points in small parts only, by comparing them with all."""
    k = lists.indices.shape[1]
    short = np.flatnonzero(lists.indices[:, -1] < 0)
    batch = max(1, min(2048, layout.block_bytes // (8 * k * rows.shape[1])))
    for a in range(0, short.size, batch):
        nodes = short[a : a + batch]
        indices, _ = exact_streamed(rows, nodes, k, layout.block_bytes)
        gap = rows.gather(indices.ravel()).reshape(*indices.shape, -1)
        gap = gap - rows.gather(nodes)[:, None, :]
        squared = np.einsum("ijk,ijk->ij", gap, gap)
        by_length = np.lexsort((indices, squared), axis=1)
        lists.indices[nodes] = np.take_along_axis(indices, by_length, axis=1)
        lists.squared[nodes] = np.take_along_axis(squared, by_length, axis=1)
