"""What runs of `active.py` come to: medians over draws, beside those of random questions."""

from __future__ import annotations

import statistics
from typing import Any

import common

TOLD = {"labels": (0, 10, 20, 40, 60, 100, 200), "pairs": (0, 100, 200, 300, 500, 1000)}
GOAL = {"labels": 100, "pairs": 1000}  # random answers that asked ones shall be as good as
MEASURES = ("ari", "accuracy")

Runs = list[dict[str, Any]]


def medians(runs: Runs, kind: str, usual_width: int, width: int) -> dict[str, Any]:
    """By set and strategy: draws, and by measure the medians `at` some numbers of answers.

    `worst` is the least that a median is above random's of the same draws, `after` how many answers
    bring what `goal` random ones do, None where they do not. Points of a curve are `width` answers
    apart, of random ones `usual_width`.
    """
    sets: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(run["set"] for run in runs):
        here = [run for run in runs if run["set"] == name]
        wanted = dict.fromkeys(run["strategy"] for run in here)
        if "random" not in wanted:
            continue
        sets[name] = {}
        for strategy in wanted:
            some = [run for run in here if run["strategy"] == strategy]
            draws = {run["draw"] for run in some}
            same = [r for r in here if r["strategy"] == "random" and r["draw"] in draws]
            usual = _curves(same, usual_width)
            curves = _curves(some, usual_width if strategy == "random" else width)
            sets[name][strategy] = {"draws": len(some)} | {
                measure: _beside(curves[measure], usual[measure], kind) for measure in MEASURES
            }
    return {"at": TOLD[kind], "goal": GOAL[kind], "sets": sets}


def _curves(runs: Runs, width: int) -> dict[str, dict[int, float]]:
    """The median of every measure by number of answers."""
    points = list(zip(*(run["curve"] for run in runs), strict=True))
    return {
        measure: {
            step * width: statistics.median(scores[place] for scores in point)
            for step, point in enumerate(points)
        }
        for place, measure in enumerate(MEASURES)
    }


def _beside(found: dict[int, float], usual: dict[int, float], kind: str) -> dict[str, Any]:
    wanted = usual[GOAL[kind]]
    told = [None if n not in found else round(found[n], 4) for n in TOLD[kind]]
    worst = round(min(found[n] - usual[n] for n in found if n in usual), 4)
    after = next((n for n, value in found.items() if value >= wanted), None)
    return {"told": told, "worst": worst, "after": after}


def ari(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures without accuracies, which tell the same and would double what is kept."""
    sets = {
        name: {s: {"draws": one["draws"], **one["ari"]} for s, one in strategies.items()}
        for name, strategies in figures["sets"].items()
    }
    return {**figures, "sets": sets}


def show(figures: dict[str, Any], title: str) -> None:
    """Print a table a measure, a row a set and strategy."""
    heads = [str(n) for n in figures["at"]]
    for measure in MEASURES:
        rows = []
        for name, strategies in figures["sets"].items():
            for strategy, one in strategies.items():
                found = one[measure]
                told = ["" if v is None else f"{v:.3f}" for v in found["told"]]
                last = (f"{found['worst']:+.3f}", found["after"])
                rows.append([name, strategy, one["draws"], *told, *last])
        last_heads = ["worst against random", f"random's at {figures['goal']} after"]
        common.table(f"{measure}, {title}", ["set", "strategy", "draws", *heads, *last_heads], rows)
