"""A picture cut without strokes: small regions between its edges, joined while they look alike."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from sklearn.base import BaseEstimator

from mustlink.check import PlainParameters, as_integer, as_random_state
from mustlink.graph.cells import means, spread
from mustlink.graph.image import picture_colours
from mustlink.kernels.threads import threads
from mustlink.kernels.watershed import flood
from mustlink.observe import Observer, Recorder, recorded
from mustlink.regions.edges import edge_strengths, jump
from mustlink.regions.merging import Merging, heights, small_regions
from mustlink.regions.words import colour_words, texture_words
from mustlink.result import Report
from mustlink.state import fits

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_CELLS = 200_000  # that a larger picture is cut at; the boundary is then found among its pixels
_DOUBT = 0.1  # log-odds: K between as much less and more is told beside K
_SLOPE = 0.2  # of colours in [0, 1] a pixel: steeper boundaries are equally good


@dataclass(eq=False, repr=False)
class RegionCut(PlainParameters, BaseEstimator):
    """Cut a picture into connected parts, as many as it shows; no strokes, no training data.

    Edges are where colours jump and where the histograms of colours and textures differ on two
    sides; the basins between them are small regions; neighbours are joined, always those that
    are least likely to be different things by their border, colours, textures and sizes, see
    `regions.merging.Merging`. Pictures of more than 200,000 pixels are cut in cells first, then
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
        wanted = None if _is_auto(self.n_clusters) else as_integer(self.n_clusters, "n_clusters", 1)
        seed = int(as_random_state(self.random_state).integers(2**31))
        recorder = recorded(observer)
        with threads(self.n_jobs):
            self._fit(image, wanted, seed, recorder)
        return self

    def fit_predict(self, image: Any, y: Any = None) -> Ints:
        """`fit`, and its `labels_` (h, w)."""
        found: Ints = self.fit(image).labels_
        return found

    def _fit(self, image: Any, wanted: int | None, seed: int, recorder: Recorder) -> None:
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
            few, many = merging.count(_DOUBT), merging.count(-_DOUBT)
            if few < many:
                reason += f"; {few} to {many} with a little more or less doubt"
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
            **recorder.told(),
            extra={"n_regions": n},
        )


def _is_auto(n_clusters: Any) -> bool:
    return isinstance(n_clusters, str) and n_clusters == "auto"


def _in_pixels(labels: Ints, pixels: Floats, unit: int) -> Ints:
    """Labels (h, w) of pixels from those of cells: boundaries move to the steepest pixels beside.

    What is kept of a cell is so much that parts stay connected.
    """
    found = spread(labels, (unit, unit), pixels.shape[:2])
    width = (unit - 1) // 2
    if width == 0:
        return found
    size = 2 * width + 1
    unsure = ndimage.maximum_filter(found, size) != ndimage.minimum_filter(found, size)
    slopes = np.minimum(jump(pixels, 1.0) / _SLOPE, 1.0)
    return np.asarray(flood(heights(slopes), np.where(unsure, -1, found)), dtype=np.int64)
