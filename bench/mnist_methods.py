"""MNIST, 70,000 raw images: every constrained method with its defaults, labels and pairs.

    python bench/mnist_methods.py [--draws 3] [--only CSP SSSC] [--out FOLDER]

All fits share one process and one Graph, so that the smoothest eigenvectors are computed once; the
first method pays for them. Needs the data folder.
"""

from __future__ import annotations

import statistics
from typing import Any

import common
import mnist

METHODS = ("CSP", "SSSC", "SpectralLearning", "ConstrainedAP", "FastGE", "SSKK")
SETTINGS = (("labels", 1), ("labels", 5), ("labels", 20), ("pairs", 300), ("pairs", 5_000))


def compare(points: str, graph: str, methods: list[str], draws: int) -> dict[str, Any]:
    """ARI and seconds of every method, mean over draws."""
    import numpy as np
    from sklearn.metrics import adjusted_rand_score

    import mustlink as ml
    from mustlink_io import formats

    y = formats.load_labels(f"{points}:/labels")
    shared = ml.Graph.from_affinity(formats.load(graph, "graph").value)
    found: dict[str, Any] = {}
    for kind, amount in SETTINGS:
        for method in methods:
            scores, seconds = [], []
            for draw in range(draws):
                rng = np.random.default_rng(draw)
                if kind == "labels":
                    known = ml.Constraints.from_labels(common.labels_per_class(y, amount, rng))
                else:
                    pairs, belief = common.random_pairs(y, amount, rng)
                    known = ml.Constraints.from_pairs(pairs, belief=belief, n_nodes=len(y))
                est = getattr(ml, method)(10, affinity="precomputed", random_state=0)
                _, time = common.timed(est.fit, shared, constraints=known)
                scores.append(float(adjusted_rand_score(y, est.labels_)))
                seconds.append(time)
            mean = statistics.mean(scores), statistics.mean(seconds)
            found.setdefault(method, {})[f"{amount} {kind}"] = mean
            common.say(f"{method}, {amount} {kind}: ARI {mean[0]:.3f}, {mean[1]:.1f} s")
    return found


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=METHODS, default=list(METHODS))
    asked = parser.parse_args()
    files = mnist.prepared(asked.out, None)
    if files is None:
        return
    found = compare(str(files[0]), str(files[1]), asked.only, asked.draws)
    columns = [f"{amount} {kind}" for kind, amount in SETTINGS]
    rows = [
        (m, *(f"{one[c][0]:.3f} ({one[c][1]:.0f} s)" for c in columns)) for m, one in found.items()
    ]
    common.table(f"MNIST, ARI (seconds), {asked.draws} draws", ("method", *columns), rows)
    common.write_json(asked.out, "mnist-methods", found)
    figures = {m: [one[c][0] for c in columns] for m, one in found.items() if m != "NCut"}
    heads = [c.replace("labels", "labels a class").replace("1 labels", "1 label") for c in columns]
    common.record("mnist_methods", {"columns": heads, "rows": figures})


if __name__ == "__main__":
    main()
