"""Labels held out of fits to a sample of the points: its size, and what it takes in memory."""

from __future__ import annotations

from mustlink.cost.method_cost import SPREAD_DENSE_BELOW, Cost

_POINTS, _EACH, _MOST = 1500, 30, 6000  # of the sample: at least, for a class, and at most
_LIBRARIES = 40 * 10**6  # bytes of scikit-learn's classifiers
_COPIES, _SQUARES = 3, 6  # of the sample's points, and of a dense matrix on it, held at a time
_BLOCKS = 15  # of a number for every class
_PAIR, _PAIRS = 12, 110 << 20  # bytes of a pair that is compared, and of all at once at most


def sample_rows(n: int, classes: int) -> int:
    """Rows of the sample, some labelled ones apart."""
    return min(n, max(_POINTS, _EACH * classes), _MOST)


def sample_bytes(n: int, d: int, classes: int, cost: Cost) -> int:
    """Bytes beside what a fit to points (n, d) leaves."""
    m = sample_rows(n, classes)
    dense = _SQUARES * m**2 if cost.spreads and m <= SPREAD_DENSE_BELOW else 0
    neighbours = min(_PAIR * m**2, _PAIRS)
    return _LIBRARIES + neighbours + 8 * (_COPIES * m * d + _BLOCKS * m * classes + dense)
