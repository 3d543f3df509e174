"""WD12 Fig. 4 and 5: labels on 5 to 50 % of six two-class sets, propagated or as constraints.

Spectral is the sign of the second vector of L̄; GFHF and LLGC (α = 0.5) as in the paper; CSC is
CSP with all pairs of labelled nodes, β by WD14 eq. 19 (WD12 names none); CSC+GFHF is Algorithm 4
with the raw harmonic values. The clusters of the last two are signs of one vector. A set of labels
of one class only is drawn again.

The paper states neither the width of its affinity nor that of Q. The affinity is that of
`wd14_fig9_10`, chosen there: standardised features, σ² = number of features. Q has σ = 2 in the
paper's coding ±1 (`sigma="auto"`). The second graph is the rule of WHC11, σ = 1 for standardised
features, on which most weights of the sets with many features vanish. Wine is 130 rows, classes 1
and 2, as the paper says in words; the 119 rows of its Table II are classes 2 and 3, shown apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import common, data, methods, reporting, wd14_fig9_10
from .methods import Method, Score
from .reporting import Report, Statement, Table, by_statements
from .running import Found, Task
from .wd14_fig9_10 import plain_cut

DRAWS = 20
PAPER_DRAWS = 100
PERCENT = (5, 10, 20, 30, 40, 50)
GRAPHS = ("σ² = d", "σ = 1")
WINE_119 = "Wine, 119"


def wine_119() -> data.Points:
    """Classes 2 and 3: the number of rows that the paper's Table II has."""
    whole = data.wine(3)
    kept = whole.y > 0
    return data.Points(WINE_119, whole.X[kept], whole.y[kept] - 1, 2)


SETS: dict[str, Callable[[], data.Points | None]] = {
    **wd14_fig9_10.SETS,
    WINE_119: wine_119,
}
SPECTRAL, OURS = "Spectral", "CSC+GFHF"
CSC = Method("CSC", "CSP", {"subspace": "exact", "beta": "paper", "assign": "sign"})
RIVALS = ("GFHF", "LLGC", CSC.name)
METHODS = (SPECTRAL, *RIVALS, OURS)
Key = tuple[str, str, int, str]  # graph, set, percent, method


def graph_of(points: data.Points, how: str) -> Any:
    """The affinity of standardised points."""
    import mustlink as ml

    X = points.standardised().X
    return ml.rbf_graph(X, sigma=X.shape[1] ** 0.5 if how == GRAPHS[0] else 1.0)


def drawn(y: Any, percent: int, draw: int) -> Any:
    """Labels (n,) of so many random nodes, -1 elsewhere; both classes occur."""
    import numpy as np

    for attempt in range(10_000):
        order = np.random.default_rng([draw, percent, attempt]).permutation(y.size)
        given = common.known_labels(y, percent, order)
        if np.unique(given).size == 3:
            return given
    raise AssertionError("no labels of both classes in 10,000 draws")


def one_draw(graph: Any, y: Any, given: Any, baseline: float) -> dict[str, Score]:
    """ARI of every method with these labels."""
    from sklearn.metrics import adjusted_rand_score

    import mustlink as ml

    options = {"affinity": "precomputed", "random_state": 0}
    labels = {
        "GFHF": ml.GFHF(class_mass=False, **options).fit(graph, given).labels_,
        "LLGC": ml.LLGC(alpha=0.5, **options).fit(graph, given).labels_,
        OURS: ml.CSCGFHF(2, class_mass=False, **options).fit(graph, given).labels_,
    }
    found: dict[str, Score] = {
        name: {"ari": float(adjusted_rand_score(y, one))} for name, one in labels.items()
    }
    known = ml.Constraints.from_labels(given)
    found[CSC.name] = methods.measured(CSC, graph, 2, y, known)
    found[SPECTRAL] = {"ari": baseline}
    return found


def one_set(name: str, how: str, first: int, last: int) -> list[tuple[Key, Score]]:
    """All methods for draws first to last - 1 on one set and graph."""
    from sklearn.metrics import adjusted_rand_score

    points = SETS[name]()
    assert points is not None
    graph = graph_of(points, how)
    baseline = float(adjusted_rand_score(points.y, plain_cut(graph)))
    found: list[tuple[Key, Score]] = []
    for percent in PERCENT:
        for draw in range(first, last):
            given = drawn(points.y, percent, draw)
            for method, score in one_draw(graph, points.y, given, baseline).items():
                score["gain"] = float(score.get("ari", baseline) > baseline + 1e-9)
                found.append(((how, name, percent, method), score))
    return found


def strongest(name: str, how: str) -> float:
    """Median over the nodes of their strongest edge's weight."""
    import numpy as np

    points = SETS[name]()
    assert points is not None
    return float(np.median(graph_of(points, how).affinity.max(axis=1).toarray()))


def tasks(draws: int) -> list[Task]:
    """A draw of a set on a graph each."""
    sizes = {name: made.y.size for name, make in SETS.items() if (made := make()) is not None}
    each = [
        Task(one_set, (name, how, draw, draw + 1), n / 400)
        for name, n in sizes.items()
        for how in GRAPHS
        for draw in range(draws)
    ]
    return [*each, *(Task(strongest, (name, how)) for name in sizes for how in GRAPHS)]


def report(draws: int, results: Found) -> Report:
    """Tables of Fig. 4 and 5 by graph, then the statements."""
    sets = list(dict.fromkeys(args[0] for args, _ in results[one_set]))
    found: dict[Key, list[Score]] = {}
    for _, part in results[one_set]:
        for key, score in part:
            found.setdefault(key, []).append(score)
    text: list[Table | str] = ["Mean ARI, then the share of draws above Spectral. * best of a row."]
    for how in GRAPHS:
        rows = [
            (name, percent, *row(found, how, name, percent)) for name in sets for percent in PERCENT
        ]
        title = f"WD12 Fig. 4 and 5: {how}, {draws} draws"
        text.append(Table(title, ("set", "% labelled", *METHODS), rows))
    says = {how: statements(found, sets, how) for how in GRAPHS}
    text += [reporting.statements(f"WD12 §VI.B: {how}", says[how]) for how in GRAPHS]
    why = " ".join(reason(found, results, how, says[how]) for how in GRAPHS)
    verdict = by_statements(
        f"WD12 Fig. 4 and 5, {GRAPHS[0]}", says[GRAPHS[0]],
        f"The paper names no width of its affinity, and that decides. {why}",
    )  # fmt: skip
    flat = [(f"{key[1]}, {key[0]}, {key[3]}", s) for key, all_ in found.items() for s in all_]
    return Report([*text, *common.error_lines(flat)], [verdict])


def average(found: dict[Key, list[Score]], key: Key, what: str = "ari") -> float:
    """Mean of one score; a fit that ended with an error counts as nothing found."""
    return common.mean(common.column(found.get(key, []), what)) or 0.0


def row(found: dict[Key, list[Score]], how: str, name: str, percent: int) -> list[str]:
    """Cells of one set and share of labels."""
    aris = {m: average(found, (how, name, percent, m)) for m in METHODS}
    best = max(aris.values())
    cells = []
    for m, ari in aris.items():
        star = " *" if ari >= best - 5e-4 else ""
        gain = "" if m == SPECTRAL else f", {average(found, (how, name, percent, m), 'gain'):.0%}"
        cells.append(f"{ari:.3f}{gain}{star}")
    return cells


def reason(found: dict[Key, list[Score]], results: Found, how: str, says: list[Statement]) -> str:
    """By how much the worst cell is missed, and what the width leaves of the edges."""

    def behind(name: str, percent: int) -> float:
        ari = {m: average(found, (how, name, percent, m)) for m in METHODS}
        return max(ari.values()) - ari[OURS]

    cells = {(key[1], key[2]) for key in found if key[0] == how and key[1] != WINE_119}
    if not cells:
        return ""
    name, percent = max(cells, key=lambda cell: behind(*cell))
    weights = [weight for (_, one), weight in results[strongest] if one == how]
    return (
        f"{how}, where a node's strongest edge weighs {min(weights):.2g} to {max(weights):.2g} "
        f"(medians of the sets): {sum(one.holds is True for one in says)} of {len(says)} hold, and "
        f"CSC+GFHF is behind the best other in {sum(behind(*cell) > 0 for cell in cells)} of "
        f"{len(cells)} cells, by {behind(name, percent):.3f} at most ({name}, {percent} %)."
    )


def statements(found: dict[Key, list[Score]], sets: list[str], how: str) -> list[Statement]:
    """What §VI.B says, cell by cell of sets and shares of labels; 119 rows of Wine left out."""
    six = [name for name in sets if name != WINE_119]
    cells = [(name, percent) for name in six for percent in PERCENT]

    def value(name: str, percent: int, method: str, what: str = "ari") -> float:
        return average(found, (how, name, percent, method), what)

    def counted(says: str, rivals: tuple[str, ...], what: str, slack: float = 0.0) -> Statement:
        missed = [
            name
            for name, percent in cells
            if any(
                value(name, percent, OURS, what) <= value(name, percent, r, what) - slack
                for r in rivals
            )
        ]
        ours = f"{len(cells) - len(missed)} of {len(cells)} cells"
        if missed:
            ours += "; not: " + ", ".join(f"{n} {missed.count(n)}" for n in six if n in missed)
        return Statement(says, ours, not missed)

    def over_cells(of: Callable[[str, int], float]) -> float:
        return common.mean([of(name, percent) for name, percent in cells]) or 0.0

    improved = [
        name
        for name in six
        if any(
            sum(value(name, p, m) - value(name, p, SPECTRAL) for p in PERCENT) > 0 for m in RIVALS
        )
    ]
    means = {m: over_cells(lambda n, p, m=m: value(n, p, m)) for m in METHODS}
    gains = {m: over_cells(lambda n, p, m=m: value(n, p, m, "gain")) for m in (*RIVALS, OURS)}
    near = [abs(value(n, p, "LLGC") - value(n, p, CSC.name)) for n, p in cells]
    apart = [
        common.mean([value(n, p, OURS) - value(n, p, CSC.name) for n in six]) or 0.0
        for p in PERCENT
    ]
    few = [n for n in six if value(n, PERCENT[1], OURS) > value(n, PERCENT[1], SPECTRAL)]
    return [
        counted("CSC+GFHF is above Spectral", (SPECTRAL,), "ari"),
        *(counted(f"CSC+GFHF is above {r}", (r,), "ari") for r in RIVALS),
        counted("CSC+GFHF is above all four", (SPECTRAL, *RIVALS), "ari"),
        Statement(
            "its mean ARI over all cells is the largest",
            ", ".join(f"{m} {v:.3f}" for m, v in means.items()),
            max(means, key=lambda m: means[m]) == OURS,
        ),
        Statement(
            f"with few labels ({PERCENT[1]} %) it is above Spectral on all six sets",
            f"{len(few)}: {', '.join(few)}",
            len(few) == len(six),
        ),
        Statement(
            "GFHF, LLGC and CSC improve on Spectral on three of six sets only (mean over shares)",
            f"any of them: {', '.join(improved)}",
            len(improved) <= 3,
            better=len(improved) > 3,
        ),
        counted("Fig. 5: its share of draws above Spectral is no less than the others'", RIVALS,
                "gain", 1e-9),
        Statement(
            "that share is the largest on average",
            ", ".join(f"{m} {v:.0%}" for m, v in gains.items()),
            max(gains, key=lambda m: gains[m]) == OURS,
        ),
        Statement(
            "CSC catches up with it as labels increase",
            "mean difference of ARI, " + ", ".join(
                f"{p} % {gap:.3f}" for p, gap in zip(PERCENT, apart, strict=True)
            ),
            0 <= apart[-1] < apart[0],
        ),
        Statement(
            "CSC is very similar to LLGC",
            f"mean |difference| of ARI {common.mean(near):.3f}, largest {max(near):.3f}",
            max(near) <= 0.1,
        ),
    ]  # fmt: skip
