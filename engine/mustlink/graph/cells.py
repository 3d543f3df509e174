"""Pictures and volumes in cells of several pixels, and back.

They have any number of axes; `units` are the pixels of a cell along each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
Units = tuple[int, ...]


def means(picture: Floats, units: Units) -> Floats:
    """Means over cells of (…, c); the last ones may reach outside."""
    if max(units) == 1:
        return picture
    *shape, c = picture.shape
    outside = [(0, -size % unit) for size, unit in zip(shape, units, strict=True)]
    filled = np.pad(picture, (*outside, (0, 0)), mode="edge")
    split = [
        part
        for size, unit in zip(filled.shape[:-1], units, strict=True)
        for part in (size // unit, unit)
    ]
    axes = tuple(range(1, len(split), 2))
    found: Floats = filled.reshape(*split, c).mean(axis=axes)
    return found


def most_frequent(codes: Ints, k: int, units: Units) -> Ints:
    """The code 0 to k − 1 that most pixels of a cell have, -1 where none has one."""
    shape = tuple(-(-size // unit) for size, unit in zip(codes.shape, units, strict=True))
    where = np.nonzero(codes >= 0)
    cell = np.ravel_multi_index(cells_of(where, units), shape)
    painted, cell = np.unique(cell, return_inverse=True)
    counts = np.bincount(cell * k + codes[where], minlength=painted.size * k).reshape(-1, k)
    found = np.full(shape, -1, dtype=codes.dtype)
    found.ravel()[painted] = counts.argmax(axis=1)
    return found


def cells_of(where: tuple[NDArray[np.int64], ...], units: Units) -> tuple[NDArray[np.int64], ...]:
    """Indices of the cells of pixels that are given by theirs."""
    return tuple(at // unit for at, unit in zip(where, units, strict=True))


def spread(cells: NDArray[Any], units: Units, shape: tuple[int, ...]) -> NDArray[Any]:
    """Values of cells at their pixels, (…) or, of vectors, (…, k)."""
    for axis, (unit, size) in enumerate(zip(units, shape, strict=True)):
        if unit > 1:
            cells = cells.repeat(unit, axis)[(slice(None),) * axis + (slice(size),)]
    return cells
