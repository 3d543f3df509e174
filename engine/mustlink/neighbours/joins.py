"""Neighbour lists improved by local joins: whoever meets in a list is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.cost.neighbour_graph import Layout, lists_of
from mustlink.deadline import NEVER, Deadline
from mustlink.kernels import nearest_lists
from mustlink.neighbours.cells import Sample, Team

TARGET = 0.99  # recall at which refinement stops
_SWEEPS = 12  # at most
_RENUMBERED = 1 << 20  # lists whose entries are renumbered at once
_GAIN = 2e-5  # recall for each pair compared, a point: no sweep after one that gained less
_PASS = 50  # pairs whose comparison takes as long as a sweep in which nothing is new


@dataclass(frozen=True)
class Lists:
    """Neighbour lists (n, l) in the making: numbers and squared lengths, ascending, -1 and Inf.

    `fresh` (n, l) says what was not yet done with an entry, see `local_joins`.
    """

    indices: NDArray[np.int32]
    squared: NDArray[np.float32]
    fresh: NDArray[np.uint8]

    @staticmethod
    def empty(n: int, length: int) -> Lists:
        """Lists without an entry; every one that comes is fresh."""
        shape = (n, length)
        return Lists(
            np.full(shape, -1, np.int32),
            np.full(shape, np.inf, np.float32),
            np.full(shape, nearest_lists.UNJOINED | nearest_lists.UNTOLD, np.uint8),
        )


class Joins:
    """Sweeps of local joins over all nodes, in groups of those that lie together.

    At every node meet its own neighbours and those who name it; of two who meet, each is put
    into the other's list if near enough. Only pairs that have not met there are compared: a
    sweep costs what the one before has changed. Later groups see what earlier ones found.
    """

    def __init__(self, lists: Lists, k: int, layout: Layout, points: Any) -> None:
        n = lists.indices.shape[0]
        _, self._wide, told = lists_of(n, k)
        most = self._wide + told
        self.compared = 0
        self._lists, self._points = lists, points
        self._group = layout.group(n, points.shape[1], k)
        self._pairs_each = most * (most - 1) // 2
        self._reverse = np.empty((n, told), np.int32)
        self._count = np.zeros(n, np.int32)
        self._ids = np.zeros((self._group, most), np.int32)
        self._sizes = np.zeros((self._group, 2), np.int32)
        self._pairs = np.empty((self._group * self._pairs_each, 2), np.int32)
        self._squared = np.empty(self._group * self._pairs_each, np.float32)

    def sweep(self, team: Team) -> Iterator[float]:
        """One sweep: yields the share that is done; `compared` counts its pairs."""
        lists = self._lists
        n = lists.indices.shape[0]

        def tell(_: int, a: int, b: int) -> int:
            nearest_lists.tell_targets(lists.indices, lists.fresh, a, b, self._reverse, self._count)
            return 0

        # Every thread reads all lists, and marks only what it has told.
        team.slices(tell, n)
        self.compared = 0
        for start in range(0, n, self._group):
            stop = min(n, start + self._group)
            self.compared += self._join(start, stop - start, team)
            yield stop / n

    def _join(self, start: int, count: int, team: Team) -> int:
        lists, each = self._lists, self._pairs_each
        ids, sizes = self._ids[:count], self._sizes[:count]
        reverse, named = self._reverse, self._count

        def gather(_: int, a: int, b: int) -> int:
            nearest_lists.members(
                lists.indices, lists.fresh, self._wide, reverse, named, start + a,
                ids[a:b], sizes[a:b],
            )  # fmt: skip
            return int(sizes[a:b, 1].sum())

        if sum(team.slices(gather, count)) == 0:
            return 0
        compared = [0] * team.workers

        def join(i: int, a: int, b: int) -> int:
            mine = slice(a * each, b * each)
            kept, compared[i] = nearest_lists.join(
                self._points, ids[a:b], sizes[a:b], lists.squared,
                self._pairs[mine], self._squared[mine],
            )  # fmt: skip
            return int(kept)

        kept = team.slices(join, count)
        firsts = [count * i // team.workers * each for i in range(team.workers)]

        def take(i: int, _a: int, _b: int) -> int:
            for first, size in zip(firsts, kept, strict=True):
                some = slice(first, first + size)
                nearest_lists.take_up(
                    self._pairs[some], self._squared[some], i, team.workers,
                    lists.indices, lists.squared, lists.fresh,
                )  # fmt: skip
            return 0

        team.slices(take, count)
        return sum(compared)


@dataclass
class Refined:
    """Recall on a sample before and after each sweep, and the pairs that each compared."""

    n: int
    recalls: list[float]
    compared: list[int] = field(default_factory=list)

    @property
    def sweeps(self) -> int:
        """How many there were."""
        return len(self.compared)

    @property
    def info(self) -> dict[str, Any]:
        """What a graph tells of them."""
        return {
            "recall": self.recalls[-1],
            "sweeps": self.sweeps,
            "compared": sum(self.compared) / self.n,
            "recall_before": self.recalls[0],
        }

    def note(self, recall: float, compared: int) -> None:
        """Add what a sweep brought and cost."""
        self.recalls.append(recall)
        self.compared.append(compared)

    def go_on(self, deadline: Deadline = NEVER) -> bool:
        """Whether one more sweep is likely to bring something for what it costs.

        Pairs compared stand for time, as the lists may not depend on a clock but for a `deadline`.
        The next sweep costs less than the last one did, and brings less in proportion.
        """
        if deadline.is_over or self.recalls[-1] >= TARGET or self.sweeps == _SWEEPS:
            return False
        if not self.compared:
            return True
        gain = self.recalls[-1] - self.recalls[-2]
        return gain >= _GAIN * (_PASS + self.compared[-1] / self.n)


def measured_recall(lists: Lists, k: int, known: Sample) -> float:
    """Share of the k first of each list that are no farther than the true last one (ties count)."""
    limits = known.reach * (1 + 1e-5) + 1e-12
    return float(np.mean(np.sqrt(lists.squared[known.nodes, :k]) <= limits[:, None]))


def refine(
    lists: Lists,
    k: int,
    layout: Layout,
    points: NDArray[np.float32],
    known: Sample,
    team: Team,
    deadline: Deadline,
    advance: Callable[[float], None],
) -> Refined:
    """Local joins of lists of points (n, d) while they pay."""
    joins = Joins(lists, k, layout, points)
    refined = Refined(lists.indices.shape[0], [measured_recall(lists, k, known)])
    while refined.go_on(deadline):
        for done in joins.sweep(team):
            advance(0.7 + 0.3 * (1 - 0.5 ** (refined.sweeps + done)))
            if deadline.is_over:  # lists are lists at any time
                break
        refined.note(measured_recall(lists, k, known), joins.compared)
    return refined


def in_rows(
    lists: Lists, k: int, order: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the k first of every list (n, k), numbered and in the order of the points' rows."""
    indices = np.ascontiguousarray(lists.indices[:, :k])
    for start in range(0, indices.shape[0], _RENUMBERED):
        some = indices[start : start + _RENUMBERED]
        some[some >= 0] = order[some[some >= 0]]
    squared = np.ascontiguousarray(lists.squared[:, :k])
    for values in (indices, squared):
        nearest_lists.reorder(values, order, np.zeros(order.size, dtype=np.bool_))
    nearest_lists.order_ties(indices, squared)
    return indices, squared
