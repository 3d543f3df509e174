"""How many smooth vectors: ARI by dimension p and number of constraints, on six data sets.

    python bench/subspace.py [--draws 3] [--data optdigits usps …] [--methods CSP SSSC]

For every data set and amount of side information: the best fixed p (in hindsight), what
`subspace="auto"` takes and gets, and what a fixed rule would get; β and γ are chosen by the fit.
From this table `auto` has its sizes to try, K to 12K, and its rule where nothing can be held out.
Needs the data folder.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import common

FACTORS = (1, 2, 4, 8, 12)
METHODS = ("CSP", "SSSC")
AMOUNTS = (
    ("labels", 1),
    ("labels", 5),
    ("labels", 20),
    ("pairs", 10),
    ("pairs", 50),
    ("pairs", 250),
)
POINTS = ("optdigits", "usps", "letter", "mnist")
GRAPHS = ("amazon_photo", "coauthor_phy")
SAMPLE = 20_000


def load(name: str) -> tuple[Any, Any] | None:
    """Graph and classes; at most 20,000 points of a set."""
    import numpy as np
    import scipy.sparse as sp

    import mustlink as ml

    folder = "graphs" if name in GRAPHS else "points" if name == "mnist" else "uci"
    path = common.data_file(f"{folder}/{name}.npz")
    if path is None:
        return None
    with np.load(path, allow_pickle=False) as f:
        y = f["y"].astype(np.int64)
        if folder == "graphs":
            W = sp.csr_matrix((f["data"], f["indices"], f["indptr"]), shape=tuple(f["shape"]))
            W = W.maximum(W.T)
            return ml.Graph.from_affinity(W), y
        X = np.asarray(f["X"], dtype=np.float32)
    some = np.random.default_rng(0).permutation(len(y))[:SAMPLE]
    return ml.knn_graph(X[some], random_state=0), y[some]


def given(y: Any, kind: str, each: int, rng: Any) -> Any:
    """`each` labels a class, or `each` pairs a class."""
    import numpy as np

    import mustlink as ml

    known = np.flatnonzero(y >= 0)
    k = int(y.max()) + 1
    if kind == "labels":
        return ml.Constraints.from_labels(common.labels_per_class(y, each, rng))
    pairs, belief = common.random_pairs(y[known], each * k, rng)
    return ml.Constraints.from_pairs(known[pairs], belief=belief, n_nodes=len(y))


def study(name: str, methods: list[str], draws: int, out: Path) -> None:
    import numpy as np
    from sklearn.metrics import adjusted_rand_score

    import mustlink as ml

    loaded = load(name)
    if loaded is None:
        return
    graph, y = loaded
    k = int(y.max()) + 1
    known = y >= 0
    base = {"affinity": "precomputed", "random_state": 0}
    plain = adjusted_rand_score(y[known], ml.NCut(k, **base).fit(graph).labels_[known])
    rows, records = [], []
    for method in methods:
        for kind, each in AMOUNTS:
            scores: dict[str, list[float]] = {}
            taken = []
            for draw in range(draws):
                c = given(y, kind, each, np.random.default_rng(draw))
                for factor in (*FACTORS, 0):
                    sub = factor * k if factor else "auto"
                    est = getattr(ml, method)(k, subspace=sub, **base)
                    est.fit(graph, constraints=c)
                    ari = adjusted_rand_score(y[known], est.labels_[known])
                    scores.setdefault(f"{factor}K" if factor else "auto", []).append(ari)
                    if not factor:
                        taken.append(est.report_.choices["subspace"])
            means = {column: statistics.mean(found) for column, found in scores.items()}
            best = max(v for column, v in means.items() if column != "auto")
            rows.append(
                (method, f"{each} {kind}/class", *(f"{v:.3f}" for v in means.values()),
                 f"{means['auto'] - best:+.3f}", f"{means['auto'] - means['4K']:+.3f}",
                 " ".join(str(t) for t in taken))
            )  # fmt: skip
            records.append({"method": method, "kind": kind, "each": each, "ari": scores,
                            "taken": taken})  # fmt: skip
    common.table(
        f"{name}: {len(y):,} nodes, K = {k}, NCut {plain:.3f}, {draws} draws",
        ("method", "known", *(f"p = {f}K" for f in FACTORS), "auto", "auto − best p", "auto − 4K",
         "p taken"),
        rows,
    )  # fmt: skip
    common.write_json(out, f"subspace-{name}", {"ncut": plain, "rows": records})


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--data", nargs="*", default=[*POINTS, *GRAPHS])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    asked = parser.parse_args()
    for name in asked.data:
        common.say(name)
        study(name, asked.methods, asked.draws, asked.out)


if __name__ == "__main__":
    main()
