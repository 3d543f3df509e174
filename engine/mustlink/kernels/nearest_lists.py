"""Nearest neighbours in lists of fixed length: selection and merging."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from mustlink.kernels.row_sort import sort_row

_CHUNK = 32  # values looked at together before any is taken
_LANES = 64  # columns are dealt to so many lanes, whose smallest bound what can be kept
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
    score = np.empty(w, dtype=products.dtype)
    for i in range(m):
        row = products[i]
        for j in range(w):
            score[j] = norms[j] - two * row[j]
        bound = values[i, k - 1]
        # The k-th smallest of the lanes' smallest: k columns at least are no larger.
        limit = min(bound, _kth_lane(score, k)) if 2 * k <= _LANES and k > 3 else bound
        for start in range(0, w, _CHUNK):
            chunk = score[start : start + _CHUNK]
            near = np.int32(0)
            for j in range(chunk.shape[0]):
                near += np.int32(chunk[j] <= limit)
            if near == 0:
                continue
            for j in range(chunk.shape[0]):
                value = chunk[j]
                if value > limit or value >= bound:
                    continue
                at = k - 1
                while at > 0 and values[i, at - 1] > value:
                    values[i, at] = values[i, at - 1]
                    places[i, at] = places[i, at - 1]
                    at -= 1
                values[i, at] = value
                places[i, at] = first + start + j
                bound = values[i, k - 1]


@nb.njit(cache=True, nogil=True, fastmath={"nsz", "nnan"})
def _kth_lane(score: Any, k: int) -> Any:
    """The k-th smallest of the smallest of each lane of `score` (w,); Inf where w is small."""
    best = np.full(k, np.inf, dtype=score.dtype)
    full = score.shape[0] // _LANES * _LANES
    if full < 2 * _LANES:
        return best[k - 1]
    lanes = score[:_LANES].copy()
    for start in range(_LANES, full, _LANES):
        chunk = score[start : start + _LANES]
        for lane in range(_LANES):
            lanes[lane] = min(lanes[lane], chunk[lane])
    for lane in range(_LANES):
        value = lanes[lane]
        if value >= best[k - 1]:
            continue
        at = k - 1
        while at > 0 and best[at - 1] > value:
            best[at] = best[at - 1]
            at -= 1
        best[at] = value
    return best[k - 1]


# Squared distances below this share of |q|² came from products of which too few digits are left:
# single precision errs by 2e-7 |q|², a 500th of it.
DOUBTFUL = 1e-4


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def squared_gap(a: Any, b: Any) -> Any:
    """|a - b|² in single precision, the same as |b - a|²."""
    total = np.float32(0.0)
    for c in range(a.shape[0]):
        gap = a[c] - b[c]
        total += gap * gap
    return total


@nb.njit(cache=True, nogil=True)
def insert(lengths: Any, nodes: Any, length: Any, node: int) -> int:
    """Put a node into one ascending list unless it is there or too far; its place, -1 if not.

    Order is by (length, node), so the list does not depend on the order of arrival.
    """
    k = lengths.shape[0]
    last = lengths[k - 1]
    if length > last or (length == last and nodes[k - 1] >= 0 and node >= nodes[k - 1]):
        return -1
    for c in range(k):
        if nodes[c] == node:
            return -1
    at = k - 1
    while at > 0 and (
        lengths[at - 1] > length or (lengths[at - 1] == length and nodes[at - 1] > node)
    ):
        lengths[at] = lengths[at - 1]
        nodes[at] = nodes[at - 1]
        at -= 1
    lengths[at] = length
    nodes[at] = node
    return at


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
            insert(lengths[i], nodes[i], squared_gap(points[own], points[at]), ids[at])


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
            length = squared_gap(queries[i], points[j])
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
    """Merge lists (m, w) of a part's nodes `ids` (m,) into the lists of all nodes (n, k)."""
    m, width = found.shape
    for i in range(m):
        node = ids[i]
        for c in range(width):
            if found[i, c] < 0:
                break
            insert(lengths[node], indices[node], squared[i, c], found[i, c])


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
