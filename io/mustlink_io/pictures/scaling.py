"""Seconds and memory against the number of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mustlink_io.pictures.canvas import COLOURS, Figure, new_figure, style


def scaling(
    nodes: Sequence[float],
    seconds: Mapping[str, Sequence[float]],
    peak_bytes: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """Draw seconds, and peak memory if given, against the number of nodes on log scales.

    Every entry of a mapping is one line, as long as `nodes`; NaN leaves a gap.
    """
    panels: list[tuple[str, Mapping[str, Sequence[float]], float]] = [("seconds", seconds, 1.0)]
    if peak_bytes is not None:
        panels.append(("peak memory, GB", peak_bytes, 1e-9))
    figure = new_figure(6 * len(panels), 4.2)
    with style():
        for at, (title, lines, unit) in enumerate(panels, start=1):
            axes = figure.add_subplot(1, len(panels), at)
            for place, (name, values) in enumerate(lines.items()):
                colour = COLOURS[place % len(COLOURS)]
                axes.loglog(nodes, np.asarray(values) * unit, "o-", color=colour, label=name)
            axes.set(xlabel="nodes", ylabel=title)
            axes.grid(which="both")
            axes.legend()
    return figure
