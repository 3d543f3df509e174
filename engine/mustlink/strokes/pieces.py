"""Pieces of a cut that no stroke stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Ints = NDArray[np.integer[Any]]


def ground_of(labels: Ints) -> int:
    """The label that most of the frame has: of the sides of a picture, the faces of a volume."""
    sides = [labels.take(end, axis) for axis in range(labels.ndim) for end in (0, -1)]
    return int(np.bincount(np.concatenate([side.ravel() for side in sides])).argmax())


def rooted(labels: Ints, strokes: Ints, ground: int, spacing: tuple[float, ...]) -> Ints:
    """Labels (…) in which every piece, but of the `ground`, holds a stroke of its label.

    Other pieces, connected over corners too, get the nearest label outside of them, pixels being
    `spacing` apart along the axes.
    """
    found = labels.copy()
    for code in range(int(labels.max()) + 1):
        if code == ground:
            continue
        pieces, count = ndimage.label(found == code, np.ones((3,) * labels.ndim))
        keep = np.zeros(count + 1, dtype=bool)
        keep[pieces[strokes == code]] = True
        keep[0] = True
        lost = ~keep[pieces]
        if lost.any() and not lost.all():
            nearest = ndimage.distance_transform_edt(
                lost, sampling=spacing, return_distances=False, return_indices=True
            )
            found = found[tuple(nearest)]
    return found
