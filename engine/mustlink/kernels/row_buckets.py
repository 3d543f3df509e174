"""Entries of a sparse matrix that come in any order become rows: some rows at a time."""

from __future__ import annotations

from typing import Any

import numba as nb

from mustlink.kernels.row_sort import sort_row


@nb.njit(cache=True, nogil=True)
def deal(bucket: Any, rows: Any, columns: Any, values: Any, starts: Any, out: Any) -> None:
    """Entries by bucket into records `out`, `starts` (buckets,) being where each begins there."""
    for e in range(rows.size):
        at = starts[bucket[rows[e]]]
        starts[bucket[rows[e]]] = at + 1
        out[at].row, out[at].column, out[at].value = rows[e], columns[e], values[e]


@nb.njit(cache=True, nogil=True)
def into_rows(
    records: Any, first: Any, ends: Any, columns: Any, values: Any, largest: Any, place: Any
) -> int:
    """Records of rows `first`, `first` + 1, … as CSR, columns rising, equal ones summed.

    Or the largest of them. `ends` (rows + 1,) is zero at first, `place` (n,) any numbers, one a
    column. Returns how many entries are left.
    """
    size = ends.size - 1
    for e in range(records.size):
        ends[records[e].row - first + 1] += 1
    for r in range(size):
        ends[r + 1] += ends[r]
    for e in range(records.size):  # ends[r] runs to the beginning of r + 1
        r = records[e].row - first
        columns[ends[r]], values[ends[r]] = records[e].column, records[e].value
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
