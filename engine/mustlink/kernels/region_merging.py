"""Kernels of pictures: regions joined pair by pair, basins, grids of a mask."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.threads import helper, kernel, loop

_FAINT = 0.01  # added to edges before the logarithm: what a picture without edges has
_SPECK, _FEW = 5e-4, 16  # share of a picture, and pixels, below which a region is a speck
_FIRST = 100.0  # log-odds by which specks come first


@kernel(makes_arrays=True)
def borders(labels: Any, edges: Any, k: int) -> tuple[Any, Any]:
    """Border lengths (k, k) between regions, and the edge strengths summed along them.

    A border is as long as the pairs of pixels, beside one another in a row or column, that it
    parts; the edge between two pixels is the stronger of theirs.
    """
    h, w = labels.shape
    lengths, strengths = np.zeros((k, k)), np.zeros((k, k))
    for y in range(h):
        for x in range(w):
            for down in range(2):
                v, u = y + down, x + 1 - down
                if v < h and u < w and labels[v, u] != labels[y, x]:
                    a, b = labels[y, x], labels[v, u]
                    edge = max(edges[y, x], edges[v, u])
                    lengths[a, b] += 1
                    lengths[b, a] += 1
                    strengths[a, b] += edge
                    strengths[b, a] += edge
    return lengths, strengths


@kernel()
def odds(a: int, b: int, regions: Any, lengths: Any, strengths: Any, weights: Any) -> float:
    """Log-odds that neighbours a and b are different things, see `Merging`."""
    colours, textures, sizes, rims, total = regions
    length, less, more = lengths[a, b], min(sizes[a], sizes[b]), max(sizes[a], sizes[b])
    found = weights[0] + weights[1] * np.log(strengths[a, b] / length + _FAINT)
    found += weights[2] * _distance(colours, a, b, sizes)
    found += weights[3] * _distance(textures, a, b, sizes)
    if less < max(_SPECK * total, _FEW):
        found -= _FIRST
    found += weights[4] * np.log(less / total) + weights[5] * np.log(more / total)
    return found + weights[6] * np.log(length / min(rims[a], rims[b]))


@helper()
def _distance(counts: Any, a: int, b: int, sizes: Any) -> float:
    """Hellinger distance of two histograms, from 0 to 1."""
    total = 0.0
    for c in range(counts.shape[1]):
        gap = np.sqrt(counts[a, c] / sizes[a]) - np.sqrt(counts[b, c] / sizes[b])
        total += gap * gap
    return np.sqrt(0.5 * total)


@helper(makes_arrays=True)
def _row_sums(X: Any) -> Any:
    """Sums of rows: by NumPy's name they compile for seconds."""
    found = np.zeros(X.shape[0])
    for a in range(X.shape[0]):
        for c in range(X.shape[1]):
            found[a] += X[a, c]
    return found


@kernel(makes_arrays=True)
def merged(
    colours: Any, textures: Any, lengths: Any, strengths: Any, weights: Any
) -> tuple[Any, Any]:
    """Pairs (m, 2) in the order in which they are joined, and their log-odds (m,) then.

    Always the neighbours of least odds; the region joined keeps the smaller number, and the second
    of a pair is no more. `colours`, `textures` (k, …) count the pixels with every word. Arguments
    are changed. Cost: O(k²) and all that is computed again, about 20 pairs a step.
    """
    k = len(colours)
    sizes, rims = _row_sums(colours), _row_sums(lengths)
    total = 0.0
    for a in range(k):
        total += sizes[a]
    regions = (colours, textures, sizes, rims, total)
    costs = np.full((k, k), np.inf)
    least, nearest = np.full(k, np.inf), np.full(k, -1)
    for a in range(k):
        for b in range(a):
            if lengths[a, b] > 0:
                costs[a, b] = odds(a, b, regions, lengths, strengths, weights)
                costs[b, a] = costs[a, b]
    for a in range(k):
        _look(a, costs, least, nearest)
    pairs, values = np.empty((k - 1, 2), dtype=np.int64), np.empty(k - 1)
    for step in range(k - 1):
        a = int(np.argmin(least))
        a, b = min(a, nearest[a]), max(a, nearest[a])
        pairs[step, 0], pairs[step, 1], values[step] = a, b, costs[a, b]
        _join(a, b, regions, lengths, strengths)
        least[b] = np.inf
        for c in range(k):
            costs[b, c] = costs[c, b] = np.inf
        for c in range(k):
            if lengths[a, c] > 0:
                costs[a, c] = odds(a, c, regions, lengths, strengths, weights)
                costs[c, a] = costs[a, c]
        for c in range(k):
            if lengths[a, c] > 0 or c == a:
                _look(c, costs, least, nearest)
    return pairs, values


@helper()
def _join(a: int, b: int, regions: Any, lengths: Any, strengths: Any) -> None:
    """Make b a part of a, with all its borders."""
    colours, textures, sizes, rims, _ = regions
    for counts in (colours, textures):
        for c in range(counts.shape[1]):  # as wholes they compile for a second
            counts[a, c] += counts[b, c]
    sizes[a] += sizes[b]
    rims[a] += rims[b] - 2 * lengths[a, b]
    lengths[a, b] = lengths[b, a] = 0
    for c in range(len(sizes)):
        if lengths[b, c] > 0:
            for sums in (lengths, strengths):
                sums[a, c] += sums[b, c]
                sums[c, a] = sums[a, c]
            lengths[b, c] = lengths[c, b] = 0


@helper()
def _look(a: int, costs: Any, least: Any, nearest: Any) -> None:
    """Find the neighbour of least odds again."""
    nearest[a] = np.argmin(costs[a])
    least[a] = costs[a, nearest[a]]


# --- Basins of a picture of heights: where water gathers, and what flows there


@kernel(makes_arrays=True)
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
            plateau[0, 0], plateau[0, 1] = y0, x0  # assigned as a whole it compiles for seconds
            size, at, least = 1, 0, True
            while at < size:
                y, x = plateau[at, 0], plateau[at, 1]
                at += 1
                for side in range(4):
                    v, u = y + (side == 0) - (side == 1), x + (side == 2) - (side == 3)
                    if v < 0 or u < 0 or v >= h or u >= w:
                        continue
                    if heights[v, u] < heights[y, x]:
                        least = False
                    elif heights[v, u] == heights[y, x] and not seen[v, u]:
                        seen[v, u] = True
                        plateau[size, 0], plateau[size, 1] = v, u
                        size += 1
            if least:
                for at in range(size):
                    found[plateau[at, 0], plateau[at, 1]] = count
                count += 1
    return found, count


@kernel(makes_arrays=True)
def flood(heights: Any, markers: Any) -> Any:
    """Labels (h, w) where `markers` has -1, by rising water; every label stays connected.

    `heights` are integers from 0. Of the pixels at the water's edge the lowest is flooded first, of
    equals the one met first, with the label from which it was met (Meyer 1994). Cost O(n).
    """
    h, w = heights.shape
    found = markers.copy()
    levels = 0
    for p in range(h * w):
        levels = max(levels, heights[p // w, p % w] + 1)
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


@helper()
def _wait(p: int, level: int, first: Any, last: Any, after: Any) -> None:
    """Put a pixel at the end of the queue of its level."""
    if first[level] < 0:
        first[level] = p
    else:
        after[last[level]] = p
    last[level] = p
    after[p] = -1


# --- Neighbours on the part of a grid that a mask leaves, as the rows of a sparse matrix


Floats = NDArray[np.float64]
Numbers = NDArray[np.integer[Any]]


@loop()
def _count(lo: int, hi: int, number: Any, at: Any, ahead: Any, counts: Any) -> None:
    for i in range(lo, hi):
        for k in range(ahead.size):
            if number[at[i] + ahead[k]] >= 0:
                counts[i] += 1


@loop()
def _fill(
    lo: int, hi: int, number: Any, at: Any, ahead: Any, X: Any, far: Any, twice: Any, ends: Any,
    columns: Any, out: Any,
) -> None:  # fmt: skip
    for i in range(lo, hi):
        p = ends[i]
        for k in range(ahead.size):
            j = number[at[i] + ahead[k]]
            if j >= 0:
                squared = 0.0
                for c in range(X.shape[1]):
                    step = X[i, c] - X[j, c]
                    squared += step * step
                columns[p] = j
                out[p] = -squared / twice - far[k]
                p += 1


def neighbours_among(
    inside: NDArray[np.bool_],
    ahead: list[tuple[int, ...]],
    far: list[float],
    X: Floats,
    sigma: float,
) -> tuple[Floats, Numbers, Numbers]:
    """Data, indices and indptr of the pairs of places of a mask (…) that a step or its back joins.

    Data are −|x_i − x_j|²/(2σ²) − far, X (n, c). Places are numbered in row-major order; steps
    `ahead` are later in it, in that order themselves, and reach 1 along every axis at most.
    """
    padded = np.pad(inside, 1)
    n = X.shape[0]
    kind: Any = np.int32 if 2 * len(ahead) * n < 2**31 else np.int64
    at = np.flatnonzero(padded)
    number = np.full(padded.size, -1, dtype=kind)
    number[at] = np.arange(n, dtype=kind)
    strides = np.array(padded.strides, dtype=np.int64) // padded.itemsize
    flat = np.array(ahead, dtype=np.int64).reshape(len(ahead), inside.ndim) @ strides
    both, lengths = np.concatenate([-flat[::-1], flat]), np.concatenate([far[::-1], far])
    work = n * both.size
    counts = np.zeros(n, dtype=kind)
    _count(n, work, number, at, both, counts)
    ends = np.zeros(n + 1, dtype=kind)
    np.cumsum(counts, out=ends[1:])
    out: Floats = np.empty(int(ends[-1]))
    columns: Numbers = np.empty(out.size, dtype=kind)
    twice = 2 * sigma**2
    _fill(n, work, number, at, both, X, lengths, twice, ends, columns, out)
    return out, columns, ends
