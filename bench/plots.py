"""Plots in docs that are drawn from results.json; each carries a digest of its figures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import common

SHOWN = ("random", "auto", "graphlearning unc_sampling")
_ACROSS = 4  # panels of a row


class Plot(NamedTuple):
    """What a plot is drawn of, and how."""

    entry: str
    drawn: Callable[[dict[str, Any]], Any]


def growth(figures: dict[str, Any]) -> Any:
    """Seconds by stage and peak memory by number of points."""
    nan = float("nan")
    stages = {
        name: [nan if value is None else value for value in values]
        for name, values in figures["seconds"].items()
    }
    peak = {"whole process": figures["peak_bytes"]}
    return scaling(figures["nodes"], stages, peak)


def scaling(
    nodes: list[float],
    seconds: dict[str, list[float]],
    peak_bytes: dict[str, list[float]] | None = None,
) -> Any:
    """Draw seconds, and peak memory if given, against the number of nodes on log scales.

    Every entry of a mapping is one line, as long as `nodes`; NaN leaves a gap.
    """
    import numpy as np

    from mustlink_io.pictures.images import COLOURS, new_figure, style

    panels: list[tuple[str, dict[str, list[float]], float]] = [("seconds", seconds, 1.0)]
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


def asked(figures: dict[str, Any]) -> Any:
    """ARI by number of answers, a panel a set."""
    from mustlink_io.pictures.images import COLOURS, new_figure, style

    sets = figures["sets"]
    down = -(-len(sets) // _ACROSS)
    figure = new_figure(2.6 * _ACROSS, 2.3 * down + 0.4)
    with style():
        for at, (name, strategies) in enumerate(sets.items(), start=1):
            axes = figure.add_subplot(down, _ACROSS, at)
            for strategy, colour in zip(SHOWN, COLOURS, strict=False):
                if strategy in strategies:
                    told = strategies[strategy]["told"]
                    axes.plot(figures["at"], told, ".-", color=colour, label=strategy)
            axes.set_title(name)
            axes.grid()
            if at > len(sets) - _ACROSS:
                axes.set_xlabel("answers")
            if at % _ACROSS == 1:
                axes.set_ylabel("ARI")
        handles = {
            label: handle
            for axes in figure.axes
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=len(SHOWN))
    return figure


DOCS = common.ROOT / "docs"
PLOTS = {
    DOCS / "growth.png": Plot("million_growth", growth),
    DOCS / "start" / "asking.png": Plot("asked_labels_poisson", asked),
}


def stale(results: dict[str, Any]) -> list[Path]:
    """Plots that are not as measured."""
    wanted = {path: results.get(plot.entry) for path, plot in PLOTS.items()}
    return [
        path
        for path, entry in wanted.items()
        if _carried(path) != (digest(entry["figures"]) if entry else "")
    ]


def digest(figures: Any) -> str:
    """What a plot carries."""
    return hashlib.sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()[:16]


def _carried(path: Path) -> str:
    from PIL import Image

    if not path.exists():
        return ""
    with Image.open(path) as picture:
        return str(picture.info.get("figures", ""))


def draw(path: Path, results: dict[str, Any]) -> None:
    """Draw a plot anew."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    from mustlink_io import pictures

    plot = PLOTS[path]
    figures = results[plot.entry]["figures"]
    pictures.save(plot.drawn(figures), path)
    told = PngInfo()
    told.add_text("figures", digest(figures))
    with Image.open(path) as picture:
        picture.load()
    few = picture.convert("RGB").quantize(64)
    few.save(path, pnginfo=told, optimize=True)
