"""Histograms, and constraints kept and broken as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink_io.pictures.canvas import BROKEN, COLOURS, INK, Figure, new_figure, style

_KINDS = {"must": "must-links", "cannot": "cannot-links"}
_LONG_TAIL = 8.0  # times as wide as the first: a last bin that asks for a log scale


def histogram(
    edges: Sequence[float] | NDArray[Any],
    counts: Sequence[float] | NDArray[Any],
    title: str,
    xlabel: str,
    mark: tuple[str, float] | None = None,
) -> Figure:
    """Draw counts (b,) between edges (b + 1,); `mark` is a name and a value to point at.

    Bins that grow are drawn on a log scale, where 0 is put beside 1.
    """
    left, right = np.asarray(edges[:-1], dtype=float), np.asarray(edges[1:], dtype=float)
    height = np.asarray(counts, dtype=float)
    long_tail = right.size > 2 and right[-1] - left[-1] > _LONG_TAIL * (right[0] - left[0])
    figure = new_figure(5.0, 2.8)
    with style():
        axes = figure.add_subplot()
        if long_tail:
            left = np.maximum(left, 0.5)
            axes.set_xscale("log")
        axes.bar(left, height, right - left, align="edge", color=COLOURS[5], edgecolor="white",
                 linewidth=0.6)  # fmt: skip
        if mark is not None:
            name, value = mark
            axes.axvline(value, color=INK, linewidth=1.0)
            low, high = axes.get_xlim()
            near_right = value - low > 0.6 * (high - low)
            axes.annotate(
                f"{name} {value:,.3g}",
                (value, 1.0),
                xycoords=axes.get_xaxis_transform(),
                xytext=(-5 if near_right else 5, -3),
                textcoords="offset points",
                verticalalignment="top",
                horizontalalignment="right" if near_right else "left",
                fontsize=9,
                color=INK,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0},
            )
        axes.set(title=title, xlabel=xlabel, ylabel="nodes")
        axes.grid(axis="y")
        axes.yaxis.set_major_formatter(_with_commas)
    return figure


def _with_commas(value: float, _: int) -> str:
    return f"{value:,.0f}"


def constraints_kept(kinds: Mapping[str, Mapping[str, float]]) -> Figure:
    """Draw which shares of `must` and `cannot` are kept and broken.

    Each has `n`, `kept`, `weight` and `weight_kept` (`mustlink.scores.kept_by_kind`). Where
    beliefs differ, a second bar shows the shares of Σ|belief|.
    """
    rows: list[tuple[str, float, float, str]] = []
    for kind, name in _KINDS.items():
        row = kinds.get(kind)
        if not row or not row["n"]:
            continue
        n, kept = row["n"], row["kept"]
        rows.append((name, kept, n, f"{kept:,.0f} of {n:,.0f} kept"))
        if row["weight"] and abs(row["weight"] - n) > 1e-9 * n:
            share = row["weight_kept"] / row["weight"]
            rows.append(("by belief", row["weight_kept"], row["weight"], f"{share:.1%} kept"))
    figure = new_figure(5.0, 0.62 + 0.5 * max(len(rows), 1))
    with style():
        axes = figure.add_subplot()
        for at, (_, kept, n, words) in enumerate(rows):
            share = kept / n
            axes.barh(at, share, color=COLOURS[2], height=0.62)
            axes.barh(at, 1 - share, left=share, color=BROKEN, height=0.62)
            axes.text(0.012, at, words, verticalalignment="center", color="white", fontsize=9.5,
                      fontweight="bold")  # fmt: skip
        axes.set_yticks(range(len(rows)), [name for name, *_ in rows])
        axes.tick_params(axis="y", colors=INK, length=0)
        axes.set(xlim=(0, 1), title="kept (green) and broken (red)")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.invert_yaxis()
        axes.spines[["left", "bottom"]].set_visible(False)
    return figure
