"""A matrix between aggregates of nodes: PᵀMP for a prolongation with one entry a row."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.row_hash import sort_row
from mustlink.kernels.threads import inlined, kernel, loop
from mustlink.kernels.tiles import lowest_bit

_ONE = np.uint64(1)
_NEAR = 256  # columns for each of a row's entries up to which they are put in order by their bits
_BLOCKS = 8  # of aggregates, each with lists as long as there are aggregates


@loop()
def _count(
    lo: int, hi: int,
    members: Any, starts: Any, group: Any, indptr: Any, indices: Any, own: Any, counts: Any,
    some_met: Any,
) -> None:  # fmt: skip
    size = starts.size - 1
    for block in range(lo, hi):
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


@inlined()
def _in_order(bits: Any, low: int, high: int, columns: Any, at: int) -> None:
    """Write which bits of the words low to high are set, rising, from place `at` on; clear them."""
    for word in range(low, high + 1):
        left = bits[word]
        while left:
            columns[at] = 64 * word + lowest_bit(left)
            left &= left - _ONE
            at += 1
        bits[word] = 0


@loop()
def _fill(
    lo: int, hi: int,
    members: Any, starts: Any, group: Any, weight: Any, indptr: Any, indices: Any, data: Any,
    own: Any, rows: Any, columns: Any, values: Any, some_totals: Any, some_bits: Any,
) -> None:  # fmt: skip
    size, sign = starts.size - 1, -1.0 if own else 1.0
    for block in range(lo, hi):
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
    _count(_BLOCKS, matrix.nnz, *lists, *arrays, complement, rows, met)
    del met
    np.cumsum(rows, out=rows)
    kind = np.int32 if rows[-1] < np.iinfo(np.int32).max else np.int64
    columns, values = np.empty(rows[-1], dtype=kind), np.empty(rows[-1])
    room = np.zeros((_BLOCKS, size)), np.zeros((_BLOCKS, size // 64 + 1), dtype=np.uint64)
    into = rows, columns, values, *room
    _fill(_BLOCKS, matrix.nnz, *lists, weight, *arrays, matrix.data, complement, *into)
    found = sp.csr_matrix((size, size))
    found.indptr, found.indices, found.data = rows.astype(kind), columns, values
    found.has_sorted_indices = True
    return found


# --- Nodes of a graph that is read by blocks of rows put together along their strong links
#
# Standard aggregation (Vaněk, Mandel & Brezina 1996) as pyamg does it: a node whose strong
# neighbours are all free makes a group with them, others join a group of a neighbour, what is left
# makes groups of its own. Rows are taken in order, so that a pass over the graph does each step.


FREE, LEFT = -1, -2  # no group yet, and no group ever
_JOINED = -3  # less the group: nodes that joined it make it no larger for others


@kernel()
def heaviest(indptr: Any, indices: Any, data: Any, first: Any, scale: Any, found: Any) -> None:
    """The largest scale_i·w_ij·scale_j off the diagonal of every row of a block, into (n,)."""
    for r in range(indptr.size - 1):
        i = first + r
        most = nb.float32(0)
        for q in range(indptr[r], indptr[r + 1]):
            if indices[q] != i:
                most = max(most, data[q] * scale[indices[q]])
        found[i] = most * scale[i]


@inlined()
def _is_strong(i: Any, j: Any, w: Any, scale: Any, most: Any, share: Any) -> Any:
    link = scale[i] * w * scale[j]  # 0 to nodes that are taken out
    return j != i and link > 0 and link >= share * min(most[i], most[j])


@kernel()
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


@kernel()
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


@kernel()
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


@kernel()
def settle(group: Any) -> None:
    """In place: nodes that joined a group get its number."""
    for i in range(group.size):
        if group[i] <= _JOINED:
            group[i] = _JOINED - group[i]


# --- Links of a sparse matrix that are strong: what nodes are aggregated along


@loop()
def _largest(lo: int, hi: int, indptr: Any, indices: Any, data: Any, found: Any) -> None:
    """The largest size off the diagonal of every row."""
    for i in range(lo, hi):
        most = found.dtype.type(0)
        for q in range(indptr[i], indptr[i + 1]):
            if indices[q] != i:
                most = max(most, abs(data[q]))
        found[i] = most


@loop()
def _strong(
    lo: int, hi: int, indptr: Any, indices: Any, data: Any, largest: Any, share: Any, ends: Any,
    columns: Any,
) -> None:  # fmt: skip
    """Write strong links of row i from place ends[i] on, which moves behind them.

    Without `columns` they are counted there only.
    """
    for i in range(lo, hi):
        at = ends[i]
        for q in range(indptr[i], indptr[i + 1]):
            j = indices[q]
            if j != i and abs(data[q]) >= share * min(largest[i], largest[j]):
                if columns.size:
                    columns[at] = j
                at += 1
        ends[i] = at


def strongest_links(matrix: sp.csr_matrix) -> NDArray[Any]:
    """The largest size off the diagonal in every row, (m,); own columns come first."""
    found = np.zeros(matrix.shape[0], dtype=matrix.dtype)
    _largest(found.size, matrix.nnz, matrix.indptr, matrix.indices, matrix.data, found)
    return found


def strong_links(matrix: sp.csr_matrix, share: float) -> sp.csr_matrix:
    """Pattern (n, n) of |a_ij| >= share·min(m_i, m_j), i ≠ j, m_i = max_j |a_ij|; ones of a byte.

    Symmetric where the matrix is, and every row that has a link keeps its largest. Cost: three
    passes over the matrix.
    """
    n = matrix.shape[0]
    arrays = n, matrix.nnz, matrix.indptr, matrix.indices, matrix.data
    largest = strongest_links(matrix)
    starts = np.zeros(n + 1, dtype=matrix.indptr.dtype)
    _strong(*arrays, largest, share, starts[1:], matrix.indices[:0])
    np.cumsum(starts, out=starts)
    columns = np.empty(int(starts[-1]), dtype=matrix.indices.dtype)
    _strong(*arrays, largest, share, starts[:-1].copy(), columns)
    ones = np.ones(columns.size, dtype=np.int8)
    return sp.csr_matrix((ones, columns, starts), shape=matrix.shape)


# --- The heaviest entries of rows of a sparse matrix, without the diagonal


@kernel()
def _heaviest(
    indptr: Any, columns: Any, values: Any, first: int, most: int, ends: Any, out: Any, kept: Any
) -> None:
    """Into `out` and `kept`, row r ending at ends[r + 1]; of equally heavy ones the first."""
    done = 0
    for r in range(indptr.size - 1):
        start, own = done, first + r
        for q in range(indptr[r], indptr[r + 1]):
            if columns[q] == own:
                continue
            at = done
            if done - start == most:
                at -= 1
                if values[q] <= kept[at]:
                    continue
            else:
                done += 1
            if indptr[r + 1] - indptr[r] > most:  # heaviest first; else as they come
                while at > start and kept[at - 1] < values[q]:
                    out[at], kept[at] = out[at - 1], kept[at - 1]
                    at -= 1
            out[at], kept[at] = columns[q], values[q]
        ends[r + 1] = done


def heaviest_links(
    indptr: Any, columns: Any, values: Any, first: int, most: int
) -> tuple[Any, Any, Any]:
    """Rows `first`, `first` + 1, …, in CSR form, with at most `most` entries off the diagonal.

    Returns ends (rows + 1,), columns, in no order where some are left out, and values.
    """
    lengths = np.minimum(np.diff(indptr), most)
    room = int(lengths.sum())
    ends = np.zeros(indptr.size, dtype=np.int32)
    out, kept = np.empty(room, dtype=columns.dtype), np.empty(room, dtype=values.dtype)
    _heaviest(indptr, columns, values, first, most, ends, out, kept)
    return ends, out[: ends[-1]], kept[: ends[-1]]


# --- Links between aggregates of nodes, added up as whole numbers: no order of rows matters


@loop()
def _count_whole(
    lo: int, hi: int, members: Any, starts: Any, group: Any, indptr: Any, indices: Any, counts: Any,
    some_met: Any,
) -> None:  # fmt: skip
    size = starts.size - 1
    for block in range(lo, hi):
        met = some_met[block]
        for g in range(block * size // _BLOCKS, (block + 1) * size // _BLOCKS):
            met[group[members[starts[g]]]], held = g + 1, 1
            for r in range(starts[g], starts[g + 1]):
                i = members[r]
                for q in range(indptr[i], indptr[i + 1]):
                    h = group[indices[q]]
                    if h >= 0 and met[h] != g + 1:
                        met[h] = g + 1
                        held += 1
            counts[g + 1] = held


@loop()
def _fill_whole(
    lo: int, hi: int,
    members: Any, starts: Any, group: Any, weight: Any, indptr: Any, indices: Any, data: Any,
    unit: Any, rows: Any, columns: Any, values: Any, some_met: Any,
) -> None:  # fmt: skip
    size = starts.size - 1
    for block in range(lo, hi):
        met = some_met[block]  # where in the row a column's sum is, and one more
        for g in range(block * size // _BLOCKS, (block + 1) * size // _BLOCKS):
            first = rows[g]
            own, at = group[members[starts[g]]], first + 1
            columns[first], values[first] = own, 1
            for r in range(starts[g], starts[g + 1]):
                i = members[r]
                for q in range(indptr[i], indptr[i + 1]):
                    j = indices[q]
                    h = group[j]
                    if h < 0 or h == own:
                        continue
                    place = met[h] - 1
                    if place < first:  # of another row
                        place, at = at, at + 1
                        met[h], columns[place], values[place] = place + 1, h, 0
                    values[place] += np.int64(np.rint(weight[i] * weight[j] * data[q] * unit))


def whole_links(
    matrix: sp.csr_matrix, group: NDArray[np.int32], weight: NDArray[np.float64], unit: float
) -> tuple[NDArray[np.int32], sp.csr_matrix]:
    """Σ round(unit·wᵢ·a_ij·wⱼ) between the aggregates of some rows and those of their columns.

    `group` and `weight` are of all columns, the rows' own first; a group of -1 is none. Returns
    which aggregates the rows are in, rising, and a row for each, (rows, groups), whose entry in its
    own column is 1. Cost: two passes over the matrix, eight lists of as many numbers as groups.
    """
    mine = group[: matrix.shape[0]]
    members = np.argsort(mine, kind="stable")
    members = members[np.searchsorted(mine[members], 0) :]
    found, starts = np.unique(mine[members], return_index=True)
    starts = np.append(starts, members.size)
    size = int(group.max(initial=-1)) + 1
    lists = members, starts, group
    arrays = matrix.indptr, matrix.indices
    rows = np.zeros(found.size + 1, dtype=np.int64)
    met = np.zeros((_BLOCKS, size), dtype=np.int64)
    _count_whole(_BLOCKS, matrix.nnz, *lists, *arrays, rows, met)
    np.cumsum(rows, out=rows)
    met[:] = 0
    columns, values = np.empty(rows[-1], dtype=np.int32), np.empty(rows[-1], dtype=np.int64)
    how = weight, *arrays, matrix.data, unit
    _fill_whole(_BLOCKS, matrix.nnz, *lists, *how, rows, columns, values, met)
    return found, sp.csr_matrix((values, columns, rows), shape=(found.size, size))
