"""WHC11 Table 3: Dermatology, K = 6, 0, 2, 5 and 100 % of the labels known.

Features are standardised and σ = 1. Then plain spectral clustering has the paper's Rand index of
0.827 (0.824 with the floor of 1e-8 that `rbf_graph` puts under its entries), and the true classes
have the MNCut, mean over clusters, of the paper's row SL at 100 %, 0.063. With raw features, whose
variance is nearly all age, it has 0.73. The 8 missing ages are the median, so that there are 366
rows as in the paper.

SL's row has two readings: its K first vectors as printed, of which the first is constant and most
others stand on one point that is far from all, so that single points become clusters; and the K
vectors after the constant one, with which all four of the paper's Rand indices come out.
"""

from __future__ import annotations

from typing import Any

from . import common, data, methods, reporting
from .methods import Score
from .reporting import Report, Statement, Table, by_numbers, by_statements
from .running import Found, Task

DRAWS = 10
PERCENT = (0, 2, 5, 100)
_NONE = (None, None, None, None, None)
# ML kept, CL kept, their mean, MNCut, Rand index
PAPER: dict[tuple[int, str], tuple[float | None, ...]] = {
    (0, "SL"): (None, None, None, 0.245, 0.805),
    (0, "SL-L̄"): (None, None, None, 0.013, 0.827),
    (0, "FCSC"): (None, None, None, 0.011, 0.814),
    (0, "FCSC-θ"): (None, None, None, 0.011, 0.814),
    (0, "FCSC-θSP"): (None, None, None, 0.013, 0.827),
    (0, "FCSC-θ2SP"): (None, None, None, 0.013, 0.827),
    (0, "SSSC"): (None, None, None, 0.013, 0.827),
    (2, "SL"): (1.0, 0.871, 0.935, 0.251, 0.808),
    (2, "SL-L̄"): (1.0, 0.941, 0.971, 0.059, 0.850),
    (2, "FCSC-θ"): (0.488, 0.707, 0.597, 0.085, 0.800),
    (2, "FCSC-θSP"): (0.374, 0.807, 0.591, 0.109, 0.869),
    (2, "FCSC-θ2SP"): (1.0, 1.0, 1.0, 0.036, 0.894),
    (2, "SSSC"): (1.0, 0.997, 0.999, 0.013, 0.880),
    (5, "SL"): (1.0, 0.841, 0.921, 0.273, 0.806),
    (5, "SL-L̄"): (1.0, 0.957, 0.979, 0.038, 0.900),
    (5, "FCSC-θ"): (0.650, 0.776, 0.713, 0.102, 0.799),
    (5, "FCSC-θSP"): (0.628, 0.923, 0.776, 0.139, 0.890),
    (5, "FCSC-θ2SP"): (0.967, 0.950, 0.959, 0.040, 0.909),
    (5, "SSSC"): (1.0, 0.984, 0.992, 0.018, 0.914),
    (100, "SL"): (1.0, 1.0, 1.0, 0.063, 1.0),
    (100, "SL-L̄"): (1.0, 1.0, 1.0, 0.063, 1.0),
    (100, "FCSC-θ"): (0.758, 0.703, 0.730, 0.334, 0.714),
    (100, "FCSC-θSP"): (0.725, 0.877, 0.801, 0.095, 0.847),
    (100, "FCSC-θ2SP"): (0.876, 0.939, 0.908, 0.037, 0.927),
    (100, "SSSC"): (1.0, 1.0, 1.0, 0.045, 1.0),
}
COLUMNS = (("must", "ML kept"), ("cannot", "CL kept"), ("total", "total"), ("mncut", "MNCut"),
           ("rand", "Rand index"))  # fmt: skip
PAPER |= {(p, methods.SL_LATER.name): PAPER[p, "SL"] for p in PERCENT}
NEAR = 0.03
METHODS = methods.WHC11[1:]  # without SC, which Table 3 does not list


def one_draw(percent: int, draw: int) -> dict[str, Score]:
    """Scores of all methods for one draw of labels."""
    import numpy as np

    import mustlink as ml

    points = data.dermatology()
    assert points is not None
    graph = ml.rbf_graph(points.standardised().X)
    order = np.random.default_rng(draw).permutation(points.y.size)
    constraints = common.all_pairs(common.known_labels(points.y, percent, order))
    return methods.all_measured(METHODS, graph, 6, points.y, constraints)


def gaussian(X: Any) -> Any:
    """exp(-|x_i - x_j|²/2) as the paper writes it, W_ii = 0."""
    import numpy as np
    from scipy.sparse import csr_matrix
    from scipy.spatial.distance import cdist

    W = np.exp(-cdist(X, X, "sqeuclidean") / 2)
    np.fill_diagonal(W, 0)
    return csr_matrix((W + W.T) / 2)


def context() -> list[tuple[str, Score, Score]]:
    """Plain spectral clustering and the true classes, standardised and raw features."""
    import mustlink as ml

    points = data.dermatology()
    assert points is not None
    rows = []
    bare = ml.Graph.from_affinity(gaussian(points.standardised().X))
    for how, graph in (
        ("standardised", ml.rbf_graph(points.standardised().X)),
        ("standardised, no floor under the entries", bare),
        ("raw", ml.rbf_graph(points.X)),
    ):
        plain = methods.measured(methods.SC, graph, 6, points.y)
        truth = methods.score(graph, points.y, points.y)
        rows.append((how, plain, truth))
    return rows


def features(found: list[tuple[str, Score, Score]]) -> Table:
    """Which features the paper used."""
    rows = [
        (
            how,
            common.compared(0.827, plain["rand"]),
            common.compared(0.013, plain["mncut"]),
            common.compared(0.063, truth["mncut"]),
        )
        for how, plain, truth in found
    ]
    headers = (
        "features",
        "SC, Rand index: paper / ours / diff.",
        "SC, MNCut",
        "true classes, MNCut (SL at 100 %)",
    )
    return Table("WHC11 Table 3: which features the paper used", headers, rows, 0)


def tasks(draws: int) -> list[Task]:
    """A draw of labels each; nothing is random at 0 and 100 %."""
    if data.dermatology() is None:
        return []
    drawn = [(p, d) for p in PERCENT for d in range(draws if 0 < p < 100 else 1)]
    return [Task(context), *(Task(one_draw, args, 15.0) for args in drawn)]


def report(draws: int, found: Found) -> Report:
    """A table for every share of known labels."""
    if not found[context]:
        return Report()
    names = [m.name for m in methods.available(METHODS)]
    text: list[Table | str] = [features(found[context][0][1]), methods.VECTORS]
    verdicts = []
    means: dict[tuple[int, str], dict[str, Any]] = {}
    for percent in PERCENT:
        rows = []
        for name in names:
            scores = [one[name] for (p, _), one in found[one_draw] if p == percent]
            ours = {key: common.mean(common.column(scores, key)) for key, _ in COLUMNS}
            means[percent, name] = ours
            paper = PAPER.get((percent, name), _NONE)
            cells = [common.compared(value, ours[key]) for value, (key, _) in
                     zip(paper, COLUMNS, strict=True)]  # fmt: skip
            rows.append((name, *cells))
        title = f"WHC11 Table 3: Dermatology, {percent} % known labels: paper / ours / difference"
        text.append(Table(title, ("method", *(told for _, told in COLUMNS)), rows,
                          draws if 0 < percent < 100 else 0))  # fmt: skip
        judged = [n for n in names if n != "SL"]  # its other reading is the paper's
        rand = [(PAPER.get((percent, n), _NONE)[4], means[percent, n]["rand"]) for n in judged]
        told = why(percent, judged, found)
        verdicts.append(by_numbers(f"WHC11 Table 3, {percent} %, Rand index", rand, NEAR, told))
    says = statements(means)
    text += [
        reporting.statements("WHC11 §4.3 on Table 3", says),
        "The paper's rows at 100 % cannot all be right: SL and SSSC both have Rand index "
        "1.000, hence the same clusters, but MNCut 0.063 and 0.045.",
        *common.error_lines([item for _, one in found[one_draw] for item in one.items()]),
    ]
    told = " ".join(why(percent, ["SSSC"], found) for percent in (2, 5))
    return Report(text, [*verdicts, by_statements("WHC11 Table 3, text", says, told)])


def why(percent: int, names: list[str], found: Found) -> str:
    """Which rows are far from the paper's, and how far ours vary between draws."""
    drawn = [one for (p, _), one in found[one_draw] if p == percent]
    parts = []
    for name in names:
        paper, ours = PAPER.get((percent, name), _NONE), [one[name] for one in drawn]
        rand, cuts = common.column(ours, "rand"), common.column(ours, "mncut")
        mean = common.mean(rand)
        if mean is None or paper[4] is None or (abs(mean - paper[4]) <= NEAR and len(names) > 1):
            continue
        parts.append(
            f"{name} {common.spread(rand)} for {paper[4]:.3f} at MNCut {common.spread(cuts)} for "
            f"{paper[3]:.3f}"
        )
    return f"{percent} %, over {len(drawn)} draws: {'; '.join(parts)}." if parts else ""


def statements(means: dict[tuple[int, str], dict[str, Any]]) -> list[Statement]:
    """What §4.3 says about the table."""

    def value(percent: int, name: str, key: str) -> float | None:
        found: float | None = means.get((percent, name), {}).get(key)
        return found

    def best(percent: int, key: str, sign: int) -> tuple[str, float] | None:
        there = [(n, v[key]) for (p, n), v in means.items() if p == percent and v[key] is not None]
        return max(there, key=lambda item: sign * item[1]) if there else None

    says = []
    totals = [value(p, "SSSC", "total") for p in (2, 5, 100)]
    known = [t for t in totals if t is not None]
    shown = " / ".join("–" if t is None else f"{t:.3f}" for t in totals)
    says.append(
        Statement(
            "SSSC keeps over 99 % for 2, 5 and 100 %",
            shown,
            None if len(known) < 3 else min(known) >= 0.99,
        )
    )
    for percent in (2, 5):
        top = best(percent, "rand", 1)
        ours = value(percent, "SSSC", "rand")
        paper = PAPER[percent, "SSSC"][4]
        holds = None if top is None or ours is None or paper is None else ours >= paper - 0.005
        told = "–" if top is None or ours is None else f"{ours:.3f}; best: {top[0]} {top[1]:.3f}"
        says.append(Statement(f"SSSC's Rand index at {percent} % is {paper:.3f}", told, holds))
        low = best(percent, "mncut", -1)
        cut = value(percent, "SSSC", "mncut")
        told = "–" if low is None or cut is None else f"{cut:.3f}; least: {low[0]} {low[1]:.3f}"
        holds = None if low is None or cut is None else low[0] == "SSSC"
        says.append(Statement(f"SSSC's MNCut is the least at {percent} %", told, holds))
    full = value(100, "SSSC", "rand")
    says.append(
        Statement(
            "SSSC's Rand index at 100 % is 1.000",
            "–" if full is None else f"{full:.3f}",
            None if full is None else full >= 0.9995,
        )
    )
    return says
