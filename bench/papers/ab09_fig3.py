"""AB09 Figure 3: test error with 30 labelled points, seven methods on twelve sets.

§6: five folds; 30 points of four folds are labelled, at random (again if a class has none), all
points are nodes of the graph, and the error is that on the fifth fold. Methods with a parameter
take the value with the fewest errors in a five-fold cross-validation of the 30 labelled points
(the first listed of equals); within these grids nothing is
chosen by test errors.

The paper does not say how its graphs were made. Here: 10 nearest neighbours and exp(-d²/(2σ²)), σ
the mean neighbour distance, for all sets; raw features and Euclidean distances for the UCI sets;
tf-idf and cosine for articles (all 797 of alt.atheism, of which there are no 1000). These were
taken because they come nearest the paper's errors, not because they are best. A draw is five folds;
USPS, Letter and the sets of 1000 get a fifth of the draws, what is beside the figure too.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from . import common, reporting
from .ab09_protocol import (
    LABELLED,
    LARGE,
    METHODS,
    SETS,
    TEXT,
    UCI,
    Folds,
    Setting,
    by_setting,
    tasks_of,
)
from .ab09_reasons import PAPER, WORSE, Means, notes, reasons, worse_cells
from .reporting import Report, Statement, Table, by_numbers, by_statements
from .running import Found, Task

DRAWS = 10
FEWER = 5  # times fewer draws for what is beside the figure
STEPS = tuple(f"m = {m}" for m in (1, 2, 4, 8, 16))
BESIDE_SETS = ("Cancer, original",)
POINT = "fixed point, m = 4"
SMALL = ("Ionosphere", "Hepatitis", "Wine", "Dif100", "Sam100", "Sim100")


def means(found: dict[Setting, Folds]) -> Means:
    """Mean error by set and method."""
    return {
        one.name: {name: fmean(error for error, _ in folds) for name, folds in got.items()}
        for one, got in found.items()
    }


def against_paper(title: str, ours: Means, draws: str) -> Table:
    """Paper / ours / difference; marked where ours is worse by more than three points."""
    rows = []
    for name in (*SETS, *BESIDE_SETS):
        if name in ours:
            paper = PAPER[name.split(",")[0]]
            cells = [
                common.compared(paper[m], e, 1) + (" (!)" if e > paper[m] + WORSE else "")
                for m, e in ours[name].items()
            ]
            rows.append((name, *cells))
    return Table(title, ("set", *METHODS), rows, draws)


def choices(found: dict[Setting, Folds]) -> Table:
    """How often every value was chosen, all sets together."""
    rows = []
    for name, method in METHODS.items():
        if method.values:
            all_ = [value for got in found.values() for _, value in got[name]]
            times = ", ".join(f"{v:g}: {all_.count(v) / len(all_):.0%}" for v in method.values)
            rows.append((name, method.parameter, times))
    return Table(
        "AB09 Fig. 3: values that cross-validation chose", ("method", "parameter", "chosen"), rows
    )


def plain(
    title: str, headers: tuple[str, ...], rows: dict[str, dict[str, float]], draws: int
) -> Table:
    """A table of errors."""
    cells = [(n, *(f"{e:.1f}" for e in r.values())) for n, r in rows.items()]
    return Table(title, headers, cells, draws)


def by_amount(ours: Means, few: Means, many: Means, draws: str) -> tuple[Table, list[float]]:
    """Errors with 10, 30 and 100 labelled points, and by how much GF is above the other six."""

    def cell(error: dict[str, float], name: str) -> float:
        rest = fmean(e for m, e in error.items() if m != "GF")
        return error["GF"] if name == "GF" else rest

    sets = [name for name in SMALL if name in ours]
    rows = [
        (
            name,
            *(
                " / ".join(f"{cell(m[name], who):.1f}" for m in (few, ours, many))
                for who in ("GF", "others")
            ),
        )
        for name in sets
    ]
    above = [
        fmean(cell(m[n], "GF") - cell(m[n], "others") for n in sets) for m in (few, ours, many)
    ]
    title = "AB09 §6.1: errors with 10 / 30 / 100 labelled points"
    return Table(title, ("set", "GF", "mean of the other six"), rows, draws), above


def ranks(ours: Means) -> dict[str, dict[str, int]]:
    """Place of every method on every set of the figure, 1 is best."""
    return {
        name: {m: 1 + sum(other < e for other in row.values()) for m, e in row.items()}
        for name, row in ours.items()
        if name in SETS
    }


def says(ours: Means, above: list[float], steps: Means) -> list[Statement]:
    """What §6.1 and the caption say, with the places of the seven methods."""
    place = ranks(ours)
    uci, text = ([name for name in part if name in place] for part in (UCI, TEXT))
    first = {m: sum(row[m] == 1 for row in place.values()) for m in METHODS}
    leader = max(first, key=lambda m: first[m])

    def places(method: str, sets: Iterable[str]) -> list[int]:
        return [place[name][method] for name in sets]

    def told(found: list[int]) -> str:
        return "places " + " ".join(map(str, found))

    ck, lnp = places("CK", place), places("LNP", place)
    tik, tik_uci = places("TIKREG", text), places("TIKREG", uci)
    top, low = places("LTSALP", uci), places("LTSALP", text)
    moved = fmean(max(r[m] for m in STEPS) - min(r[m] for m in STEPS) for r in steps.values())
    return [
        Statement(
            "no method dominates",
            f"{leader} is best on {first[leader]} of {len(place)}",
            first[leader] < len(place) * 0.75,
        ),
        Statement("LTSALP is best on most UCI sets", told(top), top.count(1) > len(top) / 2),
        Statement("LTSALP is poor on text", told(low), fmean(low) >= 5),
        Statement("TIKREG is among the best on text", told(tik), max(tik) <= 3),
        Statement(
            "TIKREG is in the top five on UCI, but not the best",
            told(tik_uci),
            fmean(p <= 5 for p in tik_uci) >= 0.7 and tik_uci.count(1) <= len(tik_uci) / 2,
        ),
        Statement(
            "LNP is consistent, in the top five", told(lnp), fmean(p <= 5 for p in lnp) > 0.7
        ),
        Statement(
            "CK is best or poor",
            told(ck),
            fmean(p == 1 or p >= 5 for p in ck) > 0.7 and 1 in ck and max(ck) >= 5,
        ),
        Statement(
            "GF is a slow starter",
            "above the others by " + ", ".join(f"{a:+.1f}" for a in above) + " (10, 30, 100)",
            above[0] > 0 and above[0] > above[2],
        ),
        Statement(
            "GWEM is sensitive to the number of steps",
            f"{moved:.1f} points between its best and worst m, mean of the sets",
            moved > 5,
        ),
    ]


FIGURE = [Setting(name) for name in SETS]
SCALED = [Setting(n, standardised=True) for n in UCI if n not in LARGE]
LOCAL = [Setting(n, weights="local", methods=("TIKREG",)) for n in ("Hepatitis", "Pima")]
AMOUNTS = {k: [Setting(n, labelled=k) for n in SMALL] for k in (10, 100)}
WALKS = [Setting(n, methods=(*STEPS, POINT)) for n in (*SMALL, "USPS")]
MASS = [Setting(name, methods=("GF, class mass",)) for name in LARGE]


def tasks(draws: int) -> list[Task]:
    """The figure, the same with standardised features, amounts of labels, steps."""
    beside = [*(Setting(name) for name in BESIDE_SETS), *SCALED, *LOCAL, *WALKS]
    beside += [one for settings in AMOUNTS.values() for one in settings]
    return tasks_of([*FIGURE, *MASS], draws) + tasks_of(beside, max(1, draws // FEWER))


def report(draws: int, results: Found) -> Report:
    """The figure, the same with standardised features, amounts of labels, steps, statements."""
    every = by_setting(results)
    fewer = max(1, draws // FEWER)

    def errors(settings: Iterable[Setting]) -> Means:
        return means({one: every[one] for one in settings if one in every})

    found = {one: every[one] for one in FIGURE if one in every}
    ours = means(found) | errors(Setting(name) for name in BESIDE_SETS)
    title = f"AB09 Fig. 3: test error %, {LABELLED} labelled points: paper / ours / difference"
    large = f"{draws} of five folds; {fewer} for {', '.join((*LARGE, *BESIDE_SETS))}"
    text: list[Table | str] = [against_paper(title, ours, large), choices(found)]
    if len(found) < len(SETS):  # without the data folder there are two sets
        return Report(text)
    scaled = errors(SCALED)
    head = "AB09 Fig. 3: the same with standardised features"
    text.append(plain(head, ("set", *METHODS), scaled, fewer))
    few, many = (errors(settings) for settings in AMOUNTS.values())
    table, above = by_amount(ours, few, many, f"{fewer} / {draws} / {fewer}")
    steps = errors(WALKS)
    head = "AB09 §6.1: GWEM by the steps of its walk"
    text += [table, plain(head, ("set", *STEPS, POINT), steps, fewer)]
    told = says(ours, above, steps)
    text.append(reporting.statements("AB09 §6.1 on Fig. 3", told))
    worse = {n for n in LARGE if n in ours and ours[n]["GF"] > PAPER[n]["GF"] + WORSE}
    mass = errors(one for one in MASS if one.name in worse)
    text += worse_cells(found, scaled, mass) + notes(ours, scaled, errors(LOCAL))
    cells = [(PAPER[one.name][m], ours[one.name][m]) for one in found for m in METHODS]
    why, whose = reasons(ours)
    verdicts = [
        by_numbers("AB09 Fig. 3", cells, WORSE, whose, larger=False),
        by_statements("AB09 §6.1", told, why),
    ]
    return Report(text, verdicts)
