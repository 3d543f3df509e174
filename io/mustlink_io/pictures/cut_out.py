"""A cut as one shows it: the picture itself, its ground dimmed, a line round every part."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink_io.pictures.canvas import Labels

_DIMMED = 0.35  # of a ground's lightness
_SOFT = 2  # pixels of a cut-out's edge to either side
_LINE = 300  # pixels of a picture for each of a line's width


def outlined(
    image: NDArray[np.uint8], labels: Labels, ground: int, colours: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Image (h, w, 3) with what has the label `ground` dimmed, and lines in `colours` (K, 3).

    Lines lie on the inner side of every other label.
    """
    shown: NDArray[Any] = image.astype(np.float64)
    shown[labels == ground] *= _DIMMED
    width = max(1, round(max(labels.shape) / _LINE))
    for label in np.unique(labels[labels != ground]):
        shown[_rim(labels == label, width)] = colours[label]
    return np.asarray(np.rint(shown), dtype=np.uint8)


def painted(
    image: NDArray[np.uint8], strokes: Labels, colours: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Image (h, w, 3) with strokes (h, w), -1 for none, in `colours` (K, 3), each rimmed white."""
    shown = image.copy()
    shown[strokes >= 0] = colours[strokes[strokes >= 0]]
    for label in np.unique(strokes[strokes >= 0]):
        shown[_rim(strokes == label, 1)] = 255
    return shown


def cut_out(
    image: NDArray[np.uint8], inside: NDArray[np.bool_], share: NDArray[np.float64]
) -> NDArray[np.uint8]:
    """Image (h, w, 4), opaque where `inside` (h, w) and transparent elsewhere.

    Beside the edge alpha is the share (h, w) that the label has of the pixels; elsewhere shares
    between 0 and 1 are doubt, which would show as holes and haze.
    """
    edge = _rim(inside, _SOFT) | _rim(~inside, _SOFT)
    alpha = np.rint(255 * np.clip(np.where(edge, share, inside), 0, 1)).astype(np.uint8)
    return np.dstack([image, alpha])


def _rim(inside: NDArray[np.bool_], width: int) -> NDArray[np.bool_]:
    """Pixels of a mask at most `width` steps along rows and columns from outside of it."""
    core = inside
    for _ in range(width):
        padded = np.pad(core, 1, mode="edge")
        beside = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
        core = core & beside
    return inside & ~core
