"""Links between aggregates of nodes, added up as whole numbers: no order of rows matters."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.loops import loop

_BLOCKS = 8  # of aggregates, each with a list as long as there are aggregates


@loop()
def _count(
    members: Any, starts: Any, group: Any, indptr: Any, indices: Any, counts: Any, some_met: Any
) -> None:
    size = starts.size - 1
    for block in nb.prange(_BLOCKS):
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
def _fill(
    members: Any, starts: Any, group: Any, weight: Any, indptr: Any, indices: Any, data: Any,
    unit: Any, rows: Any, columns: Any, values: Any, some_met: Any,
) -> None:  # fmt: skip
    size = starts.size - 1
    for block in nb.prange(_BLOCKS):
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
    _count(matrix.nnz, *lists, *arrays, rows, met)
    np.cumsum(rows, out=rows)
    met[:] = 0
    columns, values = np.empty(rows[-1], dtype=np.int32), np.empty(rows[-1], dtype=np.int64)
    _fill(matrix.nnz, *lists, weight, *arrays, matrix.data, unit, rows, columns, values, met)
    return found, sp.csr_matrix((values, columns, rows), shape=(found.size, size))
