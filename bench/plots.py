"""Plots in docs that are drawn from results.json; each carries a digest of its figures."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import runner

SHOWN = ("random", "auto", "graphlearning unc_sampling")
_ACROSS = 4  # panels of a row


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


def growth(figures: dict[str, Any]) -> Any:
    """Seconds and peak memory by number of points."""
    from mustlink_io.pictures.images import COLOURS, new_figure, style

    points = [int(n.replace(",", "")) for n in figures]
    figure = new_figure(7.6, 2.8)
    with style():
        for at, (title, name, unit) in enumerate(
            (("seconds", "seconds", 1), ("peak memory, GB", "peak_bytes", 1e9)), start=1
        ):
            axes = figure.add_subplot(1, 2, at)
            values = [one[name] / unit for one in figures.values()]
            axes.semilogx(points, values, ".-", color=COLOURS[0])
            axes.set(title=title, xlabel="points")
            if name == "seconds":
                axes.set_yscale("log")
            else:
                axes.set_ylim(0)
            axes.grid()
    return figure


DOCS = runner.ROOT / "docs"
PLOTS = {  # entry, and how
    DOCS / "start" / "asking.png": ("asked_labels_poisson", asked),
    DOCS / "growth.png": ("representatives_files", growth),
}


def stale(results: dict[str, Any]) -> list[Path]:
    """Plots that are not as measured."""
    return [
        path
        for path, (entry, _) in PLOTS.items()
        if _carried(path) != digest(results[entry]["figures"])
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

    entry, drawn = PLOTS[path]
    figures = results[entry]["figures"]
    pictures.save(drawn(figures), path)
    told = PngInfo()
    told.add_text("figures", digest(figures))
    with Image.open(path) as picture:
        picture.load()
    few = picture.convert("RGB").quantize(64)
    few.save(path, pnginfo=told, optimize=True)
