"""The heaviest entries of rows of a sparse matrix, without the diagonal."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np


@nb.njit(cache=True, nogil=True)
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
