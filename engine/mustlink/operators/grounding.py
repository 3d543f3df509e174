"""A Laplacian with a diagonal added, or with nodes taken out, wherever its rows are.

(M + diag(w))_ff of M = D − W or L̄ is, scaled to a diagonal of ones, I − T^-½WT^-½ on the nodes f
that are kept, T their degrees and a ground: w, and w times the degree. Nodes that are taken out
keep their place, with T^½ = 0: rows of blocks are 0 there.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mustlink.space import Block, Space, Vector

Floats = NDArray[np.float64]


class Degrees(Protocol):
    """What is asked of a Laplacian L̄ = I − D^-½WD^-½, rows without an edge being 0."""

    @property
    def space(self) -> Space:
        """Where its blocks live."""

    @property
    def root_degree(self) -> Vector:
        """D^½."""

    def apply(self, X: Block, /) -> Block:
        """L̄X, in the precision of X."""


def grounded_degrees(laplacian: Degrees, ground: Vector, kept: Vector) -> tuple[Vector, Vector]:
    """T^½ (n,), 0 on nodes that are not `kept` (n,) or have no edge, and the ground (n,) of all.

    T = D + diag(ground). The ground of a kept node is its own, and the weights to those that are
    taken out: by how much T exceeds the degrees among kept nodes, known without a difference. Cost:
    a product, where nodes are taken out.
    """
    space, root = laplacian.space, laplacian.root_degree
    outside = space.column(space.rowwise(_outside, kept, root))
    inside = space.rowwise(_inside, kept, root, ground)
    if not space.dots(outside, outside)[0]:
        return inside, space.rowwise(_where, kept, ground)
    away = laplacian.apply(outside)  # less the weights to them, over D^½
    total = space.rowwise(_total, kept, ground, root, away)
    return inside, total


def _outside(kept: NDArray[Any], root: Floats) -> Floats:
    return np.where(kept, 0.0, root)


def _inside(kept: NDArray[Any], root: Floats, ground: Floats) -> Floats:
    return np.where(kept & (root > 0), np.sqrt(root**2 + ground), 0.0)


def _where(kept: NDArray[Any], ground: Floats) -> Floats:
    return np.where(kept, ground, 0.0)


def _total(kept: NDArray[Any], ground: Floats, root: Floats, away: Floats) -> Floats:
    return np.where(kept, ground + np.maximum(-root * away[:, 0], 0.0), 0.0)
