"""The boundary of a cut, and the grid of the pixels beside it, of any number of axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import ndimage

from mustlink.graph.image import squared_length, steps
from mustlink.kernels.grid_neighbours import neighbours_among

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
Mask = NDArray[np.bool_]
_RADIUS = 1.5  # of the neighbours on a grid: 8 in a picture, 18 in a volume
_LEAST = 1e-6  # affinity that neighbours have however they differ


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
