"""MNIST and optdigits with random pairs: SRCP and E2CP beside CSP and SSSC.

    python bench/mnist_pairs.py [--draws 3] [--only SRCP CSP] [--data mnist] [--out FOLDER]

All fits of a data set share one process and one Graph. Needs the data folder.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import common
import mnist

METHODS = ("NCut", "SRCP", "E2CP", "CSP", "SSSC")
PAIRS = (500, 2_000, 10_000)
DATA = ("optdigits", "mnist")


def optdigits() -> tuple[Any, Any] | None:
    """Graph and classes of the 5,620 digits, 64 features."""
    import numpy as np

    import mustlink as ml

    path = common.data_file("uci/optdigits.npz")
    if path is None:
        return None
    with np.load(path, allow_pickle=False) as archive:
        X, y = archive["X"].astype(np.float64), archive["y"]
    return ml.knn_graph(X, 20, random_state=0), np.asarray(y, dtype=np.int64)


def all_mnist(out: Path) -> tuple[Any, Any] | None:
    """Graph and classes of the 70,000 images."""
    import mustlink as ml
    from mustlink_io import formats

    files = mnist.prepared(out, None)
    if files is None:
        return None
    graph = ml.Graph.from_affinity(formats.load(str(files[1]), "graph").value)
    return graph, formats.load_labels(f"{files[0]}:/labels")


def compare(graph: Any, y: Any, asked: argparse.Namespace) -> dict[str, Any]:
    """ARI and seconds of every method, mean over draws."""
    import numpy as np
    from sklearn.metrics import adjusted_rand_score

    import mustlink as ml

    found: dict[str, Any] = {}
    for amount in asked.pairs:
        for method in asked.only:
            scores, seconds = [], []
            for draw in range(asked.draws):
                rng = np.random.default_rng(draw)
                pairs, belief = common.random_pairs(y, amount, rng)
                known = ml.Constraints.from_pairs(pairs, belief=belief, n_nodes=len(y))
                est = getattr(ml, method)(10, affinity="precomputed", random_state=0)
                _, time = common.timed(est.fit, graph, constraints=known)
                scores.append(float(adjusted_rand_score(y, est.labels_)))
                seconds.append(time)
            mean = statistics.mean(scores), statistics.mean(seconds)
            found.setdefault(method, {})[f"{amount:,}"] = mean
            common.say(f"{method}, {amount:,} pairs: ARI {mean[0]:.3f}, {mean[1]:.1f} s")
    return found


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--data", nargs="*", choices=DATA, default=list(DATA))
    parser.add_argument("--pairs", nargs="*", type=int, default=list(PAIRS))
    asked = parser.parse_args()
    both: dict[str, Any] = {}
    for name in asked.data:
        loaded = optdigits() if name == "optdigits" else all_mnist(asked.out)
        if loaded is None:
            common.say(f"{name}: skipped, its data is not in the data folder")
            continue
        found = compare(*loaded, asked)
        columns = [f"{amount:,}" for amount in asked.pairs]
        rows = [
            (m, *(f"{one[c][0]:.3f} ({one[c][1]:.0f} s)" for c in columns))
            for m, one in found.items()
        ]
        title = f"{name}, {len(loaded[1]):,}: ARI (seconds), {asked.draws} draws"
        common.table(title, ("method", *(f"{c} pairs" for c in columns)), rows)
        common.write_json(asked.out, f"{name}-pairs", found)
        both[name] = found
    if tuple(both) == DATA:
        rows, seconds = {}, {}
        for method in asked.only:
            means = [list(both[name][method].values()) for name in DATA]
            rows[method] = [ari for one in means for ari, _ in one]
            if method != "NCut":
                seconds[method] = [one[-1][1] for one in means]
        common.record("mnist_pairs", {"rows": rows, "seconds": seconds})


if __name__ == "__main__":
    main()
