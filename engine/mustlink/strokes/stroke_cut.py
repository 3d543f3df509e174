"""A picture cut along a few strokes: what is painted, and what looks alike and hangs together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mustlink.check import as_integer, as_random_state, check_positive
from mustlink.errors import InputError
from mustlink.graph.image import GRID_SHARE, auto_color, picture_colours
from mustlink.graph.similar import similar_pixels
from mustlink.kernels.threads import threads
from mustlink.labels import class_labels, named
from mustlink.observe import Observer, Recorder, recorded
from mustlink.result import Report
from mustlink.strokes.appearance import Appearance, Looks
from mustlink.strokes.grids import around, boundary, grid_among, means, most_frequent, spread
from mustlink.strokes.pieces import ground_of, rooted
from mustlink.strokes.sharpened import sharpened
from mustlink.strokes.walks import walks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_CELLS = 50_000  # that a picture is first cut at; the boundary is then found among its pixels
_ROUNDS = 4  # mixtures are fitted so often, first to the strokes, then to the cut before
_STILL = 1e-3  # share of cells that change in a round from which it was the last
_FEW = 40  # cells of a label to which mixtures can be fitted
_ALIKE = 8  # cells that look most alike, with which one is joined
_BAND = 2  # cells beside the boundary whose pixels are cut again


@dataclass(frozen=True, eq=False)
class _Picture:
    """Colours of pixels (h, w, c) and of cells of `unit` by `unit`, with the grid of these.

    `sigma` is the usual difference of neighbouring pixels; `alike` also joins cells that look
    alike, wherever they are.
    """

    colours: Floats
    cells: Floats
    unit: int
    looks: Looks
    grid: sp.csr_matrix
    sigma: float
    alike: sp.csr_matrix

    @classmethod
    def of(cls, image: Any) -> _Picture:
        colours, _ = picture_colours(image, "lab")
        unit = max(1, int(np.ceil(np.sqrt(colours[..., 0].size / _CELLS))))
        cells = means(colours, unit)
        everywhere = np.ones(cells.shape[:2], dtype=bool)
        grid = grid_among(cells, everywhere, auto_color(cells))
        alike = sp.csr_matrix(GRID_SHARE * grid + similar_pixels(cells, _ALIKE))
        return cls(colours, cells, unit, Looks.of(cells), grid, auto_color(colours), alike)


@dataclass(eq=False, repr=False)
class StrokeCut(BaseEstimator):
    """Label every pixel by a few strokes: min γ Σ_{i<j} w_ij |f_i − f_j| − Σ_i Σ_c f_ic log p_ic.

    w joins the eight neighbours of a pixel and falls with the difference of their colours in CIE
    Lab; p_ic is what Gaussian mixtures of the colours, local means and contrasts of label c say of
    pixel i, and how likely a walk over pixels that look alike meets c first. The mixtures are
    fitted to the strokes, then three times to the cut itself, each of which is solved by reweighted
    least squares with the strokes held. A piece of the cut that no stroke of its label touches
    joins what is round it, unless it is of the label that has most of the frame. Pictures of more
    than 50,000 pixels are cut in cells first, then pixels along the boundary.

    * `n_components`: of a mixture at most; `smoothness` γ: what boundaries cost beside colours.

    After `fit`: `classes_` (K,), `labels_` (h, w), `label_distributions_` (h, w, K), `ground_`, the
    class that has most of the frame, and `report_`. `refit` takes changed strokes. Cost: about 3 s
    and 500 MB for 10⁶ pixels and two labels.
    Sources: Rother et al. 2004 (colours and cut in turn); Grady 2006.
    """

    n_components: int = 5
    smoothness: float = 15.0
    random_state: int | None = None
    n_jobs: int | None = None

    def fit(self, image: Any, strokes: Any, observer: Observer | Recorder | None = None) -> Self:
        """Cut an image (h, w) or (h, w, c) by `strokes` (h, w), -1 where nothing is painted.

        Integers are divided by their type's range, of four channels the last is ignored. Raises
        InputError.
        """
        recorder = recorded(observer)
        self._check()
        with threads(self.n_jobs):
            with recorder.stage("colours"):
                self._picture = _Picture.of(image)
            self._run(strokes, None, recorder)
        return self

    def refit(self, strokes: Any, observer: Observer | Recorder | None = None) -> Self:
        """Cut the same picture by other strokes, as `fit` does, in about 1 s for 10⁶ pixels.

        What is known of the picture is kept, and the solver starts from the cut before.
        """
        check_is_fitted(self, "labels_")
        recorder = recorded(observer)
        with threads(self.n_jobs):
            self._run(strokes, self._start, recorder)
        return self

    def fit_predict(self, image: Any, strokes: Any) -> NDArray[Any]:
        """`fit`, and its `labels_` (h, w)."""
        found: NDArray[Any] = self.fit(image, strokes).labels_
        return found

    def _check(self) -> None:
        as_integer(self.n_components, "n_components", 1)
        check_positive(self.smoothness, "smoothness")

    def _run(self, strokes: Any, start: Floats | None, recorder: Recorder) -> None:
        """Cells, then pixels."""
        picture = self._picture
        seed = int(as_random_state(self.random_state).integers(2**31))
        shape = picture.colours.shape[:2]
        codes, classes = _codes(strokes, shape)
        k = len(classes)
        painted = most_frequent(codes, k, picture.unit)
        if np.unique(painted[painted >= 0]).size < k:
            raise InputError(
                "strokes: one is so thin that others hide it where the picture is cut in cells of "
                f"{picture.unit} x {picture.unit} pixels; paint it broader"
            )
        with recorder.stage("colours and cut in turn"):
            near = walks(picture.alike, painted, k)
            cells, F, model, rounds, steps = self._in_turn(painted, near, start, seed)
        ground = ground_of(cells)
        with recorder.stage("boundary"):
            labels, P = self._in_pixels(codes, cells, F, model, near, ground)
        self._start = F
        self.classes_ = classes
        self.labels_ = classes[labels]
        self.ground_ = classes[ground]
        self.label_distributions_ = P
        known = codes >= 0
        self.report_ = Report(
            method="StrokeCut",
            n_nodes=codes.size,
            n_clusters=k,
            choices={
                "cells": f"{picture.unit} x {picture.unit} pixels",
                "ground": f"{classes[ground]}: it has most of the frame and may lie in pieces",
                "rounds": rounds,
            },
            convergence=None,
            satisfaction=None,
            **recorder.told(),
            extra={"n_labels": int(known.sum()), "steps": steps},
        )

    def _in_turn(
        self, painted: Ints, near: Floats, start: Floats | None, seed: int
    ) -> tuple[Ints, Floats, Appearance, int, int]:
        """Mixtures of the strokes, the cut by them, mixtures of the cut, and so on, in cells."""
        picture, k, steps, rounds = self._picture, near.shape[-1], 0, 0
        everywhere = np.ones(painted.shape, dtype=bool)
        labels = painted
        if start is None or start.shape[-1] != k:
            start = np.full((*painted.shape, k), 1.0 / k)
        F = start.reshape(-1, k)
        while True:
            model = Appearance.of(picture.looks, labels, k, int(self.n_components), seed)
            odds = model.scores(picture.looks, everywhere) + near.reshape(-1, k)
            given = painted.ravel()
            F, taken = _cut(picture.grid, odds, given, given < 0, F, float(self.smoothness))
            before, labels = labels, F.argmax(axis=1).reshape(painted.shape)
            labels = rooted(labels, painted, ground_of(labels))
            rounds, steps = rounds + 1, steps + taken
            few = np.bincount(labels.ravel(), minlength=k).min() < _FEW
            if rounds == _ROUNDS or few or np.mean(labels != before) < _STILL:
                return labels, F.reshape(*painted.shape, k), model, rounds, steps

    def _in_pixels(
        self,
        codes: Ints,
        cells: Ints,
        F: Floats,
        model: Appearance,
        near: Floats,
        ground: int,
    ) -> tuple[Ints, Floats]:
        """Labels (h, w) and distributions (h, w, K) of pixels, cut again beside the boundary."""
        picture, k = self._picture, F.shape[-1]
        agrees = F.argmax(axis=-1) == cells
        F = np.where(agrees[..., None], F, (cells[..., None] == np.arange(k)) * 1.0)
        unit, shape = picture.unit, codes.shape
        P: Floats = spread(F, unit, shape).copy()
        labels: Ints = spread(cells, unit, shape).copy()
        known = codes >= 0
        if unit > 1:
            band = spread(boundary(cells, _BAND), unit, shape)
            inside = around(band, 1)  # with the pixels beside it, which are held
            free = (band & ~known)[inside]
            looks = picture.looks.finer(picture.colours, unit)
            odds = model.scores(looks, inside) + spread(near, unit, shape)[inside]
            grid = grid_among(picture.colours, inside, picture.sigma)
            given = np.where(known, codes, labels)[inside]
            weight = float(self.smoothness) * unit
            P[inside], _ = _cut(grid, odds, given, free, P[inside], weight)
            labels[inside] = P[inside].argmax(axis=1)
        labels[known] = codes[known]
        found = rooted(labels, codes, ground)
        hard = known | (found != P.argmax(axis=-1))
        P[hard] = (found[hard][:, None] == np.arange(k)) * 1.0
        return found, P


def _cut(
    grid: sp.csr_matrix,
    odds: Floats,
    given: Ints,
    free: NDArray[np.bool_],
    start: Floats,
    smoothness: float,
) -> tuple[Floats, int]:
    """Distributions (n, K): every label against the best of the others, one of two for both."""
    k, found, steps = odds.shape[1], np.empty(odds.shape), 0
    grid = smoothness * grid
    for c in range(1 if k == 2 else 0, k):
        others = np.delete(odds, c, axis=1).max(axis=1)
        mine = (given == c) * 1.0
        found[:, c], taken = sharpened(grid, odds[:, c] - others, mine, free, start[:, c])
        steps += taken
    if k == 2:
        found[:, 0] = 1.0 - found[:, 1]
    total = found.sum(axis=1, keepdims=True)
    return np.where(total > 0, found / np.maximum(total, 1e-300), 1.0 / k), steps


def _codes(strokes: Any, shape: tuple[int, ...]) -> tuple[Ints, NDArray[Any]]:
    """Strokes (h, w) as codes from 0, and the classes (K,); raises InputError."""
    raw = np.asarray(strokes)
    if raw.shape != shape:
        raise InputError(
            f"strokes: shape {raw.shape}, but the picture has {shape[0]} rows of {shape[1]} "
            "pixels; paint on the picture itself, -1 where nothing is painted"
        )
    labels, names = class_labels(raw.ravel())
    classes = np.unique(labels[labels >= 0])
    codes = np.where(labels >= 0, np.searchsorted(classes, labels), -1).reshape(shape)
    return codes, classes if names is None else named(names, classes)
