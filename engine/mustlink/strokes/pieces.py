"""Pieces of a cut that no stroke stands for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Ints = NDArray[np.int64]


def ground_of(labels: Ints) -> int:
    """The label that most of the picture's frame has, (h, w)."""
    frame = np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]])
    return int(np.bincount(frame).argmax())


def rooted(labels: Ints, strokes: Ints, ground: int) -> Ints:
    """Labels (h, w) in which every piece, but of the `ground`, holds a stroke of its label.

    Other pieces, connected over corners too, get the nearest label outside of them.
    """
    found = labels.copy()
    for code in range(int(labels.max()) + 1):
        if code == ground:
            continue
        pieces, count = ndimage.label(found == code, np.ones((3, 3)))
        keep = np.zeros(count + 1, dtype=bool)
        keep[pieces[strokes == code]] = True
        keep[0] = True
        lost = ~keep[pieces]
        if lost.any() and not lost.all():
            nearest = ndimage.distance_transform_edt(
                lost, return_distances=False, return_indices=True
            )
            found = found[tuple(nearest)]
    return found
