"""A picture or volume as cells, as smaller ones, and as its pixels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from math import log, prod
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import ndimage

from mustlink.graph.cells import Units, means
from mustlink.graph.image import (
    GRID_SHARE,
    auto_color,
    picture_colours,
    pixel_spacing,
    similar_pixels,
    squared_length,
    steps,
)
from mustlink.kernels.region_merging import neighbours_among
from mustlink.strokes.appearance import Looks

Ints = NDArray[np.integer[Any]]
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]
_CELLS = 50_000  # that a picture is first cut at; the boundary is then found among its pixels
_SPLIT = {2: 5}  # parts of a cell's side at the next level at most; in volumes 2
_ALIKE = 8  # cells that look most alike, with which one is joined


@dataclass(frozen=True, eq=False)
class Level:
    """Mean colours (…, c) of cells of `units` pixels along the axes, `length` where these are 1.

    `spacing` is how far cells are apart, the least 1; `sigma` the usual difference of neighbours.
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

    def per(self, finer: Level) -> Units:
        """How many of the cells of a finer level one of these has along the axes."""
        return tuple(a // b for a, b in zip(self.units, finer.units, strict=True))


@dataclass(frozen=True, eq=False)
class Picture:
    """Levels from cells to pixels; the views of the cells, their grid, and one that reaches far.

    `alike` also joins cells that look alike, wherever they are.
    """

    levels: list[Level]
    looks: Looks
    grid: sp.csr_matrix
    alike: sp.csr_matrix

    @classmethod
    def of(cls, image: NDArray[Any], shape: tuple[int, ...], spacing: tuple[float, ...]) -> Picture:
        """Of an image of this shape, or with channels along one more axis; raises InputError."""
        axis = None if image.shape == shape else -1
        colours, _ = picture_colours(image, "lab", axis)
        levels = []
        for length, units in _units(shape, spacing):
            cells = means(colours, units)
            sides = [unit * part for unit, part in zip(units, spacing, strict=True)]
            apart = pixel_spacing(sides, len(sides))
            levels.append(Level(cells, units, length, apart, auto_color(cells)))
        first = levels[0]
        everywhere = np.ones(first.shape, dtype=bool)
        grid = grid_among(first.colours, everywhere, first.sigma, first.spacing)
        similar = similar_pixels(first.colours, _ALIKE, spacing=first.spacing)
        alike = sp.csr_matrix(GRID_SHARE * grid + similar)
        return cls(levels, Looks.of(first.colours, first.spacing), grid, alike)


def _units(shape: tuple[int, ...], spacing: tuple[float, ...]) -> list[tuple[int, Units]]:
    """Lengths of cells from the first level to pixels, and their pixels along the axes.

    The first are the smallest of which there are not too many. Along axes whose pixels are far
    apart cells have fewer pixels, so that they are nearly cubes.
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
    """The one of the lengths nearest to as many pixels `spacing` apart."""
    return min(lengths, key=lambda one: abs(log(one * spacing / length)))


# --- The boundary of a cut, and the grid of the pixels beside it, of any number of axes


_RADIUS = 1.5  # of the neighbours on a grid: 8 in a picture, 18 in a volume
_LEAST = 1e-6  # affinity that neighbours have however they differ


def boundary(labels: Ints, width: int) -> Mask:
    """Cells at most `width` from one with another label."""
    differs = ndimage.maximum_filter(labels, 3) != ndimage.minimum_filter(labels, 3)
    return around(differs, width - 1)


def around(inside: Mask, width: int) -> Mask:
    """The pixels of a mask and those at most `width` from one, over corners too."""
    found: Mask = ndimage.maximum_filter(inside, 2 * width + 1)
    return found


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
