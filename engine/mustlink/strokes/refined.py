"""A cut of cells, found again among the smaller ones along its boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.graph.cells import Units, cells_of, most_frequent, spread
from mustlink.strokes.appearance import Appearance
from mustlink.strokes.grids import around, boundary, grid_among
from mustlink.strokes.levels import Picture
from mustlink.strokes.pieces import rooted
from mustlink.strokes.sharpened import sharpened

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
Mask = NDArray[np.bool_]
_BAND, _BAND_OF_VOLUMES = 2, 1  # cells beside the boundary whose pixels are cut again


@dataclass(frozen=True, eq=False)
class Cut:
    """Labels (…) and what is known of their distributions, of which most are those of cells.

    `shares` (…, K) are those of cells of `units`; the pixels `inside` have shares `beside` (q, K)
    of their own, and the pixels `sure`, numbered in row-major order, their label alone.
    """

    labels: Ints
    shares: Floats
    units: Units
    inside: Mask
    beside: Floats
    sure: NDArray[np.int64]

    @classmethod
    def of_cells(cls, labels: Ints, F: Floats) -> Cut:
        """Cells with labels (…) and shares (…, K), which give way where they say another label."""
        sure = np.flatnonzero(F.argmax(axis=-1) != labels)
        none = np.zeros(labels.shape, dtype=bool)
        return cls(labels, F, (1,) * labels.ndim, none, F.reshape(-1, F.shape[-1])[:0], sure)

    def distributions(self) -> Floats:
        """Shares of all labels, (…, K)."""
        P = spread(self.shares, self.units, self.labels.shape).copy()
        P[self.inside] = self.beside
        flat = P.reshape(-1, P.shape[-1])
        flat[self.sure] = (self.labels.ravel()[self.sure, None] == np.arange(P.shape[-1])) * 1.0
        return P


def refined(
    picture: Picture,
    cells: Cut,
    codes: Ints,
    model: Appearance,
    near: Floats,
    ground: int | None,
    smoothness: float,
) -> Cut:
    """The cut of pixels from that of cells, level by level; `codes` are the strokes on pixels.

    `near` (…, K) is what walks say of cells, and `model` what cells of the labels look like. Pieces
    without a stroke go, but of the `ground`; all stay where it is None.
    """
    k, first = near.shape[-1], picture.levels[0]
    width = _BAND if codes.ndim == 2 else _BAND_OF_VOLUMES
    found = cells
    for coarse, level in zip(picture.levels, picture.levels[1:], strict=False):
        per, F = coarse.per(level), found.distributions()
        band = spread(boundary(found.labels, width), per, level.shape)
        inside = around(band, 1)  # with the pixels beside it, which are held
        labels = spread(found.labels, per, level.shape).copy()
        pixels = np.nonzero(inside)
        known = most_frequent(codes, k, level.units) if max(level.units) > 1 else codes
        painted = known[pixels]
        looks = picture.looks.finer(level.colours, first.per(level))
        odds = model.scores(looks, inside) + near[cells_of(pixels, first.per(level))]
        grid = grid_among(level.colours, inside, level.sigma, level.spacing)
        free = band[pixels] & (painted < 0)
        given = np.where(painted >= 0, painted, labels[pixels])
        weight = smoothness * first.length / level.length
        beside, _ = cut(grid, odds, given, free, F[cells_of(pixels, per)], weight)
        labels[pixels] = beside.argmax(axis=1)
        found = Cut(labels, F, per, inside, beside, np.zeros(0, dtype=np.int64))
    labels = np.where(codes >= 0, codes, found.labels)
    ended = labels
    if ground is not None:
        ended = rooted(labels, codes, ground, picture.levels[-1].spacing)
    sure = np.flatnonzero((codes >= 0) | (ended != labels))
    if len(picture.levels) == 1:
        sure = np.union1d(sure, found.sure)
    return Cut(ended, found.shares, found.units, found.inside, found.beside, sure)


def cut(
    grid: sp.csr_matrix,
    odds: Floats,
    given: Ints,
    free: Mask,
    start: Floats,
    smoothness: float,
) -> tuple[Floats, int]:
    """Distributions (n, K): every label against the best of the others, one of two for both."""
    k, found, steps = odds.shape[1], np.empty(odds.shape), 0
    for c in range(1 if k == 2 else 0, k):
        others = np.delete(odds, c, axis=1).max(axis=1)
        mine = (given == c) * 1.0
        odd = odds[:, c] - others
        found[:, c], taken = sharpened(grid, odd, mine, free, start[:, c], smoothness)
        steps += taken
    if k == 2:
        found[:, 0] = 1.0 - found[:, 1]
    total = found.sum(axis=1, keepdims=True)
    return np.where(total > 0, found / np.maximum(total, 1e-300), 1.0 / k), steps
