"""Approximate elimination of a graph's nodes one after the other, and solves with what it leaves.

Eliminating a node joins all its neighbours to each other. Here they are joined by a random tree
whose mean is that clique, so that there are never more edges than at the start. All numbers are
sums, products and quotients of positive ones: weights of any range lose no digits.
Source: Gao, Kyng & Spielman 2023, approximate Cholesky for Laplacians.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@nb.njit(cache=True, nogil=True)
def _random(state: Any) -> Any:
    """The next uniform number in [0, 1) of a splitmix64 stream, `state` (1,) uint64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@nb.njit(cache=True, nogil=True)
def _unqueue(v: Any, degree: Any, head: Any, after: Any, before: Any) -> None:
    bucket = min(degree[v], head.size - 1)
    if before[v] < 0:
        head[bucket] = after[v]
    else:
        after[before[v]] = after[v]
    if after[v] >= 0:
        before[after[v]] = before[v]


@nb.njit(cache=True, nogil=True)
def _enqueue(v: Any, degree: Any, head: Any, after: Any, before: Any) -> None:
    bucket = min(degree[v], head.size - 1)
    before[v], after[v] = -1, head[bucket]
    if head[bucket] >= 0:
        before[head[bucket]] = v
    head[bucket] = v


@nb.njit(cache=True, nogil=True)
def _edges(indptr: Any, indices: Any, data: Any, ground: Any) -> Any:
    """Both directions of every edge as slots: lists of a node's slots, far node, weight, twin."""
    m = indptr.size - 1
    most = 0
    for i in range(m):
        most += ground[i] > 0
        for q in range(indptr[i], indptr[i + 1]):
            most += indices[q] > i and data[q] > 0
    first, following = np.full(m + 1, -1, np.int64), np.empty(2 * most, np.int64)
    far, weight = np.empty(2 * most, np.int64), np.empty(2 * most, np.float64)
    degree = np.zeros(m + 1, np.int64)
    at = 0
    for i in range(m):
        for q in range(indptr[i], indptr[i + 1] + 1):
            if q < indptr[i + 1]:
                j, w = np.int64(indices[q]), np.float64(data[q])
                if j <= i:
                    continue
            else:
                j, w = m, ground[i]
            if not w > 0:
                continue
            far[at], weight[at], following[at] = j, w, first[i]
            first[i] = at
            far[at + 1], weight[at + 1], following[at + 1] = i, w, first[j]
            first[j] = at + 1
            degree[i] += 1
            degree[j] += 1
            at += 2
    return first, following, far, weight, degree


@nb.njit(cache=True, nogil=True)
def eliminate(indptr: Any, indices: Any, data: Any, ground: Any, seed: Any) -> Any:
    """Factor of the Laplacian of W = (indptr, indices, data), (m, m), plus diag(ground).

    Returns `order` (m,), `starts` (m + 1,), `rows` and `shares` (nnz,), `pivots` (m,): column t is
    that of node order[t], the shares of its elimination go to `rows`, node m being the ground.
    Nodes are taken by their present number of neighbours. Cost: about nnz log nnz, 80 bytes an edge
    at the peak.
    """
    m = indptr.size - 1
    first, following, far, weight, degree = _edges(indptr, indices, data, ground)
    state = np.array([seed], np.uint64)
    head = np.full(m + 2, -1, np.int64)
    after, before = np.full(m + 1, -1, np.int64), np.full(m + 1, -1, np.int64)
    for i in range(m - 1, -1, -1):
        _enqueue(i, degree, head, after, before)
    order, pivots = np.empty(m, np.int64), np.zeros(m)
    starts = np.zeros(m + 1, np.int64)
    rows, shares = np.empty(max(far.size, 16), np.int64), np.empty(max(far.size, 16))
    last = np.full(m + 1, -1, np.int64)  # slot by which a neighbour was met
    used, low = 0, 0
    slots = np.empty(64, np.int64)
    for t in range(m):
        while head[low] < 0:
            low += 1
        v = head[low]
        _unqueue(v, degree, head, after, before)
        order[t] = v
        count, at = 0, first[v]
        while at >= 0:
            if weight[at] > 0:
                j = far[at]
                seen = last[j]
                if seen >= 0:  # an edge made twice is one
                    weight[seen] += weight[at]
                    weight[at ^ 1] = 0.0
                    if j < m:
                        _unqueue(j, degree, head, after, before)
                        degree[j] -= 1
                        _enqueue(j, degree, head, after, before)
                        low = min(low, degree[j])
                else:
                    last[j] = at
                    if count == slots.size:
                        slots = np.concatenate((slots, np.empty(count, np.int64)))
                    slots[count] = at
                    count += 1
            at = following[at]
        chosen = slots[:count]
        values = np.empty(count)
        for c in range(count):
            last[far[chosen[c]]] = -1
            values[c] = weight[chosen[c]]
        by_weight = np.argsort(values)
        above = np.empty(count + 1)  # weight from here on, added from the smallest
        sums = np.empty(count)
        total = 0.0
        for c in range(count):
            total += values[by_weight[c]]
            sums[c] = total
        above[0] = total
        while used + count > rows.size:
            rows = np.concatenate((rows, np.empty(rows.size, np.int64)))
            shares = np.concatenate((shares, np.empty(shares.size)))
        left, scale = total, 1.0
        for c in range(count - 1):
            at = chosen[by_weight[c]]
            twin = at ^ 1
            j = far[at]
            share = values[by_weight[c]] * scale / left
            drawn = sums[c] + _random(state) * (total - sums[c])
            k = min(max(np.searchsorted(sums, drawn), c + 1), count - 1)
            other = far[chosen[by_weight[k]]]
            new = share * (1.0 - share) * left
            # The slot in j's list goes to `other` now, that of v becomes one of `other`.
            far[twin], weight[twin] = other, new
            far[at], weight[at] = j, new
            following[at] = first[other]
            first[other] = at
            if other < m:
                _unqueue(other, degree, head, after, before)
                degree[other] += 1
                _enqueue(other, degree, head, after, before)
            scale *= 1.0 - share
            left *= (1.0 - share) ** 2
            rows[used], shares[used] = j, share
            used += 1
        if count:
            at = chosen[by_weight[count - 1]]
            j = far[at]
            weight[at ^ 1] = 0.0
            if j < m:
                _unqueue(j, degree, head, after, before)
                degree[j] -= 1
                _enqueue(j, degree, head, after, before)
                low = min(low, degree[j])
            rows[used], shares[used] = j, 1.0
            used += 1
            pivots[t] = values[by_weight[count - 1]] * scale
        starts[t + 1] = used
    return order, starts, rows[:used].copy(), shares[:used].copy(), pivots


@nb.njit(cache=True, nogil=True)
def substitute(
    order: Any, starts: Any, rows: Any, shares: Any, pivots: Any, Y: Any
) -> None:
    """Solve with the factor in place, Y (m + 1, b); the last row is the ground, and 0 after it."""
    m, width = order.size, Y.shape[1]
    for t in range(m):
        v = order[t]
        first, last = starts[t], starts[t + 1] - 1
        if last < first:
            continue
        keep = 1.0
        for q in range(first, last):
            j, part = rows[q], shares[q] * keep
            for c in range(width):
                Y[j, c] += part * Y[v, c]
            keep *= 1.0 - shares[q]
        j = rows[last]
        for c in range(width):
            Y[v, c] *= keep
            Y[j, c] += Y[v, c]
    for t in range(m):
        v = order[t]
        for c in range(width):
            Y[v, c] = Y[v, c] / pivots[t] if pivots[t] > 0 else 0.0
    for c in range(width):
        Y[m, c] = 0.0
    for t in range(m - 1, -1, -1):
        v = order[t]
        first, last = starts[t], starts[t + 1] - 1
        if last < first:
            continue
        j = rows[last]
        for c in range(width):
            Y[v, c] += Y[j, c]
        for q in range(last - 1, first - 1, -1):
            j, share = rows[q], shares[q]
            for c in range(width):
                Y[v, c] = (1.0 - share) * Y[v, c] + share * Y[j, c]
