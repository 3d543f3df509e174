"""Exact nearest neighbours of all points of a set in few dimensions, by a k-d tree.

Points lie leaf by leaf, 16 together and coordinate by coordinate, so that a leaf is compared by
vector instructions. A query starts in its own leaf and climbs: what lies beside the path is entered
only where its box is nearer than the worst neighbour so far.

Source: Friedman, Bentley & Finkel 1977.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.threads import helper, loop

_LEAF = 16
_SUMS = {"reassoc", "contract", "nsz"}  # sums in any order; infinite distances stay what they are


@helper()
def _halve(keys: Any, order: Any, first: int, last: int, middle: int) -> None:
    """Move what has the smallest keys of places first to last - 1 before `middle` (quickselect)."""
    left, right = first, last - 1
    while right > left:
        a, b, c = keys[left], keys[(left + right) // 2], keys[right]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = left, right
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@loop()
def _sort_in(lo: int, hi: int, X: Any, step: int, starts: Any, order: Any, keys: Any) -> None:
    """Halve every part of `step` leaves along its widest coordinate."""
    for part in range(lo, hi):
        first, last = starts[part * step], starts[(part + 1) * step]
        middle = (first + last) // 2
        starts[part * step + step // 2] = middle
        widest, span = 0, -1.0
        for c in range(X.shape[1]):
            low = high = X[order[first], c]
            for q in range(first + 1, last):
                low = min(low, X[order[q], c])
                high = max(high, X[order[q], c])
            if high - low > span:
                widest, span = c, high - low
        for q in range(first, last):
            keys[q] = X[order[q], widest]
        _halve(keys, order, first, last, middle)


@loop()
def _lay_out(lo: int, hi: int, X: Any, starts: Any, order: Any, leaves: Any, boxes: Any) -> None:
    """Fill coordinates of leaves (l, d, 16) and their boxes, the last l of (2l − 1, 2, d)."""
    for s in range(lo, hi):
        box = boxes[starts.size - 2 + s]
        for c in range(X.shape[1]):
            box[0, c], box[1, c] = np.inf, -np.inf
            for q in range(starts[s], starts[s + 1]):
                value = X[order[q], c]
                leaves[s, c, q - starts[s]] = value
                box[0, c], box[1, c] = min(box[0, c], value), max(box[1, c], value)


@helper(fastmath=_SUMS)
def _gap(x: Any, box: Any) -> Any:
    """Squared distance of a point from a box."""
    total = 0.0
    for c in range(x.size):
        beyond = max(box[0, c] - x[c], x[c] - box[1, c], 0.0)
        total += beyond * beyond
    return total


@helper(fastmath=_SUMS)
def _compare(x: Any, leaf: Any, first: int, own: int, best: Any, who: Any, squares: Any) -> None:
    """Put points of a leaf (d, 16), numbered from `first`, among the nearest; `own` is not."""
    squares[:] = 0.0
    for c in range(x.size):
        value = x[c]
        for q in range(_LEAF):
            difference = leaf[c, q] - value
            squares[q] += difference * difference
    for q in range(_LEAF):
        if squares[q] < best[-1] and first + q != own:
            at = best.size - 1
            while at > 0 and best[at - 1] > squares[q]:
                best[at], who[at] = best[at - 1], who[at - 1]
                at -= 1
            best[at], who[at] = squares[q], first + q


@loop(makes_arrays=True)
def _search(
    lo: int, hi: int, starts: Any, order: Any, leaves: Any, boxes: Any, indices: Any, lengths: Any
) -> None:
    count, d, k = starts.size - 1, leaves.shape[1], indices.shape[1]
    for s in range(lo, hi):
        x, squares = np.empty(d), np.empty(_LEAF)
        best, who = np.empty(k), np.empty(k, dtype=np.int64)
        waiting, gaps = np.empty(64, dtype=np.int64), np.empty(64)
        for own in range(starts[s], starts[s + 1]):
            for c in range(d):  # assigned as a whole it takes seconds to compile
                x[c] = leaves[s, c, own - starts[s]]
            best[:] = np.inf
            _compare(x, leaves[s], starts[s], own, best, who, squares)
            path = count - 1 + s
            while path > 0:
                beside = path + 1 if path % 2 else path - 1
                waiting[0], gaps[0], top = beside, _gap(x, boxes[beside]), 1
                while top > 0:
                    top -= 1
                    node = waiting[top]
                    if gaps[top] >= best[-1]:
                        continue
                    if node >= count - 1:
                        leaf = node - count + 1
                        _compare(x, leaves[leaf], starts[leaf], -1, best, who, squares)
                        continue
                    near, far = 2 * node + 1, 2 * node + 2
                    at, beyond = _gap(x, boxes[near]), _gap(x, boxes[far])
                    if beyond < at:
                        near, far, at, beyond = far, near, beyond, at
                    if beyond < best[-1]:
                        waiting[top], gaps[top] = far, beyond
                        top += 1
                    waiting[top], gaps[top] = near, at
                    top += 1
                path = (path - 1) // 2
            for a in range(k):
                indices[order[own], a] = order[who[a]]
                lengths[order[own], a] = np.sqrt(best[a])


def nearest_in_tree(
    X: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The k < n nearest other points of every point of X (n, d), finite: numbers, distances (n, k).

    Rows ascend by distance; of equally near points any may be named, the same ones for any number
    of threads. Cost: 4 µs a point of nine coordinates of a photograph, a few times d log n where
    points fill few dimensions; in more than about ten all pairs may have to be compared.
    """
    n, d = X.shape
    count = 1 << max(0, int(np.ceil(np.log2(n / _LEAF))))
    starts = np.zeros(count + 1, dtype=np.int64)
    starts[-1] = n
    order, keys = np.arange(n, dtype=np.int32), np.empty(n)
    step = count
    while step > 1:
        _sort_in(count // step, n * d, X, step, starts, order, keys)
        step //= 2
    leaves, boxes = np.full((count, d, _LEAF), np.inf), np.empty((2 * count - 1, 2, d))
    _lay_out(count, n * d, X, starts, order, leaves, boxes)
    inner = count - 1  # nodes above the leaves; two lie at 2i + 1 and 2i + 2 below node i
    while inner > 0:
        above = slice((inner - 1) // 2, inner)
        first, second = boxes[inner : 2 * inner + 1 : 2], boxes[inner + 1 : 2 * inner + 2 : 2]
        boxes[above, 0] = np.minimum(first[:, 0], second[:, 0])
        boxes[above, 1] = np.maximum(first[:, 1], second[:, 1])
        inner = (inner - 1) // 2
    indices, lengths = np.empty((n, k), dtype=np.int32), np.empty((n, k))
    _search(count, n * k * d, starts, order, leaves, boxes, indices, lengths)
    return indices, lengths
