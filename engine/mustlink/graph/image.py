"""Graphs of pixels and voxels: neighbours within a radius, weighted by colour and position.

And edges between pixels that look alike, near or far: what a grid of neighbours cannot know.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.check import as_integer, check_choice, check_positive, numeric_array
from mustlink.errors import InputError
from mustlink.graph.graph import Graph
from mustlink.graph.weights import neighbour_affinity

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
Units = tuple[int, ...]  # pixels of a cell along each axis
Step = tuple[int, ...]
Slices = tuple[slice, ...]


def steps(shape: tuple[int, ...], radius: float) -> list[Step]:
    """List steps of at most `radius` to later places, in row-major order, that fit into a shape."""
    r = int(radius)
    found = product(*(range(-min(r, size - 1), min(r, size - 1) + 1) for size in shape))
    origin = (0,) * len(shape)
    return [o for o in found if o > origin and sum(part * part for part in o) <= radius**2]


def beside(step: Step, shape: tuple[int, ...]) -> tuple[Slices, Slices]:
    """The places that have another one a step away, and these others."""
    here = tuple(slice(max(0, -o), s - max(0, o)) for o, s in zip(step, shape, strict=True))
    there = tuple(slice(max(0, o), s + min(0, o)) for o, s in zip(step, shape, strict=True))
    return here, there


def squared_length(step: Step, spacing: tuple[float, ...]) -> float:
    """Square of how long a step is, where pixels are `spacing` apart along the axes."""
    return float(sum((o * s) ** 2 for o, s in zip(step, spacing, strict=True)))


def pixel_spacing(spacing: object, axes: int) -> tuple[float, ...]:
    """How far pixels are apart along the axes, the least 1; None is 1 everywhere.

    Raises InputError.
    """
    if spacing is None:
        return (1.0,) * axes
    given = numeric_array(spacing, "spacing").astype(np.float64)
    if given.shape != (axes,) or not (np.isfinite(given) & (given > 0)).all():
        raise InputError(
            f"spacing: {spacing}; give {axes} positive numbers, the size of a pixel along each axis"
        )
    return tuple(float(part) for part in given / given.min())


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


GRID_SHARE = 0.3  # weight of the grid beside edges between pixels that look alike
_D65 = np.array([0.95047, 1.0, 1.08883])
_TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def image_graph(
    image: Any,
    radius: float = 2,
    sigma_color: float | str = "auto",
    sigma_space: float | str = "auto",
    *,
    color: str = "lab",
    floor: float = 1e-6,
    n_similar: int = 8,
    position: float = 0.25,
    channel_axis: int | str | None = "auto",
    spacing: Any = None,
) -> Graph:
    """Graph of an image (h, w) or (h, w, c): pixels that are near, and pixels that look alike.

    The grid joins all pairs of pixels at most `radius` steps apart,
    W_ij = max(floor, exp(-|c_i - c_j|²/(2σ_c²) - |p_i - p_j|²/(2σ_p²))), node y·w + x, colours
    in [0, 1] (integers by their type's range, floats outside [0, 1] by their own range). Three
    channels are sRGB and compared in CIE Lab / 100 (`color="lab"`) or as they are ("rgb"); of
    a picture's four, the last (alpha) is ignored. "auto": σ_c² is the mean squared difference of
    direct neighbours, σ_p the radius. The floor keeps the grid connected where colours jump.

    A volume (d, h, w) needs `channel_axis=None`, one with channels the axis of these, such as -1:
    of an array with three axes the last one has channels else. `spacing`, the size of a pixel
    along each axis, such as (3, 1, 1), counts in |p_i - p_j|, in units of the least; radius 1 is
    6 neighbours, 1.5 are 18, 1.8 are 26. Node (z·h + y)·w + x.

    Edges to the `n_similar` pixels that look most alike, wherever they are, are added to 0.3 of
    the grid, which then only keeps the picture together, and boundaries follow appearance;
    `position` is how much distance matters, see `similar_pixels`. 0 is the grid alone.
    Cost: 2·(half offsets)·n, radius 2 has 12 neighbours, and that of `similar_pixels`, which is
    more. Raises InputError.
    """
    check_choice(color, ("lab", "rgb"), "color")
    colours, scaled = picture_colours(image, color, channel_axis)
    shape = colours.shape[:-1]
    if colours[..., 0].size < 2:
        raise InputError(f"image: {' x '.join(map(str, shape))} pixels; at least 2 are needed")
    apart = pixel_spacing(spacing, len(shape))
    radius = check_positive(radius, "radius")
    if radius < 1:
        raise InputError(f"radius: {radius:g} reaches no neighbour; give at least 1")
    floor = check_positive(floor, "floor")
    sc = (
        auto_color(colours) if sigma_color == "auto" else check_positive(sigma_color, "sigma_color")
    )
    sp_ = radius if sigma_space == "auto" else check_positive(sigma_space, "sigma_space")
    affinity = _grid_affinity(colours, steps(shape, radius), sc, sp_, floor, apart)
    if as_integer(n_similar, "n_similar", 0):
        position = check_positive(position, "position")
        alike = similar_pixels(colours, int(n_similar), position, apart)
        affinity.data *= GRID_SHARE
        affinity = sp.csr_matrix(affinity + alike)
        affinity.sort_indices()
    info = {
        "kind": "image",
        "shape": shape,
        "radius": radius,
        "sigma_color": sc,
        "sigma_space": sp_,
        "color": color if colours.shape[-1] == 3 else "channels",
        "range": scaled,
        "floor": floor,
        "n_similar": int(n_similar),
    }
    return Graph(affinity, info)


def picture_colours(
    image: Any, color: str, channel_axis: int | str | None = "auto"
) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Channels as (…, c) float64 in [0, 1], Lab / 100 if `color` says so; the range divided by."""
    raw = np.asarray(image)
    if raw.dtype.kind not in "biuf":
        raise InputError(f"image: type {raw.dtype}; give integers or real numbers")
    channels = _channels_last(raw, channel_axis)
    if channels.ndim == 3 and channels.shape[2] == 4:
        channels = channels[:, :, :3]
    pixels = channels.astype(np.float64, order="C")
    if not np.isfinite(pixels).all():
        *place, _ = np.argwhere(~np.isfinite(pixels))[0].tolist()
        where = f"row {place[0]}, column {place[1]}" if len(place) == 2 else f"index {tuple(place)}"
        raise InputError(f"image: NaN or Inf at {where}; remove or impute")
    low, high = 0.0, 1.0
    if raw.dtype.kind in "iu":
        low, high = float(min(0, pixels.min())), float(np.iinfo(raw.dtype).max)
    elif pixels.min() < 0 or pixels.max() > 1:
        low, high = float(pixels.min()), float(pixels.max())
    if high > low:
        pixels -= low
        pixels /= high - low
    else:
        pixels[:] = 0.0
    if pixels.shape[-1] == 3 and color == "lab":
        pixels = rgb_to_lab(pixels) / 100.0
    return pixels, (low, high)


def _channels_last(raw: NDArray[Any], channel_axis: int | str | None) -> NDArray[Any]:
    """A picture or volume with its channels along the last axis, which is added where it lacks."""
    if raw.size == 0 or raw.ndim < 2:
        raise InputError(f"image: shape {raw.shape}; give (height, width) or (height, width, c)")
    if channel_axis == "auto":
        if raw.ndim > 3:
            raise InputError(
                f"image: shape {raw.shape}; give channel_axis=None for a volume without channels, "
                "-1 where the last axis has them"
            )
        channel_axis = None if raw.ndim == 2 else -1
    if channel_axis is None:
        return raw[..., None]
    axis = int(as_integer(channel_axis, "channel_axis", -raw.ndim))
    if axis >= raw.ndim or raw.ndim < 3:
        raise InputError(f"channel_axis: {axis}, but the image has shape {raw.shape}")
    return np.moveaxis(raw, axis, -1)


def rgb_to_lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIE L*a*b* (D65) of sRGB values in [0, 1]; last axis of length 3."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = linear @ _TO_XYZ.T / _D65
    edge = 6.0 / 29.0
    f = np.where(xyz > edge**3, np.cbrt(xyz), xyz / (3 * edge**2) + 4.0 / 29.0)
    x, y, z = f[..., 0], f[..., 1], f[..., 2]
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def auto_color(colours: NDArray[np.float64]) -> float:
    """Root mean squared colour difference of direct neighbours; 1 for a flat image."""
    total, count = 0.0, 0
    for axis in range(colours.ndim - 1):
        step = np.diff(colours, axis=axis)
        total += float(np.square(step).sum())
        count += step[..., 0].size
    return float(np.sqrt(total / count)) if total > 0 else 1.0


def _grid_affinity(
    colours: NDArray[np.float64],
    offsets: list[Step],
    sigma_color: float,
    sigma_space: float,
    floor: float,
    spacing: tuple[float, ...],
) -> sp.csr_matrix:
    """CSR of the pixel pairs: each half offset is computed once and mirrored.

    Going through the offsets in row-major order leaves every row's columns sorted, so that no
    triplets need sorting. Channel by channel and offset by offset, as short last axes are slow.
    """
    shape = colours.shape[:-1]
    n, m = colours[..., 0].size, len(offsets)
    channels = np.ascontiguousarray(np.moveaxis(colours, -1, 0))
    # Offsets -o_m … -o_1, o_1 … o_m; 0 is outside the image.
    weights: NDArray[np.float64] = np.zeros((2 * m, *shape))
    for k, offset in enumerate(offsets):
        here, there = beside(offset, shape)
        squared = np.zeros(weights[0][here].shape)
        for channel in channels:
            step = channel[there] - channel[here]
            step *= step
            squared += step
        squared *= -0.5 / sigma_color**2
        squared -= squared_length(offset, spacing) / (2 * sigma_space**2)
        value = np.maximum(np.exp(squared, out=squared), floor, out=squared)
        weights[m + k][here] = value
        weights[m - 1 - k][there] = value
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    ahead = np.array(offsets, dtype=np.int64).reshape(m, len(shape)) @ np.array(strides)
    wide = n * 2 * m >= 2**31
    kind: Any = np.int64 if wide else np.int32
    columns: NDArray[Any] = np.arange(n, dtype=kind)[:, None] + np.concatenate(
        [-ahead[::-1], ahead]
    ).astype(kind)
    found = sp.csr_matrix((n, n))
    found.data, found.indices = weights.reshape(2 * m, n).T.ravel(), columns.ravel()
    found.indptr = np.arange(0, 2 * m * n + 1, 2 * m, dtype=kind)
    found.eliminate_zeros()
    return found


# --- Pictures and volumes, of any number of axes, in cells of several pixels, and back


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


def boundary(labels: Ints, width: int) -> NDArray[np.bool_]:
    """Cells at most `width` from one with another label, over corners too."""
    from scipy import ndimage  # loaded for pictures alone

    size = 2 * width + 1
    found: NDArray[np.bool_] = ndimage.maximum_filter(labels, size) != ndimage.minimum_filter(
        labels, size
    )
    return found


def around(inside: NDArray[np.bool_], width: int) -> NDArray[np.bool_]:
    """The cells of a mask and those at most `width` from one, over corners too."""
    from scipy import ndimage

    found: NDArray[np.bool_] = ndimage.maximum_filter(inside, 2 * width + 1)
    return found
