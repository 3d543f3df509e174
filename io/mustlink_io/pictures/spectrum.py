"""Eigenvalues, and the gap after the one that the number of clusters asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink_io.pictures.canvas import COLOURS, INK, SOFT, Figure, new_figure, style

_BEYOND = 10  # values drawn beyond the K-th, or as many again


def spectrum(
    values: NDArray[np.floating[Any]],
    n_clusters: int | None = None,
    title: str = "eigenvalues",
    ylabel: str = "eigenvalue λ",
) -> Figure:
    """Draw eigenvalues (q,) in their order, the first `n_clusters` filled, and mark the gap.

    The gap after the K-th is what tells K clusters from K + 1; without a value beyond, or without
    `n_clusters`, none is marked. Drawn are those, and as many again, at least ten.
    """
    k = n_clusters or 0
    shown = np.asarray(values, dtype=np.float64)[: (k + max(_BEYOND, k)) or 60]
    place = np.arange(1, shown.size + 1)
    used = place <= k if k else np.ones(shown.size, dtype=bool)
    figure = new_figure(5.0, 3.1)
    size = float(np.clip(220 / max(shown.size, 1), 5, 30))
    with style():
        axes = figure.add_subplot()
        axes.vlines(place, min(0.0, shown.min(initial=0.0)), shown, color="#e6eaed", linewidth=1.2)
        axes.scatter(place[used], shown[used], s=size, color=COLOURS[0], zorder=3)
        rest = {"facecolor": "white", "edgecolor": SOFT, "linewidth": 1.0, "zorder": 3}
        axes.scatter(place[~used], shown[~used], s=size, **rest)
        if k and shown.size > k:
            _mark_gap(axes, float(shown[k - 1]), float(shown[k]), k, 2 * k > shown.size)
        axes.set(title=title, xlabel="number of the eigenvalue", ylabel=ylabel)
        axes.grid(axis="y")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.margins(x=0.03)
        low, high = axes.get_ylim()
        if shown.max(initial=0.0) <= 0:
            high = 1.0
        axes.set_ylim(low if shown.min(initial=0.0) < 0 else -0.03 * high, 1.1 * high)
    return figure


def _mark_gap(axes: Any, last: float, beyond: float, k: int, to_the_left: bool) -> None:
    """Shade what lies between two eigenvalues, and say how large it is."""
    share = (beyond - last) / beyond if beyond > 0 else 0.0
    axes.axhspan(last, beyond, color=COLOURS[1], alpha=0.22, linewidth=0, zorder=0)
    axes.axvline(k + 0.5, color=COLOURS[1], linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(
        f"gap after {k}: {beyond - last:.3g}, {share:.0%} of λ$_{{{k + 1}}}$",
        (k + 0.5, 1.0),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-5 if to_the_left else 5, -4),
        textcoords="offset points",
        verticalalignment="top",
        horizontalalignment="right" if to_the_left else "left",
        color=INK,
        fontsize=9,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0},
    )
