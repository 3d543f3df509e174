"""Whether all nodes have about as many edges, as where every node chose as many neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_EVEN = 0.6  # of the median number of edges


def has_even_degrees(edges: NDArray[Any]) -> bool:
    """Whether all but 1 % have 0.6 of the median or more; numbers of edges, (nodes with any,)."""
    return is_even(np.quantile(edges, 0.01), np.median(edges))


def is_even(low: float | np.floating, median: float | np.floating) -> bool:
    """`has_even_degrees` of the number that 1 % of the nodes stay below, and the median."""
    return bool(low >= _EVEN * median)
