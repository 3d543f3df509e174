"""Paths between nodes of trees: sums and maxima over their branches. Arrays in, arrays out.

A branch is named by its lower end. `above` (n,) is the node above, -1 for roots, and `depth` (n,)
the number of branches up to the root.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def tree_sizes(order: Ints, above: Ints) -> tuple[Ints, Ints]:
    """Depth of every node (n,) and how many nodes are at it or below; `order` is top to bottom."""
    depth, size = np.zeros(above.size, dtype=np.int64), np.ones(above.size, dtype=np.int64)
    _sizes(order, above, depth, size)
    return depth, size


def passing(above: Ints, depth: Ints, ends: Ints) -> Ints:
    """How many of the paths between `ends` (p, 2) pass over every branch (n,)."""
    found = np.zeros(above.size, dtype=np.int64)
    _count(above, depth, ends, found)
    return found


def highest(above: Ints, depth: Ints, ends: Ints, rank: Ints) -> Ints:
    """The branch of the highest rank >= 0 on every path between `ends` (p, 2), -1 for none."""
    found = np.full(len(ends), -1, dtype=np.int64)
    _highest(above, depth, ends, rank, found)
    return found


@nb.njit(cache=True, nogil=True)
def _sizes(order: Any, above: Any, depth: Any, size: Any) -> None:
    for node in order:
        if above[node] >= 0:
            depth[node] = depth[above[node]] + 1
    for node in order[::-1]:
        if above[node] >= 0:
            size[above[node]] += size[node]


@nb.njit(cache=True, nogil=True)
def _count(above: Any, depth: Any, ends: Any, found: Any) -> None:
    for path in range(len(ends)):
        one, other = ends[path, 0], ends[path, 1]
        while one != other:
            if depth[one] < depth[other]:
                one, other = other, one
            found[one] += 1
            one = above[one]


@nb.njit(cache=True, nogil=True)
def _highest(above: Any, depth: Any, ends: Any, rank: Any, found: Any) -> None:
    for path in range(len(ends)):
        one, other = ends[path, 0], ends[path, 1]
        best = -1
        while one != other:
            if depth[one] < depth[other]:
                one, other = other, one
            if rank[one] > best:
                best, found[path] = rank[one], one
            one = above[one]
