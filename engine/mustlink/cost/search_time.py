"""Work of the search for neighbours, counted before anything is computed."""

from __future__ import annotations

import numpy as np

from mustlink.cost.neighbour_graph import cell_layout

_SAMPLED = 500  # nodes whose neighbours are known
_ROUNDS, _OF_SAMPLE = 8, 20  # of Lloyd's algorithm, and points a centre that it looks at
# Microseconds of a product, more for each of its coordinates, and of a list; comparisons at most.
_OF_VISIT, _OF_COORDINATE, _LISTED, _MOST = 1e-3, 1.5e-5, 6.0, 20_000
_FILLED = 32  # coordinates that points fill at most, beyond which they repeat each other


def cells_work(n: int, d: int, k: int) -> float:
    """Microseconds of one core at 3 GHz that the search by cells takes, good to a factor of 2.

    The sum of the known neighbours, the centres and their points, and the pairs compared. How many
    these are is found only in the search: here a point of `d` broadly filled coordinates visits
    members of other cells in proportion to d and to the fifth root of the points.
    """
    sizes = cell_layout(n, d, k)
    product = _OF_VISIT + _OF_COORDINATE * d
    visited = min(_MOST, 12.0 * min(d, _FILLED) * n**0.2, n)
    per_point = product * (2 * _SAMPLED + sizes.parts + visited) + _LISTED * k / 15
    return n * per_point + product * 2 * _ROUNDS * _OF_SAMPLE * float(sizes.parts) ** 2


def tree_work(n: int, d: int, k: int) -> float:
    """Microseconds of one core at 3 GHz that the search by a k-d tree takes, for d <= 5.

    Measured on 10⁵ points that fill their coordinates; those in narrow towns take half of it.
    """
    return n * (0.5 + 0.04 * d**3) * (0.4 + 0.6 * k / 15) * float(np.log2(n)) / 17
