"""WHC11 Fig. 3: Rand index against the share of known labels, six UCI sets, all methods.

The paper's values are curves in a figure; what its text says about them is checked. Features are
standardised (see `whc11_table3`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import common, data, methods, reporting
from .methods import Score
from .reporting import Report, Statement, Table, by_statements
from .running import Found, Task

DRAWS = 10
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
Scores = dict[tuple[str, int, str], list[Score]]


def one_draw(name: str, percent: int, draw: int) -> dict[str, Score]:
    """Scores of all methods for one draw of labels on one set."""
    import numpy as np

    import mustlink as ml

    points = SETS[name]()
    assert points is not None
    graph = ml.rbf_graph(points.standardised().X)
    order = np.random.default_rng(draw).permutation(points.y.size)
    constraints = common.all_pairs(common.known_labels(points.y, percent, order))
    return methods.all_measured(methods.WHC11, graph, points.k, points.y, constraints)


def tasks(draws: int) -> list[Task]:
    """A draw of labels each; nothing is random at 0 and 100 %."""
    sizes = {name: made.y.size for name, make in SETS.items() if (made := make()) is not None}
    return [
        Task(one_draw, (name, percent, draw), n / 20)
        for name, n in sizes.items()
        for percent in PERCENT
        for draw in range(draws if 0 < percent < 100 else 1)
    ]


def by_cell(results: Found) -> Scores:
    """All scores by (set, percent, method)."""
    found: Scores = {}
    for (name, percent, _), one in results[one_draw]:
        for method, score in one.items():
            found.setdefault((name, percent, method), []).append(score)
    return found


def level(found: Scores, sets: tuple[str, ...], method: str) -> float | None:
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


def report(draws: int, results: Found) -> Report:
    """A table per set, then the statements."""
    names = [m.name for m in methods.available(methods.WHC11)]
    found = by_cell(results)
    stamp = f"{draws}; 1 at 0 and 100 %, where nothing is random"
    text: list[Table | str] = []
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
        title = f"WHC11 Fig. 3: {name}, Rand index, mean (least-most)"
        text.append(Table(title, ("method", *(f"{p} %" for p in PERCENT)), rows, stamp))
    says = statements(found, [name for name in names if name != methods.SL_LATER.name])
    text += [
        methods.VECTORS,
        levels(found, names),
        reporting.statements("WHC11 §4.3 on Fig. 3", says),
    ]
    flat = [(f"{key[0]}, {key[2]}", one) for key, all_ in found.items() for one in all_]
    verdict = by_statements("WHC11 Fig. 3", says, why(found, names))
    return Report([*text, *common.error_lines(flat)], [verdict])


def why(found: Scores, names: list[str]) -> str:
    """Set by set, who is first where K > 2, and what the readings of SL change."""
    parts = []
    for name in MORE:
        levels = {m: v for m in names if (v := level(found, (name,), m)) is not None}
        first = sorted(levels, key=lambda m: -levels[m])[:3]
        parts.append(f"{name}: " + ", ".join(f"{m} {levels[m]:.3f}" for m in first))
    plain, later = level(found, MORE, "SL"), level(found, MORE, methods.SL_LATER.name)
    sl = f" SL is {plain:.3f}, without its constant vector {later:.3f}." if plain and later else ""
    return f"Mean Rand index of 5 to 50 % known labels where K > 2: {'; '.join(parts)}.{sl}"


def levels(found: Scores, names: list[str]) -> Table:
    """Mean over 5 to 50 % and over the sets of either kind."""
    rows = [(m, level(found, TWO, m), level(found, MORE, m)) for m in names]
    title = "WHC11 Fig. 3: mean Rand index over 5 to 50 % known labels"
    return Table(title, ("method", "K = 2, three sets", "K > 2, three sets"), rows)


def statements(found: Scores, names: list[str]) -> list[Statement]:
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
    return [
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


def unsolved(found: Scores) -> tuple[str, bool | None]:
    """How often the rule's θ has no solution where K > 2."""
    scores = [s for n in MORE for p in INNER for s in found.get((n, p, "FCSC"), [])]
    failed = sum("error" in s for s in scores)
    return f"none in {failed} of {len(scores)} fits", failed > len(scores) / 2 if scores else None


def early(found: Scores) -> tuple[str, bool | None]:
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
