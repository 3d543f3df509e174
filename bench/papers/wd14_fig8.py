"""WD14 Fig. 8: 500 points on two moons among 100 of uniform noise, 20 constraints.

Noise, affinity and which nodes the pairs touch are not in the paper: moons with noise 0.1, a
Gaussian kernel of width 0.2, pairs between points of the moons. The 20 constraints are pairs, or
points with all pairs among them, as the authors' public demo fills Q (see Fig. 7). ARI is over the
500 points of the moons; where the noise belongs nobody knows.
"""

from __future__ import annotations

from . import common, data, methods, reporting
from .methods import Method, Score
from .reporting import Report, Statement, Table, by_statements
from .running import Found, Task
from .wd14_fig7 import DEFAULT, GREAT, RULE, TIGHT

DRAWS = 20
N, BACKGROUND, PAIRS, NOISE, WIDTH = 500, 100, 20, 0.1, 0.2
PLAIN = Method("plain cut", "NCut")
SEARCH = Method("β by search", "CSP", {**RULE.options, "beta": "search"})
METHODS = (PLAIN, GREAT, TIGHT, RULE, SEARCH, DEFAULT)


PAIRS_ALONE, POINTS = "pairs", "known points"


def one_sample(sample: int, what: str) -> dict[str, Score]:
    """Scores of all methods on one sample with its own 20 pairs, or pairs of 20 points."""
    import numpy as np

    import mustlink as ml

    X, y = data.moons(N, NOISE, sample, BACKGROUND)
    graph = ml.rbf_graph(X, sigma=WIDTH)
    rng = np.random.default_rng([sample, PAIRS])
    if what == POINTS:
        given = np.full(y.size, -1)
        chosen = rng.choice(N, PAIRS, replace=False)
        given[chosen] = y[chosen]
        constraints = common.all_pairs(given)
    else:
        constraints = common.truth_pairs(y, common.distinct_pairs(N, PAIRS, rng))
    found: dict[str, Score] = {}
    for method in METHODS:
        labels, about = methods.fitted(method, graph, 2, constraints)
        if labels is not None:
            about |= methods.score(graph, labels, y, constraints)
            about["ari"] = methods.score(ml.rbf_graph(X[:N], sigma=WIDTH), labels[:N], y[:N])["ari"]
        found[method.name] = about
    return found


def tasks(draws: int) -> list[Task]:
    """A sample with either kind each."""
    kinds = (PAIRS_ALONE, POINTS)
    return [Task(one_sample, (sample, what), 20.0) for sample in range(draws) for what in kinds]


def report(draws: int, found: Found) -> Report:
    """Mean over samples, for either kind of constraints."""
    text: list[Table | str] = []
    said, best = {}, {}
    for what in (PAIRS_ALONE, POINTS):
        samples = [result for (_, kind), result in found[one_sample] if kind == what]
        tables, said[what], best[what] = of_kind(samples, what, draws)
        text += tables
    why = (
        f"The best setting has a mean ARI of {best[PAIRS_ALONE]:.2f} with {PAIRS} pairs, of "
        f"{best[POINTS]:.2f} with all pairs among {PAIRS} points."
    )
    verdicts = [by_statements(f"WD14 Fig. 8, {what}", says, why) for what, says in said.items()]
    return Report(text, verdicts)


def of_kind(
    samples: list[dict[str, Score]], what: str, draws: int
) -> tuple[list[Table | str], list[Statement], float]:
    """Tables and statements of one kind of constraints, and the best mean ARI."""
    rows, means = [], {}
    for method in METHODS:
        scores = [one[method.name] for one in samples]
        aris = common.column(scores, "ari")
        means[method.name] = common.mean(aris)
        rows.append((method.name, common.spread(aris), sum(a > 0.95 for a in aris),
                     common.spread(common.column(scores, "kept"))))  # fmt: skip
    title = f"WD14 Fig. 8: noisy moons, {PAIRS} {what}, mean (least-most) of {draws} samples"
    headers = ("method", "ARI of the 500 points", f"above 0.95, of {draws}", "pairs kept")
    table = Table(title, headers, rows)
    plain = means["plain cut"]
    best = max((v, name) for name, v in means.items() if v is not None and name != "plain cut")
    says = [
        Statement(
            "the plain cut fails",
            "–" if plain is None else f"mean ARI {plain:.3f}",
            plain is not None and plain < 0.9,
        ),
        Statement(
            "CSP recovers the two moons with 20 constraints (the best setting, ARI ≥ 0.9)",
            ", ".join(f"{n} {v:.3f}" for n, v in means.items() if v is not None),
            best[0] >= 0.9,
        ),
    ]  # fmt: skip
    errors = common.error_lines([item for one in samples for item in one.items()])
    told = reporting.statements(f"WD14 §7.2, noise, {what}", says)
    return [table, told, *errors], says, best[0]
