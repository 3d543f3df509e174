"""Pairs of cells that are compared: in what order, and who of a cell visits another.

The order is one of rounds in which no cell meets two; visits are between cells of which some are
held, and bits say who goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels import cells as cell_kernels
from mustlink.kernels.cells import WORD, Cells, Visits
from mustlink.neighbours.refine import Team

_FEWEST, _MOST, _RUNS = 8, 32, 64  # cells of a run, and runs that leave work for many threads


def runs_of(count: int) -> int:
    """How many of so many cells are worked on together."""
    return max(_FEWEST, min(_MOST, count // _RUNS))


def edges_of(
    a: NDArray[np.integer],
    slot: NDArray[np.integer],
    b: NDArray[np.integer],
    hits: NDArray[np.int32],
    sizes: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Pairs of cells (e, 5): low, high, the slot of each at the other, and whether all compare.

    Of cell a, `hits` members visit cell b, which it knows in `slot`; cells have `sizes` members. A
    slot is -1 where nobody visits. All members of two are compared where that is less work than
    who visits with all of the other.
    """
    C = sizes.size
    low, high = np.minimum(a, b), np.maximum(a, b)
    key, back = np.unique(low * np.int64(C) + high, return_inverse=True)
    edges = np.full((key.size, 5), -1, np.int32)
    edges[:, 0], edges[:, 1] = key // C, key % C
    edges[back[a < b], 2] = slot[a < b]
    edges[back[a > b], 3] = slot[a > b]
    work = np.bincount(back, weights=hits.astype(np.float64) * sizes[b], minlength=key.size)
    edges[:, 4] = work >= sizes[edges[:, 0]] * sizes[edges[:, 1]]
    return edges


def schedule(
    edges: NDArray[np.int32], count: int, together: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], list[int]]:
    """Edges (e, 5) in groups that are compared by one thread, and the rounds they belong to.

    A group are the edges between two runs of so many cells, which lie near each other: both stay in
    the cache. Near cells come first, which makes lists good soon. Returns the edges, bounds of the
    groups, and of the rounds.
    """
    if edges.shape[0] == 0:
        return edges, np.zeros(1, np.int64), [0]
    runs = -(-count // together)
    rank = edges[:, 2:4].astype(np.int64)
    rank = np.where(rank < 0, np.iinfo(np.int32).max, rank).min(axis=1)
    key = (edges[:, 0] // together).astype(np.int64) * runs + edges[:, 1] // together
    order = np.lexsort((rank, key))
    edges, rank, key = edges[order], rank[order], key[order]
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    ends = np.concatenate([first[1:], [key.size]])
    pairs = np.stack([key[first] // runs, key[first] % runs], axis=1).astype(np.int32)
    alone = pairs[:, 0] == pairs[:, 1]
    # A run with itself, then those whose nearest cells are nearest.
    early = np.lexsort((rank[first], ~alone))
    most = int(np.bincount(pairs.ravel(), minlength=runs).max())
    number = np.empty(first.size, np.int64)
    number[early] = cell_kernels.rounds_of(pairs[early], runs, most)
    by_round = np.lexsort((np.arange(first.size), number))
    sizes = (ends - first)[by_round]
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(first[by_round] - bounds[:-1], sizes) + np.arange(edges.shape[0])
    rounds = np.concatenate([[0], np.cumsum(np.bincount(number))])
    return np.ascontiguousarray(edges[places]), bounds, [int(r) for r in rounds]


_CELLS = 16  # of a task


@dataclass(frozen=True)
class Visitors:
    """Visits: `hits` members of cell `a` go to cell `b`, whose centre is `gap` off; a rises."""

    a: NDArray[np.int64]
    b: NDArray[np.integer]
    hits: NDArray[np.int32]
    gap: NDArray[np.float32]

    def some(self, chosen: Any) -> Visitors:
        """Those chosen."""
        return Visitors(self.a[chosen], self.b[chosen], self.hits[chosen], self.gap[chosen])

    def slots(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many cells each of `count` visits, and the slot of every visit."""
        each = np.bincount(self.a, minlength=count)
        return each, np.arange(self.a.size) - np.repeat(np.cumsum(each) - each, each)


def words_of(visitors: Visitors, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Words that the bits of every cell of these sizes take."""
    return -(-sizes // WORD) * np.bincount(visitors.a, minlength=sizes.size)


def visits_of(
    visitors: Visitors,
    sizes: NDArray[np.int64],
    bits: NDArray[np.uint64] | None = None,
    start: int = 0,
) -> Visits:
    """Room for the visits of cells of these sizes: in `bits` from word `start` on, which is 0."""
    words = words_of(visitors, sizes)
    ends = np.cumsum(words)
    if bits is None:
        bits = np.zeros(int(ends[-1]), dtype=np.uint64)
    else:
        bits[start : start + int(ends[-1])] = 0
    return Visits(bits, start + ends - words, -(-sizes // WORD))


def mark(
    cells: Cells,
    centres: NDArray[np.float32],
    names: NDArray[np.int64],
    visitors: Visitors,
    reach: NDArray[np.float32],
    limits: NDArray[np.float32],
    visits: Visits,
    first: int,
    team: Team,
) -> NDArray[np.int32]:
    """Fill the visits of the held cells from `first` on; by how many in every slot, (m, A).

    Visitors go from cells as they are held to any of all, of which `parts` (C, d) and `reach`
    (C,) are given; `names` (m,) are those of the held ones among them.
    """
    m = names.size
    each, slot = visitors.slots(m)
    shape = m, int(each.max(initial=1))
    near, gaps = np.zeros(shape, np.int32), np.full(shape, np.inf, np.float32)
    near[visitors.a, slot], gaps[visitors.a, slot] = visitors.b + m, visitors.gap
    used = np.zeros(shape, np.int32)
    there = cells._replace(centres=np.concatenate([centres[names], centres]))
    own = reach[names]

    def task(a: int, b: int) -> None:
        cell_kernels.visit(there, limits, near, gaps, each, own, visits, used, first + a, first + b)

    team.each(task, m - first, _CELLS)
    return used
