"""A picture at the size that it is first cut at, and the finer grid along a cut's boundary.

Pictures, volumes and cells have any number of axes; `units` are the pixels of a cell along each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import ndimage

from mustlink.graph.offsets import squared_length, steps
from mustlink.kernels.grid_neighbours import neighbours_among

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
Mask = NDArray[np.bool_]
Units = tuple[int, ...]
_RADIUS = 1.5  # of the neighbours on a grid: 8 in a picture, 18 in a volume
_LEAST = 1e-6  # affinity that neighbours have however they differ


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


def boundary(labels: Ints, width: int) -> Mask:
    """Cells at most `width` from one with another label."""
    differs = ndimage.maximum_filter(labels, 3) != ndimage.minimum_filter(labels, 3)
    return around(differs, width - 1)


def around(inside: Mask, width: int) -> Mask:
    """The pixels of a mask and those at most `width` from one, over corners too."""
    found: Mask = ndimage.maximum_filter(inside, 2 * width + 1)
    return found


def grid_among(
    colours: Floats, inside: Mask, sigma: float, spacing: tuple[float, ...]
) -> sp.csr_matrix:
    """Affinity of the pixels of a mask (…), each with its neighbours, in row-major order.

    As in `image_graph` with radius 1.5: exp(−|c_i − c_j|²/(2σ²) − |p_i − p_j|²/4.5), at least 1e-6.
    """
    ahead = steps(inside.shape, _RADIUS)
    far = [squared_length(step, spacing) / (2 * _RADIUS**2) for step in ahead]
    data, indices, indptr = neighbours_among(inside, ahead, far, colours[inside], sigma)
    np.maximum(np.exp(data, out=data), _LEAST, out=data)
    return sp.csr_matrix((data, indices, indptr), shape=(indptr.size - 1,) * 2)
