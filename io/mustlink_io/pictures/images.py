"""Pixels: labels over an image or alone, cuts with a line round every part, slices of a volume."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.pictures.canvas import Figure, Labels, colours, new_figure, style


def boundaries(labels: Labels) -> NDArray[np.bool_]:
    """Pixels (h, w) whose right or lower neighbour has another label."""
    edge = np.zeros(labels.shape, dtype=bool)
    edge[:, :-1] |= labels[:, :-1] != labels[:, 1:]
    edge[:-1] |= labels[:-1] != labels[1:]
    return edge


def overlay(image: NDArray[Any], labels: Labels) -> NDArray[np.float64]:
    """Image (h, w[, 3]) tinted by labels (h, w), with their boundaries in white."""
    base = _as_rgb(image)
    tinted = (1 - _OPACITY) * base + _OPACITY * colours(labels)
    tinted[boundaries(labels)] = 1.0
    return tinted


def _as_rgb(image: NDArray[Any]) -> NDArray[np.float64]:
    found = np.asarray(image, dtype=np.float64)
    if np.asarray(image).dtype.kind in "iu":
        found = found / 255.0
    if found.ndim == 2:
        found = np.repeat(found[..., None], 3, axis=2)
    if found.ndim != 3 or found.shape[2] not in (3, 4):
        raise InputError(f"pictures: image of shape {found.shape}; wanted is (h, w) or (h, w, 3)")
    return np.clip(found[..., :3], 0, 1)


def segmentation(
    image: NDArray[Any],
    strokes: Labels,
    before: Labels,
    after: Labels,
    titles: Sequence[str] = ("strokes", "without strokes", "with strokes"),
) -> Figure:
    """Draw image with strokes, and the labels before and after, side by side.

    `strokes`, `before` and `after` are (h, w); -1 in `strokes` is no stroke, in labels no cluster.
    The strokes are drawn on the right-hand picture too, so that the eye can check them. Raises
    InputError.
    """
    base = _as_rgb(image)
    for name, labels in (("strokes", strokes), ("before", before), ("after", after)):
        if labels.shape != base.shape[:2]:
            raise InputError(
                f"pictures: {name} has shape {labels.shape}, the image {base.shape[:2]}"
            )
    marked = base.copy()
    marked[strokes >= 0] = colours(strokes)[strokes >= 0]
    checked = overlay(image, after)
    checked[strokes >= 0] = colours(strokes)[strokes >= 0]
    rim = boundaries(strokes)
    checked[rim] = 1.0
    marked[rim] = 1.0
    return side_by_side((marked, overlay(image, before), checked), titles)


def label_map(labels: Labels, image: NDArray[Any] | None = None) -> Figure:
    """Draw the labels (h, w) of an image, over it where it is given; raises InputError."""
    if image is None:
        return side_by_side((colours(labels),), ("",))
    shape = _as_rgb(image).shape[:2]
    if labels.shape != shape:
        raise InputError(f"pictures: labels of shape {labels.shape}, the image {shape}")
    return side_by_side((overlay(image, labels),), ("",))


def photograph(image: NDArray[Any]) -> Figure:
    """Draw an image (h, w[, 3]) alone."""
    return side_by_side((_as_rgb(image),), ("",))


def side_by_side(pictures: Sequence[NDArray[Any]], titles: Sequence[str]) -> Figure:
    """Draw images (h, w, 3 or, with alpha, 4) of one size in a row, each below its title."""
    height, width = pictures[0].shape[:2]
    titled = 0.4 if any(titles) else 0.05
    figure = new_figure(5 * len(pictures), float(np.clip(5 * height / width, 0.5, 50)) + titled)
    with style():
        for at, (picture, title) in enumerate(zip(pictures, titles, strict=True), start=1):
            axes = figure.add_subplot(1, len(pictures), at)
            axes.imshow(picture, interpolation="nearest")
            axes.set_title(title)
            axes.set_axis_off()
    # every pixel of the image gets at least one of the picture
    figure.wanted_dpi = int(np.clip(np.ceil(1.05 * width / 5), 100, 300))
    return figure


_OPACITY = 0.45  # of labels over an image
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
