"""Pictures and volumes cut along a few strokes: what is painted, and what looks alike by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from mustlink.check import PlainParameters, as_integer, as_random_state, check_positive
from mustlink.errors import InputError
from mustlink.graph.cells import most_frequent
from mustlink.graph.image import pixel_spacing
from mustlink.kernels.threads import threads
from mustlink.labels import class_labels, named
from mustlink.observe import Observer, Recorder, recorded
from mustlink.result import Report
from mustlink.state import fits, fits_again
from mustlink.strokes.appearance import Appearance
from mustlink.strokes.levels import Picture
from mustlink.strokes.pieces import ground_of, rooted
from mustlink.strokes.refined import Cut, cut, refined
from mustlink.strokes.walks import paths, walks

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
_ROUNDS = 4  # mixtures are fitted so often, first to the strokes, then to the cut before
_STILL = 1e-3  # share of cells that change in a round from which it was the last
_SMOOTHNESS, _OF_VOLUMES = 15.0, 1.5  # what boundaries cost, of pictures and of volumes
_FEW = 40  # cells of a label to which mixtures can be fitted


@dataclass(eq=False, repr=False)
class StrokeCut(PlainParameters, BaseEstimator):
    """Label every pixel by a few strokes: min γ Σ_{i<j} w_ij |f_i − f_j| − Σ_i Σ_c f_ic log p_ic.

    w joins the eight neighbours of a pixel, 18 of a voxel, and falls with the difference of their
    colours in CIE Lab; p_ic is what Gaussian mixtures of the colours, local means and contrasts of
    label c say of pixel i, how likely a walk over pixels that look alike meets c first, and, where
    islands are not kept, how near c is on ways where colours change little. The mixtures are fitted
    to the strokes, then three times to the cut itself, each of which is solved by reweighted least
    squares with the strokes held. Of more than 50,000 pixels or voxels cells are cut first, then
    smaller ones along the boundary.

    * `n_components`: of a mixture at most.
    * `smoothness` γ: what boundaries cost beside colours; "auto" is 15 for pictures and 1.5 for
      volumes, whose parts are fewer cells wide and have more neighbours.
    * `islands`: whether a piece of the cut that no stroke of its label touches stays, or joins what
      is round it, unless it is of the label that has most of the frame; "auto": it stays in
      volumes, where nobody paints every piece.

    After `fit`: `classes_` (K,), `labels_` (h, w), `label_distributions_` (h, w, K), `ground_`, the
    class that has most of the frame, and `report_`; of a volume (d, h, w) likewise. `refit` takes
    changed strokes. Cost: about 3 s and 500 MB for 10⁶ pixels and two labels.
    Sources: Rother et al. 2004 (colours and cut in turn); Grady 2006; Bai & Sapiro 2007.
    """

    n_components: int = 5
    smoothness: float | str = "auto"
    islands: bool | str = "auto"
    random_state: int | None = None
    n_jobs: int | None = None

    @fits
    def fit(
        self,
        image: Any,
        strokes: Any,
        spacing: Any = None,
        observer: Observer | Recorder | None = None,
    ) -> Self:
        """Cut an image (h, w) or (h, w, c) by `strokes` (h, w), -1 where nothing is painted.

        A volume (d, h, w) or (d, h, w, c) likewise by strokes (d, h, w): what has one axis more
        than the strokes has channels along the last. `spacing` is the size of a pixel along every
        axis, such as (3, 1, 1) where slices are far apart. Integers are divided by their type's
        range, of a picture's four channels the last is ignored. Raises InputError.
        """
        recorder = recorded(observer)
        self._check()
        raw, painted = np.asarray(image), np.asarray(strokes)
        shape = raw.shape[:-1] if raw.ndim == painted.ndim + 1 else raw.shape
        if len(shape) < 2:
            raise InputError(
                f"image: shape {raw.shape}; give (height, width), (depth, height, width), or these "
                "with channels last"
            )
        _check_shape(painted, shape)
        apart = pixel_spacing(spacing, len(shape))
        with threads(self.n_jobs), recorder.stage("colours"):
            kept = _extended(shape)
            raw = raw.reshape(*(shape[axis] for axis in kept), *raw.shape[len(shape) :])
            apart = pixel_spacing([apart[axis] for axis in kept], len(kept))
            self._shape = shape
            self._picture = Picture.of(raw, raw.shape[: len(kept)], apart)
        with threads(self.n_jobs):
            self._run(painted, None, recorder)
        return self

    @fits_again
    def refit(self, strokes: Any, observer: Observer | Recorder | None = None) -> Self:
        """Cut the same picture by other strokes, as `fit` does: 0.7 to 1 s for 10⁶ pixels.

        What is known of the picture is kept, and the solver starts from the cut before.
        """
        self._check()
        recorder = recorded(observer)
        _check_shape(np.asarray(strokes), self._shape)
        with threads(self.n_jobs):
            self._run(np.asarray(strokes), self._start, recorder)
        return self

    def fit_predict(self, image: Any, strokes: Any) -> NDArray[Any]:
        """`fit`, and its `labels_` (h, w)."""
        found: NDArray[Any] = self.fit(image, strokes).labels_
        return found

    @property
    def label_distributions_(self) -> Floats:
        """Shares of the labels in every pixel, (h, w, K); made when asked for, 8 bytes for each."""
        return self._found.distributions().reshape(*self._shape, -1)

    @property
    def _smoothness(self) -> float:
        """What boundaries cost."""
        if self.smoothness != "auto":
            return float(self.smoothness)
        return _SMOOTHNESS if len(self._picture.levels[0].shape) == 2 else _OF_VOLUMES

    @property
    def _islands(self) -> bool:
        """Whether pieces without a stroke stay."""
        volume = len(self._picture.levels[0].shape) > 2
        return volume if self.islands == "auto" else bool(self.islands)

    def _check(self) -> None:
        as_integer(self.n_components, "n_components", 1)
        if self.smoothness != "auto":
            check_positive(self.smoothness, "smoothness")
        if self.islands not in ("auto", True, False):
            raise InputError(f"islands: {self.islands!r}; choose auto, True or False")

    def _run(self, strokes: NDArray[Any], start: Floats | None, recorder: Recorder) -> None:
        """Cells, then smaller ones, then pixels."""
        picture, first = self._picture, self._picture.levels[0]
        seed = int(as_random_state(self.random_state).integers(2**31))
        codes, classes = _codes(strokes)
        codes = codes.reshape(picture.levels[-1].shape)
        k = len(classes)
        cells = " x ".join(map(str, first.units)) + (" pixels" if codes.ndim == 2 else " voxels")
        painted = most_frequent(codes, k, first.units)
        hidden = np.setdiff1d(np.arange(k), painted)
        if hidden.size:
            count = int((codes == hidden[0]).sum())
            raise InputError(
                f"strokes: class {classes[hidden[0]]} (pixels: {count}) is hidden by others "
                f"where the picture is cut in cells of {cells}; paint it broader, or leave it out"
            )
        with recorder.stage("colours and cut in turn"):
            near = walks(picture.alike, painted, k)
            if not self._islands:  # those are far from all strokes
                near = near + paths(picture.grid, painted, k)
            labels, F, model, rounds, steps = self._in_turn(painted, near, start, seed)
        ground = ground_of(labels)
        with recorder.stage("boundary"):
            whole, kept = Cut.of_cells(labels, F), None if self._islands else ground
            found = refined(picture, whole, codes, model, near, kept, self._smoothness)
        self._start = F
        self.classes_ = classes
        self._found = found
        self.labels_ = classes[found.labels].reshape(self._shape)
        self.ground_ = classes[ground]
        known = codes >= 0
        self.report_ = Report(
            method="StrokeCut",
            n_nodes=codes.size,
            n_clusters=k,
            choices={
                "cells": cells,
                "ground": f"{classes[ground]}: it has most of the frame",
                "islands": "pieces without a stroke stay"
                if self._islands
                else "pieces without a stroke stay of the ground alone",
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
        everywhere, spacing = np.ones(painted.shape, dtype=bool), picture.levels[0].spacing
        labels = painted
        if start is None or start.shape[-1] != k:
            start = np.full((*painted.shape, k), 1.0 / k)
        F = start.reshape(-1, k)
        while True:
            model = Appearance.of(picture.looks, labels, k, int(self.n_components), seed)
            odds = model.scores(picture.looks, everywhere) + near.reshape(-1, k)
            given = painted.ravel()
            F, taken = cut(picture.grid, odds, given, given < 0, F, self._smoothness)
            before, labels = labels, F.argmax(axis=1).reshape(painted.shape)
            if not self._islands:
                labels = rooted(labels, painted, ground_of(labels), spacing)
            rounds, steps = rounds + 1, steps + taken
            few = np.bincount(labels.ravel(), minlength=k).min() < _FEW
            if rounds == _ROUNDS or few or np.mean(labels != before) < _STILL:
                return labels, F.reshape(*painted.shape, k), model, rounds, steps


def _extended(shape: tuple[int, ...]) -> list[int]:
    """The axes of more than one pixel, but two at least: a volume of one page is a picture."""
    least = max(2, sum(size > 1 for size in shape))
    return sorted(sorted(range(len(shape)), key=lambda axis: shape[axis] == 1)[:least])


def _check_shape(strokes: NDArray[Any], shape: tuple[int, ...]) -> None:
    if strokes.shape != shape:
        whole = (
            f"the picture has {shape[0]} rows of {shape[1]} pixels"
            if len(shape) == 2
            else f"the volume has shape {shape}"
        )
        raise InputError(
            f"strokes: shape {strokes.shape}, but {whole}; paint on the picture itself, -1 where "
            "nothing is painted"
        )


def _codes(strokes: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """Strokes as codes (n,) from 0, and the classes (K,); raises InputError."""
    labels, names = class_labels(strokes.ravel(), "strokes")
    known = labels >= 0
    classes = np.unique(labels[known])
    codes = np.full(labels.shape, -1, dtype=np.min_scalar_type(-len(classes)))
    codes[known] = np.searchsorted(classes, labels[known])
    return codes, classes if names is None else named(names, classes)
