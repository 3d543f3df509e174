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
def _leave(v: Any, queue: Any) -> None:
    """Take a node from the list of those with as many neighbours."""
    degree, head, after, before = queue
    if before[v] < 0:
        head[min(degree[v], head.size - 1)] = after[v]
    else:
        after[before[v]] = after[v]
    if after[v] >= 0:
        before[after[v]] = before[v]


@nb.njit(cache=True, nogil=True)
def _enter(v: Any, queue: Any) -> None:
    degree, head, after, before = queue
    bucket = min(degree[v], head.size - 1)
    before[v], after[v] = -1, head[bucket]
    if head[bucket] >= 0:
        before[head[bucket]] = v
    head[bucket] = v


@nb.njit(cache=True, nogil=True)
def _change(v: Any, by: Any, queue: Any) -> None:
    """A node has that many neighbours more; the ground, the last, is in no list."""
    degree = queue[0]
    if v < degree.size - 1:
        _leave(v, queue)
        degree[v] += by
        _enter(v, queue)


@nb.njit(cache=True, nogil=True)
def _edges(indptr: Any, indices: Any, data: Any, ground: Any) -> Any:
    """Every edge as two slots 2e and 2e + 1, one in the list of either end, and the degrees.

    `first` slot of a node's list, `following` one, node at the `far` end, `weight`.
    """
    m, edges = indptr.size - 1, 0
    for i in range(m):
        edges += ground[i] > 0
        for q in range(indptr[i], indptr[i + 1]):
            edges += indices[q] > i and data[q] > 0
    first, following = np.full(m + 1, -1, np.int32), np.empty(2 * edges, np.int32)
    far, weight = np.empty(2 * edges, np.int32), np.empty(2 * edges, np.float64)
    degree, at = np.zeros(m + 1, np.int64), 0
    for i in range(m):
        for q in range(indptr[i], indptr[i + 1] + 1):
            is_edge = q < indptr[i + 1]
            j = np.int64(indices[q]) if is_edge else m
            w = np.float64(data[q]) if is_edge else ground[i]
            if j > i and w > 0:
                far[at], weight[at], following[at], first[i] = j, w, first[i], at
                at += 1
                far[at], weight[at], following[at], first[j] = i, w, first[j], at
                at += 1
                degree[i] += 1
                degree[j] += 1
    return (first, following, far, weight), degree


@nb.njit(cache=True, nogil=True)
def _neighbours(v: Any, edges: Any, met: Any, queue: Any, slots: Any) -> Any:
    """Slots of v's neighbours, one each and by rising weight: edges that were made twice are one.

    `slots` has room for them or is made longer; `met` (m + 1,) is -1 and is left so.
    """
    first, following, far, weight = edges
    count, at = 0, first[v]
    while at >= 0:
        if weight[at] > 0:
            j = far[at]
            if met[j] < 0:
                met[j] = at
                if count == slots.size:
                    slots = np.concatenate((slots, np.empty(count, np.int64)))
                slots[count] = at
                count += 1
            else:
                weight[met[j]] += weight[at]
                weight[at ^ 1] = 0.0
                _change(j, -1, queue)
        at = following[at]
    values = np.empty(count)
    for c in range(count):
        met[far[slots[c]]] = -1
        values[c] = weight[slots[c]]
    order = np.argsort(values)
    return slots, slots[order], values[order]


@nb.njit(cache=True, nogil=True)
def _join(chosen: Any, values: Any, edges: Any, queue: Any, state: Any, shares: Any) -> Any:
    """Join the neighbours of an eliminated node by a random tree; its shares and pivot.

    Every neighbour but the heaviest is joined to one of those heavier than it.
    """
    first, following, far, weight = edges
    count = chosen.size
    sums = np.cumsum(values)
    total = sums[-1]
    left, scale = total, 1.0
    for c in range(count - 1):
        at = chosen[c]
        j, share = far[at], values[c] * scale / left
        drawn = sums[c] + _random(state) * (total - sums[c])
        k = min(max(np.searchsorted(sums, drawn), c + 1), count - 1)
        other = far[chosen[k]]
        # The slot in j's list leads to `other` now; that of the node becomes one of `other`.
        far[at ^ 1], weight[at ^ 1] = other, share * (1.0 - share) * left
        far[at], weight[at] = j, weight[at ^ 1]
        following[at], first[other] = first[other], at
        _change(other, 1, queue)
        scale *= 1.0 - share
        left *= (1.0 - share) ** 2
        shares[c] = share
    at = chosen[count - 1]
    weight[at ^ 1] = 0.0
    _change(far[at], -1, queue)
    shares[count - 1] = 1.0
    return values[count - 1] * scale


@nb.njit(cache=True, nogil=True)
def eliminate(indptr: Any, indices: Any, data: Any, ground: Any, seed: Any) -> Any:
    """Factor of the Laplacian of W = (indptr, indices, data), (m, m), plus diag(ground).

    Returns `order` (m,), `starts` (m + 1,), `rows` and `shares` (nnz,), `pivots` (m,): the t-th
    node is order[t], the shares of its elimination go to `rows`, node m being the ground. Nodes of
    few neighbours come first. For up to 10⁹ edges. Cost: a few µs and 70 bytes an edge.
    """
    m = indptr.size - 1
    edges, degree = _edges(indptr, indices, data, ground)
    queue = (degree, np.full(m + 2, -1, np.int64), np.empty(m + 1, np.int64), np.empty_like(degree))
    for i in range(m - 1, -1, -1):
        _enter(i, queue)
    state, met = np.array([seed], np.uint64), np.full(m + 1, -1, np.int64)
    order, pivots, starts = np.empty(m, np.int64), np.zeros(m), np.zeros(m + 1, np.int64)
    room = max(edges[2].size // 2, 16)
    rows, shares = np.empty(room, np.int32), np.empty(room)
    used, slots = 0, np.empty(64, np.int64)
    least = 0
    for t in range(m):
        while queue[1][least] < 0:
            least += 1
        v = queue[1][least]
        _leave(v, queue)
        order[t] = v
        slots, chosen, values = _neighbours(v, edges, met, queue, slots)
        count = chosen.size
        while used + count > rows.size:
            rows = np.concatenate((rows, np.empty(rows.size // 4 + count, np.int32)))
            shares = np.concatenate((shares, np.empty(rows.size - shares.size)))
        for c in range(count):
            rows[used + c] = edges[2][chosen[c]]
        if count:
            pivots[t] = _join(chosen, values, edges, queue, state, shares[used:])
        used += count
        starts[t + 1] = used
        for c in range(count):  # each of them has at most one neighbour less
            least = min(least, degree[rows[used - count + c]])
        least = max(least, 0)
    return order, starts, rows[:used].copy(), shares[:used].copy(), pivots


@nb.njit(cache=True, nogil=True)
def _forward(order: Any, starts: Any, rows: Any, shares: Any, Y: Any) -> None:
    for t in range(order.size):
        v, first, last = order[t], starts[t], starts[t + 1] - 1
        keep = 1.0
        for q in range(first, last):
            part = shares[q] * keep
            for c in range(Y.shape[1]):
                Y[rows[q], c] += part * Y[v, c]
            keep *= 1.0 - shares[q]
        for c in range(Y.shape[1] if last >= first else 0):
            Y[v, c] *= keep
            Y[rows[last], c] += Y[v, c]


@nb.njit(cache=True, nogil=True)
def _backward(order: Any, starts: Any, rows: Any, shares: Any, Y: Any) -> None:
    for t in range(order.size - 1, -1, -1):
        v, first, last = order[t], starts[t], starts[t + 1] - 1
        for c in range(Y.shape[1] if last >= first else 0):
            Y[v, c] += Y[rows[last], c]
        for q in range(last - 1, first - 1, -1):
            for c in range(Y.shape[1]):
                Y[v, c] = (1.0 - shares[q]) * Y[v, c] + shares[q] * Y[rows[q], c]


@nb.njit(cache=True, nogil=True)
def substitute(order: Any, starts: Any, rows: Any, shares: Any, pivots: Any, Y: Any) -> None:
    """Solve with the factor in place, Y (m + 1, b); the last row is the ground, and 0 after it."""
    _forward(order, starts, rows, shares, Y)
    for t in range(order.size):
        for c in range(Y.shape[1]):
            Y[order[t], c] = Y[order[t], c] / pivots[t] if pivots[t] > 0 else 0.0
    Y[-1] = 0.0
    _backward(order, starts, rows, shares, Y)


@nb.njit(cache=True, nogil=True, parallel=True)
def grounded_product(
    indptr: Any, indices: Any, data: Any, root: Any, ground: Any, F: Any, Y: Any
) -> None:
    """Write (D − W + diag(ground))F into Y (m, b), W = diag(root)·data·diag(root), by differences.

    Σ_j w_ij(f_i − f_j) keeps the digits that d_i f_i − Σ_j w_ij f_j loses where f is nearly
    constant.
    """
    for i in nb.prange(indptr.size - 1):
        for c in range(F.shape[1]):
            Y[i, c] = 0.0
        for q in range(indptr[i], indptr[i + 1]):
            j = indices[q]
            w = data[q] * root[j]
            for c in range(F.shape[1]):
                Y[i, c] += w * (F[i, c] - F[j, c])
        for c in range(F.shape[1]):
            Y[i, c] = root[i] * Y[i, c] + ground[i] * F[i, c]
