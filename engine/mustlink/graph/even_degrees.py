"""Whether all nodes have about as many edges, as where every node chose as many neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEEN = 1 << 20  # rows, at least, that tell of a graph that is not in memory
_EVEN = 0.6  # of the median number of edges
_EVEN_WEIGHT = 0.1  # of the median degree: neighbours in a Gaussian without a floor weigh 1e-60


@dataclass(frozen=True, eq=False)
class GraphLook:
    """What of a graph decides whether anything is added to its degrees, wherever it is.

    How it was made, the nodes with an edge, whether edges were given (`graph.is_network`), and
    `seen()`, numbers of edges and degrees of all of these, or of as many as suffice.
    """

    info: Mapping[str, Any]
    n_linked: int
    is_network: bool
    seen: Callable[[], tuple[NDArray[Any], NDArray[np.float64]]]

    @cached_property
    def even(self) -> tuple[bool, bool]:
        """Whether nodes have about as many edges, and whether about the same degree."""
        edges, degrees = self.seen()
        return has_even_degrees(edges), has_even_weights(degrees)


def has_even_degrees(edges: NDArray[Any]) -> bool:
    """Whether all but 1 % have 0.6 of the median or more; numbers of edges, (nodes with any,)."""
    return is_even(np.quantile(edges, 0.01), np.median(edges))


def has_even_weights(degrees: NDArray[np.float64]) -> bool:
    """Whether all but 1 % have a tenth of the median or more; degrees, (nodes with an edge,)."""
    return bool(np.quantile(degrees, 0.01) >= _EVEN_WEIGHT * np.median(degrees))


def is_even(low: float | np.floating, median: float | np.floating) -> bool:
    """`has_even_degrees` of the number that 1 % of the nodes stay below, and the median."""
    return bool(low >= _EVEN * median)
