"""WHC11 Fig. 3: Rand index against the share of known labels, six UCI sets, all methods.

    python -m bench.papers.whc11_fig3 [--draws 10] [--jobs N] [--raw]

The paper's values are curves in a figure; what its text says about them is checked. Features are
standardised (see `whc11_table3`); `--raw` repeats everything with the features as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from . import common, data, methods
from .common import Options, Statement, Text
from .methods import Score

DRAWS = 1
PERCENT = (0, 5, 10, 20, 50, 100)
INNER = (5, 10, 20, 50)
SETS: dict[str, Callable[[], data.Points | None]] = {
    "Glass1": lambda: data.glass(2),
    "Hepatitis": data.hepatitis,
    "Ionosphere": data.ionosphere,
    "Wine": data.wine,
    "Dermatology": data.dermatology,
    "Glass2": lambda: data.glass(6),
}
TWO = ("Glass1", "Hepatitis", "Ionosphere")
MORE = ("Wine", "Dermatology", "Glass2")
Found = dict[tuple[str, int, str], list[Score]]


def one_draw(name: str, raw: bool, percent: int, draw: int) -> dict[str, Score]:
    """Scores of all methods for one draw of labels on one set."""
    import numpy as np

    import mustlink as ml

    points = SETS[name]()
    assert points is not None
    graph = ml.rbf_graph(points.X if raw else points.standardised().X)
    order = np.random.default_rng(draw).permutation(points.y.size)
    constraints = common.all_pairs(common.known_labels(points.y, percent, order))
    return methods.all_measured(methods.WHC11, graph, points.k, points.y, constraints)


def measured(draws: int, raw: bool, jobs: int) -> Found:
    """All scores by (set, percent, method); nothing is random at 0 and 100 %."""
    sets = [name for name, make in SETS.items() if make() is not None]
    tasks = [
        (name, raw, percent, draw)
        for name in sets
        for percent in PERCENT
        for draw in range(draws if 0 < percent < 100 else 1)
    ]
    found: Found = {}
    for (name, _, percent, _), one in zip(
        tasks, common.each(one_draw, tasks, jobs), strict=True
    ):  # fmt: skip
        for method, score in one.items():
            found.setdefault((name, percent, method), []).append(score)
    return found


def level(found: Found, sets: tuple[str, ...], method: str) -> float | None:
    """Mean Rand index of 5 to 50 %, mean over the sets that are there; None without a result."""
    means = []
    for name in sets:
        scores = [s for p in INNER for s in found.get((name, p, method), [])]
        values = common.column(scores, "rand")
        if not scores:  # no such data
            continue
        if not values or len(values) < len(scores) / 2:
            return None
        means.append(common.mean(values))
    return common.mean(means)


def run(options: Options) -> Text:
    """Standardised features."""
    return tables(options, raw=False)


def tables(options: Options, raw: bool) -> Text:
    """A table per set, then the statements."""
    draws = options.count(DRAWS)
    names = [m.name for m in methods.available(methods.WHC11)]
    found = measured(draws, raw, options.jobs)
    how = "raw" if raw else "standardised"
    text = []
    for name in dict.fromkeys(key[0] for key in found):
        rows = [
            (
                method,
                *(
                    common.spread(common.column(found.get((name, p, method), []), "rand"))
                    for p in PERCENT
                ),
            )
            for method in names
        ]
        title = f"WHC11 Fig. 3: {name}, {how} features, Rand index, mean (least-most) of {draws}"
        text.append(common.table(title, ("method", *(f"{p} %" for p in PERCENT)), rows))
    text.append(levels(found, names, how))
    text.append(statements(found, names, how))
    flat = [(f"{key[0]}, {key[2]}", one) for key, all_ in found.items() for one in all_]
    return text + common.error_lines(flat)


def levels(found: Found, names: list[str], how: str) -> str:
    """Mean over 5 to 50 % and over the sets of either kind."""
    rows = [(m, level(found, TWO, m), level(found, MORE, m)) for m in names]
    title = f"WHC11 Fig. 3: mean Rand index over 5 to 50 % known labels, {how} features"
    return common.table(title, ("method", "K = 2, three sets", "K > 2, three sets"), rows)


def statements(found: Found, names: list[str], how: str) -> str:
    """What §4.3 says about the figure."""
    two = {m: v for m in names if (v := level(found, TWO, m)) is not None}
    more = {m: v for m in names if (v := level(found, MORE, m)) is not None}

    def told(levels: dict[str, float]) -> str:
        order = sorted(levels.items(), key=lambda item: -item[1])
        return ", ".join(f"{name} {value:.3f}" for name, value in order)

    def below(levels: dict[str, float], low: tuple[str, ...], high: tuple[str, ...]) -> bool | None:
        lower, upper = [levels[m] for m in low if m in levels], [
            levels[m] for m in high if m in levels
        ]  # fmt: skip
        return max(lower) < min(upper) if lower and upper else None

    good = ("SSSC", "FCSC", "FCSC-θ", "FCSC-θSP")
    says = [
        Statement("K = 2: SSSC and all FCSC but θ2SP are best, SL-L̄ and θ2SP lower", told(two),
                  below(two, ("SL-L̄", "FCSC-θ2SP"), good)),
        Statement("K = 2: SL is lowest", told(two),
                  below(two, ("SL",), tuple(m for m in two if m not in ("SL", "SC")))),
        Statement("K > 2: SSSC is better than all others", told(more),
                  below(more, tuple(m for m in more if m != "SSSC"), ("SSSC",))),
        Statement("K > 2: θ2SP and SL-L̄ come second, above θSP", told(more),
                  below(more, ("FCSC-θSP",), ("FCSC-θ2SP", "SL-L̄"))),
        Statement("K > 2: FCSC-θ and SL are very low", told(more),
                  below(more, ("FCSC-θ", "SL"), ("SSSC", "SL-L̄", "FCSC-θSP"))),
        Statement("K > 2: FCSC has no solution for its θ", *unsolved(found)),
        Statement("SSSC gains most between 0 and 5 %", *early(found)),
    ]  # fmt: skip
    return common.statements(f"WHC11 §4.3 on Fig. 3, {how} features", says)


def unsolved(found: Found) -> tuple[str, bool | None]:
    """How often the rule's θ has no solution where K > 2."""
    scores = [s for n in MORE for p in INNER for s in found.get((n, p, "FCSC"), [])]
    failed = sum("error" in s for s in scores)
    return f"none in {failed} of {len(scores)} fits", failed > len(scores) / 2 if scores else None


def early(found: Found) -> tuple[str, bool | None]:
    """Gain of SSSC from 0 to 5 % and from 5 to 10 %, mean over the sets."""
    gains: list[list[float]] = [[], []]
    for name in SETS:
        means: list[Any] = [
            common.mean(common.column(found.get((name, p, "SSSC"), []), "rand")) for p in (0, 5, 10)
        ]
        if None not in means:
            gains[0].append(means[1] - means[0])
            gains[1].append(means[2] - means[1])
    first, second = (common.mean(g) for g in gains)
    if first is None or second is None:
        return "–", None
    return f"{first:+.3f} from 0 to 5 %, {second:+.3f} from 5 to 10 %", first > second


if __name__ == "__main__":
    if "--raw" in sys.argv:
        sys.argv.remove("--raw")
        sys.exit(common.main(lambda options: tables(options, raw=True), __doc__, DRAWS))
    sys.exit(common.main(run, __doc__, DRAWS))
