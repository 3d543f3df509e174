"""Pixel graphs: neighbours within a radius, weighted by colour and position."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.check import as_integer, check_choice, check_positive
from mustlink.errors import InputError
from mustlink.graph.graph import Graph
from mustlink.graph.similar import similar_pixels

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
) -> Graph:
    """Graph of an image (h, w) or (h, w, c): pixels that are near, and pixels that look alike.

    The grid joins all pairs of pixels at most `radius` apart,
    W_ij = max(floor, exp(-|c_i - c_j|²/(2σ_c²) - |p_i - p_j|²/(2σ_p²))), node y·w + x, colours
    in [0, 1] (integers by their type's range, floats outside [0, 1] by their own range). Three
    channels are sRGB and compared in CIE Lab / 100 (`color="lab"`) or as they are ("rgb"); of
    four, the last (alpha) is ignored. "auto": σ_c² is the mean squared difference of direct
    neighbours, σ_p the radius. The floor keeps the grid connected where colours jump.

    Edges to the `n_similar` pixels that look most alike, wherever they are, are added to 0.3 of
    the grid, which then only keeps the picture together, and boundaries follow appearance;
    `position` is how much distance matters, see `similar_pixels`. 0 is the grid alone.
    Cost: 2·(half offsets)·n, radius 2 has 12 neighbours, and that of `similar_pixels`, which is
    more. Raises InputError.
    """
    colours, scaled = picture_colours(image, check_choice(color, ("lab", "rgb"), "color"))
    h, w = colours.shape[:2]
    if h * w < 2:
        raise InputError(f"image: {h} x {w} pixels; at least 2 are needed")
    radius = check_positive(radius, "radius")
    if radius < 1:
        raise InputError(f"radius: {radius:g} reaches no neighbour; give at least 1")
    floor = check_positive(floor, "floor")
    sc = (
        auto_color(colours) if sigma_color == "auto" else check_positive(sigma_color, "sigma_color")
    )
    sp_ = radius if sigma_space == "auto" else check_positive(sigma_space, "sigma_space")
    offsets = _offsets(radius, h, w)
    affinity = _grid_affinity(colours, offsets, sc, sp_, floor)
    if as_integer(n_similar, "n_similar", 0):
        alike = similar_pixels(colours, int(n_similar), check_positive(position, "position"))
        affinity = sp.csr_matrix(GRID_SHARE * affinity + alike)
        affinity.sort_indices()
    info = {
        "kind": "image",
        "shape": (h, w),
        "radius": radius,
        "sigma_color": sc,
        "sigma_space": sp_,
        "color": color if colours.shape[2] == 3 else "channels",
        "range": scaled,
        "floor": floor,
        "n_similar": int(n_similar),
    }
    return Graph(affinity, info)


def picture_colours(image: Any, color: str) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Channels as (h, w, c) float64 in [0, 1] (Lab / 100 where asked), and the range divided by."""
    raw = np.asarray(image)
    if raw.ndim not in (2, 3) or raw.size == 0:
        raise InputError(f"image: shape {raw.shape}; give (height, width) or (height, width, c)")
    if raw.dtype.kind not in "biuf":
        raise InputError(f"image: type {raw.dtype}; give integers or real numbers")
    channels = raw.reshape(*raw.shape[:2], -1)
    if channels.shape[2] == 4:
        channels = channels[:, :, :3]
    pixels = channels.astype(np.float64)
    bad = np.argwhere(~np.isfinite(pixels))
    if bad.size:
        y, x, _ = bad[0]
        raise InputError(f"image: NaN or Inf at row {y}, column {x}; remove or impute")
    low, high = 0.0, 1.0
    if raw.dtype.kind in "iu":
        low, high = float(min(0, pixels.min())), float(np.iinfo(raw.dtype).max)
    elif pixels.min() < 0 or pixels.max() > 1:
        low, high = float(pixels.min()), float(pixels.max())
    pixels = (pixels - low) / (high - low) if high > low else np.zeros_like(pixels)
    if pixels.shape[2] == 3 and color == "lab":
        pixels = rgb_to_lab(pixels) / 100.0
    return pixels, (low, high)


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
    for axis in (0, 1):
        step = np.diff(colours, axis=axis)
        total += float(np.square(step).sum())
        count += step.shape[0] * step.shape[1]
    return float(np.sqrt(total / count)) if total > 0 else 1.0


def _offsets(radius: float, h: int, w: int) -> list[tuple[int, int]]:
    """List steps (dy, dx) to later pixels, in row-major order, that fit into the image."""
    r = int(radius)
    return [
        (dy, dx)
        for dy in range(min(r, h - 1) + 1)
        for dx in range(-min(r, w - 1), min(r, w - 1) + 1)
        if (dy > 0 or dx > 0) and dy * dy + dx * dx <= radius * radius
    ]


def _grid_affinity(
    colours: NDArray[np.float64],
    offsets: list[tuple[int, int]],
    sigma_color: float,
    sigma_space: float,
    floor: float,
) -> sp.csr_matrix:
    """CSR of the pixel pairs: each half offset is computed once and mirrored.

    Going through the offsets in row-major order leaves every row's columns sorted, so that no
    triplets need sorting.
    """
    h, w = colours.shape[:2]
    n, m = h * w, len(offsets)
    weights = np.zeros((h, w, 2 * m))  # offsets -o_m … -o_1, o_1 … o_m; 0 = outside the image
    for k, (dy, dx) in enumerate(offsets):
        here = (slice(0, h - dy), slice(max(0, -dx), w - max(0, dx)))
        there = (slice(dy, h), slice(max(0, dx), w + min(0, dx)))
        squared = np.square(colours[there] - colours[here]).sum(axis=2)
        squared *= -0.5 / sigma_color**2
        squared -= (dy * dy + dx * dx) / (2 * sigma_space**2)
        value = np.maximum(np.exp(squared), floor)
        weights[(*here, m + k)] = value
        weights[(*there, m - 1 - k)] = value
    flat = weights.reshape(n, 2 * m)
    used = flat > 0
    steps = np.array([dy * w + dx for dy, dx in offsets], dtype=np.int64)
    wide = n * 2 * m >= 2**31
    kind = np.int64 if wide else np.int32
    columns = np.arange(n, dtype=kind)[:, None] + np.concatenate([-steps[::-1], steps]).astype(kind)
    indptr = np.zeros(n + 1, dtype=kind)
    np.cumsum(used.sum(axis=1), out=indptr[1:])
    return sp.csr_matrix((flat[used], columns[used], indptr), shape=(n, n))
