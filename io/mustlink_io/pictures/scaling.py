"""Pictures (extra `plot`): drawn on figures of their own, so that no global state changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io import store

Labels = NDArray[np.integer[Any]]
# Okabe and Ito: told apart by colour-blind readers and on paper
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
MAX_POINTS = 50_000


def _figure(width: float, height: float) -> Any:
    """Return a figure with the Agg canvas and no part in pyplot."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            "plots: matplotlib is missing; install it with: pip install 'mustlink[plot]'"
        ) from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Any, path: str | Path, dpi: int) -> None:
    with store.atomic(path) as temporary:
        figure.savefig(temporary, format="png", dpi=dpi)


def colours(labels: Labels) -> NDArray[np.float64]:
    """Colour of every label, shape (..., 3) in [0, 1]; -1 is grey. Beyond 8, shades repeat."""
    from matplotlib.colors import to_rgb

    table = np.array([to_rgb(name) for name in COLOURS])
    rounds = (np.maximum(labels, 0) // len(table))[..., None]
    found = table[np.maximum(labels, 0) % len(table)] * 0.7**rounds
    return np.where((np.asarray(labels) < 0)[..., None], 0.6, found)


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
        raise InputError(f"plots: image of shape {found.shape}; wanted is (h, w) or (h, w, 3)")
    return np.clip(found[..., :3], 0, 1)


def segmentation(
    path: str | Path,
    image: NDArray[Any],
    strokes: Labels,
    before: Labels,
    after: Labels,
    titles: Sequence[str] = ("strokes", "without strokes", "with strokes"),
) -> None:
    """Draw image with strokes, and the labels before and after, side by side, as a PNG.

    `strokes`, `before` and `after` are (h, w); -1 in `strokes` is no stroke, in labels no cluster.
    The strokes are drawn on the right-hand picture too, so that the eye can check them. Raises
    InputError.
    """
    base = _as_rgb(image)
    height, width = base.shape[:2]
    for name, labels in (("strokes", strokes), ("before", before), ("after", after)):
        if labels.shape != (height, width):
            raise InputError(f"plots: {name} has shape {labels.shape}, the image {height, width}")
    marked = base.copy()
    marked[strokes >= 0] = colours(strokes)[strokes >= 0]
    checked = overlay(image, after)
    rim = boundaries(strokes)
    checked[strokes >= 0] = colours(strokes)[strokes >= 0]
    checked[rim] = 1.0
    marked[rim] = 1.0
    pictures = (marked, overlay(image, before), checked)
    figure = _figure(15, 5 * height / width + 0.4)
    for at, (picture, title) in enumerate(zip(pictures, titles, strict=True), start=1):
        axes = figure.add_subplot(1, 3, at)
        axes.imshow(picture, interpolation="nearest")
        axes.set_title(title)
        axes.set_axis_off()
    # every pixel of the image gets at least one of the picture
    _save(figure, path, dpi=int(np.clip(np.ceil(1.05 * width / 5), 100, 300)))


def embedding(
    path: str | Path,
    points: NDArray[np.floating[Any]],
    labels: Labels,
    pairs: NDArray[np.integer[Any]] | None = None,
    belief: NDArray[np.floating[Any]] | None = None,
    seed: int = 0,
) -> None:
    """Scatter of two columns of an embedding (n, k), coloured by cluster, as a PNG.

    Must-links are drawn as solid lines and cannot-links dashed (WD14 Fig. 1). Of more than 50,000
    points a random part is shown, and the title says so.
    """
    n, k = points.shape
    if k < 2:
        points = np.column_stack([points[:, 0], np.zeros(n)])
    shown = np.arange(n)
    title = f"{n:,} nodes"
    if n > MAX_POINTS:
        shown = np.random.default_rng(seed).choice(n, MAX_POINTS, replace=False)
        title = f"{MAX_POINTS:,} of {title}"
    figure = _figure(7, 6)
    axes = figure.add_subplot()
    if pairs is not None and belief is not None:
        _draw_pairs(axes, points, pairs, belief)
    dots = float(np.clip(20_000 / max(n, 1), 1, 24))
    axes.scatter(*points[shown, :2].T, s=dots, c=colours(labels[shown]), linewidths=0)
    axes.set(title=title, xlabel="first coordinate", ylabel="second coordinate")
    _save(figure, path, dpi=150)


def _draw_pairs(axes: Any, points: Any, pairs: Any, belief: Any, most: int = 500) -> None:
    from matplotlib.collections import LineCollection

    for wanted, style, colour in ((belief > 0, "solid", "#222222"), (belief < 0, "dashed", "red")):
        lines = points[pairs[wanted][:most], :2]
        axes.add_collection(
            LineCollection(lines, linestyles=style, colors=colour, linewidths=0.8, zorder=3)
        )


def scaling(
    path: str | Path,
    nodes: Sequence[float],
    seconds: Mapping[str, Sequence[float]],
    peak_bytes: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Seconds, and peak memory if given, against the number of nodes on log scales, as a PNG.

    Every entry of a mapping is one line, as long as `nodes`; NaN leaves a gap.
    """
    panels: list[tuple[str, Mapping[str, Sequence[float]], float]] = [("seconds", seconds, 1.0)]
    if peak_bytes is not None:
        panels.append(("peak memory, GB", peak_bytes, 1e-9))
    figure = _figure(6 * len(panels), 4.2)
    for at, (title, lines, unit) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), at)
        for place, (name, values) in enumerate(lines.items()):
            colour = COLOURS[place % len(COLOURS)]
            axes.loglog(nodes, np.asarray(values) * unit, "o-", color=colour, label=name)
        axes.set(xlabel="nodes", ylabel=title)
        axes.grid(alpha=0.3, which="both")
        axes.legend()
    _save(figure, path, dpi=150)
