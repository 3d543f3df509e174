"""A block of rows of a graph: products with blocks of all nodes, and what is found out on the way.

X (n, w) and what is written are of all nodes, the rows are `first`, `first` + 1, …: with P = T⁻¹W,
`inverse` (m,) being T⁻¹ of the rows, a step of an iteration in P reads a row of W once.
"""

from __future__ import annotations

from typing import Any

import numba as nb

from mustlink.kernels.blocks import mixed_bits
from mustlink.kernels.graph_walk import join
from mustlink.kernels.spmm import row_sums
from mustlink.kernels.threads import kernel, loop

_SALT = 0x9E3779B97F4A7C15


@loop(fastmath=True)
def _advance(
    lo: int, hi: int,
    indptr: Any, indices: Any, data: Any, X: Any, first: Any, inverse: Any, weights: Any,
    sums: Any, out: Any,
) -> None:  # fmt: skip
    a, b, c = weights[0], weights[1], weights[2]
    width = nb.uint64(X.shape[1])
    for r in range(lo, hi):
        row_sums(indices, data, indptr[r], indptr[r + 1], X, sums, r)
        i = nb.uint64(first + r)
        scale = a * inverse[r]
        for k in range(width):
            out[i, k] = scale * sums[r, k] + b * X[i, k] + c * out[i, k]


@loop(fastmath=True)
def _relax(
    lo: int, hi: int,
    indptr: Any, indices: Any, data: Any, X: Any, B: Any, first: Any, inverse: Any, smoother: Any,
    weights: Any, sums: Any, step: Any, out: Any,
) -> None:  # fmt: skip
    old, new = weights[0], weights[1]
    width = nb.uint64(X.shape[1])
    for r in range(lo, hi):
        row_sums(indices, data, indptr[r], indptr[r + 1], X, sums, r)
        i = nb.uint64(first + r)
        scale, by = inverse[r], new * smoother[r]
        for k in range(width):
            residual = B[i, k] - X[i, k] + scale * sums[r, k]
            move = old * step[i, k] + by * residual
            step[i, k] = move
            out[i, k] = X[i, k] + move


@kernel()
def _look(
    indptr: Any, indices: Any, data: Any, first: Any, parent: Any, degrees: Any, loops: Any,
    skew: Any,
) -> int:  # fmt: skip
    scale = 2.0**-32
    for r in range(degrees.size):
        i = first + r
        mixed = mixed_bits(nb.uint64(i) + nb.uint64(_SALT))
        x, y = (mixed >> nb.uint64(32)) * scale - 0.5, (mixed & nb.uint64(0xFFFFFFFF)) * scale - 0.5
        total = 0.0
        for q in range(indptr[r], indptr[r + 1]):
            j, w = indices[q], nb.float64(data[q])
            if not (w >= 0.0 and w < 1e30):
                return q
            total += w
            if j == i:
                loops[r] += w
            elif w > 0.0:
                if j < i:
                    join(parent, i, j)
                mixed = mixed_bits(nb.uint64(j) + nb.uint64(_SALT))
                u = (mixed >> nb.uint64(32)) * scale - 0.5
                v = (mixed & nb.uint64(0xFFFFFFFF)) * scale - 0.5
                skew[0] += w * (x * v - y * u)
                skew[1] += w * w
        degrees[r] = total
    return -1


def advance(block: Any, X: Any, inverse: Any, weights: Any, sums: Any, out: Any) -> None:
    """In place out = a·PX + b·X + c·out on the rows of a block, `weights` (a, b, c).

    `sums` (m, w) is room for sums of the rows. Cost: one product and nothing else.
    """
    arrays = block.indptr, block.indices, block.data, X, block.first, inverse, weights, sums, out
    _advance(inverse.size, block.nnz * X.shape[1], *arrays)


def relax(
    block: Any, X: Any, B: Any, inverse: Any, smoother: Any, weights: Any, sums: Any, step: Any,
    out: Any,
) -> None:  # fmt: skip
    """Out = X + step after step = old·step + new·diag(smoother)(B − (I − P)X), rows of a block."""
    arrays = block.indptr, block.indices, block.data, X, B, block.first
    work = block.nnz * X.shape[1]
    _relax(inverse.size, work, *arrays, inverse, smoother, weights, sums, step, out)


def look(block: Any, parent: Any, degrees: Any, loops: Any, skew: Any) -> int:
    """Degrees and loops (m,) of the rows, groups of linked nodes joined in `parent` (n,).

    `skew` gains Σ w_ij(x_i y_j − y_i x_j) with random x, y in [−½, ½], 0 where W is symmetric, and
    Σ w². Returns the first entry that is no weight, −1 if there is none.
    """
    arrays = block.indptr, block.indices, block.data, block.first
    return int(_look(*arrays, parent, degrees, loops, skew))
