"""What all pictures share: figures without global state, colours, files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.hdf5.writing import atomic

Labels = NDArray[np.integer[Any]]
Figure = Any  # matplotlib's

# Okabe and Ito: told apart by colour-blind readers and on paper
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
INK, SOFT, GRID, BROKEN = "#1f2933", "#6b7680", "#d9dfe4", "#c8102e"
KINDS = (".png", ".svg")
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
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise InputError(
            "pictures: matplotlib is missing; install it with: pip install 'mustlink[plot]'"
        ) from error


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
    if kind not in KINDS:
        raise InputError(f"{path}: pictures are written as {' or '.join(KINDS)}; change the ending")
    with atomic(path) as temporary:
        _write(figure, temporary, kind[1:], dpi)


def as_svg(figure: Figure) -> bytes:
    """A figure as SVG; text becomes outlines, which look the same everywhere."""
    stream = io.BytesIO()
    _write(figure, stream, "svg", None)
    return stream.getvalue()


def _write(figure: Figure, target: Any, kind: str, dpi: int | None) -> None:
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    wanted = dpi or getattr(figure, "wanted_dpi", _DPI)
    with style():
        figure.savefig(target, format=kind, dpi=wanted, metadata=metadata)


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
