"""Three-term recurrences of a Laplacian on blocks, and many linear combinations of their terms.

Blocks are (n, b). Everything that touches a block does so in one pass: products with sparse
matrices of graphs are so cheap that the vector work around them decides.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop
from mustlink.kernels.row_sums import row_sums

Block = NDArray[np.float64]
_ROWS = 1 << 12  # rows per partial sum: fixed, so that sums come out the same for any threads


@loop(fastmath=True)
def _term(
    indptr: Any, indices: Any, data: Any, V: Any, old: Any, weights: Any, rows: Any, out: Any,
    partial: Any,
) -> None:  # fmt: skip
    a, b, c = weights[0], weights[1], weights[2]
    n, width = out.shape
    width = nb.uint64(width)
    for part in nb.prange(partial.shape[0]):
        for i in range(nb.uint64(part * rows), nb.uint64(min((part + 1) * rows, n))):
            row_sums(indices, data, indptr[i], indptr[i + 1], V, out, i)
            inner, square = 0.0, 0.0
            for k in range(width):
                w = a * out[i, k] + b * V[i, k] + c * old[i, k]
                out[i, k] = w
                inner += w * V[i, k]
                square += w * w
            partial[part, 0] += inner
            partial[part, 1] += square


@loop(fastmath=True)
def _mix(terms: Any, which: Any, C: Any, out: Any) -> None:
    width = nb.uint64(out.shape[2])
    for i in nb.prange(out.shape[1]):
        for q in range(out.shape[0]):
            for t in range(which.size):
                w = C[t, q]
                at = which[t]
                for k in range(width):
                    out[q, i, k] += w * terms[at, i, k]


def next_term(
    S: Any, V: Block, old: Block, weights: tuple[float, float, float], out: Block
) -> tuple[float, float]:
    """Write out = a·SV + b·V + c·old, `weights` (a, b, c); return ⟨out, V⟩ and ‖out‖² (Frobenius).

    S CSR (n, m), V (m, b), of which the first n rows are those of the result; `out` neither V nor
    old. Cost: one product and nothing else.
    """
    partial = np.zeros((max(1, -(-out.shape[0] // _ROWS)), 2))
    arrays = S.indptr, S.indices, S.data, V, old, np.array(weights)
    _term(S.nnz * V.shape[1], *arrays, _ROWS, out, partial)
    inner, square = partial.sum(axis=0)
    return float(inner), float(square)


def mix(
    terms: NDArray[np.float64], which: NDArray[np.int64], C: Block, out: NDArray[np.float64]
) -> None:
    """Add Σ_t C_tq·terms[which_t] to out[q]: `terms` (…, n, b), C (t, p), `out` (p, n, b)."""
    _mix(C.size * terms[0].size, terms, which, C, out)
