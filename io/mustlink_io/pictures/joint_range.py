"""Cuts by what they cost and how far they keep the constraints: J(L̄, Q̄) of WD14 §5.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.errors import InputError
from mustlink_io.pictures.canvas import COLOURS, INK, SOFT, Figure, new_figure, style

_COLUMNS = ("cost", "alpha", "used", "beta", "volume", "unconstrained")


def joint_range(cuts: Mapping[str, Any]) -> Figure:
    """Draw feasible cuts and those of the graph alone, as WD14 Fig. 4.

    `cuts` is what a report of CSP tells under that name, for ‖v‖² = vol; drawn are unit vectors, so
    that the cost lies between 0 and 2. The line is β/vol: feasible cuts lie above (Lemma 1). Raises
    InputError.
    """
    absent = [name for name in _COLUMNS if name not in cuts]
    if absent:
        raise InputError(
            f'cuts: no {", ".join(absent)} in it; give est.report_.extra["cuts"] of a fitted CSP'
        )
    volume = cuts["volume"]
    feasible, used = _places(cuts, volume), np.asarray(cuts["used"], dtype=bool)
    plain = _places(cuts["unconstrained"], volume)
    least = cuts["beta"] / volume
    figure = new_figure(5.4, 4.0)
    with style():
        axes = figure.add_subplot()
        marks = {"linewidths": 1.0, "s": 22, "zorder": 3}
        if len(plain):
            axes.scatter(*plain.T, facecolor="white", edgecolor=SOFT, marker="s",
                         label="cuts of the graph alone", **marks)  # fmt: skip
        if not used.all():
            axes.scatter(*feasible[~used].T, facecolor=COLOURS[5], edgecolor=INK,
                         label="feasible cuts", **marks)  # fmt: skip
        axes.scatter(*feasible[used].T, facecolor=COLOURS[3], edgecolor=INK, marker="D",
                     label="the cheapest, used", **(marks | {"s": 34, "zorder": 4}))  # fmt: skip
        axes.axhline(least, color=COLOURS[0], linewidth=1.2, linestyle=(0, (5, 3)), zorder=2)
        axes.annotate("β/vol: feasible cuts lie above", (1.0, least), color=COLOURS[0], fontsize=9,
                      xycoords=axes.get_yaxis_transform(), xytext=(-3, 3), ha="right",
                      textcoords="offset points", zorder=5, bbox={
                          "facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0
                      })  # fmt: skip
        axes.set(xlabel="cost of the cut, vᵀL̄v", ylabel="constraints kept, vᵀQ̄v")
        axes.grid(zorder=-1)
        figure.legend(loc="outside lower center", ncols=3, fontsize=8.5, handletextpad=0.2)
    return figure


def _places(columns: Mapping[str, Any], volume: float) -> NDArray[np.float64]:
    """Pairs (cost, α) of unit vectors, (r, 2)."""
    both = [np.asarray(columns[name], dtype=np.float64) for name in ("cost", "alpha")]
    return np.column_stack(both) / volume
