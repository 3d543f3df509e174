"""Nearest of sparse rows by lists of their columns; all distances by a compiled function."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.threads import Loop, inlined, loop


@inlined()
def _put(key: float, j: int, keys: Any, nodes: Any) -> None:
    """Put row j into an ascending list in place of its last; of equals the smaller number first."""
    last = keys.size - 1
    if key > keys[last] or (key == keys[last] and 0 <= nodes[last] < j):
        return
    at = last
    while at > 0 and (key < keys[at - 1] or (key == keys[at - 1] and j < nodes[at - 1])):
        keys[at], nodes[at] = keys[at - 1], nodes[at - 1]
        at -= 1
    keys[at], nodes[at] = key, j


@loop()
def _nearest(
    lo: int, hi: int, q_ptr: Any, q_columns: Any, q_values: Any, ptr: Any, rows: Any, values: Any,
    sizes: Any, own: Any, of_sets: bool, order: Any, keys: Any, nodes: Any,
) -> None:  # fmt: skip
    n = sizes.size
    sums, mark, met = np.empty(n), np.full(n, -1, np.int32), np.empty(n, np.int32)
    for i in range(lo, hi):
        count, me, size = 0, np.int64(own[i, 0]), own[i, 1]
        for q in range(q_ptr[i], q_ptr[i + 1]):
            value, c = np.float64(q_values[q]), q_columns[q]
            for p in range(ptr[c], ptr[c + 1]):
                j = np.uint32(rows[p])
                if mark[j] != i:
                    mark[j], sums[j] = i, value * values[p]
                    met[count] = j
                    count += 1
                else:
                    sums[j] += value * values[p]
        worst = np.inf
        for at in range(count):
            j = met[at]
            if of_sets:
                key = 1.0 - sums[j] / (size + sizes[j] - sums[j])
            else:
                key = sizes[j] - 2.0 * sums[j]
            if key <= worst and j != me:
                _put(key, j, keys[i], nodes[i])
                worst = keys[i, -1]
        for at in range(order.size):  # those without a common column, shortest first
            j = order[at]
            if sizes[j] > keys[i, -1]:
                break
            if mark[j] != i and j != me:
                _put(sizes[j], j, keys[i], nodes[i])


@loop()
def _measure(
    lo: int, hi: int, q_ptr: Any, q_columns: Any, q_values: Any, ptr: Any, columns: Any,
    values: Any, sizes: Any, own: Any, of_sets: bool, wide: int, near: Any, keys: Any, nodes: Any,
) -> None:  # fmt: skip
    row = np.zeros(wide)
    for i in range(lo, hi):
        for q in range(q_ptr[i], q_ptr[i + 1]):
            row[q_columns[q]] = q_values[q]
        for at in range(near.shape[1]):
            j = near[i, at]
            if j >= 0:
                product = 0.0
                for p in range(ptr[j], ptr[j + 1]):
                    product += row[columns[p]] * values[p]
                if of_sets:
                    key = 1.0 - product / (own[i, 1] + sizes[j] - product)
                else:
                    key = sizes[j] - 2.0 * product
                _put(key, j, keys[i], nodes[i])
        for q in range(q_ptr[i], q_ptr[i + 1]):
            row[q_columns[q]] = 0.0


Csr = tuple[NDArray[Any], NDArray[Any], NDArray[np.float32]]
Found = tuple[NDArray[np.float64], NDArray[np.int32]]


def nearest_by_columns(
    Q: Csr, columns: Csr, sizes: NDArray[Any], own: NDArray[Any], order: NDArray[Any], k: int, *,
    of_sets: bool, work: float,
) -> Found:  # fmt: skip
    """The k rows of least key for rows Q (m, d): ascending keys, Inf, and numbers, -1 where none.

    `columns` are the rows by columns (CSC). Keys are |x|² − 2⟨q, x⟩ of `sizes` |x|² (n,), or of
    sets that have so many members 1 − |q∩x|/|q∪x|. Rows that have no column in common are looked
    for in `order`, shortest first, which may be empty. `own` (m, 2): the row that is Q's own, -1 if
    none is, and its size. Cost: `work` products; the same for any number of threads.
    """
    keys, nodes = _none(Q[0].size - 1, k)
    _nearest(len(keys), int(work), *Q, *columns, sizes, own, of_sets, order, keys, nodes)
    return keys, nodes


def measured_again(
    Q: Csr, X: Csr, sizes: NDArray[Any], own: NDArray[Any], near: NDArray[np.int32], k: int, *,
    wide: int, of_sets: bool,
) -> Found:  # fmt: skip
    """The k of least key of the rows `near` (m, c) each of Q, by all of their columns."""
    keys, nodes = _none(near.shape[0], k)
    work = near.size * (X[1].size // max(1, X[0].size - 1) + 1)
    _measure(len(keys), work, *Q, *X, sizes, own, of_sets, wide, near, keys, nodes)
    return keys, nodes


def _none(m: int, k: int) -> Found:
    return np.full((m, k), np.inf), np.full((m, k), -1, np.int32)


def _pairs(lo: int, hi: int, distance: Any, Q: Any, P: Any, out: Any) -> None:
    for i in range(lo, hi):
        for j in range(P.shape[0]):
            out[i, j] = distance(Q[i], P[j])


# Of a function that is an argument: compiled for each of them, so that no file can keep it.
_all_pairs = Loop(nb.njit(nogil=True)(_pairs))


def all_pairs(distance: Any, Q: NDArray[Any], P: NDArray[Any]) -> NDArray[np.float64]:
    """Distances (q, p) of rows by a compiled function of two rows."""
    out = np.empty((Q.shape[0], P.shape[0]))
    _all_pairs(len(Q), out.size * Q.shape[1], distance, Q, P, out)
    return out
