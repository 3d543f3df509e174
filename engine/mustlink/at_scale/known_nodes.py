"""The nodes that something is said of, and L̄ around them: all that a formulation looks at.

They are few, so that matrices of constraints are small, and known to all ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.work import Work
from mustlink.selection.formulation import per_root
from mustlink.space import Space, Vector

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PlacedNodes:
    """L̄ of a work with the places of s nodes in its order, see `PlacedLaplacian`."""

    work: Work
    positions: Ints

    @property
    def space(self) -> Space:
        """Where blocks live."""
        return self.work.space

    @property
    def size(self) -> int:
        """Rows of blocks."""
        return self.work.space.size

    @property
    def weights(self) -> Vector | None:
        """How often a row counts, 0 for isolated nodes that have one."""
        return self.work.space.weights

    @property
    def n_entries(self) -> int:
        """Stored weights of the graph."""
        return self.work.n_entries

    @property
    def root_degree(self) -> Vector:
        """D^½1."""
        return self.work.laplacian.root_degree

    @property
    def volume(self) -> float:
        """Sum of the degrees."""
        return self.work.laplacian.volume

    @property
    def nodes(self) -> Ints:
        """Those of the s nodes that have an edge."""
        return np.flatnonzero(self.positions >= 0)

    @property
    def mean_degree(self) -> float:
        """Of the nodes with an edge."""
        return self.volume / (self.work.n_nodes - self.work.isolated)

    def enter(self, X: NDArray[Any]) -> NDArray[Any]:
        """Rows of all nodes, which are nowhere together."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class KnownNodes:
    """The graph of a work, of which the degrees of s nodes are seen, see `KnownGraph`."""

    laplacian: PlacedNodes

    weights = None

    @property
    def count(self) -> float:
        """Nodes of the graph."""
        return float(self.laplacian.work.n_nodes)

    @cached_property
    def degrees(self) -> NDArray[np.float64]:
        """Of the s nodes."""
        where, space = self.laplacian.positions, self.laplacian.space
        root = space.take(space.column(self.laplacian.root_degree), np.maximum(where, 0))[:, 0]
        return np.where(where >= 0, root**2, 0.0)

    @cached_property
    def degree_range(self) -> tuple[float, float]:
        """The least degree > 0 of the graph and the largest."""
        space, root = self.laplacian.space, self.laplacian.root_degree
        inverse, most = (space.peaks(space.column(v))[0] for v in (per_root(self.laplacian), root))
        return float(inverse) ** -2, float(most) ** 2
