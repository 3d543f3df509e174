"""Products of tall blocks (n, b), b small: fixed row blocks, sums free of threads.

Blocks may be held in single precision, which halves their memory; sums are double all the same.

BLAS itself runs on one thread during a fit: its threads were measured to wait for each other 10 to
50 times longer than they work when another process keeps a core busy.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Block = NDArray[np.float64]

_ROWS = 1 << 16  # rows per task: a few megabytes


def _slices(n: int) -> list[slice]:
    return [slice(start, min(start + _ROWS, n)) for start in range(0, n, _ROWS)]


def workers() -> int:
    """Threads that a fit may use."""
    import numba

    return int(numba.get_num_threads())


def gram(X: Block, Y: Block) -> Block:
    """Inner products XᵀY of (n, a) and (n, b)."""
    return gram_of([X], [Y])


def gram_of(V: list[Block], U: list[Block]) -> Block:
    """[V₁ V₂ …]ᵀ[U₁ U₂ …] without joining the blocks: the only sum over nodes."""

    def part(rows: slice) -> Block:
        left, right = _double(V, rows), _double(U, rows)
        if len(left) == len(right) == 1:
            return np.asarray(left[0].T @ right[0])
        return np.concatenate([np.concatenate([v.T @ u for u in right], axis=1) for v in left])

    parts = _slices(V[0].shape[0])
    if len(parts) < 2:
        return part(slice(None))
    with ThreadPoolExecutor(workers()) as pool:
        sums = list(pool.map(part, parts))
    # In order, whatever finished first.
    return np.asarray(np.add.reduce(sums), dtype=np.float64)


def _double(blocks: list[Block], rows: slice) -> list[Block]:
    return [block[rows].astype(np.float64, copy=False) for block in blocks]


def combine(V: Block, C: Block) -> Block:
    """Linear combinations VC of the columns of V (n, a), C (a, b)."""
    return combination([V], C)


def combination(V: list[Block], C: Block) -> Block:
    """[V₁ V₂ …]C without joining the blocks, in their precision."""
    out = np.empty((V[0].shape[0], C.shape[1]), dtype=V[0].dtype)
    _over_rows(lambda rows: _write(out, _combined(V, rows, C), rows), out.shape[0])
    return out


def recombine(V: list[Block], C: Block, C2: Block) -> tuple[Block, Block]:
    """[V₁ V₂ …]C and [V₁ V₂ …]C₂; the first in place of V₁, which is changed, if it is as wide.

    One block less is held at a time than with two calls of `combination`.
    """
    n, dtype = V[0].shape[0], V[0].dtype
    first = V[0] if C.shape[1] == V[0].shape[1] else np.empty((n, C.shape[1]), dtype=dtype)
    second = np.empty((n, C2.shape[1]), dtype=dtype)

    def fill(rows: slice) -> None:
        found = _combined(V, rows, C)
        _write(second, _combined(V, rows, C2), rows)
        _write(first, found, rows)

    _over_rows(fill, n)
    return first, second


def subtract(X: Block, V: Block, C: Block) -> None:
    """X − VC in place of X (n, b)."""
    C = C.astype(X.dtype, copy=False)

    def fill(rows: slice) -> None:
        X[rows] -= V[rows].astype(X.dtype, copy=False) @ C

    _over_rows(fill, X.shape[0])


def _combined(V: list[Block], rows: slice, C: Block) -> Block:
    """Rows of [V₁ V₂ …]C."""
    if len(V) == 1:
        return np.asarray(V[0][rows] @ C.astype(V[0].dtype, copy=False))
    ends = np.cumsum([0, *(v.shape[1] for v in V)])
    found = np.zeros((V[0][rows].shape[0], C.shape[1]), dtype=V[0].dtype)
    for v, (a, b) in zip(V, pairwise(ends), strict=True):
        if b > a:
            found += v[rows] @ C[a:b].astype(v.dtype, copy=False)
    return found


def _write(out: Block, found: Block, rows: slice) -> None:
    out[rows] = found


def _over_rows(task: Callable[[slice], None], n: int) -> None:
    parts = _slices(n)
    if len(parts) < 2:
        task(slice(None))
        return
    with ThreadPoolExecutor(workers()) as pool:
        list(pool.map(task, parts))
