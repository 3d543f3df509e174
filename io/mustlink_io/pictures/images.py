"""What all pictures share, figures and colours, and pictures of pixels: labels, cuts, slices."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.hdf5.writing import atomic
from mustlink_io.system import needed

Labels = NDArray[np.integer[Any]]
Figure = Any  # matplotlib's

# Okabe and Ito: colour-blind readers see the difference, also on paper
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
INK, SOFT, GRID, BROKEN = "#1f2933", "#6b7680", "#d9dfe4", "#c8102e"
_BY = "mustlink"
# What the beginning of a picture has that is drawn here, by its ending.
MARKS = {".png": f"Software\0{_BY}".encode(), ".svg": f"<dc:title>{_BY}</dc:title>".encode()}
_DPI = 150
_STYLE: dict[Any, Any] = {
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.titlelocation": "left",
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "svg.hashsalt": "mustlink",  # the same picture is the same file
}
# How a colour changes when the eight are used up: a factor, and a share of white.
_SHADES = ((1.0, 0.0), (0.6, 0.0), (1.0, 0.5), (0.35, 0.0), (1.0, 0.75))


def require_matplotlib() -> None:
    """Raise InputError that names the extra where matplotlib is missing."""
    needed("matplotlib.figure", "pictures", "plot")


def new_figure(width: float, height: float) -> Figure:
    """Return a figure of a size in inches, with no part in pyplot; raises InputError."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Made

    figure = Made(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def style() -> Any:
    """Context in which axes are made in the look of all pictures."""
    from matplotlib import rc_context

    return rc_context(_STYLE)


def save(figure: Figure, path: str | Path, dpi: int | None = None) -> None:
    """Write a figure whole or not at all, by the ending as PNG or SVG; raises InputError.

    `dpi` is by default what the figure asks for, else 150.
    """
    kind = Path(path).suffix.lower()
    if kind not in MARKS:
        raise InputError(f"{path}: pictures are written as {' or '.join(MARKS)}; change the ending")
    with atomic(path) as temporary:
        _write(figure, temporary, kind[1:], dpi)


def as_svg(figure: Figure) -> bytes:
    """A figure as SVG; text becomes outlines, which look the same everywhere."""
    stream = io.BytesIO()
    _write(figure, stream, "svg", None)
    return stream.getvalue()


def _write(figure: Figure, target: Any, kind: str, dpi: int | None) -> None:
    metadata = {"Date": None, "Creator": _BY} if kind == "svg" else {"Software": _BY}
    dpi = dpi or getattr(figure, "wanted_dpi", _DPI)
    with style():
        figure.savefig(target, format=kind, dpi=dpi, metadata=metadata)


def colours(labels: Labels) -> NDArray[np.float64]:
    """Colour of every label, shape (..., 3) in [0, 1]; -1 is grey. Beyond 8, in other shades."""
    from matplotlib.colors import to_rgb

    table = np.array([to_rgb(name) for name in COLOURS])
    shades = np.array(_SHADES)
    number = np.maximum(labels, 0)
    factor, white = shades[number // len(table) % len(shades)].T
    factor, white = factor.T[..., None], white.T[..., None]
    found = table[number % len(table)] * factor * (1 - white) + white
    return np.where((np.asarray(labels) < 0)[..., None], 0.65, found)


def boundaries(labels: Labels) -> NDArray[np.bool_]:
    """Pixels (h, w) whose right or lower neighbour has another label."""
    edge = np.zeros(labels.shape, dtype=bool)
    edge[:, :-1] |= labels[:, :-1] != labels[:, 1:]
    edge[:-1] |= labels[:-1] != labels[1:]
    return edge


def overlay(image: NDArray[Any], labels: Labels) -> NDArray[np.float64]:
    """Image (h, w[, 3]) tinted by labels (h, w), with white borders; raises InputError."""
    base = _as_rgb(image)
    if labels.shape != base.shape[:2]:
        raise InputError(
            f"pictures: labels of shape {labels.shape}, but the image has {base.shape[:2]}"
        )
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
    from scipy.ndimage import binary_erosion

    return inside & ~binary_erosion(inside, iterations=width, border_value=1)


_ACROSS = 3  # slices beside and above one another
_GAP = 4  # pixels


def slices(
    volume: NDArray[Any], labels: NDArray[np.integer[Any]], ground: int, colours: NDArray[np.uint8]
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
