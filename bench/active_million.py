"""Seconds and memory of ten questions and a refit, a million nodes.

python bench/active_million.py [--n 1000000] [--threads 2]
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import Any

import common


def million(n: int, threads: int) -> None:
    """Seconds and memory of a fit, ten questions and a refit: wall and CPU, first and again."""
    import numpy as np

    import mustlink as ml

    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    X = (rng.normal(size=(10, 8))[y] * 2.0 + rng.normal(size=(n, 8))).astype(np.float32)
    graph = ml.knn_graph(X, n_neighbors=15, random_state=0, n_jobs=threads)
    given = common.labels_per_class(y, 10, rng)
    figures: dict[str, Any] = {}
    for method in ("CSP", "Poisson"):
        options: dict[str, Any] = {"n_clusters": 10} if method == "CSP" else {}
        est = getattr(ml, method)(affinity="precomputed", random_state=0, n_jobs=threads, **options)
        found = figures[method] = {"fit": common.cpu_timed(est.fit, graph, given)[1:]}
        for kind in ("labels", "pairs") if method == "CSP" else ("labels",):
            ask = partial(ml.next_queries, est, 10, kind)
            found[kind] = [*common.cpu_timed(ask)[1:], *common.cpu_timed(ask)[1:]]
        answered = given.copy()
        asked = ml.next_queries(est, 10)
        answered[asked] = y[asked]
        found["refit"] = [
            *common.cpu_timed(est.refit, answered)[1:], *common.cpu_timed(est.refit, given)[1:]
        ]  # fmt: skip
    peak = common.own_peak_bytes()
    heads = ["method", "what", "first: seconds", "CPU", "again: seconds", "CPU"]
    rows = [
        [method, what, *seconds, *[""] * (4 - len(seconds))]
        for method, found in figures.items() for what, seconds in found.items()
    ]  # fmt: skip
    common.table(f"{n:,} nodes, {threads} threads, peak {common.gigabytes(peak)}", heads, rows)
    common.record("asked_million", {"n": n, "threads": threads, "peak_gb": peak / 1e9, **figures})


def main() -> int:
    parser = common.parser(__doc__ or "")
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=2)
    warnings.simplefilter("ignore")
    given = parser.parse_args()
    million(given.n, given.threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
