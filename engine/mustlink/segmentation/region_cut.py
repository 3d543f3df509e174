"""A picture cut without strokes: small regions between its edges, joined while they look alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from mustlink.core.check import as_integer, as_random_state
from mustlink.core.observe import Observer, Recorder, recorded
from mustlink.core.result import Report
from mustlink.core.state import BaseEstimator, fits
from mustlink.discretize.assign import kmeans
from mustlink.graph.image import boundary, means, picture_colours, spread
from mustlink.kernels.blocks import nearest_centre
from mustlink.kernels.region_merging import borders, flood, merged, minima
from mustlink.kernels.threads import threads

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_CELLS = 200_000  # of a larger picture, which is cut in cells first
_UNSURE = 0.1  # log-odds: the report has K for as much less and more
_SLOPE = 0.2  # of colours in [0, 1] a pixel: steeper boundaries are equally good


@dataclass(eq=False, repr=False)
class RegionCut(BaseEstimator):
    """Cut a picture into connected parts, as many as it shows; no strokes, no training data.

    Edges are where colours jump and where the histograms of colours and textures differ on two
    sides; the basins between them are small regions; neighbours are joined, always those that
    are least likely to be different things by their border, colours, textures and sizes, see
    `Merging`. Pictures of more than 200,000 pixels are cut in cells first, then
    pixels along the boundaries.

    `n_clusters` is the number of parts; "auto" stops when the next two are likelier different than
    the same. After `fit`: `labels_` (h, w) from 0, each a piece connected along rows and columns;
    `n_clusters_`, and `report_`, which says why. Constants are from pictures that people segmented
    (BSDS500). Cost: about half a second for 150,000 pixels, 1 s and 450 MB for 10⁶.
    Sources: Arbeláez, Maire, Fowlkes & Malik 2011 (edges, basins, joining by borders).
    """

    n_clusters: int | str = "auto"
    random_state: int | None = None
    n_jobs: int | None = None

    @fits
    def fit(self, image: Any, y: Any = None, observer: Observer | Recorder | None = None) -> Self:
        """Cut an image (h, w) or (h, w, c); `y` is ignored, as is the last of four channels.

        Integers are divided by their type's range. Where a picture has fewer small regions than
        `n_clusters`, they are all there is, with a warning. Raises InputError.
        """
        wanted = None
        if not (isinstance(self.n_clusters, str) and self.n_clusters == "auto"):
            wanted = as_integer(self.n_clusters, "n_clusters", 1)
        with threads(self.n_jobs):
            self._fit(image, wanted, recorded(observer))
        return self

    def fit_predict(self, image: Any, y: Any = None) -> Ints:
        """`fit`, and its `labels_` (h, w)."""
        return self.fit(image).labels_

    def _fit(self, image: Any, wanted: int | None, recorder: Recorder) -> None:
        seed = int(as_random_state(self.random_state).integers(2**31))
        recorder.estimator = type(self).__name__
        with recorder.stage("edges"):
            pixels, _ = picture_colours(image, "lab")
            unit = max(1, ceil(sqrt(pixels[..., 0].size / _CELLS)))
            cells = means(pixels, (unit, unit))
            hues, textures = colour_words(cells, seed), texture_words(cells[..., 0], seed)
            edges = edge_strengths(cells, hues, textures)
        with recorder.stage("regions"):
            regions, n = small_regions(edges)
            merging = Merging.of(regions, n, edges, hues, textures)
        k, reason = merging.count(), "the next two parts are likelier different than the same"
        if wanted is None:
            few, many = merging.count(_UNSURE), merging.count(-_UNSURE)
            if few < many:
                reason += f"; {few} to {many} with slightly other odds"
            if k == 1:
                recorder.warn(
                    "n_clusters: the picture looks like one part; to cut it all the same give a "
                    "number"
                )
        else:
            k, reason = min(wanted, n), "given"
            if n < wanted:
                recorder.warn(
                    f"n_clusters: {wanted} parts asked for, but only {n} regions have edges "
                    "between them; ask for fewer"
                )
        with recorder.stage("boundary"):
            labels = merging.labels(k)[regions]
            self.labels_: Ints = _in_pixels(labels, pixels, unit)
        self.n_clusters_ = k
        self.report_ = Report(
            method="RegionCut",
            n_nodes=self.labels_.size,
            n_clusters=k,
            choices={"n_clusters": [k, reason], "cells": f"{unit} x {unit} pixels"},
            convergence=None,
            satisfaction=None,
            **recorder.report_parts(),
            extra={"n_regions": n},
        )


def _in_pixels(labels: Ints, pixels: Floats, unit: int) -> Ints:
    """Labels (h, w) of pixels from those of cells: boundaries move to the steepest pixels nearby.

    So much of a cell keeps its label that parts stay connected.
    """
    found = spread(labels, (unit, unit), pixels.shape[:2])
    width = (unit - 1) // 2
    if width == 0:
        return found
    slopes = np.minimum(jump(pixels, 1.0) / _SLOPE, 1.0)
    unsure = np.where(boundary(found, width), -1, found)
    return np.asarray(flood(heights(slopes), unsure), dtype=np.int64)


# --- Words: every pixel has one of a few colours and one of a few textures


N_COLOURS, N_TEXTURES = 32, 24
_SAMPLE = 4000  # pixels for the choice of words
_GRAIN = 0.7  # pixels: blur of colours
_WIDTHS = (1.0, 2.0)  # pixels: of the filters of textures
_ORDERS = ((0, 1), (1, 0), (0, 2), (2, 0), (1, 1))  # of their derivatives, down and right
_FAINT = 0.03  # of the range of lightness: weaker textures count in proportion, stronger by log


def colour_words(colours: Floats, seed: int) -> Ints:
    """The nearest of 32 usual colours of a picture (h, w, c), (h, w) from 0."""
    blurred = ndimage.gaussian_filter(colours, (_GRAIN, _GRAIN, 0), mode="nearest")
    return _words(blurred, N_COLOURS, seed)


def texture_words(light: Floats, seed: int) -> Ints:
    """The nearest of 24 usual textures of a lightness (h, w) in [0, 1], (h, w) from 0.

    A texture is a vector of responses to derivatives of Gaussians, its length r replaced by
    log(1 + r/0.03) (Martin, Fowlkes & Malik 2004 §2.2).
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


# --- Small regions of a picture, and the order in which neighbours are joined


_LEVELS = 256
_BLUR = 2.0  # pixels: of edges before their basins are found
_MOST = 2000  # small regions; a picture of more is blurred more
# a to h of `Merging`; a is such that stopping at even odds was best on the pictures they are from.
_WEIGHTS = (0.15, 0.79, 1.21, 1.58, 0.285, 0.16, -0.28)


def small_regions(edges: Floats) -> tuple[Ints, int]:
    """Basins (h, w) of edge strengths in [0, 1], numbered from 0, and how many, 2,000 at most."""
    blur = _BLUR
    while True:
        blurred = ndimage.gaussian_filter(edges, blur, mode="nearest")
        levels = heights(np.sqrt(blurred))
        markers, count = minima(levels)
        if count <= _MOST:
            return flood(levels, markers), count
        blur *= 1.5


def heights(values: Floats) -> Ints:
    """Values in [0, 1] as whole numbers from 0 to 255, which water rises by."""
    return np.minimum((values * _LEVELS).astype(np.int64), _LEVELS - 1)


@dataclass(frozen=True, eq=False)
class Merging:
    """How k regions become one: pairs (k − 1, 2) in order, and their log-odds (k − 1,).

    The log-odds that two neighbours are different things are

    a + b log(e + .01) + c H(colours) + d H(textures) + f log s + g log S + h log(l/r),

    e the mean edge strength on their border, H the Hellinger distance of histograms of words, s and
    S the shares of the picture that the smaller and the larger have, l the length of the border and
    r that of the shorter of both rims. Regions of less than 1/2000 of the picture, or 16 pixels,
    are joined before all others. Constants by logistic regression against what people
    segmented in 90 pictures of BSDS500, on pairs met in merging (as in Ren & Shakhnarovich 2013).
    """

    pairs: Ints
    odds: Floats

    @classmethod
    def of(cls, regions: Ints, k: int, edges: Floats, hues: Ints, textures: Ints) -> Merging:
        """Join regions (h, w), 0 to k − 1, by edges, colour words and texture words (h, w)."""

        def counts(words: Ints, n: int) -> Floats:
            found = np.bincount(regions.ravel() * n + words.ravel(), minlength=k * n)
            return found.reshape(k, n).astype(np.float64)

        colours, grains = counts(hues, N_COLOURS), counts(textures, N_TEXTURES)
        lengths, strengths = borders(regions, edges, k)
        return cls(*merged(colours, grains, lengths, strengths, np.array(_WEIGHTS)))

    def count(self, odds: float = 0.0) -> int:
        """Regions left when the next pair has larger log-odds to be different."""
        beyond = np.flatnonzero(self.odds > odds)
        joined = beyond[0] if beyond.size else self.odds.size
        return int(self.odds.size + 1 - joined)

    def labels(self, k: int) -> Ints:
        """Which of k regions every small one is in, numbered by their first."""
        n = len(self.pairs) + 1
        root = np.arange(n)
        for a, b in self.pairs[: n - k][::-1]:
            root[b] = root[a]
        return np.asarray(np.unique(root, return_inverse=True)[1], dtype=np.int64)


# --- Where a picture has edges: colours that jump, and histograms that differ on two sides


_STEP = 1.0  # pixels: width of the derivative of colours
_FINE, _BROAD, _TEXTURE = 2.0, 8.0, 4.0  # pixels: of the windows of histograms
_FAINT_EDGE = 0.01
# Log-odds of an edge that people see, by logistic regression on 40 pictures of BSDS500: of the
# constant, of the logarithms of the jump and of the differences of histograms.
_ODDS = (12.1, 2.16, 2.13, 2.57, 1.88)


def edge_strengths(colours: Floats, hues: Ints, textures: Ints) -> Floats:
    """Chance (h, w) that a pixel of (h, w, c) lies on an edge, by jumps of four kinds.

    Log-odds are linear in log(s + 0.01) of the strengths s: of the colours' gradient, of colour
    words within 2 and 8 pixels and of texture words within 4. Cost: about 300 filters of a plane.
    """
    parts = (
        jump(colours, _STEP),
        histogram_jump(hues, N_COLOURS, _FINE),
        histogram_jump(hues, N_COLOURS, _BROAD),
        histogram_jump(textures, N_TEXTURES, _TEXTURE),
    )
    found = np.full(hues.shape, _ODDS[0])
    for weight, part in zip(_ODDS[1:], parts, strict=True):
        found += weight * np.log(part + _FAINT_EDGE)
    return 1.0 / (1.0 + np.exp(-found))


def jump(colours: Floats, width: float) -> Floats:
    """Largest slope (h, w) of colours (h, w, c) over all directions, per `width` pixels.

    The root of the first eigenvalue of Σ_c g_c g_cᵀ, g_c the gradient of a channel blurred by a
    Gaussian (Di Zenzo 1986).
    """
    return _steepest((_blurred(plane, width) for plane in np.moveaxis(colours, -1, 0)), width)


def histogram_jump(words: Ints, k: int, width: float) -> Floats:
    """How fast the histogram of words (h, w) round a pixel changes, over all directions, (h, w).

    With p_c the share of word c in a Gaussian window, the root of the first eigenvalue of
    Σ_c g_c g_cᵀ, g_c = ∇√p_c, per `width` pixels: the Hellinger distance of windows on two sides
    where these are near to one another. All directions cost what one does, unlike half discs
    (Martin, Fowlkes & Malik 2004).
    """
    here = ((words == word) * 1.0 for word in range(k))
    return _steepest((np.sqrt(_blurred(one, width)) for one in here if one.any()), width)


def _blurred(plane: Floats, width: float) -> Floats:
    return ndimage.gaussian_filter(plane, width, mode="nearest", truncate=3.0)


def _steepest(planes: Iterable[Floats], width: float) -> Floats:
    """Root of the first eigenvalue of Σ_c g_c g_cᵀ, times the width; 0 across the frame."""
    tensor: Any = 0.0
    for plane in planes:
        down, right = np.zeros_like(plane), np.zeros_like(plane)
        down[1:-1] = 0.5 * (plane[2:] - plane[:-2])
        right[:, 1:-1] = 0.5 * (plane[:, 2:] - plane[:, :-2])
        tensor = tensor + np.stack([down * down, down * right, right * right])
    yy, xy, xx = tensor
    return width * np.sqrt(0.5 * (yy + xx) + np.sqrt(0.25 * (yy - xx) ** 2 + xy**2))
