"""Equal rows by hashing: 128 bits of every row, and the first row that had them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.threads import inlined, kernel, loop

_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)  # odd
_FAR, _NEAR = np.uint64(32), np.uint64(29)
_FEW_ROWS = 1 << 13  # for which a kernel is not worth loading
_MINUS_ZERO = np.uint32(0x80000000)


@loop()
def _hash(lo: int, hi: int, bits: Any, out: Any) -> None:
    for i in range(lo, hi):
        a, b = _SECOND, _FIRST
        for c in range(bits.shape[1]):
            word = bits[i, c]
            if word == _MINUS_ZERO:
                word = np.uint32(0)
            a = (a ^ np.uint64(word)) * _FIRST
            a ^= a >> _FAR
            b = (b ^ np.uint64(word)) * _SECOND
            b ^= b >> _NEAR
        a *= _SECOND
        b *= _FIRST
        out[i, 0] = a ^ (a >> _NEAR)
        out[i, 1] = b ^ (b >> _FAR)


@kernel()
def _place(hashes: Any, table: Any, keys: Any, count: Any, nodes: Any, first: Any, at: Any) -> int:
    mask = np.uint64(table.size - 1)
    for i in range(hashes.shape[0]):
        a, b = hashes[i, 0], hashes[i, 1]
        slot = a & mask
        while True:
            node = table[slot]
            if node < 0:
                table[slot] = count
                keys[count, 0], keys[count, 1] = a, b
                first[count] = at + i
                nodes[at + i] = count
                count += 1
                break
            if keys[node, 0] == a and keys[node, 1] == b:
                nodes[at + i] = node
                break
            slot = (slot + np.uint64(1)) & mask
    return count


def row_hashes(X: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Two 64-bit hashes of every row of X (n, d) float32, (n, 2); -0.0 is 0.0. Cost O(n d)."""
    out = np.empty((X.shape[0], 2), dtype=np.uint64)
    _hash(len(X), X.size, np.ascontiguousarray(X).view(np.uint32), out)
    return out


class RowTable:
    """Rows numbered by first appearance, block after block: equal hashes are one number.

    Rows that differ share all 128 bits with probability 2⁻¹²⁸ a pair: 10⁻²³ among 10⁸ rows.
    Holds at most 40 bytes for each of `n` rows, half of them for distinct rows only.
    """

    def __init__(self, n: int) -> None:
        wide: Any = np.int32 if n < 2**31 else np.int64
        size = 1 << max(4, int(2 * n - 1).bit_length())
        self._table = np.full(size, -1, dtype=wide)
        self._keys = np.empty((n, 2), dtype=np.uint64)
        self._first = np.empty(n, dtype=np.int64)
        self._at = 0
        self._small: dict[bytes, int] | None = {} if n <= _FEW_ROWS else None
        self.nodes: NDArray[np.integer[Any]] = np.empty(n, dtype=wide)
        self.count = 0

    def add(self, X: NDArray[np.float32]) -> None:
        """Number the next block of rows."""
        if self._small is not None:
            for at, row in enumerate(X + np.float32(0.0), self._at):  # -0.0 becomes 0.0
                self.nodes[at] = number = self._small.setdefault(row.tobytes(), self.count)
                if number == self.count:
                    self._first[number], self.count = at, self.count + 1
            self._at += X.shape[0]
            return
        found = _place(
            row_hashes(X), self._table, self._keys, self.count, self.nodes, self._first, self._at
        )
        self.count, self._at = int(found), self._at + X.shape[0]

    @property
    def first(self) -> NDArray[np.int64]:
        """First row of every number, (m,), ascending."""
        return self._first[: self.count].copy()


# --- One row of a sparse matrix put in order
#
# By Shell's method (Knuth, vol. 3, 5.2.1), written out: NumPy's argsort in a kernel takes three
# seconds to compile, and short rows, which most are, want insertion anyway.


_SHORT = 64  # entries up to which a row is best put in order by counting
_ROWS = 1 << 10  # at a time


@inlined()
def place_row(found: Any, held: Any, count: int, columns: Any, values: Any, first: int) -> None:
    """Write `count` different columns and their values in order from `first` on.

    The place of a column is how many are less: no branches, vectors of comparisons.
    """
    for k in range(count):
        j, less = found[k], 0
        for m in range(count):
            less += found[m] < j
        columns[first + less] = j
        values[first + less] = held[k]


@kernel()
def sort_row(columns: Any, values: Any, first: int, last: int) -> None:
    """Sort entries first to last - 1 by column, values along; equal columns come in any order.

    Cost: insertion for up to 12 entries, O(k^1.5) at worst.
    """
    gap = 1
    while 9 * gap < last - first - 3:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(first + gap, last):
            column, value, to = columns[at], values[at], at
            while to - gap >= first and columns[to - gap] > column:
                columns[to] = columns[to - gap]
                values[to] = values[to - gap]
                to -= gap
            columns[to] = column
            values[to] = value
        gap //= 3


@loop()
def _sort(
    lo: int, hi: int, indptr: Any, columns: Any, data: Any, some_columns: Any, some_data: Any
) -> None:
    n = indptr.size - 1
    for part in range(lo, hi):
        found, held = some_columns[part], some_data[part]
        for i in range(part * _ROWS, min((part + 1) * _ROWS, n)):
            first, last = indptr[i], indptr[i + 1]
            if last - first > _SHORT:
                sort_row(columns, data, first, last)
                continue
            for q in range(first, last):
                found[q - first], held[q - first] = columns[q], data[q]
            place_row(found, held, last - first, columns, data, first)


def sort_rows(indptr: NDArray[np.int64], columns: NDArray[Any], values: NDArray[Any]) -> None:
    """Put the entries of all rows in order, in place; no row has a column twice."""
    room = -(-(indptr.size - 1) // _ROWS), _SHORT  # made here: in a kernel it is slow to compile
    short = np.empty(room, columns.dtype), np.empty(room, values.dtype)
    _sort(room[0], _SHORT * columns.size, indptr, columns, values, *short)
