"""From neighbour lists to a symmetric matrix, row by row: mutual neighbours are found once."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.graph_walk import join
from mustlink.kernels.row_hash import sort_row, sort_rows
from mustlink.kernels.threads import inlined, kernel, loop

_PARTS = 2  # of the named nodes; each looks through all lists, which more parts do not make up for


@loop()
def _look_back(lo: int, hi: int, indices: Any, back: Any, count: Any) -> None:
    """Where j lists i for all j that i lists, -1 if it does not; `count` (n + 1,) entries of i."""
    _n, k = indices.shape
    for i in range(lo, hi):
        held = 0
        for a in range(k):
            j, at = indices[i, a], -1
            if j >= 0:
                held += 1
                for b in range(k):
                    if indices[j, b] == i:
                        at = b
            back[i, a] = at
        count[i + 1] = held


@loop()
def _write_own(
    lo: int, hi: int, indices: Any, weights: Any, back: Any, at: Any, columns: Any, data: Any
) -> None:
    """Entries of every node's own list, from place at[i] on, which moves behind them."""
    _n, k = indices.shape
    half = data.dtype.type(0.5)
    for i in range(lo, hi):
        for a in range(k):
            j, b = indices[i, a], back[i, a]
            if j >= 0:
                columns[at[i]] = j
                data[at[i]] = half * (weights[i, a] if b < 0 else weights[i, a] + weights[j, b])
                at[i] += 1


@loop()
def _write_named(
    lo: int, hi: int, indices: Any, weights: Any, back: Any, at: Any, columns: Any, data: Any
) -> None:
    """Entries of lists that are not mutual, by a part of the listed nodes at a time.

    From place at[j] on; without `columns` they are counted there only.
    """
    n, k = indices.shape
    half = data.dtype.type(0.5)
    for part in range(lo, hi):
        low, high = part * n // _PARTS, (part + 1) * n // _PARTS
        for i in range(n):
            for a in range(k):
                j = indices[i, a]
                if low <= j < high and back[i, a] < 0:
                    if columns.size:
                        columns[at[j]] = i
                        data[at[j]] = half * weights[i, a]
                    at[j] += 1


def symmetric_lists(
    indices: NDArray[np.int32], weights: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.integer], NDArray[np.int64]]:
    """(A + Aᵀ)/2 for neighbour lists (n, k), -1 where one is missing, with weights (n, k).

    Returns data, columns, indptr of CSR, columns of rows rising, in the precision of the weights.
    Cost O(n k²), k² comparisons of numbers that lie together; beside the result a byte for every
    entry of the lists.
    """
    n, k = indices.shape
    work = n * k * k
    back = np.empty((n, k), dtype=np.min_scalar_type(-k))
    indptr = np.zeros(n + 1, dtype=np.int64)
    _look_back(n, work, indices, back, indptr)
    lists = indices, weights, back
    wide: Any = np.int32 if n * k < 2**30 else np.int64
    _write_named(_PARTS, work, *lists, indptr[1:], np.empty(0, wide), np.empty(0, weights.dtype))
    np.cumsum(indptr, out=indptr)
    entries = int(indptr[-1])
    data = np.empty(entries, dtype=weights.dtype)
    columns: NDArray[np.integer] = np.empty(entries, np.int32 if entries < 2**31 else np.int64)
    at = indptr[:-1].copy()
    _write_own(n, work, *lists, at, columns, data)
    _write_named(_PARTS, work, *lists, at, columns, data)
    sort_rows(indptr, columns, data)
    return data, columns, indptr


# --- Neighbour lists that are found and read by blocks: node numbers, components, entries


def name_outside(indices: Any, inside: int, names: Any, first: int, stop: int) -> None:
    """Call entries that are no nodes of a block of `inside` by -2 - names[entry - inside].

    So they stay apart from those of the block, and of what is read next in the same place.
    """
    some = indices[first:stop]
    beyond = some >= inside
    some[beyond] = -2 - names[some[beyond] - inside]


def name_all(indices: Any, block: int, first: int, stop: int) -> None:
    """Call all entries by their nodes: those of the block begin with node `block`."""
    some = indices[first:stop]
    some[:] = np.where(some >= 0, some + some.dtype.type(block), -2 - some)  # -1 stays


@kernel()
def join_lists(parent: Any, first: int, indices: Any) -> None:
    """Join the nodes from `first` on with those in their lists (m, k), -1 for none."""
    for i in range(indices.shape[0]):
        for c in range(indices.shape[1]):
            if indices[i, c] >= 0:
                join(parent, first + i, indices[i, c])


@kernel()
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


@kernel()
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


@kernel()
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


# --- Whether a sparse matrix is symmetric, in one pass and without its transpose


_MIRRORED_ROWS = 1 << 12  # at a time


@inlined()
def _mixed(x: Any) -> Any:
    """A bijection of 64 bits in which every bit depends on all (splitmix64)."""
    x = (x ^ (x >> nb.uint64(30))) * nb.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> nb.uint64(27))) * nb.uint64(0x94D049BB133111EB)
    return x ^ (x >> nb.uint64(31))


@loop()
def _differences(lo: int, hi: int, indptr: Any, indices: Any, bits: Any, sums: Any) -> None:
    n = indptr.size - 1
    for part in range(lo, hi):
        total = nb.uint64(0)
        for i in range(part * _MIRRORED_ROWS, min((part + 1) * _MIRRORED_ROWS, n)):
            for q in range(indptr[i], indptr[i + 1]):
                j = nb.int64(indices[q])
                if j != i:
                    pair = nb.uint64(min(i, j)) << nb.uint64(32) ^ nb.uint64(max(i, j))
                    one = _mixed(_mixed(pair + nb.uint64(0x9E3779B97F4A7C15)) ^ nb.uint64(bits[q]))
                    total = total + one if j > i else total - one
        sums[part] = total


def is_symmetric(W: sp.csr_matrix) -> bool:
    """Whether every stored w_ij > 0 is w_ji, no entry being stored twice, of at most 2³² rows.

    Numbers made of {i, j} and w are added for entries above the diagonal and subtracted for those
    below: sums of 64 bits, which are 0 for another matrix once in 2⁶⁴. Cost: one pass over W in
    threads; the transpose takes 20 times as long.
    """
    sums = np.zeros(-(-W.shape[0] // _MIRRORED_ROWS), dtype=np.uint64)
    bits = W.data.view(f"u{W.dtype.itemsize}")
    _differences(sums.size, W.nnz, W.indptr, W.indices, bits, sums)
    return int(sums.sum()) == 0


# --- Entries of a sparse matrix that come in any order become rows: some rows at a time


@kernel()
def deal(bucket: Any, rows: Any, columns: Any, values: Any, starts: Any, out: Any) -> None:
    """Entries by bucket into records `out`, `starts` (buckets,) being where each begins there."""
    for e in range(rows.size):
        at = starts[bucket[rows[e]]]
        starts[bucket[rows[e]]] = at + 1
        out[at].row, out[at].column, out[at].value = rows[e], columns[e], values[e]


def into_rows(
    records: Any, first: int, ends: Any, columns: Any, values: Any, largest: bool, place: Any
) -> int:
    """Records of rows `first`, `first` + 1, … as CSR, columns rising, equal ones summed.

    Or the largest of them. `ends` (rows + 1,) is zero at first, `place` (n,) any numbers, one a
    column. Returns how many entries are left.
    """
    fields = records["row"], records["column"], records["value"]  # records are slow to compile
    return int(_into_rows(*fields, first, ends, columns, values, largest, place))


@kernel()
def _into_rows(
    row: Any, column: Any, value: Any, first: Any, ends: Any, columns: Any, values: Any,
    largest: Any, place: Any,
) -> int:  # fmt: skip
    size = ends.size - 1
    for e in range(row.size):
        ends[row[e] - first + 1] += 1
    for r in range(size):
        ends[r + 1] += ends[r]
    for e in range(row.size):  # ends[r] runs to the beginning of r + 1
        r = row[e] - first
        columns[ends[r]], values[ends[r]] = column[e], value[e]
        ends[r] += 1
    done = begin = 0
    for r in range(size):
        mine, stop = done, ends[r]
        for q in range(begin, stop):
            at = place[columns[q]]
            if at < mine or at >= done or columns[at] != columns[q]:
                place[columns[q]] = done
                columns[done], values[done] = columns[q], values[q]
                done += 1
            elif largest:
                values[at] = max(values[at], values[q])
            else:
                values[at] += values[q]
        sort_row(columns, values, mine, done)
        begin = stop
        ends[r] = done
    for r in range(size, 0, -1):
        ends[r] = ends[r - 1]
    ends[0] = 0
    return done
