"""Neighbour lists that are found and read by blocks: how they name nodes, and whom they join."""

from __future__ import annotations

from typing import Any

import numba as nb

from mustlink.kernels.union_find import join


@nb.njit(cache=True, nogil=True)
def name_outside(indices: Any, inside: int, names: Any, first: int, stop: int) -> None:
    """Call entries that are no nodes of a block of `inside` by -2 - names[entry - inside].

    So they stay apart from those of the block, and of what is read next in the same place.
    """
    for i in range(first, stop):
        for c in range(indices.shape[1]):
            if indices[i, c] >= inside:
                indices[i, c] = -2 - names[indices[i, c] - inside]


@nb.njit(cache=True, nogil=True)
def name_all(indices: Any, block: int, first: int, stop: int) -> None:
    """Call all entries by their nodes: those of the block begin with node `block`."""
    for i in range(first, stop):
        for c in range(indices.shape[1]):
            j = indices[i, c]
            if j != -1:
                indices[i, c] = j + block if j >= 0 else -2 - j


@nb.njit(cache=True, nogil=True)
def join_lists(parent: Any, first: int, indices: Any) -> None:
    """Join the nodes from `first` on with those in their lists (m, k), -1 for none."""
    for i in range(indices.shape[0]):
        for c in range(indices.shape[1]):
            if indices[i, c] >= 0:
                join(parent, first + i, indices[i, c])


@nb.njit(cache=True, nogil=True)
def count_outside(indices: Any, bucket: Any, own: int, counts: Any) -> int:
    """Add to `counts` (b,) the entries of lists of bucket `own` that name nodes of others."""
    entries = 0
    for i in range(indices.shape[0]):
        for c in range(indices.shape[1]):
            j = indices[i, c]
            if j >= 0:
                entries += 1
                if bucket[j] != own:
                    counts[bucket[j]] += 1
    return entries


@nb.njit(cache=True, nogil=True)
def entries_outside(
    indices: Any, weights: Any, first: int, rows: Any, columns: Any, values: Any
) -> int:
    """Entries (j, i) of lists of the nodes from `first` on that name nodes j beyond; how many."""
    m, k = indices.shape
    done = 0
    for i in range(m):
        for c in range(k):
            j = indices[i, c]
            if j >= 0 and (j < first or j >= first + m):
                rows[done], columns[done], values[done] = j, first + i, weights[i, c]
                done += 1
    return done


@nb.njit(cache=True, nogil=True)
def entries_inside(indices: Any, weights: Any, first: int, records: Any, done: int) -> int:
    """Add to `done` records the entries of lists, and (j, i) for nodes j inside; how many then."""
    m, k = indices.shape
    for i in range(m):
        for c in range(k):
            j = indices[i, c]
            if j < 0:
                continue
            one = records[done]
            one.row, one.column, one.value = first + i, j, weights[i, c]
            done += 1
            if first <= j < first + m:
                two = records[done]
                two.row, two.column, two.value = j, first + i, weights[i, c]
                done += 1
    return done
