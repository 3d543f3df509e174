"""A picture in words: every pixel has one of a few colours and one of a few textures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from mustlink.kernels.nearest_centre import nearest_centre
from mustlink.rounding.assign import kmeans

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
N_COLOURS, N_TEXTURES = 32, 24
_SAMPLE = 4000  # pixels that words are chosen from
_GRAIN = 0.7  # pixels: what colours are blurred by
_WIDTHS = (1.0, 2.0)  # pixels: of the filters that tell textures
_ORDERS = ((0, 1), (1, 0), (0, 2), (2, 0), (1, 1))  # of their derivatives, down and right
_FAINT = 0.03  # of the range of lightness: weaker textures count in proportion, stronger by log


def colour_words(colours: Floats, seed: int) -> Ints:
    """The nearest of 32 usual colours of a picture (h, w, c), (h, w) from 0."""
    blurred = ndimage.gaussian_filter(colours, (_GRAIN, _GRAIN, 0), mode="nearest")
    return _words(blurred, N_COLOURS, seed)


def texture_words(light: Floats, seed: int) -> Ints:
    """The nearest of 24 usual textures of a lightness (h, w) in [0, 1], (h, w) from 0.

    A texture is told by derivatives of Gaussians, of length r as log(1 + r/0.03) (Martin, Fowlkes
    & Malik 2004 §2.2).
    """
    answers = np.stack(
        [
            width ** sum(order) * ndimage.gaussian_filter(light, width, order=order, mode="nearest")
            for width in _WIDTHS
            for order in _ORDERS
        ],
        axis=-1,
    )
    length = np.sqrt(np.square(answers).sum(axis=-1, keepdims=True))
    answers *= np.log1p(length / _FAINT) / np.maximum(length, 1e-12)
    return _words(answers, N_TEXTURES, seed)


def _words(values: Floats, k: int, seed: int) -> Ints:
    rows = np.ascontiguousarray(values.reshape(-1, values.shape[-1]))
    sample = rows
    if len(rows) > _SAMPLE:
        chosen = np.random.default_rng(seed).choice(len(rows), _SAMPLE, replace=False)
        sample = rows[np.sort(chosen)]
    centers = kmeans(sample, min(k, len(sample)), seed, restarts=1).centers
    return np.asarray(nearest_centre(rows, centers), dtype=np.int64).reshape(values.shape[:2])
