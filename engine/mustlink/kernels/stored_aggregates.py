"""Nodes of a graph that is read by blocks of rows put together along their strong links.

Standard aggregation (Vaněk, Mandel & Brezina 1996) as pyamg does it: a node whose strong
neighbours are all free makes a group with them, others join a group of a neighbour, what is left
makes groups of its own. Rows are taken in order, so that a pass over the graph does each step.
"""

from __future__ import annotations

from typing import Any

import numba as nb

FREE, LEFT = -1, -2  # no group yet, and no group ever
_JOINED = -3  # less the group: nodes that joined it make it no larger for others


@nb.njit(cache=True, nogil=True)
def heaviest(indptr: Any, indices: Any, data: Any, first: Any, scale: Any, found: Any) -> None:
    """The largest scale_i·w_ij·scale_j off the diagonal of every row of a block, into (n,)."""
    for r in range(indptr.size - 1):
        i = first + r
        most = nb.float32(0)
        for q in range(indptr[r], indptr[r + 1]):
            if indices[q] != i:
                most = max(most, data[q] * scale[indices[q]])
        found[i] = most * scale[i]


@nb.njit(cache=True, nogil=True, inline="always")
def _is_strong(i: Any, j: Any, w: Any, scale: Any, most: Any, share: Any) -> Any:
    link = scale[i] * w * scale[j]  # 0 to nodes that are taken out
    return j != i and link > 0 and link >= share * min(most[i], most[j])


@nb.njit(cache=True, nogil=True)
def begin_groups(
    indptr: Any, indices: Any, data: Any, first: Any, scale: Any, most: Any, share: Any, group: Any,
    count: int,
) -> int:  # fmt: skip
    """Groups of free nodes whose strong neighbours are free, too; returns how many there are."""
    for r in range(indptr.size - 1):
        i = first + r
        if group[i] != FREE:
            continue
        strong, free = False, True
        for q in range(indptr[r], indptr[r + 1]):
            j = indices[q]
            if _is_strong(i, j, data[q], scale, most, share):
                strong = True
                if group[j] >= 0:
                    free = False
                    break
        if not strong:
            group[i] = LEFT
        elif free:
            group[i] = count
            for q in range(indptr[r], indptr[r + 1]):
                j = indices[q]
                if _is_strong(i, j, data[q], scale, most, share):
                    group[j] = count
            count += 1
    return count


@nb.njit(cache=True, nogil=True)
def join_groups(
    indptr: Any, indices: Any, data: Any, first: Any, scale: Any, most: Any, share: Any, group: Any,
) -> None:  # fmt: skip
    """Free nodes join the group of their first strong neighbour that began with one."""
    for r in range(indptr.size - 1):
        i = first + r
        if group[i] != FREE:
            continue
        for q in range(indptr[r], indptr[r + 1]):
            j = indices[q]
            if group[j] >= 0 and _is_strong(i, j, data[q], scale, most, share):
                group[i] = _JOINED - group[j]
                break


@nb.njit(cache=True, nogil=True)
def group_rest(
    indptr: Any, indices: Any, data: Any, first: Any, scale: Any, most: Any, share: Any, group: Any,
    count: int,
) -> int:  # fmt: skip
    """Nodes that are still free make groups with their free strong neighbours."""
    for r in range(indptr.size - 1):
        i = first + r
        if group[i] != FREE:
            continue
        group[i] = count
        for q in range(indptr[r], indptr[r + 1]):
            j = indices[q]
            if group[j] == FREE and _is_strong(i, j, data[q], scale, most, share):
                group[j] = count
        count += 1
    return count


@nb.njit(cache=True, nogil=True)
def settle(group: Any) -> None:
    """In place: those who joined get their group's number."""
    for i in range(group.size):
        if group[i] <= _JOINED:
            group[i] = _JOINED - group[i]
