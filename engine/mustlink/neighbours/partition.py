"""Neighbour lists by parts on disk: overlapping k-means parts, each searched exactly.

Every point goes to its p nearest of C centres, and two points are compared when they share a part.
p is the least with which a sample of known neighbours meets often enough for a start. Then whoever
meets in a list is compared, as in NN-descent, while a sample says that it pays. Coordinates lie in
a scratch file, part by part; in memory are the lists, one part a thread, one group.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.neighbour_graph import Layout, lists_of
from mustlink.deadline import NEVER, Deadline
from mustlink.kernels import nearest_lists
from mustlink.neighbours.parts import (
    Parts,
    assign,
    centres_of,
    known_neighbours,
    lay_out,
    least_overlap,
    write_parts,
)
from mustlink.neighbours.points_by_rows import Prepared, near_one
from mustlink.neighbours.refine import Lists, Team, distances_of, in_rows, refine
from mustlink.neighbours.scratch import Coordinates, OnDisk, Scratch

_TALL, _WIDE = 256, 2048  # rows of a part compared at once: products stay in the cache
SPARE = 3  # places kept beyond k: products are less exact than distances

Advance = Callable[[float], None]


def partition_lists(
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
) -> tuple[NDArray[np.int32], NDArray[np.float32], dict[str, Any]]:
    """Find about the k nearest of each point but itself: indices, distances (n, k), and how.

    Ascending, ties to the smaller index. Recall is measured on `sample` nodes. The same generator
    gives the same lists for any number of threads. p n d single precision numbers are written to
    `folder`, or where temporary files go. At the
    `deadline` a sweep ends where it is. Memory as `knn_bytes` says. Cost O(n C d) for
    C parts, O(p² n² d / C) within them, and for each sweep of local joins at most O(n k² d).
    Raises MustlinkError where the scratch file does not fit.
    """
    from threadpoolctl import threadpool_limits

    advance = advance or (lambda _: None)
    n, d = rows.shape
    rows, unit = near_one(rows)
    with (
        threadpool_limits(1, user_api="blas"),
        ThreadPoolExecutor(n_jobs) as pool,
        ExitStack() as closing,
    ):
        team = Team(pool, n_jobs)
        known = known_neighbours(rows, k, sample, rng, layout, pool)
        advance(0.1)
        centres = centres_of(rows, k, rng, layout, pool)
        overlap, shared = least_overlap(centres, known, layout, pool)
        advance(0.15)
        assigned = assign(rows, centres, overlap, layout, pool)
        advance(0.3)
        parts, places = lay_out(assigned, centres.norms.size, layout)
        del assigned
        scratch = closing.enter_context(Scratch(folder, n * overlap, d))
        write_parts(rows, places, layout, scratch)
        coordinates = OnDisk(scratch, parts.home, layout.block_bytes // 4)
        del places
        advance(0.35)
        known = replace(known, nodes=parts.numbers()[known.nodes].astype(np.int64))
        lists = Lists.empty(n, lists_of(n, k)[0])
        few = Team(pool, min(n_jobs, layout.desks(overlap, d)))
        _search(parts, coordinates, lists, k, few, lambda x: advance(0.35 + 0.35 * x))
        count, order = parts.starts.size - 1, parts.order
        del parts
        refined = refine(lists, k, layout, coordinates, known, team, deadline, advance)
        del coordinates
    indices, squared = in_rows(lists, k, order)
    del lists
    distances = distances_of(rows, indices, squared, layout, unit)
    advance(1.0)
    info = {
        "recall_sample": int(known.nodes.size),
        "parts": count,
        "overlap": overlap,
        "shared": shared,
        **refined.info,
    }
    return indices, distances, info


class Desk:
    """One thread's arrays: coordinates of a part as they are, and about the part's middle."""

    def __init__(self, most: int, width: int) -> None:
        self.points = np.empty((most, width), dtype=np.float32)
        self.centred = np.empty((most, width), dtype=np.float32)
        self.products = np.empty(_TALL * _WIDE, dtype=np.float32)


Found = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]


def _search(
    parts: Parts, coordinates: Coordinates, lists: Lists, k: int, team: Team, advance: Advance
) -> None:
    """Compare all members of every part, and merge what is found into the lists in their order.

    Of each part the k nearest, and what was kept to spare.
    """
    most = int(np.diff(parts.starts).max())
    desks: queue.SimpleQueue[Desk] = queue.SimpleQueue()
    for _ in range(team.workers):
        desks.put(Desk(most, coordinates.width))
    width = min(lists.indices.shape[1], k + SPARE)

    def task(part: int) -> Found:
        first, stop = int(parts.starts[part]), int(parts.starts[part + 1])
        desk, members = desks.get(), parts.members[first:stop]
        try:
            coordinates.part(first, members, desk.points[: stop - first])
            return within(members, desk, width)
        finally:
            desks.put(desk)

    count = parts.starts.size - 1
    for done, (ids, found, squared) in enumerate(_in_order(team, task, count)):
        nearest_lists.merge(ids, found, squared, lists.indices, lists.squared)
        if done % 64 == 0:
            advance(done / count)


def _in_order(team: Team, task: Callable[[int], Found], count: int) -> Iterator[Found]:
    """Results of task(0), task(1) …; only a few are waiting at any time."""
    waiting: deque[Future[Found]] = deque()
    try:
        for part in range(count):
            waiting.append(team.pool.submit(task, part))
            if len(waiting) > 2 * team.workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def within(ids: NDArray[np.int32], desk: Desk, k: int) -> Found:
    """Lists of one part's members (m, k), from products in blocks, measured anew."""
    m = ids.size
    points, centred = desk.points[:m], desk.centred[:m]
    # About the middle of the part |q|² + |p|² - 2qp keeps digits.
    np.subtract(points, points.mean(axis=0, dtype=np.float64).astype(np.float32), out=centred)
    norms = np.einsum("ij,ij->i", centred, centred)
    found = np.empty((m, k), dtype=np.int32)
    squared = np.empty((m, k), dtype=np.float32)
    kept = min(k + 1, m)
    for a in range(0, m, _TALL):
        Q = centred[a : a + _TALL]
        values = np.full((Q.shape[0], kept), np.inf, dtype=np.float32)
        places = np.full((Q.shape[0], kept), -1, dtype=np.int32)
        for c in range(0, m, _WIDE):
            P = centred[c : c + _WIDE]
            products = desk.products[: Q.shape[0] * P.shape[0]].reshape(Q.shape[0], P.shape[0])
            np.matmul(Q, P.T, out=products)
            nearest_lists.keep_smallest(products, norms[c : c + _WIDE], c, values, places)
        rows = np.arange(a, a + Q.shape[0])
        nearest_lists.measure(
            points, rows, places, ids, squared[a : a + _TALL], found[a : a + _TALL]
        )
    last = squared[:, -1]
    doubtful = np.flatnonzero((last > 0) & (last < nearest_lists.DOUBTFUL * norms))
    for a in range(0, doubtful.size, _TALL):
        rows = doubtful[a : a + _TALL]
        places = np.empty((rows.size, min(k + 1, m)), dtype=np.int32)
        nearest_lists.nearest_directly(points[rows], points, places)
        again, lengths = found[rows], squared[rows]
        nearest_lists.measure(points, rows, places, ids, lengths, again)
        found[rows], squared[rows] = again, lengths
    return ids, found, squared
