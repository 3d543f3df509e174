"""Entries of F = Σ_q ω_q G_qCG_qᵀ with sparse G: on a pattern, and the largest of every row.

G holds one short column per source; all q share its pattern. Row i of F is the coefficients
a_i = ω ∘ G[i, :]C over the sources, times Gᵀ.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.diffused_columns import extended
from mustlink.kernels.row_hash import sort_row
from mustlink.kernels.threads import inlined, kernel


@inlined()
def _coefficients(
    i: Any, starts: Any, source: Any, place: Any, values: Any, cptr: Any, cind: Any, cdata: Any,
    weights: Any, coef: Any, stamp: Any, met: Any,
) -> Any:  # fmt: skip
    count = 0
    for p in range(starts[i], starts[i + 1]):
        a, at = nb.uint64(source[p]), nb.uint64(place[p])
        for e in range(cptr[a], cptr[a + 1]):
            b = nb.uint64(cind[e])
            if stamp[b] != i + 1:
                stamp[b] = i + 1
                for q in range(weights.size):  # assigned as a whole it is slow to compile
                    coef[b, q] = 0.0
                met[count] = b
                count += 1
            for q in range(weights.size):
                coef[b, q] += cdata[e] * weights[q] * values[at, q]
    return count


@kernel()
def _on_pattern(
    indptr: Any, indices: Any, first: Any, last: Any, starts: Any, source: Any, place: Any,
    values: Any, byrow: Any, cptr: Any, cind: Any, cdata: Any, weights: Any, out: Any,
    coef: Any, stamp: Any, met: Any,
) -> None:  # fmt: skip
    width = weights.size
    for i in range(first, last):
        if starts[i] == starts[i + 1] or indptr[i] == indptr[i + 1]:
            continue
        _coefficients(
            i, starts, source, place, values, cptr, cind, cdata, weights, coef, stamp, met
        )
        for e in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
            j = nb.uint64(indices[e])
            if j < i:
                continue
            total = 0.0
            for p in range(nb.uint64(starts[j]), nb.uint64(starts[j + 1])):
                b = nb.uint64(source[p])
                if stamp[b] == i + 1:
                    for q in range(width):
                        total += coef[b, q] * byrow[p, q]
            out[e] = total


@kernel()
def _mirror(indptr: Any, indices: Any, out: Any, following: Any) -> None:
    for j in range(indptr.size - 1):  # rows ascend, so that row i meets its columns in order
        for e in range(indptr[j], indptr[j + 1]):
            i = indices[e]
            if i > j:
                while indices[following[i]] < j:
                    following[i] += 1
                if indices[following[i]] == j:
                    out[following[i]] = out[e]


@inlined()
def _row(
    i: Any, met: Any, active: Any, coef: Any, ends: Any, rows: Any, values: Any, sizes: Any,
    least: Any, skip: Any, row: Any, seen: Any, touched: Any, indptr: Any, indices: Any,
) -> Any:  # fmt: skip
    """Row i of F outside the pattern without its small terms, where it may be positive.

    The places are in `touched`. Columns that can only lower F come last, and only where others
    have been.
    """
    support, width = 0, values.shape[1]
    for lowers in range(2):
        for s in range(active):
            b = nb.uint64(met[s])
            largest, highest = 0.0, 0.0
            for q in range(width):
                largest = max(largest, abs(coef[b, q]))
                highest = max(highest, coef[b, q])
            if (lowers == 1) != (highest <= 0.0 and least[b] >= 0.0):
                continue
            for p in range(nb.uint64(ends[b]), nb.uint64(ends[b + 1])):
                if largest * sizes[p] < skip:  # columns fall in size: the rest is smaller
                    break
                j = nb.uint64(rows[p])
                if lowers == 1 and seen[j] != i + 1:
                    continue
                term = 0.0
                for q in range(width):
                    term += coef[b, q] * values[p, q]
                if seen[j] != i + 1:
                    seen[j] = i + 1
                    touched[support] = j
                    support += 1
                    row[j] = term
                else:
                    row[j] += term
        if support == 0:
            break
    row[i] = 0.0
    for e in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
        row[indices[e]] = 0.0
    return support


@inlined()
def _largest(row: Any, touched: Any, support: Any, floor: Any, best: Any, near: Any) -> Any:
    """The largest entries above the floor, in falling order, as many as `best` has room for."""
    held, wanted = 0, best.size
    for a in range(support):
        j = touched[a]
        v = row[j]
        if v <= floor or (held == wanted and v <= best[held - 1]):
            continue
        at = held if held < wanted else wanted - 1
        while at > 0 and best[at - 1] < v:
            best[at], near[at] = best[at - 1], near[at - 1]
            at -= 1
        best[at], near[at] = v, j
        held = min(held + 1, wanted)
    return held


@kernel()
def _found(
    indptr: Any, indices: Any, first: Any, last: Any, starts: Any, source: Any, place: Any,
    ends: Any, rows: Any, values: Any, cptr: Any, cind: Any, cdata: Any, weights: Any,
    sizes: Any, least: Any, wanted: Any, floors: Any, parts: Any, skip: Any,
    coef: Any, stamp: Any, met: Any, row: Any, seen: Any, touched: Any, near: Any, best: Any,
    found: Any, count: Any,
) -> Any:  # fmt: skip
    """The `wanted` largest of every row, or all that may be above its floor, in any order.

    They are `count` (1,) in the end; returns the row up to which `found` (e, 2) had room.
    """
    for i in range(first, last):
        if starts[i] == starts[i + 1] or (wanted == 0 and parts[i] < 2):
            continue
        active = _coefficients(
            i, starts, source, place, values, cptr, cind, cdata, weights, coef, stamp, met
        )
        support = _row(
            i, met, active, coef, ends, rows, values, sizes, least, skip / parts[i], row, seen,
            touched, indptr, indices,
        )  # fmt: skip
        number = 0
        if wanted:
            number = _largest(row, touched, support, floors[i], best, near)
        else:
            for a in range(support):
                j = touched[a]
                if row[j] * min(parts[i], parts[j]) > floors[i]:
                    near[number] = j
                    number += 1
        if count[0] + number > len(found):
            return i
        for a in range(number):
            found[count[0], 0], found[count[0], 1] = i, near[a]
            count[0] += 1
    return last


Ints = NDArray[np.int64]
Factor = tuple[Ints, NDArray[np.int32], NDArray[Any]]  # ends (c+1,), rows (nnz,), values (nnz, Q)
Listing = tuple[Ints, NDArray[np.int32], Ints]  # starts (m+1,), sources (nnz,), places (nnz,)


def pattern_entries(
    pattern: Any,
    span: tuple[int, int],
    listing: Listing,
    factor: Factor,
    byrow: NDArray[Any],
    C: Any,
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Write F_ij for stored (i, j), i in first … last−1, j >= i, of a CSR pattern into `out`.

    `byrow` are the factor's values in the order of the listing. Cost Q times the listed sources
    of all neighbours. Runs without the interpreter's lock.
    """
    _on_pattern(
        pattern.indptr, pattern.indices, *span, *listing, factor[2], byrow,
        C.indptr, C.indices, C.data, weights, out, *_sums(C.shape[0], weights.size),
    )  # fmt: skip


# Room is made outside of kernels: what makes arrays takes half as long again to compile.


def _sums(c: int, width: int) -> tuple[NDArray[Any], ...]:
    """Room for coefficients over c sources, for marks of those that are met, and for a list."""
    return np.zeros((c, width)), np.zeros(c, dtype=np.int64), np.empty(c, dtype=np.int64)


def mirror(pattern: Any, out: NDArray[np.float64]) -> None:
    """Copy entries (i, j), j > i, to (j, i) where stored; rows sorted, `out` (nnz,) changed."""
    _mirror(pattern.indptr, pattern.indices, out, pattern.indptr.copy())


def large_entries(
    pattern: Any,
    span: tuple[int, int],
    listing: Listing,
    factor: Factor,
    C: Any,
    weights: NDArray[np.float64],
    bounds: tuple[NDArray[np.float64], NDArray[np.float64]],
    wanted: int,
    floors: NDArray[np.float64],
    parts: NDArray[np.integer[Any]],
    skip: float,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The `wanted` largest F_ij > floors_i outside the pattern for rows i of a span: (i, j) lists.

    `bounds` are Σ_q |value| of every entry (nnz,) and the least value of every column (c,).
    Products of a coefficient and a value below `skip` do not count, for which columns must be
    sorted by size. With wanted = 0 this is F of a part of the constraints, `parts` (m,) are of how
    many a node knows, and what may be above the floor in their sum is found: that is where one is
    above its share, and `skip` is divided likewise. A row of one part is left out. Runs without
    the interpreter's lock.
    """
    (at, last), m = span, pattern.indptr.size - 1
    known = *listing, *factor, C.indptr, C.indices, C.data, weights, *bounds, wanted, floors
    row, seen = np.zeros(m), np.zeros(m, dtype=np.int64)
    lists = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.int64), np.empty(wanted)
    sums, count = _sums(C.shape[0], weights.size), np.zeros(1, dtype=np.int64)
    found = np.empty((m, 2), dtype=np.int32)
    while True:
        room = *sums, row, seen, *lists, found, count
        at = _found(pattern.indptr, pattern.indices, at, last, *known, parts, skip, *room)
        if at == last:
            return found[: count[0], 0].copy(), found[: count[0], 1].copy()
        sums[1][:], seen[:] = 0, 0  # the row is begun anew
        found = extended(found, count[0], 2 * len(found) + m)


# --- Sparse columns of several values an entry, the largest entries first


@kernel()
def _by_size(
    ends: Any, rows: Any, values: Any, first: Any, last: Any, size: Any, order: Any,
    old_rows: Any, old_values: Any,
) -> None:  # fmt: skip
    for s in range(first, last):
        a, count = ends[s], ends[s + 1] - ends[s]
        for k in range(count):
            old_rows[k], order[k], size[k] = rows[a + k], k, 0.0
            for q in range(values.shape[1]):
                old_values[k, q] = values[a + k, q]
                size[k] -= abs(values[a + k, q])
        sort_row(size, order, 0, count)
        for k in range(count):
            rows[a + k] = old_rows[order[k]]
            for q in range(values.shape[1]):
                values[a + k, q] = old_values[order[k], q]


def sort_by_size(
    factor: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]], span: tuple[int, int]
) -> None:
    """Order the entries of columns first … last−1 by falling Σ_q |value|, in place."""
    ends, rows, values = factor
    most = int(np.diff(ends[span[0] : span[1] + 1]).max(initial=0))
    old = np.empty(most, rows.dtype), np.empty((most, values.shape[1]), values.dtype)
    _by_size(*factor, *span, np.empty(most), np.empty(most, np.int64), *old)
