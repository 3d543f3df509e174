"""Groups of linked nodes by union-find: arrays in, arrays out."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def union_find(
    n_nodes: int,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    seed: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Group of every node, named by its smallest member, and which links were refused.

    Links are taken in order. `seed` (n,) gives the class of a node, -1 for none: a link that would
    join two different classes is refused. Roots are smallest members and paths are halved, so
    the cost is O((n + m) log n) at worst and linear in practice.
    """
    parent = np.arange(n_nodes)
    owner = seed.copy()
    refused = np.zeros(left.size, dtype=np.bool_)
    for link in range(left.size):
        a = left[link]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        b = right[link]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a == b:
            continue
        if owner[a] >= 0 and owner[b] >= 0 and owner[a] != owner[b]:
            refused[link] = True
            continue
        low, high = min(a, b), max(a, b)
        parent[high] = low
        owner[low] = max(owner[a], owner[b])
    # Parents are smaller than children, so one rising pass makes every path of length one.
    for node in range(n_nodes):
        parent[node] = parent[parent[node]]
    return parent, refused
