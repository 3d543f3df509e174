"""Products of tall blocks (n, b), b small: fixed row blocks, sums free of threads.

BLAS itself runs on one thread during a fit: its threads were measured to wait for each other 10 to
50 times longer than they work when another process keeps a core busy.
"""

from __future__ import annotations

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
        return np.block([[v[rows].T @ u[rows] for u in U] for v in V])

    parts = _slices(V[0].shape[0])
    if len(parts) < 2:
        return part(slice(None))
    with ThreadPoolExecutor(workers()) as pool:
        sums = list(pool.map(part, parts))
    # In order, whatever finished first.
    return np.asarray(np.add.reduce(sums), dtype=np.float64)


def combine(V: Block, C: Block) -> Block:
    """Linear combinations VC of the columns of V (n, a), C (a, b)."""
    return combination([V], C)


def combination(V: list[Block], C: Block) -> Block:
    """[V₁ V₂ …]C without joining the blocks."""
    ends = np.cumsum([0, *(v.shape[1] for v in V)])
    pieces = [C[a:b] for a, b in pairwise(ends)]
    n = V[0].shape[0]
    out = np.zeros((n, C.shape[1]))

    def fill(rows: slice) -> None:
        for v, c in zip(V, pieces, strict=True):
            if c.shape[0]:
                out[rows] += v[rows] @ c

    parts = _slices(n)
    if len(parts) < 2:
        fill(slice(None))
        return out
    with ThreadPoolExecutor(workers()) as pool:
        list(pool.map(fill, parts))
    return out
