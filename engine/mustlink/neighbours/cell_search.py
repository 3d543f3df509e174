"""Neighbour lists of points held in memory: k-means cells, of which near ones are compared.

Two points are compared where one lies so near the border of the other's cell that a true neighbour
may lie behind it; how near is taken from a sample of known neighbours. Cells are compared in
rounds in which no cell meets two others: so threads write to lists of their own, without locks,
and which are found does not depend on the number of threads.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.neighbour_graph import Layout, lists_of
from mustlink.deadline import NEVER, Deadline
from mustlink.kernels import cell_pairs
from mustlink.kernels import cells as cell_kernels
from mustlink.kernels.cell_pairs import Desk, Nearest
from mustlink.kernels.cells import WORD, Cells, Visits
from mustlink.neighbours.cell_edges import edges_of, runs_of, schedule
from mustlink.neighbours.cells import Borders, borders_of, cells_of, grouped, mean_squares
from mustlink.neighbours.parts import centres_of, known_neighbours
from mustlink.neighbours.points_by_rows import Prepared, near_one
from mustlink.neighbours.refine import (
    Lists,
    Refined,
    Team,
    distances_of,
    in_rows,
    measured_recall,
    refine,
)
from mustlink.neighbours.scratch import InMemory

_CELLS = 16  # of a task
_SURE = 0.95  # share of known neighbours compared from which lists are left as they are


def cell_lists(
    rows: Prepared,
    k: int,
    rng: np.random.Generator,
    layout: Layout,
    *,
    n_jobs: int = 1,
    sample: int = 500,
    deadline: Deadline = NEVER,
    advance: Callable[[float], None] | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.float32], dict[str, Any]]:
    """Find about the k nearest of each point but itself: indices, distances (n, k), and how.

    Ascending, ties to the smaller index. Recall is measured on `sample` nodes. The same generator
    gives the same lists for any number of threads; at the `deadline` the search ends where it is.
    Where visits would take too long, fewer are made and lists are improved by local joins. All
    points are held: memory as `knn_bytes` says. Cost O(n C d) for C cells, and for each point with
    as many others as `info["visited"]` says.
    """
    from threadpoolctl import threadpool_limits

    tell = advance or (lambda _: None)
    n = rows.shape[0]
    rows, unit = near_one(rows)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_jobs) as pool:
        team = Team(pool, n_jobs)
        known = known_neighbours(rows, k, sample, rng, layout, pool)
        tell(0.05)
        groups = grouped(centres_of(rows, k, rng, layout, pool), known.points, rng, team)
        tell(0.1)
        cells, parts, cell_of = cells_of(rows, groups, layout, team)
        tell(0.2)
        known = replace(known, nodes=parts.numbers()[known.nodes].astype(np.int64))
        owner = np.searchsorted(parts.starts, known.nodes, side="right") - 1
        others = cell_of[groups.cell(known.others, team)]
        borders = borders_of(
            cells.centres, np.diff(parts.starts), mean_squares(cells), known,
            owner.astype(np.int32), others, team,
        )  # fmt: skip
        tell(0.25)
        sure = borders.shared >= _SURE
        lists = Lists.empty(n, min(k, n - 1) if sure else lists_of(n, k)[0])
        for done in search_cells(cells, borders, lists, team):
            tell(0.25 + (0.7 if sure else 0.45) * done)
            if deadline.is_over:
                break
        count, order = parts.starts.size - 1, parts.order
        del parts
        points: NDArray[np.float32] = cells.points
        del cells
        if sure:
            refined = Refined(n, [measured_recall(lists, k, known)])
        else:
            refined = refine(lists, k, layout, InMemory(points), known, team, deadline, tell)
        del points
    indices, squared = in_rows(lists, k, order)
    del lists
    distances = distances_of(rows, indices, squared, layout, unit)
    tell(1.0)
    info = {
        "recall_sample": int(known.nodes.size),
        "parts": count,
        "visited": borders.pairs,
        "shared": borders.shared,
        **refined.info,
    }
    return indices, distances, info


def search_cells(cells: Cells, borders: Borders, lists: Lists, team: Team) -> Iterator[float]:
    """Fill empty lists with what visits find: yields the share that is done."""
    n, count = cells.sizes.size, cells.starts.size - 1
    found = Nearest(lists.indices, lists.squared, np.full(n, np.inf, np.float32))
    together = runs_of(count)
    largest = int(np.diff(cells.starts).max())
    desks = Desks(largest, cells.centres.shape[1], together, cells.panels.size > 0, team)
    desks.each(lambda desk, a, b: cell_pairs.within(cells, found, desk, a, b), count, _CELLS)
    yield 0.1
    if count == 1:
        return
    visits, edges = _visits(cells, borders, found, team)
    yield 0.15
    for done in compare(cells, found, desks, visits, edges, together):
        yield 0.15 + 0.85 * done


def compare(
    cells: Cells,
    found: Nearest,
    desks: Desks,
    visits: Visits,
    edges: NDArray[np.int32],
    together: int,
) -> Iterator[float]:
    """Compare pairs of cells in rounds, each goes into lists of both: yields the share done."""
    groups, bounds, rounds = schedule(edges, cells.starts.size - 1, together)
    for a, b in pairwise(rounds):
        some = bounds[a : b + 1]

        def task(desk: Desk, first: int, stop: int, some: NDArray[np.int64] = some) -> None:
            edges = groups[some[first] : some[stop]]
            cell_pairs.across(cells, found, desk, visits, edges, together)

        desks.each(task, b - a, 1)
        yield float(bounds[b] / bounds[-1])


class Desks:
    """A desk for every thread, or `most` that threads wait for."""

    def __init__(
        self, largest: int, d: int, together: int, held: bool, team: Team, most: int = 64
    ) -> None:
        self._team = team
        self._free: queue.SimpleQueue[Desk] = queue.SimpleQueue()
        for _ in range(min(team.workers, most)):
            self._free.put(cell_pairs.desk_for(largest, d, together, held))

    def each(self, task: Callable[[Desk, int, int], Any], count: int, step: int) -> None:
        """Run task(desk, a, b) on pieces a:b of `count`."""

        def run(a: int, b: int) -> None:
            desk = self._free.get()
            try:
                task(desk, a, b)
            finally:
                self._free.put(desk)

        self._team.each(run, count, step)


def _visits(
    cells: Cells, borders: Borders, found: Nearest, team: Team
) -> tuple[Visits, NDArray[np.int32]]:
    """Who visits whom, and the pairs of cells that are compared."""
    C, A = borders.near.shape
    width = -(-np.diff(cells.starts) // WORD)
    first = np.concatenate([[0], np.cumsum(width * A)])
    visits = Visits(np.zeros(first[-1], np.uint64), first[:-1], width)
    used, slots = np.zeros((C, A), np.int32), np.full(C, A)

    def task(a: int, b: int) -> None:
        cell_kernels.visit(
            cells, found.limits, borders.near, borders.gaps, slots, borders.reach, visits, used,
            a, b,
        )  # fmt: skip

    team.each(task, C, _CELLS)
    a, slot = np.nonzero(used)
    return visits, edges_of(a, slot, borders.near[a, slot], used[a, slot], np.diff(cells.starts))
