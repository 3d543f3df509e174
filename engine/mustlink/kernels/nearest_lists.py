"""Nearest neighbours in lists of fixed length: the smallest of many, and insertion."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.threads import Loop, helper, inlined, kernel, workers

_CHUNK = 64  # values looked at together before any is taken
LANES = 64  # columns are dealt to so many lanes, whose smallest bound what can be kept
_HALVINGS = 8  # steps towards that bound
_FEW_LANES = 16  # at most, of which the columns are put in order again
_FAST = {"reassoc", "contract", "nsz", "nnan", "ninf"}  # finite input; sums in any order


def keep_smallest(products: Any, norms: Any, first: int, values: Any, places: Any) -> None:
    """Keep the smallest of norms_j - 2 products_ij per row, merged into what was kept.

    `products` (m, w) = q_i . p_j, `norms` (w,) = |p_j|²; `values`, `places` (m, k) ascend, Inf
    where nothing was kept yet. Column j is written as first + j. Ties go to the smaller column.
    """
    w, dtype = products.shape[1], products.dtype
    room = np.empty(w, dtype), np.empty(LANES, dtype), np.empty(w + 1, np.int32)
    take_smallest(products, norms, first, values, places, *room)


@kernel(fastmath={"nsz", "nnan"})
def take_smallest(
    products: Any, norms: Any, first: int, values: Any, places: Any, score: Any, lanes: Any,
    near: Any,
) -> None:  # fmt: skip
    """`keep_smallest` with room (w,), (64,) and (w + 1,): slow to compile if made here."""
    m, w = products.shape
    k = values.shape[1]
    two, one, last = np.float32(2.0), np.uint64(1), np.uint64(k - 1)
    for i in range(m):
        for j in range(w):
            score[j] = norms[j] - two * products[i, j]
        limit = values[i, last]
        there = -1
        if w >= 2 * LANES and k <= LANES:
            limit = min(limit, _bound(score, lanes, k, limit))
            there = _in_few_lanes(score, lanes, limit, near)
        whole = w // LANES * LANES if there >= 0 else 0
        found = np.uint64(max(there, 0))
        for start in range(whole, w, _CHUNK):
            stop, some = min(start + _CHUNK, w), np.int32(0)
            for j in range(start, stop):
                some += np.int32(score[j] <= limit)
            if some == 0:
                continue
            for j in range(start, stop):  # without a branch: which are near is hard to guess
                near[found] = j
                found += np.uint64(score[j] <= limit)
        for c in range(found):
            value = score[near[c]]
            if value >= values[i, last]:
                continue
            at = last
            while at > 0 and values[i, at - one] > value:
                values[i, at] = values[i, at - one]
                places[i, at] = places[i, at - one]
                at -= one
            values[i, at] = value
            places[i, at] = first + near[c]


@inlined(fastmath={"nsz", "nnan"})
def _in_few_lanes(score: Any, lanes: Any, limit: Any, near: Any) -> Any:
    """Put what does not exceed `limit` into `near`, in order; how many, -1 where lanes are many."""
    found, hit = np.int64(0), np.int32(0)
    for lane in range(LANES):
        hit += np.int32(lanes[lane] <= limit)
    for lane in range(LANES):
        if hit <= _FEW_LANES and lanes[lane] <= limit and found <= _CHUNK:
            for j in range(lane, score.shape[0] // LANES * LANES, LANES):
                near[found] = j
                found += np.int64(score[j] <= limit)
    if hit > _FEW_LANES or found > _CHUNK:
        found = np.int64(-1)
    for c in range(1, found):
        at, j = c, near[c]
        while at > 0 and near[at - 1] > j:
            near[at] = near[at - 1]
            at -= 1
        near[at] = j
    return found


@inlined(fastmath={"nsz", "nnan"})
def _bound(score: Any, lanes: Any, k: int, known: Any) -> Any:
    """A value that at least k of `score` (w,) do not exceed; any where none is within `known`.

    The smallest of each lane are k columns at least: halving finds about the k-th of them.
    """
    for lane in range(LANES):
        lanes[lane] = score[lane]
    for start in range(LANES, score.shape[0] // LANES * LANES, LANES):
        for lane in range(LANES):
            lanes[lane] = min(lanes[lane], score[start + lane])
    low, high = lanes[0], lanes[0]
    for lane in range(LANES):
        low, high = min(low, lanes[lane]), max(high, lanes[lane])
    half = lanes.dtype.type(0.5)
    for _ in range(_HALVINGS):
        middle = half * low + half * high
        count = np.int32(0)
        for lane in range(LANES):
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


# Rows are passed as array and number, here and below, and arrays are not used within an `if`: else
# numba counts references at every call, in a number that all threads write to, which takes longer
# than the work.
@helper(fastmath=_FAST)
def squared_gap(A: Any, i: int, B: Any, j: int) -> Any:
    """|a_i - b_j|² of rows in single precision, the same as |b_j - a_i|²."""
    total = np.float32(0.0)
    for c in range(A.shape[1]):
        gap = A[i, c] - B[j, c]
        total += gap * gap
    return total


@helper()
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


@kernel()
def insert_all(points: Any, places: Any, first: int, lists: Any, nodes: Any, limits: Any) -> None:
    """Put the points `places` (m, w), -1 for none, into the lists of `first` and on, but itself.

    `lists` (n, k) are squared lengths, by differences, and `limits` (n,) their last.
    """
    for r in range(places.shape[0]):
        i = first + r
        for c in range(places.shape[1]):
            j = np.int64(places[r, c])
            if j >= 0 and j != i:
                insert(lists, nodes, i, squared_gap(points, i, points, j), j)
        limits[i] = lists[i, lists.shape[1] - 1]


@kernel()
def measure_again(queries: Any, points: Any, squares: Any, places: Any) -> None:
    """Squared lengths (m, k) to the `places` (m, k) by differences, in order by (length, place).

    Products in single precision lose digits. O(m k d).
    """
    one = np.uint64(1)
    for i in range(places.shape[0]):
        for c in range(places.shape[1]):
            place = places[i, c]
            length = squared_gap(queries, i, points, place)
            at = np.uint64(c)
            while at > 0:
                before = squares[i, at - one]
                if before < length or (before == length and places[i, at - one] < place):
                    break
                squares[i, at] = before
                places[i, at] = places[i, at - one]
                at -= one
            squares[i, at] = length
            places[i, at] = place


@kernel(makes_arrays=True)
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


# --- The nearest rows of other groups than one's own, and of a given group


_PIECE = 1 << 17  # products held by a thread: a megabyte
_ROWS = 64  # that every query is compared with before the next query: they stay in the cache
_TASK = 1 << 24  # operations of a task: some milliseconds
_FAST_OUTSIDE = {"reassoc", "contract", "nsz"}  # sums in any order, but the same one always


@inlined(fastmath=_FAST_OUTSIDE)
def _gap_outside(X: Any, i: int, Q: Any, q: int) -> float:
    total = 0.0
    for c in range(Q.shape[1]):
        gap = X[i, c] - Q[q, c]
        total += gap * gap
    return total


@kernel(fastmath=_FAST_OUTSIDE)
def _outside(
    X: Any, group: Any, Q: Any, own: Any, first: int, last: int, near: Any, best: Any
) -> None:
    for start in range(first, last, _ROWS):
        for q in range(own.size):
            for i in range(start, min(start + _ROWS, last)):
                if group[i] != own[q]:
                    value = _gap_outside(X, i, Q, q)
                    if value < best[q]:
                        best[q], near[q] = value, i


Found = tuple[NDArray[np.int64], NDArray[np.float64]]


def nearest_outside(
    X: NDArray[Any], group: NDArray[np.integer], Q: NDArray[np.float64], own: NDArray[np.integer]
) -> Found:
    """For each of Q (m, d) the nearest row of X (n, d) of another group than `own` (m,).

    `group` (n,) are those of the rows. Returns rows (m,) and squared distances (m,), Inf and row 0
    where there is none; of equally near rows the first. Cost: n·m·d operations.
    """
    n = X.shape[0]
    step = max(_ROWS, _TASK // max(Q.size, 1))

    def part(first: int) -> Found:
        near, best = _nothing(own.size)
        _outside(X, group, Q, own, first, min(first + step, n), near, best)
        return near, best

    if n <= step:
        return part(0)
    near, best = _nothing(own.size)
    with ThreadPoolExecutor(workers()) as pool:
        for some, values in pool.map(part, range(0, n, step)):  # in order: the first of equal ones
            better = values < best
            near[better], best[better] = some[better], values[better]
    return near, best


def nearest_inside(X: NDArray[Any], group: NDArray[np.integer], Q: NDArray[np.float64]) -> Found:
    """For each of Q (m, d) the nearest row of X (n, d) of its group, its number in Q.

    `group` (n,), -1 for rows of none of them; else as `nearest_outside`. Cost: n·d operations.
    """
    near, best = _nothing(Q.shape[0])
    step = max(_ROWS, _PIECE // Q.shape[1])
    for start in range(0, len(X), step):
        rows = start + np.flatnonzero(group[start : start + step] >= 0)
        own = group[rows]
        gap = X[rows] - Q[own]
        lengths = np.einsum("ij,ij->i", gap, gap)
        before = best.copy()
        np.minimum.at(best, own, lengths)
        first = np.flatnonzero((lengths == best[own]) & (lengths < before[own]))[::-1]
        near[own[first]] = rows[first]  # the last one written stays
    return near, best


def _nothing(count: int) -> Found:
    return np.zeros(count, dtype=np.int64), np.full(count, np.inf)


# --- Lists put in order


def reorder(rows: NDArray[Any], order: NDArray[Any]) -> None:
    """Move row i of `rows` (n, k) to row order[i], in place; beside it a byte a row."""
    _reorder(rows, order, np.zeros(order.size, np.bool_), np.empty(rows.shape[1], rows.dtype))


@kernel()
def _reorder(rows: Any, order: Any, done: Any, held: Any) -> None:
    k = rows.shape[1]
    for start in range(rows.shape[0]):
        if done[start]:
            continue
        done[start] = True
        at = order[start]
        for c in range(k):  # assigned as a whole, rows take seconds to compile
            held[c] = rows[start, c]
        while at != start:
            for c in range(k):
                held[c], rows[at, c] = rows[at, c], held[c]
            done[at] = True
            at = order[at]
        for c in range(k):
            rows[start, c] = held[c]


@kernel()
def order_ties(indices: Any, lengths: Any) -> None:
    """Order entries of equal length by number, in ascending lists (n, k)."""
    n, k = indices.shape
    for i in range(n):
        for c in range(1, k):
            node, at = indices[i, c], c
            while at > 0 and lengths[i, at - 1] == lengths[i, c] and indices[i, at - 1] > node:
                indices[i, at] = indices[i, at - 1]
                at -= 1
            indices[i, at] = node


# --- All distances by a compiled function


def _pairs(lo: int, hi: int, distance: Any, Q: Any, P: Any, out: Any) -> None:
    for i in range(lo, hi):
        for j in range(P.shape[0]):
            out[i, j] = distance(Q[i], P[j])


# Of a function that is an argument: compiled for each of them, so that no file can keep it.
_all_pairs = Loop(nb.njit(nogil=True)(_pairs))


def all_pairs(distance: Any, Q: NDArray[Any], P: NDArray[Any]) -> NDArray[np.float64]:
    """Distances (q, p) of rows by a compiled function of two rows."""
    out = np.empty((Q.shape[0], P.shape[0]))
    _all_pairs(len(Q), out.size * Q.shape[1], distance, Q, P, out)
    return out
