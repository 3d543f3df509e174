"""Seconds and memory of ten questions and a refit, a million nodes.

python bench/active_million.py [--n 1000000]
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import common


def million(n: int) -> None:
    """Seconds and memory of a fit, ten questions and a refit."""
    import numpy as np

    import mustlink as ml

    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    X = (rng.normal(size=(10, 8))[y] * 2.0 + rng.normal(size=(n, 8))).astype(np.float32)
    graph = ml.knn_graph(X, n_neighbors=15, random_state=0, n_jobs=2)
    given = common.labels_per_class(y, 10, rng)
    rows = []
    for method in ("CSP", "Poisson"):
        options: dict[str, Any] = {"n_clusters": 10} if method == "CSP" else {}
        est = getattr(ml, method)(affinity="precomputed", random_state=0, n_jobs=2, **options)
        fit = common.cpu_timed(est.fit, graph, given)
        for kind in ("labels", "pairs") if method == "CSP" else ("labels",):
            first = common.cpu_timed(lambda kind=kind, est=est: ml.next_queries(est, 10, kind))
            again = common.cpu_timed(lambda kind=kind, est=est: ml.next_queries(est, 10, kind))
            rows.append([method, f"ten {kind}", *first[1:], *again[1:]])
        new = given.copy()
        new[ml.next_queries(est, 10)] = 0
        rows.append([method, "refit", *common.cpu_timed(est.refit, new)[1:],
                     *common.cpu_timed(est.refit, given)[1:]])  # fmt: skip
        rows.append([method, "fit", *fit[1:], "", ""])
    heads = ["method", "what", "first: seconds", "CPU", "again: seconds", "CPU"]
    peak = common.gigabytes(common.own_peak_bytes())
    common.table(f"{n:,} nodes, two threads, peak {peak}", heads, rows)


def main() -> int:
    parser = common.parser(__doc__ or "")
    parser.add_argument("--n", type=int, default=1_000_000)
    warnings.simplefilter("ignore")
    million(parser.parse_args().n)
    return 0


if __name__ == "__main__":
    sys.exit(main())
