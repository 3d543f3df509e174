"""Block models: weights between blocks of nodes, and what a node's edges say of its own block.

W_ij = S_ij r_i r_j for S (m, m) CSR and `root` r (m,). Nodes of block -1 are in none, and edges to
them do not count.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop

Floats = NDArray[np.float64]
_PIECE = 1024  # rows that share a thread's scratch


@nb.njit(cache=True, nogil=True)
def _between(indptr: Any, indices: Any, data: Any, root: Any, blocks: Any, found: Any) -> None:
    for i in range(blocks.size):
        if blocks[i] < 0:
            continue
        for q in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
            j = nb.uint64(indices[q])
            if blocks[j] >= 0:
                found[blocks[i], blocks[j]] += data[q] * (root[i] * root[j])


@nb.njit(cache=True, nogil=True)
def _gains_of(A: Any, i: Any, scratch: Any, out: Any) -> None:
    indptr, indices, data, root, blocks, log_rates, expected = A
    seen, links = scratch
    count, loops = 0, 0.0
    for q in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
        j = nb.uint64(indices[q])
        weight = data[q] * (root[i] * root[j])
        s = blocks[j]
        if j == i:
            loops += weight
        elif s >= 0 and weight > 0:
            if links[s] == 0:
                seen[count] = s
                count += 1
            links[s] += weight
    for r in range(out.size):
        total = 0.5 * loops * log_rates[r, r] - root[i] ** 2 * expected[r]
        for at in range(count):
            total += links[seen[at]] * log_rates[r, seen[at]]
        out[r] = total
    for at in range(count):
        links[seen[at]] = 0.0


@loop()
def _best(A: Any, best: Any, gain: Any) -> None:
    blocks, k = A[4], A[6].size
    for piece in nb.prange((best.size + _PIECE - 1) // _PIECE):
        scratch, gains = (np.empty(k, dtype=np.int64), np.zeros(k)), np.empty(k)
        for i in range(piece * _PIECE, min((piece + 1) * _PIECE, best.size)):
            best[i], gain[i] = blocks[i], 0.0
            if blocks[i] >= 0:
                _gains_of(A, i, scratch, gains)
                best[i] = gains.argmax()
                gain[i] = gains[best[i]] - gains[blocks[i]]


@loop()
def _all(A: Any, out: Any) -> None:
    k = A[6].size
    for piece in nb.prange((out.shape[0] + _PIECE - 1) // _PIECE):
        scratch = (np.empty(k, dtype=np.int64), np.zeros(k))
        for i in range(piece * _PIECE, min((piece + 1) * _PIECE, out.shape[0])):
            _gains_of(A, i, scratch, out[i])


def weights_between(S: Any, root: Floats, blocks: NDArray[np.int64], k: int) -> Floats:
    """HᵀWH (k, k) for blocks (m,): sums in the order of the edges, by one thread. Cost O(nnz)."""
    found = np.zeros((k, k))
    _between(S.indptr, S.indices, S.data, root, blocks, found)
    return found


def best_blocks(
    S: Any, root: Floats, blocks: NDArray[np.int64], log_rates: Floats, expected: Floats
) -> tuple[NDArray[np.int64], Floats]:
    """The block (m,) that every node gains most in, all others staying, and by how much.

    Gain of block r: Σ_{j≠i} W_ij log Ω_{r,b_j} + ½W_ii log Ω_rr − r_i²·expected_r, `log_rates`
    log Ω (k, k). Nodes of block -1 stay. Cost O(nnz k), at most.
    """
    A = S.indptr, S.indices, S.data, root, blocks, log_rates, expected
    best, gain = np.empty(blocks.size, dtype=np.int64), np.empty(blocks.size)
    _best(S.nnz * expected.size, A, best, gain)
    return best, gain


def block_gains(
    S: Any, root: Floats, blocks: NDArray[np.int64], log_rates: Floats, expected: Floats
) -> Floats:
    """The gain of every block for every node (m, k), as in `best_blocks`."""
    A = S.indptr, S.indices, S.data, root, blocks, log_rates, expected
    out = np.empty((blocks.size, expected.size))
    _all(S.nnz * expected.size, A, out)
    return out
