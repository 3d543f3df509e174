"""A matrix between aggregates of nodes: PᵀMP for a prolongation with one entry a row."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp

from mustlink.kernels.loops import loop
from mustlink.kernels.row_sort import sort_row

_ONE = np.uint64(1)
_SEQUENCE = np.uint64(0x03F79D71B4CB0A89)  # its 64 runs of 6 bits are all different
_PLACES = np.argsort([((1 << bit) * int(_SEQUENCE) % 2**64) >> 58 for bit in range(64)])
_NEAR = 256  # columns for each of a row's entries up to which they are put in order by their bits
_BLOCKS = 8  # of aggregates, each with lists as long as there are aggregates


@loop()
def _count(
    members: Any, starts: Any, group: Any, indptr: Any, indices: Any, own: Any, counts: Any,
    some_met: Any,
) -> None:  # fmt: skip
    size = starts.size - 1
    for block in nb.prange(_BLOCKS):
        met = some_met[block]
        for g in range(block * size // _BLOCKS, (block + 1) * size // _BLOCKS):
            held = 0
            if own:
                met[g], held = g + 1, 1
            for r in range(starts[g], starts[g + 1]):
                i = members[r]
                for q in range(indptr[i], indptr[i + 1]):
                    h = group[indices[q]]
                    if h >= 0 and met[h] != g + 1:
                        met[h] = g + 1
                        held += 1
            counts[g + 1] = held


@nb.njit(cache=True, nogil=True, inline="always")
def _lowest(word: Any) -> Any:
    """Which is the lowest bit of a word that is set, by de Bruijn's sequence."""
    return _PLACES[((word & (~word + _ONE)) * _SEQUENCE) >> np.uint64(58)]


@nb.njit(cache=True, nogil=True)
def _in_order(bits: Any, low: int, high: int, columns: Any, at: int) -> None:
    """Write which bits of the words low to high are set, rising, from place `at` on; clear them."""
    for word in range(low, high + 1):
        left = bits[word]
        while left:
            columns[at] = 64 * word + _lowest(left)
            left &= left - _ONE
            at += 1
        bits[word] = 0


@loop()
def _fill(
    members: Any, starts: Any, group: Any, weight: Any, indptr: Any, indices: Any, data: Any,
    own: Any, rows: Any, columns: Any, values: Any, some_totals: Any, some_bits: Any,
) -> None:  # fmt: skip
    size, sign = starts.size - 1, -1.0 if own else 1.0
    for block in nb.prange(_BLOCKS):
        total, bits = some_totals[block], some_bits[block]
        for g in range(block * size // _BLOCKS, (block + 1) * size // _BLOCKS):
            at, low, high = rows[g], g, g
            if own:
                bits[g >> 6] |= _ONE << np.uint64(g & 63)
                columns[at] = g
                at += 1
            for r in range(starts[g], starts[g + 1]):
                i = members[r]
                if own:
                    total[g] += weight[i] * weight[i]
                for q in range(indptr[i], indptr[i + 1]):
                    j = indices[q]
                    h = group[j]
                    if h < 0:
                        continue
                    total[h] += sign * (weight[i] * data[q] * weight[j])
                    bit = _ONE << np.uint64(h & 63)
                    if bits[h >> 6] & bit == 0:
                        bits[h >> 6] |= bit
                        columns[at] = h
                        low, high = min(low, h), max(high, h)
                        at += 1
            if high - low < _NEAR * (at - rows[g]):
                _in_order(bits, low >> 6, high >> 6, columns, rows[g])
            else:
                for q in range(rows[g], at):
                    bits[columns[q] >> 6] = 0
                sort_row(columns, values, rows[g], at)
            for q in range(rows[g], at):
                values[q] = total[columns[q]]
                total[columns[q]] = 0.0


def aggregated(matrix: sp.csr_matrix, P: sp.csr_matrix, *, complement: bool) -> sp.csr_matrix:
    """PᵀMP (k, k) in double precision, columns of rows rising; PᵀP − PᵀMP if `complement`.

    P (n, k) has at most one entry a row. Cost: two passes over the matrix; beside the result (n,)
    and eight lists of k.
    """
    n, size = P.shape
    has = np.diff(P.indptr) > 0
    group, weight = np.full(n, -1, dtype=np.int32), np.zeros(n)
    group[has], weight[has] = P.indices, P.data
    R = P.T.tocsr()
    arrays = matrix.indptr, matrix.indices
    rows = np.zeros(size + 1, dtype=np.int64)
    lists = R.indices, R.indptr, group
    # Made here: arrays made in a kernel are slow to compile.
    met = np.zeros((_BLOCKS, size), dtype=np.int32)
    _count(matrix.nnz, *lists, *arrays, complement, rows, met)
    del met
    np.cumsum(rows, out=rows)
    kind = np.int32 if rows[-1] < np.iinfo(np.int32).max else np.int64
    columns, values = np.empty(rows[-1], dtype=kind), np.empty(rows[-1])
    room = np.zeros((_BLOCKS, size)), np.zeros((_BLOCKS, size // 64 + 1), dtype=np.uint64)
    _fill(
        matrix.nnz, *lists, weight, *arrays, matrix.data, complement, rows, columns, values, *room
    )
    found = sp.csr_matrix((size, size))
    found.indptr, found.indices, found.data = rows.astype(kind), columns, values
    found.has_sorted_indices = True
    return found
