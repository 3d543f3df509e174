"""Edges between pixels that look alike, near or far: what a grid of neighbours cannot know."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.graph.weights import neighbour_affinity

_BLUR = 2.0  # pixels: standard deviation of the local mean
_WINDOW = 7  # pixels: side of the window of the local contrast
_FEW = 30_000  # pixels up to which scipy, half as fast, need not load a compiler
_POSITION = 0.25  # one image width counts as much as this difference of colour in [0, 1]


def similar_pixels(
    colours: NDArray[np.float64],
    n_similar: int,
    position: float = _POSITION,
    spacing: tuple[float, ...] | None = None,
) -> sp.csr_matrix:
    """Affinity (n, n) of each pixel with its `n_similar` nearest in appearance and position.

    Features per pixel: half its colour, the local mean colour (Gaussian, 2 pixels), half the
    local standard deviation of the first channel (7 x 7), and `position` times (x, y)/width; in a
    volume (x, y, z)/width, all lengths in pixels of which the nearest are `spacing` 1 apart.
    Weights exp(-d²/(s_i s_j)), s_i the distance to the 7th nearest; (A + Aᵀ)/2. Exact neighbours
    from a k-d tree; cost about 5 CPU seconds for 10⁶ pixels.
    """
    features = pixel_features(colours, position, spacing or (1.0,) * (colours.ndim - 1))
    neighbours, lengths = _nearest(features, min(n_similar, features.shape[0] - 1))
    scale = lengths[:, min(7, lengths.shape[1]) - 1]
    positive = scale[scale > 0]
    # Flat areas have many exact twins: a scale of 0 would make every other pixel infinitely far.
    scale = np.maximum(scale, positive.min(initial=1.0) if positive.size else 1.0)
    return neighbour_affinity(neighbours, lengths, "local", scale)


def _nearest(
    features: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The k nearest other pixels of every pixel and their distances, (n, k)."""
    n = features.shape[0]
    if n > _FEW:
        from mustlink.kernels.k_d_tree import nearest_in_tree

        return nearest_in_tree(features, k)
    from scipy.spatial import cKDTree  # loaded for pictures alone

    query = cKDTree(features).query(features, k + 1, workers=-1)
    distances, found = np.asarray(query[0]), np.asarray(query[1])
    # The pixel itself is first unless it has exact twins; it must not be its own neighbour.
    own = found == np.arange(n)[:, None]
    own[~own.any(axis=1), -1] = True
    return found[~own].reshape(-1, k).astype(np.int32), distances[~own].reshape(-1, k)


def pixel_features(
    colours: NDArray[np.float64], position: float, spacing: tuple[float, ...] = (1.0, 1.0)
) -> NDArray[np.float64]:
    """Features of the pixels of (…, c) colours, (n, 2c + 1 + axes); see `similar_pixels`."""
    from scipy import ndimage  # loaded for pictures alone

    shape = colours.shape[:-1]
    blur = [_BLUR / part for part in spacing]
    window = [2 * round((_WINDOW - 1) / 2 / part) + 1 for part in spacing]
    mean = ndimage.gaussian_filter(colours, (*blur, 0))
    lightness = colours[..., 0]
    square = ndimage.uniform_filter(lightness**2, window)
    contrast = np.sqrt(np.maximum(square - ndimage.uniform_filter(lightness, window) ** 2, 0.0))
    scale = np.array(spacing).reshape(-1, *(1,) * len(shape)) * (position / shape[-1])
    places = (np.indices(shape) * scale)[::-1]
    columns = [
        0.5 * colours,
        mean,
        0.5 * ndimage.gaussian_filter(contrast, blur)[..., None],
        *places[..., None],
    ]
    return np.concatenate(columns, axis=-1).reshape(colours[..., 0].size, -1)
