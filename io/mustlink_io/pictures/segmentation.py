"""Labels of pixels, over the image or alone."""

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


def overlay(image: NDArray[Any], labels: Labels, opacity: float = 0.45) -> NDArray[np.float64]:
    """Image (h, w[, 3]) tinted by labels (h, w), with their boundaries in white."""
    base = _as_rgb(image)
    tinted = (1 - opacity) * base + opacity * colours(labels)
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
