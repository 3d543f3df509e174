"""A picture or volume as cells, smaller cells, and pixels, with colours and contrasts of each."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import count
from math import log, prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import ndimage
from threadpoolctl import threadpool_limits

from mustlink.graph.image import (
    GRID_SHARE,
    Units,
    auto_color,
    cells_of,
    means,
    picture_colours,
    pixel_spacing,
    similar_pixels,
    squared_length,
    steps,
)
from mustlink.kernels.region_merging import neighbours_among

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture

Ints = NDArray[np.integer[Any]]
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
_CELLS = 50_000  # of the first level at most
_SPLIT = {2: 5}  # parts of a cell's side at the next level at most; in volumes 2
_ALIKE = 8  # most similar cells that a cell is joined with


@dataclass(frozen=True, eq=False)
class PyramidLevel:
    """Mean colours (…, c) of cells of `units` pixels along the axes, `length` in isotropic pixels.

    `spacing` is the distance of cells, the least 1; `sigma` the usual difference of neighbours.
    """

    colours: Floats
    units: Units
    length: int
    spacing: tuple[float, ...]
    sigma: float

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along the axes."""
        return self.colours.shape[:-1]

    def per(self, finer: PyramidLevel) -> Units:
        """Cells of a finer level in one of these, along the axes."""
        return tuple(a // b for a, b in zip(self.units, finer.units, strict=True))


@dataclass(frozen=True, eq=False)
class PicturePyramid:
    """Levels from cells to pixels; the views of the cells, and two graphs of them.

    `grid` joins neighbours, `alike` also similar cells anywhere.
    """

    levels: list[PyramidLevel]
    looks: Looks
    grid: sp.csr_matrix
    alike: sp.csr_matrix

    @classmethod
    def of(cls, image: NDArray[Any], shape: tuple[int, ...], spacing: tuple[float, ...]) -> Self:
        """Of an image of this shape, or with channels along one more axis; raises InputError."""
        colours, _ = picture_colours(image, "lab", None if image.shape == shape else -1)
        levels = []
        for length, units in _units(shape, spacing):
            cells = means(colours, units)
            sides = [unit * part for unit, part in zip(units, spacing, strict=True)]
            apart = pixel_spacing(sides, len(sides))
            levels.append(PyramidLevel(cells, units, length, apart, auto_color(cells)))
        first = levels[0]
        everywhere = np.ones(first.shape, dtype=bool)
        grid = grid_among(first.colours, everywhere, first.sigma, first.spacing)
        similar = similar_pixels(first.colours, _ALIKE, spacing=first.spacing)
        alike = sp.csr_matrix(GRID_SHARE * grid + similar)
        return cls(levels, Looks.of(first.colours, first.spacing), grid, alike)


def _units(shape: tuple[int, ...], spacing: tuple[float, ...]) -> list[tuple[int, Units]]:
    """Lengths of cells from the first level to pixels, and their pixels along the axes.

    The first are the smallest that are not too many. Along axes with a large spacing cells have
    fewer pixels, so that they are nearly cubes.
    """
    for length in count(1):
        lengths = _halved(length, len(shape))
        units = [tuple(_nearest(one, part, lengths) for part in spacing) for one in lengths]
        reached = prod(max(a, b) for a, b in zip(shape, units[0], strict=True))
        if reached <= _CELLS * prod(units[0]):
            return list(zip(lengths, units, strict=True))
    raise AssertionError("lengths have no end")


def _halved(length: int, axes: int) -> list[int]:
    """At least this length, halved until cells are small enough to be split at once, and 1."""
    halvings, most = 0, _SPLIT.get(axes, 2)
    while -(-length // 2**halvings) > most:
        halvings += 1
    least = -(-length // 2**halvings)
    found = [least * 2**power for power in range(halvings, -1, -1)]
    return found if least == 1 else [*found, 1]


def _nearest(length: int, spacing: float, lengths: list[int]) -> int:
    """The one of the lengths that is nearest in pixels `spacing` apart."""
    return min(lengths, key=lambda one: abs(log(one * spacing / length)))


# --- The grid of the pixels of a mask, of any number of axes


_RADIUS = 1.5  # of the neighbours on a grid: 8 in a picture, 18 in a volume
_LEAST = 1e-6  # affinity that neighbours have however they differ


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


# --- Views of pixels, and the likelihood of every label by its strokes


_BLUR = 2.0  # pixels: standard deviation of the local mean
_CONTRASTS = (1.5, 4.0)  # pixels: of the windows of the local contrast
_CONTRAST = 8.0  # weight of a factor e of contrast, in units of lightness 0 to 100
_SAMPLE = 1500  # pixels that a mixture is fitted to
_VARIANCE = 1.0  # least variance of a component: the precision of colours
_STEPS, _STALL = 30, 1e-2
_LEAST_PIXELS = 20  # pixels for each component
_SURE = 15.0  # log-odds of one view at most
_SHARE = 0.4  # of the sum of three views' log-odds, which are not independent


@dataclass(frozen=True, eq=False)
class Looks:
    """Three views of every pixel: its colour; that and the local mean; local mean and contrast.

    `colours` (…, c) in [0, 1]; `mean` and `contrast` (…, d), from 0 to 100, may be on a coarser
    grid with cells of `units` pixels along the axes.
    """

    colours: Floats
    mean: Floats
    contrast: Floats
    units: Units

    @classmethod
    def of(cls, colours: Floats, spacing: tuple[float, ...]) -> Looks:
        """Views of a picture or volume (…, c) with pixels `spacing` apart."""
        percent = 100.0 * colours
        light, contrasts = percent[..., 0], []
        for width in _CONTRASTS:
            widths = [width / apart for apart in spacing]
            mean = ndimage.gaussian_filter(light, widths)
            square = ndimage.gaussian_filter(light**2, widths) - mean**2
            contrasts.append(_CONTRAST * np.log1p(np.sqrt(np.maximum(square, 0.0))))
        mean = ndimage.gaussian_filter(percent, [*(_BLUR / apart for apart in spacing), 0])
        return cls(colours, mean, np.stack(contrasts, axis=-1), (1,) * len(spacing))

    def at(self, where: Mask) -> list[Floats]:
        """The views (q, d) of the pixels of a mask (…)."""
        pixels = np.nonzero(where)
        colours, cell = 100.0 * self.colours[pixels], cells_of(pixels, self.units)
        mean, contrast = self.mean[cell], self.contrast[cell]
        return [colours, np.hstack([colours, mean]), np.hstack([mean, contrast])]


@dataclass(frozen=True, eq=False)
class Appearance:
    """A Gaussian mixture for every label and view, fitted to the pixels that have the label."""

    mixtures: list[list[GaussianMixture]]

    @classmethod
    def of(cls, looks: Looks, labels: Ints, k: int, n: int, seed: int) -> Appearance:
        """Mixtures of n components at most from labels (…), codes 0 to k − 1 or -1."""
        found = []
        # Threads for so few pixels wait for each other: on a busy machine ten times as long.
        with threadpool_limits(1):
            for code in range(k):
                views = looks.at(_sample(labels == code, seed))
                size = max(1, min(n, len(views[0]) // _LEAST_PIXELS))
                found.append([_fitted(view, size, seed) for view in views])
        return cls(found)

    def scores(self, looks: Looks, where: Mask) -> Floats:
        """Log-likelihoods of the labels (q, K) at a mask's pixels, up to a constant a pixel."""
        total = 0.0
        for view, *mixtures in zip(looks.at(where), *self.mixtures, strict=True):
            found = np.column_stack([log_density(m, view) for m in mixtures])
            total = total + np.maximum(found - found.max(axis=1, keepdims=True), -_SURE)
        return _SHARE * np.asarray(total)


def log_density(mixture: GaussianMixture, X: Floats) -> Floats:
    """Log-density (n,) of rows of X, as `score_samples`, which takes three times as long.

    Components and coordinates are rows here: sums over few columns are slow.
    """
    found, rows = np.empty((len(mixture.weights_), len(X))), np.ascontiguousarray(X.T)
    for j, root in enumerate(mixture.precisions_cholesky_):
        Z = root.T @ (rows - mixture.means_[j][:, None])
        Z *= Z
        scale = np.log(mixture.weights_[j]) + np.log(np.diagonal(root)).sum()
        found[j] = scale - 0.5 * Z.sum(axis=0)
    most = found.max(axis=0)
    total: Floats = most + np.log(np.exp(found - most).sum(axis=0))
    return total - 0.5 * X.shape[1] * np.log(2.0 * np.pi)


def _sample(where: Mask, seed: int) -> Mask:
    """At most 1,500 pixels of a mask, by chance."""
    inside = np.flatnonzero(where)
    if inside.size <= _SAMPLE:
        return where
    some = np.zeros(where.size, dtype=bool)
    some[np.random.default_rng(seed).choice(inside, _SAMPLE, replace=False)] = True
    return some.reshape(where.shape)


def _fitted(X: Floats, n: int, seed: int) -> GaussianMixture:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(n, reg_covar=_VARIANCE, max_iter=_STEPS, tol=_STALL, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rough fit of a sample is enough
        return model.fit(X if len(X) > 1 else np.repeat(X, 2, axis=0))
