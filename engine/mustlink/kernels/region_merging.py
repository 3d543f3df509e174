"""Neighbouring regions of a picture, joined one pair after the other."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

_FAINT = 0.01  # added to edges before the logarithm: what a picture without edges has
_SPECK, _FEW = 5e-4, 16  # share of a picture, and pixels, below which a region is a speck
_FIRST = 100.0  # log-odds by which specks come first


@nb.njit(cache=True, nogil=True)
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


@nb.njit(cache=True, nogil=True)
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


@nb.njit(cache=True, nogil=True)
def _distance(counts: Any, a: int, b: int, sizes: Any) -> float:
    """Hellinger distance of two histograms, from 0 to 1."""
    total = 0.0
    for c in range(counts.shape[1]):
        gap = np.sqrt(counts[a, c] / sizes[a]) - np.sqrt(counts[b, c] / sizes[b])
        total += gap * gap
    return np.sqrt(0.5 * total)


@nb.njit(cache=True, nogil=True)
def merged(
    colours: Any, textures: Any, lengths: Any, strengths: Any, weights: Any
) -> tuple[Any, Any]:
    """Pairs (m, 2) in the order in which they are joined, and their log-odds (m,) then.

    Always the neighbours of least odds; the region joined keeps the smaller number, and the second
    of a pair is no more. `colours`, `textures` (k, …) count the pixels with every word. Arguments
    are changed. Cost: O(k²) and all that is computed again, about 20 pairs a step.
    """
    k = len(colours)
    sizes, rims = colours.sum(axis=1), lengths.sum(axis=1)
    regions = (colours, textures, sizes, rims, sizes.sum())
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
        pairs[step], values[step] = (a, b), costs[a, b]
        _join(a, b, regions, lengths, strengths)
        costs[b], costs[:, b] = np.inf, np.inf
        least[b] = np.inf
        for c in range(k):
            if lengths[a, c] > 0:
                costs[a, c] = odds(a, c, regions, lengths, strengths, weights)
                costs[c, a] = costs[a, c]
        for c in range(k):
            if lengths[a, c] > 0 or c == a:
                _look(c, costs, least, nearest)
    return pairs, values


@nb.njit(cache=True, nogil=True)
def _join(a: int, b: int, regions: Any, lengths: Any, strengths: Any) -> None:
    """Make b a part of a, with all its borders."""
    colours, textures, sizes, rims, _ = regions
    colours[a] += colours[b]
    textures[a] += textures[b]
    sizes[a] += sizes[b]
    rims[a] += rims[b] - 2 * lengths[a, b]
    lengths[a, b] = lengths[b, a] = 0
    for c in range(len(sizes)):
        if lengths[b, c] > 0:
            for sums in (lengths, strengths):
                sums[a, c] += sums[b, c]
                sums[c, a] = sums[a, c]
            lengths[b, c] = lengths[c, b] = 0


@nb.njit(cache=True, nogil=True)
def _look(a: int, costs: Any, least: Any, nearest: Any) -> None:
    """Find the neighbour of least odds again."""
    nearest[a] = np.argmin(costs[a])
    least[a] = costs[a, nearest[a]]
