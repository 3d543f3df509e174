"""Nearest neighbours in lists of fixed length: the smallest of many, and who goes in."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

_CHUNK = 64  # values looked at together before any is taken
_LANES = 64  # columns are dealt to so many lanes, whose smallest bound what can be kept
_HALVINGS = 8  # steps towards that bound
_FAST = {"reassoc", "contract", "nsz", "nnan", "ninf"}  # finite input; sums in any order


@nb.njit(cache=True, nogil=True, fastmath={"nsz", "nnan"})
def keep_smallest(products: Any, norms: Any, first: int, values: Any, places: Any) -> None:
    """Keep the smallest of norms_j - 2 products_ij per row, merged into what was kept.

    `products` (m, w) = q_i . p_j, `norms` (w,) = |p_j|²; `values`, `places` (m, k) ascend, Inf
    where nothing was kept yet. Column j is written as first + j. Ties go to the smaller column.
    """
    m, w = products.shape
    k = values.shape[1]
    two, one, last = np.float32(2.0), np.uint64(1), np.uint64(k - 1)
    score, lanes = np.empty(w, products.dtype), np.empty(_LANES, products.dtype)
    near = np.empty(w + 1, np.int32)
    for i in range(m):
        row, kept, columns = products[i], values[i], places[i]
        for j in range(w):
            score[j] = norms[j] - two * row[j]
        limit = kept[last]
        if w >= 2 * _LANES and k <= _LANES:
            limit = min(limit, _bound(score, lanes, k, limit))
        found = np.uint64(0)
        for start in range(0, w, _CHUNK):
            chunk = score[start : start + _CHUNK]
            some = np.int32(0)
            for j in range(chunk.shape[0]):
                some += np.int32(chunk[j] <= limit)
            if some == 0:
                continue
            for j in range(chunk.shape[0]):  # without a branch: which are near is hard to guess
                near[found] = start + j
                found += np.uint64(chunk[j] <= limit)
        for c in range(found):
            value = score[near[c]]
            if value >= kept[last]:
                continue
            at = last
            while at > 0 and kept[at - one] > value:
                kept[at] = kept[at - one]
                columns[at] = columns[at - one]
                at -= one
            kept[at] = value
            columns[at] = first + near[c]


@nb.njit(cache=True, nogil=True, fastmath={"nsz", "nnan"})
def _bound(score: Any, lanes: Any, k: int, known: Any) -> Any:
    """A value that at least k of `score` (w,) do not exceed; any where none is within `known`.

    The smallest of each lane are k columns at least: halving finds about the k-th of them.
    """
    for lane in range(_LANES):
        lanes[lane] = score[lane]
    for start in range(_LANES, score.shape[0] // _LANES * _LANES, _LANES):
        chunk = score[start : start + _LANES]
        for lane in range(_LANES):
            lanes[lane] = min(lanes[lane], chunk[lane])
    low, high = lanes[0], lanes[0]
    for lane in range(_LANES):
        low, high = min(low, lanes[lane]), max(high, lanes[lane])
    half = lanes.dtype.type(0.5)
    for _ in range(_HALVINGS):
        middle = half * low + half * high
        count = np.int32(0)
        for lane in range(_LANES):
            count += np.int32(lanes[lane] <= middle)
        if count < k:
            low = middle
        else:
            high = middle
        if count == k or low > known:
            break
    return high


# Squared distances below this share of |q|² came from products of which too few digits are left:
# single precision errs by 2e-7 |q|², a 500th of it.
DOUBTFUL = 1e-4


# Rows are named by array and number, here and below, and arrays are not used within an `if`: else
# it is counted at every call who holds them, in a number that all threads write to, which takes
# longer than what is done.
@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def squared_gap(A: Any, i: int, B: Any, j: int) -> Any:
    """|a_i - b_j|² of rows in single precision, the same as |b_j - a_i|²."""
    total = np.float32(0.0)
    for c in range(A.shape[1]):
        gap = A[i, c] - B[j, c]
        total += gap * gap
    return total


@nb.njit(cache=True, nogil=True)
def insert(lengths: Any, nodes: Any, i: int, length: Any, node: int) -> int:
    """Put a node into list i, ascending, unless it is there or too far; its place, k or more if so.

    Order is by (length, node), so the list does not depend on the order of arrival.
    """
    k = lengths.shape[1]
    place = 0
    for c in range(k):
        far, other = lengths[i, c], nodes[i, c]
        is_before = (far < length) | ((far == length) & (other >= 0) & (other < node))
        place += np.int64(is_before) + k * np.int64(other == node)
    for c in range(k - 1, place - 1, -1):
        lengths[i, c] = lengths[i, c - 1] if c > place else length
        nodes[i, c] = nodes[i, c - 1] if c > place else node
    return place


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
            length = squared_gap(queries, i, points, j)
            if length >= lengths[k - 1]:
                continue
            at = k - 1
            while at > 0 and lengths[at - 1] > length:
                lengths[at] = lengths[at - 1]
                places[i, at] = places[i, at - 1]
                at -= 1
            lengths[at] = length
            places[i, at] = j
