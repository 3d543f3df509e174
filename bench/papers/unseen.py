"""Two sets that chose nothing: the defaults of today against the rules of the papers

Seeds (210 kernels of wheat, 7 features, 3 varieties) and Sonar (208 echoes, 60 features, rock or
mine), both of UCI, had no part in choosing any rule, width, grid or default. They are `uci/seeds`
and `uci/sonar` of the data folder (keys X, y, complete); without them this section is empty.

Every method has the same standardised points and the same knowledge: the classes of 5, 10 or 20 %
of the points as all their pairs (as labels for propagators), or n/2 or 2n random pairs. "Papers" is
the rule of the method's paper on the paper's kind of graph, a Gaussian kernel with σ² = number of
features; "ours, same graph" has this package's defaults on that graph, and "ours" all of its
defaults, the neighbour graph with them. Scores are ARI over all points. A difference counts if it
is beyond two standard errors of the paired draws.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from . import common, data, methods
from .methods import Method, Score
from .reporting import Report, Table, Verdict
from .running import Found, Task

DRAWS = 5
SETS: dict[str, Callable[[], data.Points | None]] = {"Seeds": data.seeds, "Sonar": data.sonar}
LABELS = tuple(f"{percent} % labels" for percent in (5, 10, 20))
PAIRS = ("n/2 pairs", "2n pairs")
GIVEN = (*LABELS, *PAIRS)
WAYS = ("papers", "ours, same graph", "ours")
# ours: how the paper has it, for two classes and for more
CLUSTERERS: dict[str, tuple[Method, Method]] = {
    "CSP": (methods.CSP_TIGHT, methods.FCSC_SP),
    "SSSC": (methods.SSSC, methods.SSSC),
    "SpectralLearning": (methods.SL, methods.SL),
    "SSKK": (methods.SSKK_2005, methods.SSKK_2005),
    "ConstrainedAP": (methods.AP_AFFINITY, methods.AP_AFFINITY),
    "SRCP": (methods.SRCP_PRINTED, methods.SRCP_PRINTED),
}
PROPAGATORS: dict[str, dict[str, Any]] = {
    "GFHF": {"class_mass": False},
    "LLGC": {"alpha": 0.5, "class_mass": False},
    "CSCGFHF": {"class_mass": False},
}
Key = tuple[str, str, str, str]  # set, given, method, way


def known_of(y: Any, given: str, draw: int) -> Any:
    """Labels (n,) with -1 for unknown ones, or constraints; every class is among the labels."""
    import numpy as np

    n = y.size
    if given in PAIRS:
        count = n // 2 if given == PAIRS[0] else 2 * n
        return common.truth_pairs(y, common.distinct_pairs(n, count, np.random.default_rng(draw)))
    for attempt in range(10_000):
        order = np.random.default_rng([draw, attempt]).permutation(n)
        labels = common.known_labels(y, float(given.split(maxsplit=1)[0]), order)
        if np.unique(labels).size == np.unique(y).size + 1:
            return labels
    raise AssertionError("no labels of all classes in 10,000 draws")


def graphs_of(points: data.Points) -> dict[str, Any]:
    """The graph of every way."""
    import mustlink as ml

    X = points.standardised().X
    wide = ml.rbf_graph(X, sigma=X.shape[1] ** 0.5)
    return {WAYS[0]: wide, WAYS[1]: wide, WAYS[2]: ml.knn_graph(X, random_state=0)}


def one_draw(name: str, given: str, draw: int) -> list[tuple[Key, Score]]:
    """All methods in all ways with one draw of knowledge."""
    import numpy as np

    points = SETS[name]()
    assert points is not None
    k, y = points.k, points.y
    known = known_of(y, given, draw)
    labels = known if isinstance(known, np.ndarray) else None
    constraints = known if labels is None else common.all_pairs(labels)
    found: list[tuple[Key, Score]] = []
    for way, graph in graphs_of(points).items():
        for method, (two, more) in CLUSTERERS.items():
            printed = two if k == 2 else more
            tried = printed if way == WAYS[0] else Method(method, method)
            score = methods.measured(tried, graph, k, y, constraints)
            found.append(((name, given, method, way), score))
        for method, options in PROPAGATORS.items() if labels is not None else ():
            tried = Method(method, method, options if way == WAYS[0] else {})
            found.append(((name, given, method, way), propagated(tried, graph, k, y, labels)))
    return found


def propagated(method: Method, graph: Any, k: int, y: Any, labels: Any) -> Score:
    """ARI of labels spread over the graph."""
    import mustlink as ml

    given = {"affinity": "precomputed", "random_state": 0, **method.options}
    more = {"n_clusters": k} if method.estimator == "CSCGFHF" else {}
    est = getattr(ml, method.estimator)(**given, **more).fit(graph, labels)
    return methods.score(graph, est.labels_, y)


def tasks(draws: int) -> list[Task]:
    """A set, what is given, a draw each."""
    there = [name for name, make in SETS.items() if make() is not None]
    return [
        Task(one_draw, (name, given, draw), 10.0)
        for name in there
        for given in GIVEN
        for draw in range(draws)
    ]


def report(draws: int, results: Found) -> Report:
    """Mean ARI of every way, and where the defaults are better or worse."""
    scores: dict[Key, list[Score]] = {}
    for _, part in results[one_draw]:
        for key, score in part:
            scores.setdefault(key, []).append(score)
    if not scores:
        return Report()
    sets = list(dict.fromkeys(key[0] for key in scores))
    text: list[Table | str] = []
    verdicts = []
    for name in sets:
        title = f"{name}: ARI, papers' rules / our defaults, same graph / our defaults"
        rows = [
            (method, *(cell(scores, name, given, method) for given in GIVEN))
            for method in (*CLUSTERERS, *PROPAGATORS)
        ]
        text.append(Table(title, ("method", *GIVEN), rows))
        for way in WAYS[1:]:
            verdicts.append(verdict(scores, name, way))
    flat = [(f"{key[0]}, {key[2]}, {key[3]}", s) for key, all_ in scores.items() for s in all_]
    return Report([*text, *common.error_lines(flat)], verdicts)


def cell(scores: dict[Key, list[Score]], name: str, given: str, method: str) -> str | None:
    """Three means; a dash where a way has no result at all."""
    means = [common.mean(common.column(scores.get((name, given, method, way), []), "ari"))
             for way in WAYS]  # fmt: skip
    if all(mean is None for mean in means):
        return None
    return " / ".join("–" if mean is None else f"{mean:.3f}" for mean in means)


def gains(scores: dict[Key, list[Score]], name: str, way: str) -> list[tuple[str, float, float]]:
    """Cell, mean gain over the paper's rule and its standard error; a fit that failed has ARI 0."""
    found = []
    for given in GIVEN:
        for method in (*CLUSTERERS, *PROPAGATORS):
            before = scores.get((name, given, method, WAYS[0]), [])
            after = scores.get((name, given, method, way), [])
            each = [b.get("ari", 0.0) - a.get("ari", 0.0)
                    for a, b in zip(before, after, strict=True)]  # fmt: skip
            if each:
                error = statistics.stdev(each) / len(each) ** 0.5 if len(each) > 1 else 0.0
                found.append((f"{method}, {given}", statistics.fmean(each), error))
    return found


def verdict(scores: dict[Key, list[Score]], name: str, way: str) -> Verdict:
    """How many cells are better, equal and worse than the papers' rules, and the worst."""
    found = gains(scores, name, way)
    better = [one for one in found if one[1] > 2 * one[2] and one[1] > 0]
    worse = sorted((one for one in found if one[1] < -2 * one[2]), key=lambda one: one[1])
    told = (
        f"{len(better)} of {len(found)} cells better than the papers' rules, {len(worse)} worse, "
        f"mean gain of ARI {statistics.fmean(one[1] for one in found):+.3f}"
    )
    if worse:
        told += "; worst: " + ", ".join(f"{what} {gain:+.3f}" for what, gain, _ in worse[:3])
    kind = "better" if len(better) > len(worse) else "worse" if worse else "the same"
    return Verdict(f"defaults on {name}, {way.removeprefix('ours, ') if ',' in way else 'all'}",
                   kind, told)  # fmt: skip
