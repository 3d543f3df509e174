"""The largest eigenvalue of a symmetric positive map, roughly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mustlink.space import Block, Space

_COLUMNS = 3  # one vector may miss what a pair of nodes far from everything has


def largest_eigenvalue(
    apply: Callable[[Block], Block], space: Space, steps: int, *, dtype: Any = np.float64
) -> float:
    """λ_max from below, by so many steps of the power method on three keyed random vectors.

    0 for a map that is 0. Cost: `steps` products with a block (n, 3).
    """
    X = space.copy(space.normals(_COLUMNS, 0), dtype)
    length = space.norms(X)
    for _ in range(steps):
        space.blend(X, 1.0 / np.maximum(length, 1e-30))
        X = apply(X)
        length = space.norms(X)
    return float(length.max())
