"""What pixels look like, and what every label's strokes say of those that look alike."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from mustlink.graph.cells import Units, cells_of

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
Mask = NDArray[np.bool_]
_BLUR = 2.0  # pixels: standard deviation of the local mean
_CONTRASTS = (1.5, 4.0)  # pixels: of the windows of the local contrast
_CONTRAST = 8.0  # what a factor e of contrast counts, in units of lightness 0 to 100
_SAMPLE = 1500  # pixels that a mixture is fitted to
_VARIANCE = 1.0  # least variance of a component: colours are not known better
_STEPS, _STALL = 30, 1e-2
_LEAST = 20  # pixels for each component
_SURE = 15.0  # log-odds beyond which one view is not believed
_SHARE = 0.4  # of the sum of three views' log-odds, which are not independent


@dataclass(frozen=True, eq=False)
class Looks:
    """Three views of every pixel: its colour; that and the local mean; local mean and contrast.

    `colours` (…, c) in [0, 1]; `mean` and `contrast` (…, d), from 0 to 100, may be known on a
    coarser grid, of which a cell has `units` pixels along the axes.
    """

    colours: Floats
    mean: Floats
    contrast: Floats
    units: Units

    @classmethod
    def of(cls, colours: Floats, spacing: tuple[float, ...]) -> Looks:
        """Views of a picture or volume (…, c) of which pixels are `spacing` apart."""
        seen = 100.0 * colours
        light, found = seen[..., 0], []
        for width in _CONTRASTS:
            widths = [width / apart for apart in spacing]
            mean = ndimage.gaussian_filter(light, widths)
            square = ndimage.gaussian_filter(light**2, widths) - mean**2
            found.append(_CONTRAST * np.log1p(np.sqrt(np.maximum(square, 0.0))))
        mean = ndimage.gaussian_filter(seen, [*(_BLUR / apart for apart in spacing), 0])
        return cls(colours, mean, np.stack(found, axis=-1), (1,) * len(spacing))

    def finer(self, colours: Floats, units: Units) -> Looks:
        """The same for the pixels of which these are averages."""
        return Looks(colours, self.mean, self.contrast, units)

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
                size = max(1, min(n, len(views[0]) // _LEAST))
                found.append([_fitted(view, size, seed) for view in views])
        return cls(found)

    def scores(self, looks: Looks, where: Mask) -> Floats:
        """Log-likelihoods of the labels (q, K) at the pixels of a mask, up to one of the pixel."""
        total = 0.0
        for view, *mixtures in zip(looks.at(where), *self.mixtures, strict=True):
            found = np.column_stack([log_density(m, view) for m in mixtures])
            total = total + np.maximum(found - found.max(axis=1, keepdims=True), -_SURE)
        return _SHARE * np.asarray(total)


def log_density(mixture: GaussianMixture, X: Floats) -> Floats:
    """Log-density (n,) of rows of X, as `score_samples`, which takes three times as long.

    Components and coordinates are rows here: sums over few columns are what takes the time there.
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
    """At most so many of the pixels."""
    inside = np.flatnonzero(where)
    if inside.size <= _SAMPLE:
        return where
    found = np.zeros(where.size, dtype=bool)
    found[np.random.default_rng(seed).choice(inside, _SAMPLE, replace=False)] = True
    return found.reshape(where.shape)


def _fitted(X: Floats, n: int, seed: int) -> GaussianMixture:
    model = GaussianMixture(n, reg_covar=_VARIANCE, max_iter=_STEPS, tol=_STALL, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rough fit of a sample is enough
        return model.fit(X if len(X) > 1 else np.repeat(X, 2, axis=0))
