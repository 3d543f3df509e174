"""Work counted instead of timed: what a fit decides by it is the same on every machine and run.

Nominal seconds are those of two free cores at 3 GHz, good to a factor of three or so.
"""

from __future__ import annotations

import math

from mustlink.cost.method_cost import Size

_GUARD, _LEAST_GUARD = 1.2, 3  # columns that are computed beside the wanted ones
_PRODUCT = 1.5e-9  # of a stored weight and a column: product, and multigrid cycle
_BASIS = 1.5e-9  # of a node and a pair of columns: Gram matrices and combinations
_BOTH = 1.7  # times as much where both sides of a pencil are products
_SEARCH = 2.8e-6  # of a point, times log₁₀ points and neighbours over 15
_RIVAL_STEPS = 180  # of a full problem that is tried twice, with 60 steps at most, and then taken
_STEPS = 5  # that smooth vectors usually take, their start included


def step_seconds(size: Size, columns: int, *, pencil: bool = False) -> float:
    """One step of LOBPCG for so many wanted vectors."""
    b = max(columns + _LEAST_GUARD, int(_GUARD * columns))
    one = b * (_PRODUCT * size.nnz + _BASIS * size.n * b)
    return one * (_BOTH if pencil else 1.0)


def smooth_seconds(size: Size, columns: int) -> float:
    """So many smooth vectors of a graph."""
    return _STEPS * step_seconds(size, columns)


def rival_seconds(size: Size, columns: int) -> float:
    """The full problem where it is tried beside the smooth subspace, and taken."""
    return _RIVAL_STEPS * step_seconds(size, columns, pencil=True)


def search_seconds(n: int, k: int) -> float:
    """The search for k neighbours of each of n points, whatever their dimension."""
    return _SEARCH * n * math.log10(max(n, 10)) * k / 15
