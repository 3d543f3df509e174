"""Nodes by levels of neighbours, each row's new ones by degree: the loop of Cuthill & McKee."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray


@nb.njit(cache=True, nogil=True)
def _degrees(indptr: Any, indices: Any, degree: Any) -> None:
    """Entries of every row, one on the diagonal twice."""
    for i in range(degree.size):
        held = indptr[i + 1] - indptr[i]
        for q in range(indptr[i], indptr[i + 1]):
            held += indices[q] == i
        degree[i] = held


@nb.njit(cache=True, nogil=True)
def _levels(indptr: Any, indices: Any, degree: Any, starts: Any, met: Any, order: Any) -> None:
    count = 0
    for start in starts:
        if met[start]:
            continue
        met[start], order[count] = True, start
        at, count = count, count + 1
        while at < count:
            i, first = order[at], count
            at += 1
            for q in range(indptr[i], indptr[i + 1]):
                j = indices[q]
                if met[j]:
                    continue
                met[j] = True
                to, size = count, degree[j]
                while to > first and degree[order[to - 1]] > size:
                    order[to] = order[to - 1]
                    to -= 1
                order[to] = j
                count += 1


def level_order(indptr: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    """Order (n,) in which a breadth-first search meets the nodes of a symmetric CSR pattern.

    Every component from a node of least degree, the neighbours of a node by rising degree, of equal
    ones as they are stored. Cost O(nnz) and the sorting.
    """
    n = indptr.size - 1
    degree = np.empty(n, dtype=indices.dtype)
    _degrees(indptr, indices, degree)
    order = np.empty(n, dtype=indices.dtype)
    _levels(indptr, indices, degree, np.argsort(degree), np.zeros(n, dtype=np.bool_), order)
    return order
