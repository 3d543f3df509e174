"""Sparse rows and any distance, beside what else takes them.

    python bench/any_rows.py                        20 Newsgroups: NCut, and 5 and 20 labels a class
    python bench/any_rows.py --distances            ten distances beside all pairs and pynndescent
    python bench/any_rows.py --large --n 1000000    made sparse rows beside pynndescent alone

Texts are the tf-idf matrix of `text/20news_bydate.npz` of the data folder, rows without a word left
out. Peers that are not installed are left out with a line.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import fits
import peers
import render
import runner

SETTINGS = (0, 5, 20)  # labels a class
K = 15
DISTANCES = {
    "dense": ("manhattan", "chebyshev", "minkowski:3", "canberra", "braycurtis", "correlation",
              "hellinger", "haversine"),
    "sparse": ("cosine", "euclidean", "hellinger", "jaccard"),
}  # fmt: skip
TITLES = ["distance", "search", "recall", "edges", "s", "CPU s", "pynndescent", "s", "CPU s"]


def texts(name: str = "20news_bydate") -> tuple[Any, Any]:
    """tf-idf rows (n, words), CSR, and classes."""
    import numpy as np
    import scipy.sparse as sp

    path = runner.data_file(f"text/{name}.npz")
    if path is None:
        raise SystemExit(f"text/{name}.npz is not in the data folder")
    with np.load(path) as file:
        parts = file["data"], file["indices"], file["indptr"]
        X, y = sp.csr_matrix(parts, shape=tuple(file["shape"]), dtype=np.float32), file["y"]
    some = np.diff(X.indptr) > 0
    return X[some], y[some]


def made(n: int, words: int = 50_000, each: int = 60, topics: int = 20) -> Any:
    """Rows of `each` words of a topic's own distribution over a common one, tf-idf, CSR."""
    import numpy as np
    import scipy.sparse as sp
    from sklearn.feature_extraction.text import TfidfTransformer

    rng = np.random.default_rng(0)
    usual = 1.0 / np.arange(1, words + 1) ** 0.9
    order = [rng.permutation(words) for _ in range(topics)]
    ends = np.cumsum(usual / usual.sum())
    drawn = np.minimum(np.searchsorted(ends, rng.random((n, each))), words - 1).astype(np.int32)
    topic = rng.integers(topics, size=n)
    own = rng.random((n, each)) < 0.6
    for t in range(topics):
        mine = (topic == t)[:, None] & own
        drawn[mine] = order[t][drawn[mine]]
    counts = sp.csr_matrix(
        (np.ones(drawn.size, np.float32), drawn.ravel(), np.arange(0, drawn.size + 1, each)),
        shape=(n, words),
    )
    counts.sum_duplicates()
    return sp.csr_matrix(TfidfTransformer(sublinear_tf=True).fit_transform(counts))


def _logistic(X: Any, y: Any, k: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000).fit(X[y >= 0], y[y >= 0]).predict(X)


def _ours(name: str) -> Any:
    import mustlink as ml

    def fit(X: Any, y: Any, k: int) -> Any:
        est = getattr(ml, name)
        if name == "NCut":
            return est(k, random_state=0).fit(X).labels_
        return est(random_state=0).fit(X, y).labels_

    return fit


def _graphlearning(X: Any, y: Any, k: int) -> Any:
    import mustlink as ml

    return peers.graphlearning(ml.knn_graph(X, K).affinity, y, "poisson")


WAYS: dict[str, tuple[Any, bool]] = {  # how, and whether it takes labels
    "NCut": (_ours("NCut"), False),
    "scikit-learn SpectralClustering": (lambda X, y, k: peers.spectral(X, k), False),
    **{name: (_ours(name), True) for name in ("LLGC", "GFHF", "Poisson", "Auto", "CSP")},
    "logistic regression": (_logistic, True),
    "LabelSpreading": (lambda X, y, k: peers.spreading_points(X, y), True),
    "graphlearning Poisson": (_graphlearning, True),
}


def labelled(y: Any, each: int, seed: int) -> Any:
    """Labels of so many rows a class, -1 for the others."""
    import numpy as np

    rng, known = np.random.default_rng(seed), np.full(y.size, -1)
    for c in np.unique(y):
        known[rng.choice(np.flatnonzero(y == c), each, replace=False)] = c
    return known


def attempt(way: str, each: int, seed: int) -> dict[str, Any]:
    """ARI over rows without a given label, and seconds; in a process of its own."""
    import numpy as np

    X, y = texts()
    known = labelled(y, each, seed) if each else np.full(y.size, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found, seconds, cpu = runner.cpu_timed(WAYS[way][0], X, known, int(y.max()) + 1)
        except Exception as error:
            return {"error": str(error).split("\n")[0][:100]}
    judged = known < 0
    right = float(np.mean(np.asarray(found)[judged] == y[judged]))
    return {"ari": fits.ari(y[judged], np.asarray(found)[judged]), "right": right,
            "seconds": seconds, "cpu_seconds": cpu}  # fmt: skip


def exact_distances(X: Any, some: Any, metric: str) -> Any:
    """Distances from some rows to all, or what grows with them, by scipy; infinite to itself."""
    import numpy as np
    import scipy.sparse as sp
    from scipy.spatial.distance import cdist

    Z: Any = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    name, _, power = metric.partition(":")
    if name == "hellinger":
        name, Z = "euclidean", np.sqrt(Z / Z.sum(axis=1, keepdims=True))
    if name == "haversine":
        a, b = np.radians(Z).T
        name = "euclidean"
        Z = np.column_stack([np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)])
    Z = Z > 0 if name == "jaccard" else Z
    how = {"p": float(power)} if power else {}
    D = cdist(Z[some], Z, {"manhattan": "cityblock"}.get(name, name), **how)
    D[np.arange(some.size), some] = np.inf
    return D


def share_found(there: Any, D: Any) -> float:
    """Share of the K nearest by distances D (s, n) that are `there` (s, n), ties counted."""
    import numpy as np

    last = np.partition(D, K - 1, axis=1)[:, K - 1, None]
    return float(np.minimum((there & (last * (1 + 1e-5) >= D)).sum(axis=1), K).mean() / K)


def distances(n: int, only: list[str]) -> list[list[Any]]:
    """Ours beside pynndescent alone: how it searched, recall and CPU seconds.

    Ours says its recall on a sample; `edges` is the share of the true neighbours of 300 rows that
    are edges of its graph, and pynndescent's recall is of its lists for the same rows.
    """
    import numpy as np
    from pynndescent import NNDescent

    import mustlink as ml

    rng = np.random.default_rng(0)
    dense = rng.random((n, 16)).astype(np.float32)
    places = np.column_stack([rng.uniform(-60, 60, n), rng.uniform(-180, 180, n)])
    some = np.sort(rng.choice(n, min(n, 300), replace=False))
    rows = []
    for kind, names in DISTANCES.items():
        for name in names:
            if not any(word in f"{name} ({kind})" for word in only):
                continue
            X = made(n, 5000) if kind == "sparse" else places if name == "haversine" else dense
            search = partial(ml.knn_graph, X, K, metric=name, random_state=0)
            graph, seconds, cpu = runner.cpu_timed(search)
            D, info = exact_distances(X, some, name), graph.info
            edges = share_found(graph.affinity[some].toarray() > 0, D)
            row = [f"{name} ({kind})", info["method"], info["recall"], edges, seconds, cpu]
            metric, _, power = name.partition(":")
            how: dict[str, Any] = {"metric_kwds": {"p": float(power)}} if power else {}
            Y = np.radians(X).astype(np.float32) if name == "haversine" else X
            alone = partial(NNDescent, Y, metric, n_neighbors=K + 1, random_state=0, **how)
            found, seconds, cpu = runner.cpu_timed(lambda alone=alone: alone().neighbor_graph)
            there = np.zeros(D.shape, dtype=bool)
            np.put_along_axis(there, np.maximum(found[0][some], 0), True, axis=1)
            rows.append([*row, share_found(there, D), seconds, cpu])
            runner.say(str(rows[-1]))
    return rows


def large(n: int, way: str) -> dict[str, Any]:
    """Lists of made rows: seconds, recall on 200 rows, peak bytes of a process."""
    import numpy as np

    import mustlink as ml

    X = made(n)
    before = runner.own_peak_bytes()
    if way == "ours":
        graph, seconds, cpu = runner.cpu_timed(partial(ml.knn_graph, X, K, random_state=0))
        return {"seconds": seconds, "cpu_seconds": cpu, "recall": graph.info["recall"],
                "made": before, "peak": runner.own_peak_bytes()}  # fmt: skip
    from pynndescent import NNDescent

    found, seconds, cpu = runner.cpu_timed(
        lambda: NNDescent(X, metric="cosine", n_neighbors=K + 1, random_state=0).neighbor_graph
    )
    peak = runner.own_peak_bytes()
    some = np.random.default_rng(1).choice(n, min(n, 200), replace=False)
    products = (X[some] @ X.T).tolil()
    right = []
    for i, row in zip(some, products, strict=True):
        dense = row.toarray().ravel()
        dense[i] = -1
        least = np.sort(dense)[-K] - 1e-5
        right.append(np.mean([dense[j] >= least for j in found[0][i] if j != i][:K]))
    return {"seconds": seconds, "cpu_seconds": cpu, "recall": float(np.mean(right)),
            "made": before, "peak": peak}  # fmt: skip


def main() -> None:
    given = runner.options(__doc__, n=0, draws=5, distances=False, large=False, only=[""])
    if given.distances:
        rows = distances(given.n or 2000, given.only)
        render.table("Distances", TITLES, rows)
        figures: dict[str, Any] = {"distances": rows}
    elif given.large:
        n = given.n or 1_000_000
        both = ("ours", "pynndescent")
        figures = {way: runner.call("any_rows:large", n=n, way=way) for way in both}
        render.records(f"{n} made rows", figures)
    else:
        figures = {}
        for name, (_, takes) in WAYS.items():
            if not any(word in name for word in given.only):
                continue
            for each in [one for one in SETTINGS if bool(one) == takes]:
                draws = [attempt(name, each, seed) for seed in range(given.draws if takes else 1)]
                bad = [one for one in draws if "error" in one]
                means = {key: sum(one.get(key, 0) for one in draws) / len(draws)
                         for key in ("ari", "right", "seconds", "cpu_seconds")}  # fmt: skip
                means = bad[0] if bad else means
                figures[f"{name}, {each} labels"] = means
                runner.say(f"{name}, {each} labels: {means}")
        render.records("20 Newsgroups", figures)
    if given.record:
        name = "distances" if given.distances else "large" if given.large else "texts"
        runner.record(f"any_rows_{name}", figures)


if __name__ == "__main__":
    main()
