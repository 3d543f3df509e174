"""Basins of a picture of heights: where water gathers, and what flows there."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np


@nb.njit(cache=True, nogil=True)
def minima(heights: Any) -> tuple[Any, int]:
    """Regional minima of (h, w) numbered from 0 in reading order, -1 elsewhere, and how many.

    A minimum is a plateau, joined along rows and columns, all of whose neighbours are higher.
    Cost O(n).
    """
    h, w = heights.shape
    found = np.full((h, w), -1, dtype=np.int64)
    seen = np.zeros((h, w), dtype=np.bool_)
    plateau = np.empty((h * w, 2), dtype=np.int64)
    count = 0
    for y0 in range(h):
        for x0 in range(w):
            if seen[y0, x0]:
                continue
            seen[y0, x0] = True
            plateau[0] = y0, x0
            size, at, least = 1, 0, True
            while at < size:
                y, x = plateau[at]
                at += 1
                for side in range(4):
                    v, u = y + (side == 0) - (side == 1), x + (side == 2) - (side == 3)
                    if v < 0 or u < 0 or v >= h or u >= w:
                        continue
                    if heights[v, u] < heights[y, x]:
                        least = False
                    elif heights[v, u] == heights[y, x] and not seen[v, u]:
                        seen[v, u] = True
                        plateau[size] = v, u
                        size += 1
            if least:
                for at in range(size):
                    found[plateau[at, 0], plateau[at, 1]] = count
                count += 1
    return found, count


@nb.njit(cache=True, nogil=True)
def flood(heights: Any, markers: Any) -> Any:
    """Labels (h, w) where `markers` has -1, by rising water; every label stays connected.

    `heights` are integers from 0. Of the pixels at the water's edge the lowest is flooded first, of
    equals the one met first, with the label from which it was met (Meyer 1994). Cost O(n).
    """
    h, w = heights.shape
    found = markers.copy()
    levels = heights.max() + 1
    first, last = np.full(levels, -1), np.full(levels, -1)
    after = np.full(h * w, -1)
    for p in range(h * w):
        if markers[p // w, p % w] >= 0:
            _wait(p, heights[p // w, p % w], first, last, after)
    level = 0
    while level < levels:
        p = first[level]
        if p < 0:
            level += 1
            continue
        first[level] = after[p]
        y, x = p // w, p % w
        for side in range(4):
            v, u = y + (side == 0) - (side == 1), x + (side == 2) - (side == 3)
            if v >= 0 and u >= 0 and v < h and u < w and found[v, u] < 0:
                found[v, u] = found[y, x]
                _wait(v * w + u, max(level, heights[v, u]), first, last, after)
    return found


@nb.njit(cache=True, nogil=True)
def _wait(p: int, level: int, first: Any, last: Any, after: Any) -> None:
    """Put a pixel at the end of the queue of its level."""
    if first[level] < 0:
        first[level] = p
    else:
        after[last[level]] = p
    last[level] = p
    after[p] = -1
