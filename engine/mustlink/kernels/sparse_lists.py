"""Nearest of sparse rows by the rows that have each column: an inverted index, in blocks of rows.

The products of a row with all rows of a block stay in the cache, where they are added up column by
column; those that are large enough are found in one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.threads import inlined, loop

_CHUNK = 64  # products looked at together before any is taken
_FEW = 8  # times fewer products than rows of a block, below which theirs alone are looked at
_SAFE = 1e-6  # share by which bounds are lower: rounding
BLOCK = 1 << 15  # rows of a block, at least

Csr = tuple[NDArray[Any], NDArray[Any], NDArray[np.float32]]
Keys = tuple[NDArray[np.float64], NDArray[np.int32]]


@dataclass(frozen=True)
class ByColumns:
    """A block of rows by their columns (CSC): those from `first` on, and their |x|²."""

    first: int
    columns: Csr
    sizes: NDArray[Any]


def by_columns(X: sp.csr_matrix, sizes: NDArray[Any]) -> Iterator[ByColumns]:
    """Blocks of rows; of so many that the ends of their columns take no more room than they do."""
    n, d = X.shape
    step = max(BLOCK, n * d // max(1, X.nnz))
    for first in range(0, n, step):
        part: Any = sp.csr_matrix(X[first : first + step]).tocsc()
        numbers = np.uint16 if step <= 1 << 16 else np.int32
        found = part.indptr.astype(np.int32), part.indices.astype(numbers), part.data
        yield ByColumns(first, found, sizes[first : first + step])


@inlined()
def _put(key: float, j: int, keys: Any, nodes: Any, i: int) -> None:
    """Put row j into list i, ascending, in place of its last; of equals the first."""
    last = keys.shape[1] - 1
    if key < keys[i, last] or (key == keys[i, last] and not 0 <= nodes[i, last] < j):
        at = last
        while at > 0 and (
            key < keys[i, at - 1] or (key == keys[i, at - 1] and j < nodes[i, at - 1])
        ):
            keys[i, at], nodes[i, at] = keys[i, at - 1], nodes[i, at - 1]
            at -= 1
        keys[i, at], nodes[i, at] = key, j


@inlined()
def _key(product: float, size: float, other: float, of_sets: bool) -> float:
    return 1.0 - product / (size + other - product) if of_sets else other - 2.0 * product


@inlined()
def _bound(worst: float, size: float, least: float, of_sets: bool) -> float:
    """The least product of a row whose key is `worst` at most; rows are no smaller than `least`."""
    found = 0.5 * (least - worst)
    if of_sets and worst <= 1.0:
        found = (1.0 - worst) * (size + least) / (2.0 - worst)
    return found - _SAFE * abs(found)


@inlined()
def _take(
    j: int, sums: Any, sizes: Any, first: int, own: Any, least: float, of_sets: bool, anyway: bool,
    keys: Any, nodes: Any, i: int,
) -> Any:  # fmt: skip
    """Put row j of the block into list i if it was met, as -0 + x is not -0; the new bound."""
    product = np.float64(sums[j])
    met = anyway or product != 0 or np.copysign(1.0, product) > 0
    if met and first + j != np.int64(own[i, 0]):
        _put(_key(product, own[i, 1], sizes[j], of_sets), first + j, keys, nodes, i)
    return sums.dtype.type(_bound(keys[i, keys.shape[1] - 1], own[i, 1], least, of_sets))


@inlined()
def _add(
    i: int, q_ptr: Any, q_columns: Any, q_values: Any, ptr: Any, rows: Any, values: Any, sums: Any
) -> Any:
    """Add the products of row i to `sums`; how many that are."""
    met = np.int64(0)
    for q in range(q_ptr[i], q_ptr[i + 1]):
        value, c = sums.dtype.type(q_values[q]), q_columns[q]
        met += ptr[c + 1] - ptr[c]
        for p in range(np.uint64(ptr[c]), np.uint64(ptr[c + 1])):
            sums[rows[p]] += value * values[p]
    return met


@loop(makes_arrays=True)
def _meet(
    lo: int, hi: int, q_ptr: Any, q_columns: Any, q_values: Any, own: Any, ptr: Any, rows: Any,
    values: Any, sizes: Any, first: int, of_sets: bool, anyway: bool, keys: Any, nodes: Any,
) -> None:  # fmt: skip
    n, last, least = sizes.size, keys.shape[1] - 1, np.float64(sizes.min())
    sums = np.full(-(-n // _CHUNK) * _CHUNK, -0.0, sizes.dtype)
    for i in range(lo, hi):
        met = _add(i, q_ptr, q_columns, q_values, ptr, rows, values, sums)
        bound = sums.dtype.type(_bound(keys[i, last], own[i, 1], least, of_sets))
        if _FEW * met < n and not anyway:
            for q in range(q_ptr[i], q_ptr[i + 1]):
                c = q_columns[q]
                for p in range(np.uint64(ptr[c]), np.uint64(ptr[c + 1])):
                    j = int(rows[p])
                    if sums[j] >= bound:
                        bound = _take(
                            j, sums, sizes, first, own, least, of_sets, anyway, keys, nodes, i
                        )
                    sums[j] = -0.0
            continue
        for start in range(0, sums.size, _CHUNK):
            some = np.int32(0)
            for c in range(_CHUNK):  # no branch, and a fixed number: eight at a time
                some |= np.int32(sums[np.uint64(start + c)] >= bound)
            for j in range(start, min(start + _CHUNK, n) if some else start):
                if sums[j] >= bound:
                    bound = _take(
                        j, sums, sizes, first, own, least, of_sets, anyway, keys, nodes, i
                    )
        for j in range(sums.size):
            sums[j] = -0.0


@loop(makes_arrays=True)
def _measure(
    lo: int, hi: int, q_ptr: Any, q_columns: Any, q_values: Any, own: Any, ptr: Any, columns: Any,
    values: Any, sizes: Any, of_sets: bool, wide: int, near: Any, keys: Any, nodes: Any,
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
                _put(_key(product, own[i, 1], sizes[j], of_sets), j, keys, nodes, i)
        for q in range(q_ptr[i], q_ptr[i + 1]):
            row[q_columns[q]] = 0.0


def nearest_by_columns(
    Q: Csr, own: NDArray[Any], blocks: Sequence[ByColumns], k: int, *, of_sets: bool, anyway: bool,
    work: float,
) -> NDArray[np.int32]:  # fmt: skip
    """The k rows (m, k) of least key for rows Q (m, d), -1 for none, of equals the first.

    Keys are |x|² − 2⟨q, x⟩, or of sets 1 − |q∩x|/|q∪x|, in the precision of the blocks' sizes. Rows
    that have no column in common are taken `anyway`, or not. `own` (m, 2): the row that is Q's own,
    -1 if none is, and its size. Cost: `work` products and n/8 comparisons a row; the same for any
    number of threads.
    """
    keys, nodes = _none(own.shape[0], k)
    each = int(work) // len(blocks)
    for one in blocks:
        base = *one.columns, one.sizes, one.first
        _meet(len(keys), each, *Q, own, *base, of_sets, anyway, keys, nodes)
    return nodes


def measured_again(
    Q: Csr, own: NDArray[Any], X: Csr, sizes: NDArray[Any], near: NDArray[np.int32], k: int, *,
    wide: int, of_sets: bool,
) -> Keys:  # fmt: skip
    """The k of least key (m, k) of the rows `near` (m, c) each of Q, in double precision."""
    keys, nodes = _none(near.shape[0], k)
    work = near.size * (X[1].size // max(1, X[0].size - 1) + 1)
    _measure(len(keys), work, *Q, own, *X, sizes, of_sets, wide, near, keys, nodes)
    return keys, nodes


def _none(m: int, k: int) -> Keys:
    return np.full((m, k), np.inf), np.full((m, k), -1, np.int32)
