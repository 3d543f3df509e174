"""What strokes say by themselves: which one a walk over pixels that look alike meets first.

And which one is nearest on ways along which colours change little.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from mustlink.strokes.sharpened import harmonic

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
_WEIGHT = 1.5  # of the log-shares beside the log-likelihoods of colours
_LEAST = 1e-3  # share below which none is believed
_SHORTEST = 1e-12  # square of a step: 0 would be none
_EQUAL = 0.5  # power of the mean shares by which they are divided: 1 makes labels equally large


def walks(alike: sp.csr_matrix, painted: Ints, k: int) -> Floats:
    """Log-shares (…, K) that the labels have in harmonic values, times 1.5, the largest 0.

    `painted` (…) has the codes of strokes, -1 elsewhere. Shares are divided by the root of their
    mean: few strokes leave harmonic values nearly constant (see `Poisson`). Cost: K solutions.
    """
    given = painted.ravel()
    free = given < 0
    first = 1 if k == 2 else 0  # of two labels one is the other's rest
    F = np.ones((given.size, k))
    for c in range(first, k):
        F[:, c] = harmonic(alike, (given == c) * 1.0, free)
    if k == 2:
        F[:, 0] = 1.0 - F[:, 1]
    F /= np.maximum(F.mean(axis=0), 1e-300) ** _EQUAL
    F = np.maximum(F / np.maximum(F.sum(axis=1, keepdims=True), 1e-300), _LEAST)
    found: Floats = _WEIGHT * np.log(F / F.max(axis=1, keepdims=True))
    return found.reshape(*painted.shape, k)


def paths(grid: sp.csr_matrix, painted: Ints, k: int) -> Floats:
    """−log(1 + distance) (…, K) to the strokes of every label, the largest 0.

    A step of the grid is √(−2 log w) long: position and colour in units in which w is a Gaussian.
    `painted` as in `walks`. Cost: Dijkstra's algorithm for every label. Source: Bai & Sapiro 2007.
    """
    lengths = np.sqrt(np.maximum(-2.0 * np.log(grid.data), _SHORTEST))
    steps = sp.csr_matrix((lengths, grid.indices, grid.indptr), shape=grid.shape)
    given = painted.ravel()
    far = np.column_stack(
        [dijkstra(steps, indices=np.flatnonzero(given == c), min_only=True) for c in range(k)]
    )
    found: Floats = np.log1p(far.min(axis=1, keepdims=True)) - np.log1p(far)
    return found.reshape(*painted.shape, k)
