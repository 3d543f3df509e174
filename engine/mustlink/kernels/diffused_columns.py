"""Columns of polynomials in S that stay near their source: truncated power sums."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.blocks import by_rows
from mustlink.kernels.threads import inlined, kernel, loop


@inlined()
def _spread(
    indptr: Any, indices: Any, data: Any, x: Any, front: Any, size: Any, y: Any, ring: Any
) -> Any:  # fmt: skip
    """Add S x to y = 0 for x on `front`: the nodes met are listed in `ring`.

    Without a branch, which would be guessed wrongly at every third edge: a node is written down at
    every edge, and counts where its y is still 0. Terms that cancel list it again.
    """
    wide = 0
    for a in range(size):
        j = nb.uint64(front[a])
        v = x[j]
        for e in range(nb.uint64(indptr[j]), nb.uint64(indptr[j + 1])):
            i = nb.uint64(indices[e])
            ring[wide] = i
            wide += y[i] == 0.0
            y[i] += data[e] * v
    return wide


@inlined()
def _advance(
    y: Any, ring: Any, wide: Any, floor: Any, root: Any, x: Any, front: Any
) -> Any:  # fmt: skip
    """Take y on the ring for x, and its large entries for the front; y is 0 again."""
    size = 0
    for b in range(wide):
        i = nb.uint64(ring[b])
        v = y[i]
        y[i] = 0.0
        if v != 0.0 and abs(v) >= floor * root[i]:
            x[i] = v
            front[size] = i
            size += 1
    return size


@inlined()
def _gather(
    x: Any, front: Any, size: Any, weights: Any, total: Any, seen: Any, stamp: Any, touched: Any,
    support: Any,
) -> Any:  # fmt: skip
    """total_iq += weights_q x_i on the front; nodes met for the first time join `touched`."""
    for a in range(size):
        i = nb.uint64(front[a])
        if seen[i] != stamp:
            seen[i] = stamp
            for q in range(weights.size):  # assigned as a whole it is slow to compile
                total[i, q] = 0.0
            touched[support] = i
            support += 1
        for q in range(weights.size):
            total[i, q] += weights[q] * x[i]
    return support


@inlined()
def _keep(
    total: Any, touched: Any, support: Any, root: Any, importance: Any, least: Any, rows: Any,
    kept: Any, count: Any,
) -> Any:  # fmt: skip
    """Append what matters of a column; how many entries there are then."""
    width = importance.size
    for a in range(support):
        i = nb.uint64(touched[a])
        matter = 0.0
        for q in range(width):
            matter = max(matter, importance[q] * abs(total[i, q]))
        if matter >= least * root[i] and matter > 0.0:
            rows[count] = i
            for q in range(width):
                kept[count, q] = total[i, q]
            count += 1
    return count


@kernel()
def _columns(
    indptr: Any, indices: Any, data: Any, root: Any,
    starts: Any, nodes: Any, values: Any, begin: Any, first: Any, last: Any,
    coefficients: Any, thresholds: Any, importance: Any, least: Any,
    x: Any, y: Any, total: Any, seen: Any, front: Any, touched: Any, ring: Any,
    ends: Any, rows: Any, kept: Any,
) -> Any:  # fmt: skip
    """Write rows and what is kept of them; ends[source + 1] counts from the source `begin`.

    Returns the source up to which there was room.
    """
    steps = coefficients.shape[0]
    for source in range(first, last):
        size, support, scale = 0, 0, 0.0
        for e in range(starts[source], starts[source + 1]):
            i = nb.uint64(nodes[e])
            x[i] = values[e]
            scale = max(scale, abs(values[e]) / root[i])
            front[size] = i
            size += 1
        for k in range(steps):
            support = _gather(
                x, front, size, coefficients[k], total, seen, source + 1, touched, support
            )
            if k + 1 == steps or size == 0:
                break
            wide = _spread(indptr, indices, data, x, front, size, y, ring)
            size = _advance(y, ring, wide, thresholds[k + 1] * scale, root, x, front)
        count = ends[source - begin]
        if count + support > rows.size:
            for a in range(support):
                seen[touched[a]] = 0  # it is begun anew
            return source
        ends[source - begin + 1] = _keep(
            total, touched, support, root, importance, least * scale, rows, kept, count
        )
    return last


_ROOM = 1 << 16  # entries for which there is room at first; pages are taken when touched


def workspace(m: int, nnz: int, width: int) -> tuple[NDArray[Any], ...]:
    """What one thread needs for `diffused_columns` of m nodes; pages are taken when touched.

    At a step no node is listed more often than it has edges, `nnz` in all.
    """
    numbers = [np.zeros(m), np.zeros(m), np.zeros((m, width))]
    lists = [np.zeros(m, dtype=np.int32) for _ in range(2)]
    return (*numbers, np.zeros(m, dtype=np.int64), *lists, np.zeros(nnz + 1, dtype=np.int32))


def diffused_columns(
    S: Any,
    root: NDArray[np.float64],
    sources: Any,
    span: tuple[int, int],
    coefficients: NDArray[np.float64],
    thresholds: NDArray[np.float64],
    final: tuple[NDArray[np.float64], float],
    dtype: Any,
    space: tuple[NDArray[Any], ...],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
    """Σ_k c_kq S^k b for columns b = first … last−1 of `sources` (m, c) CSC, truncated.

    Returns indptr (last−first+1,), rows (nnz,) in the order they were met, values (nnz, Q) of
    `dtype`. After step k entries with |x_i| < thresholds[k]·s·r_i are dropped, where r = D^½ is
    `root` and s = max |b_i|/r_i the source's size; at the end those with max_q importance_q |x_iq|
    < least·s·r_i, `final` = (importance, least). `space` comes from `workspace`, and serves all
    spans of one call of the same sources. Runs without the interpreter's lock, in one thread.
    Cost: the edges of all nodes above the thresholds, in every step.
    """
    first, last = span
    known = S.indptr, S.indices, S.data, root, sources.indptr, sources.indices, sources.data, first
    how = coefficients, thresholds, *final, *space
    ends = np.zeros(last - first + 1, dtype=np.int64)
    rows, kept = np.empty(_ROOM, np.int32), np.empty((_ROOM, final[0].size), dtype)
    at = _columns(*known, first, last, *how, ends, rows, kept)
    while at < last:
        count, size = ends[at - first], 2 * rows.size + S.shape[0]
        rows = extended(rows, count, size)
        kept = extended(kept, count, size)
        at = _columns(*known, at, last, *how, ends, rows, kept)
    return ends, rows[: ends[-1]].copy(), kept[: ends[-1]].copy()


def extended(entries: NDArray[Any], count: int, size: int) -> NDArray[Any]:
    """Room for `size` entries, of which the first `count` are there."""
    longer = np.empty((size, *entries.shape[1:]), entries.dtype)
    longer[:count] = entries[:count]
    return longer


# --- Numbers spread along links of own rows, to aggregate nodes about roots that are far apart


@loop()
def _highest(
    lo: int, hi: int,
    indptr: Any, indices: Any, data: Any, strongest: Any, share: Any, values: Any, chosen: Any,
    found: Any,
) -> None:  # fmt: skip
    for i in range(lo, hi):
        if not chosen[i]:
            continue
        most = values[i]
        for q in range(indptr[i], indptr[i + 1]):
            j = indices[q]
            if j != i and abs(data[q]) >= share * min(strongest[i], strongest[j]):
                most = max(most, values[j])
        found[i] = most


@loop()
def _nearest(
    lo: int, hi: int, indptr: Any, indices: Any, data: Any, values: Any, found: Any
) -> None:
    for i in range(lo, hi):
        found[i] = values[i]
        if found[i] == 0:
            most = data.dtype.type(0)
            for q in range(indptr[i], indptr[i + 1]):
                j = indices[q]
                if values[j] > 0 and abs(data[q]) > most:
                    most, found[i] = abs(data[q]), values[j]


def highest_near(
    matrix: sp.csr_matrix,
    links: tuple[NDArray[Any], float],
    values: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    found: NDArray[np.int64],
) -> None:
    """Write the largest value of a row's node and those it has a strong link to, where `chosen`.

    `links` are (strongest, share): a link is strong from the share of the lesser of both ends'
    strongest on. `strongest` and `values` are of all columns.
    """
    arrays = matrix.indptr, matrix.indices, matrix.data, *links
    _highest(found.size, matrix.nnz, *arrays, values, chosen, found)


def nearest_value(matrix: sp.csr_matrix, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """A row's value, and where that is 0 the one at the end of its heaviest link to another."""
    found = np.empty(matrix.shape[0], dtype=np.int64)
    _nearest(found.size, matrix.nnz, matrix.indptr, matrix.indices, matrix.data, values, found)
    return found


def node_keys(nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positive numbers in random order, one for every node below 2³², (m,).

    The upper bits are a hash of the node, the finaliser of splitmix64; the lower ones the node.
    """
    z = nodes.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = ((z ^ (z >> np.uint64(31))) >> np.uint64(34)) << np.uint64(32)
    return (z | nodes.astype(np.uint64)).astype(np.int64) + 1


# --- Similarities adjusted by propagated constraints (FLI11 eq. 9)


def adjust(weights: NDArray[np.float64], beliefs: NDArray[np.float64]) -> NDArray[np.float64]:
    """w* = 1 − (1 − F)(1 − w) where F >= 0, (1 + F)w where F < 0; both (e,), w in [0, 1].

    F is cut to [-1, 1], so that w* stays in [0, 1]. Source: FLI11 eq. 9. Cost: one pass.
    """

    def some(w: NDArray[Any], f: NDArray[Any]) -> NDArray[Any]:
        f = np.clip(f, -1.0, 1.0)
        return np.where(f >= 0.0, 1.0 - (1.0 - f) * (1.0 - w), (1.0 + f) * w).astype(w.dtype)

    return by_rows(some, weights, beliefs)
