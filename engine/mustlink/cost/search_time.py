"""Work of the search for neighbours, counted before anything is computed."""

from __future__ import annotations

import numpy as np

_SAMPLED = 500  # nodes whose neighbours are known
_ROUNDS, _OF_SAMPLE = 8, 20  # of Lloyd's algorithm, and points a centre that it looks at
# Microseconds of a product, more for each of its coordinates, and of a list; comparisons at most.
_OF_VISIT, _OF_COORDINATE, _LISTED, _MOST = 1e-3, 1.5e-5, 6.0, 20_000
_FILLED = 32  # coordinates that points fill at most, beyond which they repeat each other


def cells_work(n: int, d: int, k: int) -> float:
    """Microseconds of one core at 3 GHz that the search by cells takes, good to a factor of 2.

    A point of d broadly filled coordinates visits members of other cells in proportion to d and to
    the fifth root of the points. Its cell costs next to nothing, being found by groups of centres.
    """
    product = _OF_VISIT + _OF_COORDINATE / 2 * d
    visited = min(_MOST, 12.0 * min(d, _FILLED) * n**0.2, n)
    return n * (product * (2 * _SAMPLED + visited) + _LISTED * k / 15)


def tree_work(n: int, d: int, k: int) -> float:
    """Microseconds of one core at 3 GHz that the search by a k-d tree takes, for d <= 5.

    Measured on 10⁵ points that fill their coordinates; those in narrow towns take half of it.
    """
    return n * (0.5 + 0.04 * d**3) * (0.4 + 0.6 * k / 15) * float(np.log2(n)) / 17
