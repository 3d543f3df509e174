"""Neighbour lists by parts: overlapping k-means parts on disk, each searched exactly, then refined.

Every point goes to its p nearest of C centres, and two points are compared when they share a part.
p is the least that a sample of nodes with known neighbours asks for. Then every point is compared
with its neighbours' neighbours, as in NN-descent, once or a few times. Coordinates lie in a
scratch file, part by part; in memory are the lists, one part a thread, and one group of rows.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.neighbour_graph import Layout
from mustlink.deadline import NEVER, Deadline
from mustlink.kernels import nearest_lists
from mustlink.neighbours.parts import (
    Parts,
    Sample,
    assign,
    centres_of,
    distribute,
    known_neighbours,
    least_overlap,
)
from mustlink.neighbours.points_by_rows import Prepared
from mustlink.neighbours.refine import Lists, Team, complete, sweep
from mustlink.neighbours.scratch import Scratch

TARGET = 0.99  # recall at which refinement stops
_SWEEPS, _GAIN = 4, 0.002  # at most this many sweeps, and none after one that gained less
_TALL, _WIDE = 256, 2048  # rows of a part compared at once: products stay in the cache
_SPARE = 3  # places kept beyond k + 1: products are less exact than distances
_SAFE = 1e9  # coordinates beyond this size, or below its inverse, are scaled

Advance = Callable[[float], None]


def measured_recall(lists: Lists, known: Sample) -> float:
    """Share of listed neighbours no farther than the true last one (ties count)."""
    limits = known.reach * (1 + 1e-5) + 1e-12
    return float(np.mean(np.sqrt(lists.squared[known.nodes]) <= limits[:, None]))


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
    gives the same lists for any number of threads. Memory as `budget.knn_bytes` says; disk:
    p n d single precision numbers in `folder`, or where temporary files go. Cost O(n C d) for C
    parts and O(p² n² d / C) within them. Raises MustlinkError where the scratch file does not fit.
    """
    from threadpoolctl import threadpool_limits

    advance = advance or (lambda _: None)
    n, d = rows.shape
    unit = 1.0
    if not 1 / _SAFE <= rows.size <= _SAFE and rows.size > 0:
        unit = float(2.0 ** -np.round(np.log2(rows.size)))  # a power of two: digits stay
    rows = replace(rows, unit=unit)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_jobs) as pool:
        team = Team(pool, n_jobs)
        known = known_neighbours(rows, k, sample, rng, layout)
        advance(0.1)
        centres = centres_of(rows, k, rng, layout, pool)
        overlap, shared = least_overlap(centres, known, layout.most_overlap, pool)
        advance(0.15)
        assigned = assign(rows, centres, overlap, layout, pool)
        advance(0.25)
        with Scratch(folder, n * overlap, d) as scratch:
            parts = distribute(rows, assigned, centres.norms.size, layout, scratch)
            count = parts.starts.size - 1
            del assigned
            advance(0.35)
            lists = Lists(np.full((n, k), -1, np.int32), np.full((n, k), np.inf, np.float32))
            few = Team(pool, min(n_jobs, layout.desks(overlap, d)))
            _search(parts, scratch, lists, few, lambda x: advance(0.35 + 0.35 * x))
            home = parts.home
            order = parts.members[np.sort(home)]
            del parts
            recalls = [measured_recall(lists, known)]
            while _worth(recalls) and not deadline.is_over:
                for done in sweep(order, home, scratch, lists, layout, team):
                    advance(0.7 + 0.06 * (len(recalls) - 1 + done))
                recalls.append(measured_recall(lists, known))
        complete(rows, lists, layout)
    distances = np.sqrt(lists.squared, out=lists.squared)
    if unit != 1:
        distances /= np.float32(unit)
    advance(1.0)
    info = {
        "recall": recalls[-1],
        "recall_sample": int(known.nodes.size),
        "parts": count,
        "overlap": overlap,
        "shared": shared,
        "sweeps": len(recalls) - 1,
        "recall_before": recalls[0],
    }
    return lists.indices, distances, info


def _worth(recalls: list[float]) -> bool:
    """Whether one more sweep is asked for and likely to help."""
    if recalls[-1] >= TARGET or len(recalls) > _SWEEPS:
        return False
    return len(recalls) == 1 or recalls[-1] - recalls[-2] >= _GAIN


class _Desk:
    """One thread's arrays: coordinates of a part as they are, and about the part's middle."""

    def __init__(self, most: int, width: int) -> None:
        self.points = np.empty((most, width), dtype=np.float32)
        self.centred = np.empty((most, width), dtype=np.float32)
        self.products = np.empty(_TALL * _WIDE, dtype=np.float32)


Found = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]


def _search(parts: Parts, scratch: Scratch, lists: Lists, team: Team, advance: Advance) -> None:
    """Compare all members of every part, and merge what is found into the lists in their order."""
    most = int(np.diff(parts.starts).max())
    desks: queue.SimpleQueue[_Desk] = queue.SimpleQueue()
    for _ in range(team.workers):
        desks.put(_Desk(most, scratch.width))
    k = lists.indices.shape[1]

    def task(part: int) -> Found:
        first, stop = parts.starts[part], parts.starts[part + 1]
        desk = desks.get()
        try:
            scratch.read(int(first), desk.points[: stop - first])
            return _within(parts.members[first:stop], desk, k)
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


def _within(ids: NDArray[np.int32], desk: _Desk, k: int) -> Found:
    """Lists of one part's members (m, k), from products in blocks, measured anew."""
    m = ids.size
    points, centred = desk.points[:m], desk.centred[:m]
    # About the middle of the part |q|² + |p|² - 2qp keeps digits.
    np.subtract(points, points.mean(axis=0, dtype=np.float64).astype(np.float32), out=centred)
    norms = np.einsum("ij,ij->i", centred, centred)
    found = np.empty((m, k), dtype=np.int32)
    squared = np.empty((m, k), dtype=np.float32)
    kept = min(k + 1 + _SPARE, m)
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
