"""WD14 Fig. 8: 500 points on two moons among 100 of uniform noise, 20 pairs.

Noise, affinity and which nodes the pairs touch are not in the paper: moons with noise 0.1, a
Gaussian kernel of width 0.2, pairs between points of the moons. ARI is over the 500 points of the
moons; where the noise belongs nobody knows.
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


def one_sample(sample: int) -> dict[str, Score]:
    """Scores of all methods on one sample with its own 20 pairs."""
    import numpy as np

    import mustlink as ml

    X, y = data.moons(N, NOISE, sample, BACKGROUND)
    graph = ml.rbf_graph(X, sigma=WIDTH)
    pairs = common.distinct_pairs(N, PAIRS, np.random.default_rng([sample, PAIRS]))
    constraints = common.truth_pairs(y, pairs)
    found: dict[str, Score] = {}
    for method in METHODS:
        labels, about = methods.fitted(method, graph, 2, constraints)
        if labels is not None:
            about |= methods.score(graph, labels, y, constraints)
            about["ari"] = methods.score(ml.rbf_graph(X[:N], sigma=WIDTH), labels[:N], y[:N])["ari"]
        found[method.name] = about
    return found


def tasks(draws: int) -> list[Task]:
    """A sample each."""
    return [Task(one_sample, (sample,), 10.0) for sample in range(draws)]


def report(draws: int, found: Found) -> Report:
    """Mean over samples."""
    samples = [result for _, result in found[one_sample]]
    rows, means = [], {}
    for method in METHODS:
        scores = [one[method.name] for one in samples]
        aris = common.column(scores, "ari")
        means[method.name] = common.mean(aris)
        rows.append((method.name, common.spread(aris), sum(a > 0.95 for a in aris),
                     common.spread(common.column(scores, "kept"))))  # fmt: skip
    title = f"WD14 Fig. 8: noisy moons, {PAIRS} pairs, mean (least-most) of {draws} samples"
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
            "CSP recovers the two moons with 20 pairs (the best setting, ARI ≥ 0.9)",
            ", ".join(f"{n} {v:.3f}" for n, v in means.items() if v is not None),
            best[0] >= 0.9,
        ),
    ]  # fmt: skip
    errors = common.error_lines([item for one in samples for item in one.items()])
    text = [table, reporting.statements("WD14 §7.2, noise", says), *errors]
    return Report(text, [by_statements("WD14 Fig. 8", says)])
