"""FLI11 Algorithm 1, dense against sparse: does it cost quality to adjust few similarities only?

The paper adjusts all n² similarities by F (eq. 9). `SRCP` adjusts the graph's edges, and adds for
every node at most `new_edges` new ones, where F is largest. The dense side here is written in numpy
and scipy and has nothing of mustlink but its k-means, with the same seed: F from one
eigendecomposition of L̄, eq. 9 on all pairs of distinct nodes, eigenvectors of the dense normalised
Laplacian of W*, rows as in von Luxburg (2007) or of length 1 (ng). `normalize` divides F by its
largest magnitude: over all entries in the dense one, over those that it knows in `SRCP`. The last
column has SRCP's defaults, which choose the shape of F and the rows, against the same dense one.

Graph: 20 neighbours, this package's local scaling, standardised features (Digits: pixels as they
are). Pairs are drawn at random; a draw's larger sets contain its smaller ones.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

from . import common, data
from .fli11_dense import MU, adjusted, clusters, propagated, smoothest
from .reporting import Report, Table, Verdict, by_numbers
from .running import Found, Task

DRAWS = 10
SHARES = (0.25, 0.5, 1.0, 2.0)
NEW_EDGES = (0, 5, 10, 20, 40)
VARIANTS = ("luxburg", "ng")
FREE: dict[str, Any] = {"affinity": "precomputed", "random_state": 0}
GIVEN: dict[str, Any] = {**FREE, "variant": "luxburg", "power": 1.0}
DEFAULT = 20  # new edges a node
ALLOWED = 0.02  # ARI
SETS: dict[str, Callable[[], data.Points | None]] = {
    "Iris": data.iris,
    "Wine": data.wine,
    "WDBC": data.wdbc,
    "Ionosphere": data.ionosphere,
    "Zoo": data.zoo,
    "Digits": data.digits,
}
LARGE = ("Digits",)  # an eigendecomposition takes seconds: only the default number of new edges
DENSE, AUTO = -1, -2  # in place of a number of new edges: all pairs; all of the defaults
COUNTS = (*NEW_EDGES, AUTO)
Key = tuple[str, float, str, bool, int]  # set, share of n, variant, normalize, new edges
Scores = dict[Key, list[float]]


def graph_of(name: str) -> tuple[data.Points, Any]:
    """A set and its graph."""
    import mustlink as ml

    points = SETS[name]()
    assert points is not None
    X = points.X if name in LARGE else points.standardised().X
    return points, ml.knn_graph(X, n_neighbors=20, random_state=0)


def pairs_of(y: Any, draw: int) -> Any:
    """Constraints by share of n, one set of pairs for all."""
    import numpy as np

    n = len(y)
    drawn = common.distinct_pairs(n, round(SHARES[-1] * n), np.random.default_rng(draw))
    return {share: drawn[: round(share * n)] for share in SHARES}


def one_set(name: str, first: int, last: int) -> list[tuple[Key, float]]:
    """ARI of all variants for draws first to last - 1 on one set."""
    import numpy as np
    import scipy.linalg as la
    from sklearn.metrics import adjusted_rand_score

    import mustlink as ml

    points, graph = graph_of(name)
    y, k = points.y, points.k
    W = graph.affinity.toarray().astype(float)
    W /= max(1.0, W.max())
    root = np.sqrt(W.sum(axis=1))
    values, Q = la.eigh(np.eye(len(W)) - W / root[:, None] / root)
    found: list[tuple[Key, float]] = []
    for draw in range(first, last):
        for share, pairs in pairs_of(y, draw).items():
            F = propagated(values, Q, y, pairs)
            known = common.truth_pairs(y, pairs)
            for normalize in (True, False):
                made = {DENSE: smoothest(adjusted(W, F, normalize), k)}
                for count in new_edges(name):
                    given = {**GIVEN, "new_edges": count, "normalize": normalize}
                    est: Any = ml.SRCP(n_clusters=k, mu=MU, **given)
                    made[count] = est.fit(graph, constraints=known).embedding_
                for count, rows in made.items():
                    for variant in VARIANTS:
                        labels = clusters(rows, k, variant)
                        ari = float(adjusted_rand_score(y, labels))
                        found.append(((name, share, variant, normalize, count), ari))
            est = ml.SRCP(n_clusters=k, mu=MU, **FREE).fit(graph, constraints=known)
            ari = float(adjusted_rand_score(y, est.labels_))
            found.append(((name, share, VARIANTS[0], True, AUTO), ari))
    return found


def new_edges(name: str) -> tuple[int, ...]:
    """Numbers of new edges that are tried."""
    return (DEFAULT,) if name in LARGE else NEW_EDGES


def sizes_of() -> dict[str, int]:
    """Points of the sets that are there."""
    return {name: made.y.size for name, make in SETS.items() if (made := make()) is not None}


def tasks(draws: int) -> list[Task]:
    """A draw of a set each."""
    return [
        Task(one_set, (name, draw, draw + 1), (n / 300) ** 2)
        for name, n in sizes_of().items()
        for draw in range(draws)
    ]


def report(draws: int, results: Found) -> Report:
    """The default number of new edges on all sets, then other numbers, then which cells miss."""
    sizes = sizes_of()
    found: Scores = {}
    for _, part in results[one_set]:
        for key, ari in part:
            found.setdefault(key, []).append(ari)
    kinds = [(variant, normalize) for variant in VARIANTS for normalize in (True, False)]
    heads = [f"{v}, {'normalised' if norm else 'F as it is'}" for v, norm in kinds]
    rows: list[tuple[Any, ...]] = [
        (name, round(share * n), *(both(found, name, share, *kind) for kind in kinds))
        for name, n in sizes.items()
        for share in SHARES
    ]
    title = (
        f"Mean ARI, {draws} draws: dense / {DEFAULT} new edges a node / difference ± standard error"
    )
    text: list[Table | str] = [Table(title, ("set", "pairs", *heads), rows)]
    for normalize in (True, False):
        rows = [
            (name, round(share * n), *(cell(found, name, share, normalize, c) for c in COUNTS))
            for name, n in sizes.items()
            for share in SHARES
        ]
        told = "normalised" if normalize else "F as it is"
        title = f"Sparse minus dense by new edges a node, luxburg, {told}, {draws} draws"
        headers = ("set", "pairs", *map(str, NEW_EDGES), "20, defaults")
        text.append(Table(title, headers, rows))
    rows = []
    for (variant, normalize), head in zip(kinds, heads, strict=True):
        for count in COUNTS:
            cells = [(name, share) for name in sizes for share in SHARES
                     if (name, share, variant, normalize, count) in found]  # fmt: skip
            if cells:
                verdict = misses(found, sizes, cells, variant, normalize, count)
                rows.append((head, "20, defaults" if count == AUTO else count, *verdict))
    title = f"Within {ALLOWED} ARI of the dense one: sets and numbers of pairs"
    headers = ("variant", "new edges", "within", "worse by more", "better by more")
    text.append(Table(title, headers, rows))
    text.append("“(noise?)”: beyond the limit by less than two standard errors.")
    return Report(text, [sparse_verdict(found, sizes)])


def sparse_verdict(found: Scores, sizes: dict[str, int]) -> Verdict:
    """The algorithm's own dense side stands for the paper: 20 new edges, rows as in the paper."""
    gaps = {
        key[:2]: gap[0]
        for key in found
        if key[2:] == (VARIANTS[0], False, DENSE)
        and (gap := difference(found, *key[:4], DEFAULT)) is not None
    }
    why = ""
    if gaps:
        name, share = min(gaps, key=lambda cell: gaps[cell])
        series = [difference(found, name, share, VARIANTS[0], False, c) for c in new_edges(name)]
        steps = ", ".join(f"{g[0]:+.3f}" for g in series if g is not None)
        scaled = difference(found, name, share, VARIANTS[0], True, DEFAULT)
        why = (
            f"The worst is {name} with {round(share * sizes[name])} pairs: {steps} with "
            f"{', '.join(map(str, new_edges(name)))} edges a node; 20 with F over its largest "
            f"magnitude {scaled[0] if scaled else 0:+.3f}."
        )
    cells = [
        (statistics.fmean(dense), statistics.fmean(found[*key[:4], DEFAULT]))
        for key, dense in found.items()
        if key[2:] == (VARIANTS[0], False, DENSE)
    ]
    name = "FLI11 Algorithm 1: few new edges for all pairs, F as it is"
    return by_numbers(name, cells, ALLOWED, why, beside="its dense side's")


def difference(
    found: Scores, name: str, share: float, variant: str, normalize: bool, count: int
) -> tuple[float, float] | None:
    """Mean of sparse minus dense over the draws, and its standard error (paired)."""
    sparse = found.get((name, share, variant, normalize, count))
    dense = found.get((name, share, variant, normalize, DENSE))
    if not sparse or not dense:
        return None
    gaps = [a - b for a, b in zip(sparse, dense, strict=True)]
    error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    return statistics.fmean(gaps), error


def both(found: Scores, name: str, share: float, variant: str, normalize: bool) -> str | None:
    """Dense, sparse and difference in one cell."""
    gap = difference(found, name, share, variant, normalize, DEFAULT)
    if gap is None:
        return None
    dense = statistics.fmean(found[name, share, variant, normalize, DENSE])
    return f"{dense:.3f} / {dense + gap[0]:.3f} / {gap[0]:+.3f} ± {gap[1]:.3f}"


def cell(found: Scores, name: str, share: float, normalize: bool, count: int) -> str | None:
    """Difference of one number of new edges."""
    gap = difference(found, name, share, VARIANTS[0], normalize, count)
    return None if gap is None else f"{gap[0]:+.3f} ± {gap[1]:.3f}"


def misses(
    found: Scores,
    sizes: dict[str, int],
    cells: list[tuple[str, float]],
    variant: str,
    normalize: bool,
    count: int,
) -> tuple[str, str, str]:
    """How many cells are within the limit, which are worse and which are better."""
    worse, better = [], []
    for name, share in cells:
        gap = difference(found, name, share, variant, normalize, count)
        assert gap is not None
        if abs(gap[0]) > ALLOWED:
            noise = "" if abs(gap[0]) - ALLOWED > 2 * gap[1] else " (noise?)"
            label = f"{name} {round(share * sizes[name])} {gap[0]:+.3f}{noise}"
            (better if gap[0] > 0 else worse).append(label)
    within = len(cells) - len(worse) - len(better)
    return f"{within} of {len(cells)}", listed(worse), listed(better)


def listed(labels: list[str]) -> str:
    """At most six of them."""
    more = [f"and {len(labels) - 6} more"] if len(labels) > 6 else []
    return ", ".join([*labels[:6], *more]) or "–"
