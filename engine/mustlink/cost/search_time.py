"""Work of the search for neighbours, counted before anything is computed."""

from __future__ import annotations

import numpy as np

from mustlink.cost.neighbour_graph import layout, lists_of

_SAMPLED = 500  # nodes whose neighbours are known
_ROUNDS, _OF_SAMPLE = 8, 20  # of Lloyd's algorithm, and points a centre that it looks at
_OF_PAIR, _OF_COORDINATE = 1.2e-3, 3e-5  # microseconds of a product, with what is kept of it
_KEPT = 2e-3  # more, where k neighbours are kept of it, k = 15
_MERGED = 2.5  # of a point and one of its parts
_OF_VISIT, _LISTED, _MOST = 1e-3, 6.0, 20_000  # of a product, of a list; comparisons at most
_FILLED = 32  # coordinates that points fill at most, beyond which they repeat each other
_LOW = 6  # coordinates up to which two parts a point are enough
_JOINED = 1.6  # pairs that meet in all sweeps for each that a list and those who tell it can form
_MET = 2e-2  # microseconds of a pair that meets, with what is looked up and what is put in lists


def parts_work(n: int, d: int, k: int) -> float:
    """Microseconds of one core at 3 GHz that the search by parts takes, good to a factor of 1.5.

    The sum of the known neighbours, the centres and the parts of every point, the pairs compared
    within them and in the local joins. How many parts a point belongs to and how many sweeps there
    are is found only in the search: here it is what points of `d` broadly filled coordinates ask
    for; each sweep costs what the one before has changed, so that all take twice the first.
    """
    sizes = layout(n, d, k)
    product = _OF_PAIR + _OF_COORDINATE * d
    overlap = min(sizes.most_overlap, 2 if d <= _LOW or n < 10_000 else 3)
    _, joined, told = lists_of(n, k)
    most = joined + told
    per_point = (
        product * (_SAMPLED + sizes.parts)
        + (product + _KEPT * k / 15) * overlap**2 * sizes.mean
        + _MERGED * overlap
        + _MET * (0.5 + d / 40) * _JOINED * most * (most - 1) / 4
    )
    return n * per_point + product * 2 * _ROUNDS * _OF_SAMPLE * float(sizes.parts) ** 2


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
