"""Nearest neighbours in lists of fixed length: selection, merging and refinement by lists."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from mustlink.kernels.row_sort import sort_row

_CHUNK = 64  # products looked at together before any is taken
_FAST = {"reassoc", "contract", "nsz", "nnan", "ninf"}  # finite input; sums in any order


@nb.njit(cache=True, nogil=True, fastmath={"nsz", "nnan"})
def keep_smallest(products: Any, norms: Any, first: int, values: Any, places: Any) -> None:
    """Keep the smallest of norms_j - 2 products_ij per row, merged into what was kept.

    `products` (m, w) = q_i . p_j, `norms` (w,) = |p_j|²; `values`, `places` (m, k) ascend, Inf
    where nothing was kept yet. Column j is written as first + j. Ties go to the smaller column.
    """
    m, w = products.shape
    k = values.shape[1]
    two = np.float32(2.0)
    for i in range(m):
        bound = values[i, k - 1]
        row = products[i]
        for start in range(0, w, _CHUNK):
            stop = min(start + _CHUNK, w)
            low = np.float32(np.inf)
            for j in range(start, stop):
                low = min(low, norms[j] - two * row[j])
            if low >= bound:
                continue
            for j in range(start, stop):
                value = norms[j] - two * row[j]
                if value >= bound:
                    continue
                at = k - 1
                while at > 0 and values[i, at - 1] > value:
                    values[i, at] = values[i, at - 1]
                    places[i, at] = places[i, at - 1]
                    at -= 1
                values[i, at] = value
                places[i, at] = first + j
                bound = values[i, k - 1]


# Squared distances below this share of |q|² came from products of which too few digits are left:
# single precision errs by 2e-7 |q|², a 500th of it.
DOUBTFUL = 1e-4


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def _squared(a: Any, b: Any) -> Any:
    """|a - b|² in single precision."""
    total = np.float32(0.0)
    for c in range(a.shape[0]):
        gap = a[c] - b[c]
        total += gap * gap
    return total


@nb.njit(cache=True, nogil=True)
def _insert(lengths: Any, nodes: Any, length: Any, node: int) -> bool:
    """Put a node into one ascending list unless it is there or too far; whether it went in.

    Order is by (length, node), so the list does not depend on the order of arrival.
    """
    k = lengths.shape[0]
    last = lengths[k - 1]
    if length > last or (length == last and nodes[k - 1] >= 0 and node >= nodes[k - 1]):
        return False
    for c in range(k):
        if nodes[c] == node:
            return False
    at = k - 1
    while at > 0 and (
        lengths[at - 1] > length or (lengths[at - 1] == length and nodes[at - 1] > node)
    ):
        lengths[at] = lengths[at - 1]
        nodes[at] = nodes[at - 1]
        at -= 1
    lengths[at] = length
    nodes[at] = node
    return True


@nb.njit(cache=True, nogil=True)
def measure(points: Any, rows: Any, places: Any, ids: Any, lengths: Any, nodes: Any) -> None:
    """Squared lengths measured anew for chosen places of one part, the point itself left out.

    Row i of `places` (m, c) belongs to points[rows[i]]; `nodes`, `lengths` (m, k) are filled,
    ascending, -1 and Inf where a list is short. `ids` numbers the part's points.
    """
    m, count = places.shape
    for i in range(m):
        own = rows[i]
        lengths[i, :] = np.inf
        nodes[i, :] = -1
        for c in range(count):
            at = places[i, c]
            if at < 0 or at == own:
                continue
            _insert(lengths[i], nodes[i], _squared(points[own], points[at]), ids[at])


@nb.njit(cache=True, nogil=True)
def nearest_directly(queries: Any, points: Any, places: Any) -> None:
    """Find the nearest of `points` (w, d) to `queries` (m, d) by differences: places (m, k).

    Keeps the digits that products lose where points are much nearer to each other than to the
    origin. Ascending, ties to the first; -1 where there are fewer. O(m w d), not by BLAS.
    """
    m, k = places.shape
    lengths = np.empty(k, dtype=np.float32)
    for i in range(m):
        lengths[:] = np.inf
        places[i, :] = -1
        for j in range(points.shape[0]):
            length = _squared(queries[i], points[j])
            if length >= lengths[k - 1]:
                continue
            at = k - 1
            while at > 0 and lengths[at - 1] > length:
                lengths[at] = lengths[at - 1]
                places[i, at] = places[i, at - 1]
                at -= 1
            lengths[at] = length
            places[i, at] = j


@nb.njit(cache=True, nogil=True)
def merge(ids: Any, found: Any, squared: Any, indices: Any, lengths: Any) -> None:
    """Merge lists of a part's nodes `ids` (m,) into the lists of all nodes (n, k)."""
    m, k = found.shape
    for i in range(m):
        node = ids[i]
        for c in range(k):
            if found[i, c] < 0:
                break
            _insert(lengths[node], indices[node], squared[i, c], found[i, c])


@nb.njit(cache=True, nogil=True)
def collect(
    order: Any, start: int, limit: Any, wide: int, indices: Any, local: Any, found: Any
) -> tuple[int, int]:
    """Number the nodes whose coordinates a group of rows order[start:stop] needs to be refined.

    `limit` is the largest group and the largest number of nodes; the group ends before either is
    exceeded. `local` (n,), -1 everywhere, becomes a node's place in `found`. Returns stop, count.
    """
    k = indices.shape[1]
    most = min(1 + k + wide * wide, local.shape[0])
    count = 0
    stop = start
    last = min(order.shape[0], start + limit[0])
    while stop < last and (stop == start or count + most <= limit[1]):
        own = order[stop]
        for a in range(-1, k):
            j = own if a < 0 else indices[own, a]
            if j < 0:
                break
            if local[j] < 0:
                local[j] = count
                found[count] = j
                count += 1
            if a < 0 or a >= wide:
                continue
            for b in range(wide):
                other = indices[j, b]
                if other < 0:
                    break
                if local[other] < 0:
                    local[other] = count
                    found[count] = other
                    count += 1
        stop += 1
    return stop, count


@nb.njit(cache=True, nogil=True)
def refine(
    rows: Any, wide: int, indices: Any, local: Any, points: Any, lengths: Any, nodes: Any
) -> None:
    """Compare each of `rows` (g,) with the `wide` nearest of its `wide` nearest, once each.

    `nodes`, `lengths` (g, k) hold the rows' lists and are improved; `indices` (n, k) is read only.
    `local` (n,) is a node's row in `points`.
    """
    seen = np.zeros(points.shape[0], dtype=np.int32)
    k = nodes.shape[1]
    for i in range(rows.shape[0]):
        own = local[rows[i]]
        stamp = i + 1
        seen[own] = stamp
        for a in range(k):
            if nodes[i, a] < 0:
                break
            seen[local[nodes[i, a]]] = stamp
        for a in range(wide):
            j = indices[rows[i], a]
            if j < 0:
                break
            for b in range(wide):
                other = indices[j, b]
                if other < 0:
                    break
                at = local[other]
                if seen[at] != stamp:
                    seen[at] = stamp
                    _insert(lengths[i], nodes[i], _squared(points[own], points[at]), other)


@nb.njit(cache=True, nogil=True)
def order_members(assigned: Any, starts: Any, members: Any, places: Any) -> None:
    """Sort the pairs (node, part) of `assigned` (n, p) by part: nearest parts first, then by node.

    `starts` (C + 1,) are the parts' bounds. `members` (n p,) is filled with the nodes, `places`
    (n, p) with the place of every pair.
    """
    n, p = assigned.shape
    at = starts[:-1].copy()
    for level in range(p):
        for i in range(n):
            part = assigned[i, level]
            members[at[part]] = i
            places[i, level] = at[part]
            at[part] += 1


@nb.njit(cache=True, nogil=True)
def count_symmetric(indices: Any) -> Any:
    """Length of every row of A + Aᵀ, (n,), for neighbour lists (n, k), -1 where one is missing."""
    n, k = indices.shape
    count = np.zeros(n, dtype=np.int64)
    for i in range(n):
        for a in range(k):
            j = indices[i, a]
            if j < 0:
                continue
            count[i] += 1
            mutual = False
            for b in range(k):
                mutual |= indices[j, b] == i
            if not mutual:
                count[j] += 1
    return count


@nb.njit(cache=True, nogil=True)
def fill_symmetric(indices: Any, weights: Any, indptr: Any, columns: Any, data: Any) -> None:
    """Write (A + Aᵀ)/2 of lists (n, k) with weights (n, k) as CSR rows with ascending columns."""
    n, k = indices.shape
    at = indptr[:-1].copy()
    half = weights.dtype.type(0.5)
    for i in range(n):
        for a in range(k):
            j = indices[i, a]
            if j < 0:
                continue
            back = -1
            for b in range(k):
                if indices[j, b] == i:
                    back = b
            weight = weights[i, a] if back < 0 else weights[i, a] + weights[j, back]
            columns[at[i]] = j
            data[at[i]] = half * weight
            at[i] += 1
            if back < 0:
                columns[at[j]] = i
                data[at[j]] = half * weight
                at[j] += 1
    for i in range(n):
        sort_row(columns, data, indptr[i], indptr[i + 1])
