"""Visits between cells of which some are held: who goes where, and the bits that say who."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels import cells as cell_kernels
from mustlink.kernels.cells import WORD, Cells, Visits
from mustlink.neighbours.refine import Team

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

    Visitors go from cells as they are held to any of all, of which `centres` (C, d) and `reach`
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
