"""A picture at the size that it is first cut at, and the finer grid along a cut's boundary."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import ndimage

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
_STEPS = ((0, 1), (1, -1), (1, 0), (1, 1))


def means(picture: Floats, unit: int) -> Floats:
    """Means over cells of `unit` by `unit` pixels of (h, w, c); the last ones may reach outside."""
    h, w, c = picture.shape
    filled = np.pad(picture, ((0, -h % unit), (0, -w % unit), (0, 0)), mode="edge")
    H, W = filled.shape[0] // unit, filled.shape[1] // unit
    found: Floats = filled.reshape(H, unit, W, unit, c).mean(axis=(1, 3))
    return found


def most_frequent(codes: Ints, k: int, unit: int) -> Ints:
    """The code 0 to k − 1 that most pixels of a cell have, -1 where none has one."""
    counts = np.stack([(codes == c) * 1.0 for c in range(k)], axis=-1)
    h, w = codes.shape
    filled = np.pad(counts, ((0, -h % unit), (0, -w % unit), (0, 0)))
    H, W = filled.shape[0] // unit, filled.shape[1] // unit
    totals = filled.reshape(H, unit, W, unit, k).sum(axis=(1, 3))
    return np.where(totals.any(axis=-1), totals.argmax(axis=-1), -1)


def spread(cells: NDArray[Any], unit: int, shape: tuple[int, ...]) -> NDArray[Any]:
    """Values of cells at their pixels, (h, w, …)."""
    return cells.repeat(unit, 0).repeat(unit, 1)[: shape[0], : shape[1]]


def boundary(labels: Ints, width: int) -> Mask:
    """Cells at most `width` from one with another label."""
    differs = ndimage.maximum_filter(labels, 3) != ndimage.minimum_filter(labels, 3)
    return around(differs, width - 1)


def around(inside: Mask, width: int) -> Mask:
    """The pixels of a mask and those at most `width` from one, over corners too."""
    found: Mask = ndimage.maximum_filter(inside, 2 * width + 1)
    return found


def grid_among(colours: Floats, inside: Mask, sigma: float) -> sp.csr_matrix:
    """Affinity of the pixels of a mask (h, w), each with its eight neighbours, in row-major order.

    As in `image_graph` with radius 1.5: exp(−|c_i − c_j|²/(2σ²) − |p_i − p_j|²/4.5), at least 1e-6.
    """
    number = np.cumsum(inside.ravel()).reshape(inside.shape) - 1
    h, w = inside.shape
    left, right, values = [], [], []
    for dy, dx in _STEPS:
        here = (slice(0, h - dy), slice(max(0, -dx), w - max(0, dx)))
        there = (slice(dy, h), slice(max(0, dx), w + min(0, dx)))
        both = inside[here] & inside[there]
        squared = np.square(colours[here][both] - colours[there][both]).sum(axis=1)
        weight = np.exp(-squared / (2 * sigma**2) - (dy * dy + dx * dx) / 4.5)
        left.append(number[here][both])
        right.append(number[there][both])
        values.append(np.maximum(weight, 1e-6))
    i, j, v = (np.concatenate(part) for part in (left, right, values))
    n = int(inside.sum())
    half = sp.csr_matrix((v, (i, j)), shape=(n, n))
    return sp.csr_matrix(half + half.T)
