"""Groups of linked nodes, and components, by union-find: arrays in, arrays out."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop

_FIRST = 2  # neighbours of every node that are joined before the largest group is set aside


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
    refused = np.zeros(left.size, dtype=np.bool_)
    _unite(left, right, parent, seed.copy(), refused)
    return parent, refused


@nb.njit(cache=True, nogil=True)
def _unite(left: Any, right: Any, parent: Any, owner: Any, refused: Any) -> None:
    for link in range(left.size):
        a, b = _root(parent, left[link]), _root(parent, right[link])
        if a == b:
            continue
        if owner[a] >= 0 and owner[b] >= 0 and owner[a] != owner[b]:
            refused[link] = True
            continue
        if a > b:
            a, b = b, a
        parent[b] = a
        if owner[b] >= 0:
            owner[a] = owner[b]
    flatten(parent)


def smallest_members(indptr: Any, indices: Any) -> Any:
    """The smallest node of every node's component, (n,), of a symmetric pattern in CSR form.

    A few neighbours of every node join nearly all of a large component; edges between its members
    say nothing more, and every other edge is met from its other end, too (Sutton, Ben-Nun & Barak
    2018, Afforest). Cost O(n + edges outside the largest group), as good as linear.
    """
    parent = np.arange(indptr.size - 1, dtype=indices.dtype)
    _join_first(indptr, indices, parent)
    if parent.size:
        apart = np.zeros(parent.size, dtype=np.bool_)
        _find_apart(indices.size, indptr, indices, parent, int(np.bincount(parent).argmax()), apart)
        _join_all(indptr, indices, parent, np.flatnonzero(apart))
    return parent


@nb.njit(cache=True, nogil=True)
def _join_first(indptr: Any, indices: Any, parent: Any) -> None:
    """Join every node with its first neighbours."""
    for i in range(parent.size):
        for q in range(indptr[i], min(indptr[i] + _FIRST, indptr[i + 1])):
            join(parent, i, indices[q])
    flatten(parent)


@loop()
def _find_apart(indptr: Any, indices: Any, parent: Any, largest: int, apart: Any) -> None:
    """Which nodes outside of the largest group have a neighbour in another one than theirs."""
    for i in nb.prange(parent.size):
        if parent[i] != largest:
            for q in range(indptr[i] + _FIRST, indptr[i + 1]):
                if parent[indices[q]] != parent[i]:
                    apart[i] = True
                    break


@nb.njit(cache=True, nogil=True)
def _join_all(indptr: Any, indices: Any, parent: Any, nodes: Any) -> None:
    """Join some nodes with their neighbours."""
    for i in nodes:
        for q in range(indptr[i], indptr[i + 1]):
            join(parent, i, indices[q])
    flatten(parent)


@nb.njit(cache=True, nogil=True, inline="always")
def _root(parent: Any, i: int) -> int:
    """Where the path from i ends; it is halved."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@nb.njit(cache=True, nogil=True, inline="always")
def join(parent: Any, i: int, j: int) -> None:
    """Make the groups of two nodes one, named by its smallest member."""
    a, b = _root(parent, i), _root(parent, j)
    if a < b:
        parent[b] = a
    else:
        parent[a] = b


@nb.njit(cache=True, nogil=True, inline="always")
def flatten(parent: Any) -> None:
    """Every node points to its root: one rising pass, for parents are smaller than children."""
    for i in range(parent.size):
        parent[i] = parent[parent[i]]
