"""Some slices of a volume as one picture, with a line round every part."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink_io.pictures.cut_out import outlined

_ACROSS = 3  # slices beside and above one another
_GAP = 4  # pixels


def slices(
    volume: NDArray[Any],
    labels: NDArray[np.integer[Any]],
    ground: int,
    colours: NDArray[np.uint8],
) -> tuple[NDArray[np.uint8], list[int]]:
    """Picture (h, w, 3) of nine slices at most, spread over the first axis, and their numbers.

    Grey values are shown from their first to their last hundredth; labels (d, h, w) from 0 have
    `colours` (K, 3), and what has the label `ground` is dimmed.
    """
    depth = len(volume)
    count = min(_ACROSS**2, depth)
    numbers = np.rint((np.arange(count) + 0.5) * depth / count - 0.5).astype(int).tolist()
    shown = volume[numbers].astype(np.float64)
    low, high = np.percentile(shown, (1, 99))
    scale = high - low if high > low else 1.0
    grey = np.rint(255 * np.clip((shown - low) / scale, 0, 1)).astype(np.uint8)
    height, width = volume.shape[1:]
    across = min(_ACROSS, count)
    down = -(-count // across)
    size = down * (height + _GAP) - _GAP, across * (width + _GAP) - _GAP, 3
    picture: NDArray[np.uint8] = np.full(size, 255, dtype=np.uint8)
    for place, number in enumerate(numbers):
        y, x = place // across * (height + _GAP), place % across * (width + _GAP)
        page = np.repeat(grey[place][..., None], 3, axis=2)
        done = outlined(page, labels[number], ground, colours)
        picture[y : y + height, x : x + width] = done
    return picture, numbers
