"""Products of tall blocks (n, b), b small: fixed row blocks, sums free of threads.

Blocks may be held in single precision, which halves their memory; sums are double all the same.
Few columns of many rows are work for `tiles`; wide blocks, and few rows, for BLAS. There a task
takes some thousand rows at a time: what is made of them stays in the cache.

BLAS itself runs on one thread during a fit: its threads were measured to wait for each other 10 to
50 times longer than they work when another process keeps a core busy.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels import tiles
from mustlink.kernels.column_steps import along
from mustlink.kernels.spare import empty

Block = NDArray[np.float64]

_ROWS = 1 << 16  # rows per task, fewer where they are wide
_NUMBERS = 1 << 20  # in the rows of a task: what each thread makes of them takes some megabytes
_LEAST = 1 << 10
_NARROW = 384  # columns on a side, up to which `tiles` keep what they need in the cache
_CACHED = 1 << 11  # rows at a time: 40 numbers of each are half a megabyte


@dataclass(frozen=True)
class Pieces:
    """Where blocks are a part of taller ones: rows of the whole, and slices of what is here.

    BLAS rounds a row by how many there are beside it: it gets a slice at a time, so that rows come
    out the same wherever the whole is divided.
    """

    whole: int
    slices: tuple[slice, ...]


def row_slices(n: int, width: int) -> list[slice]:
    """Blocks of rows as they are worked on: by size alone, so that sums come out the same."""
    rows = _ROWS
    while rows > _LEAST and rows * width > _NUMBERS:
        rows //= 2
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


def workers() -> int:
    """Threads that a fit may use."""
    import numba

    return int(numba.get_num_threads())


def gram(X: Block, Y: Block) -> Block:
    """Inner products XᵀY of (n, a) and (n, b)."""
    return gram_of([X], [Y])


def gram_of(V: list[Block], U: list[Block], within: Pieces | None = None) -> Block:
    """[V₁ V₂ …]ᵀ[U₁ U₂ …] without joining the blocks: the only sum over nodes."""
    if _fit_tiles(V, U, within):
        return tiles.gram(V, U)
    if len(V) == len(U) == V[0].shape[1] == 1 and U[0].flags.c_contiguous:
        return along(V[0][:, 0], U[0])[None]

    def part(rows: slice) -> Block:
        return sum((_inner(V, U, some) for some in _cached(rows)), start=np.zeros(()))

    parts = row_slices(V[0].shape[0], sum(X.shape[1] for X in (*V, *U)))
    if len(parts) < 2:
        return part(slice(0, V[0].shape[0]))
    with ThreadPoolExecutor(workers()) as pool:
        sums = pool.map(part, parts)
        total = next(sums)
        for one in sums:  # in order, whatever finished first
            total += one
    return total


def _fit_tiles(V: list[Block], U: list[Block], within: Pieces | None) -> bool:
    """Whether `tiles` know what to do with these, and are faster."""
    n, dtype = V[0].shape[0] if within is None else within.whole, V[0].dtype
    return (
        n > _ROWS
        and dtype.kind == "f"
        and all(len(side) <= 3 and sum(X.shape[1] for X in side) <= _NARROW for side in (V, U))
        and all(X.dtype == dtype and X.flags.c_contiguous and X.flags.writeable for X in (*V, *U))
    )


def _inner(V: list[Block], U: list[Block], rows: slice) -> Block:
    right = _double(U, rows)
    if U is V:
        return right.T @ right
    if len(U) == 1:  # joining the others would cost more than it gains
        return np.concatenate([_double([v], rows).T @ right for v in V])
    return _double(V, rows).T @ right


def _cached(rows: slice) -> list[slice]:
    """Rows of a task a few at a time; at least one slice, if of no rows."""
    starts = range(rows.start, max(rows.stop, rows.start + 1), _CACHED)
    return [slice(start, min(start + _CACHED, rows.stop)) for start in starts]


def _double(blocks: list[Block], rows: slice) -> Block:
    """Rows of the blocks side by side, in double precision."""
    if len(blocks) == 1:
        return blocks[0][rows].astype(np.float64, copy=False)
    return np.concatenate([block[rows] for block in blocks], axis=1, dtype=np.float64)


def combine(V: Block, C: Block) -> Block:
    """Linear combinations VC of the columns of V (n, a), C (a, b)."""
    return combination([V], C)


def combination(V: list[Block], C: Block, within: Pieces | None = None) -> Block:
    """[V₁ V₂ …]C without joining the blocks, in their precision."""
    out = empty((V[0].shape[0], C.shape[1]), V[0].dtype)
    if _fit_tiles(V, [out], within):
        tiles.combine(V, C, out, out[:, :0].copy())
        return out
    width = out.shape[1] + V[0].shape[1]
    _over_rows(lambda rows: _combined(V, rows, C, out[rows]), out.shape[0], width, within)
    return out


def recombine(
    V: list[Block], C: Block, C2: Block, within: Pieces | None = None
) -> tuple[Block, Block]:
    """[V₁ V₂ …]C and [V₁ V₂ …]C₂; the first in place of V₁, which is changed, if it is as wide.

    One block less is held at a time than with two calls of `combination`.
    """
    n, dtype = V[0].shape[0], V[0].dtype
    first = V[0] if C.shape[1] == V[0].shape[1] else empty((n, C.shape[1]), dtype)
    second = empty((n, C2.shape[1]), dtype)
    if _fit_tiles(V, [first, second], within):
        tiles.combine(V, np.concatenate([C, C2], axis=1), first, second)
        return first, second

    def fill(rows: slice) -> None:
        found = np.empty((V[0][rows].shape[0], C.shape[1]), dtype=dtype)
        _combined(V, rows, C, found)
        _combined(V, rows, C2, second[rows])
        first[rows] = found

    _over_rows(fill, n, first.shape[1] + 2 * second.shape[1], within)
    return first, second


def subtract(X: Block, V: Block, C: Block, within: Pieces | None = None) -> None:
    """X − VC in place of X (n, b)."""
    C = C.astype(X.dtype, copy=False)

    def fill(rows: slice) -> None:
        X[rows] -= V[rows].astype(X.dtype, copy=False) @ C

    _over_rows(fill, X.shape[0], V.shape[1] + X.shape[1], within)


def _combined(V: list[Block], rows: slice, C: Block, out: Block) -> None:
    """Write rows of [V₁ V₂ …]C to `out`, which is none of them."""
    ends = np.cumsum([0, *(v.shape[1] for v in V)])
    terms = [
        (v, C[a:b].astype(v.dtype, copy=False)) for v, (a, b) in zip(V, pairwise(ends), strict=True)
    ]
    np.matmul(V[0][rows], terms[0][1], out=out)
    for v, part in terms[1:]:
        if len(part):
            out += v[rows] @ part


def _over_rows(
    task: Callable[[slice], None], n: int, width: int, within: Pieces | None = None
) -> None:
    def each(rows: slice) -> None:
        for some in _cached(rows):
            task(some)

    parts = row_slices(n, width) if within is None else within.slices
    if len(parts) < 2 or (within is not None and n <= _ROWS):
        for rows in parts:
            each(rows)
        return
    with ThreadPoolExecutor(workers()) as pool:
        list(pool.map(each, parts))


def by_rows(function: Callable[..., Any], *data: NDArray[Any]) -> NDArray[Any]:
    """`function` of rows of arrays (n, …), by rows: NumPy's own work, which is done in threads.

    It knows no row but those that it is given, and calls no compiled loop with threads of its own.
    """
    n, width = len(data[0]), sum(X.shape[1] if X.ndim > 1 else 1 for X in data)
    if len(row_slices(n, width)) < 2:
        found: NDArray[Any] = function(*data)
        return found
    shape = function(*(X[:1] for X in data))
    out = np.empty((n, *shape.shape[1:]), dtype=shape.dtype)

    def fill(rows: slice) -> None:
        out[rows] = function(*(X[rows] for X in data))

    _over_rows(fill, n, width)
    return out
