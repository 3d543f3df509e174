"""MNIST, 70,000 raw images, 1 to 5 labels per class: label propagation beside its peers.

    python bench/mnist_propagate.py [--draws 10] [--only GFHF Poisson] [--out FOLDER]

All methods get the same neighbour graph and the same labels. Peers: `graphlearning` (Laplace and
Poisson learning), left out with a word where it is not installed, and scikit-learn's
LabelSpreading, which is handed the graph as its kernel. Every method runs in a process of its own,
so that its peak memory is its own. Needs the data folder.
"""

from __future__ import annotations

import importlib.util
import statistics
from typing import Any

import common
import mnist

RATES = (1, 2, 3, 4, 5)
# Name, estimator, options, whether it looks at the images.
OURS: tuple[tuple[str, str, dict[str, Any], bool], ...] = (
    ("CSC+GFHF", "CSCGFHF", {}, False),
    ("GFHF", "GFHF", {}, False),
    ("GFHF, class mass", "GFHF", {"class_mass": "equal"}, False),
    ("LLGC(0.99)", "LLGC", {}, False),
    ("LLGC(0.99), class mass", "LLGC", {"class_mass": "equal"}, False),
    ("TikReg", "TikReg", {}, False),
    ("NCutPropagation", "NCutPropagation", {}, False),
    ("GreenFunction", "GreenFunction", {}, False),
    ("Poisson", "Poisson", {}, False),
    ("LELPC", "LELP", {"orthogonal": True}, False),
    ("GWEM", "GWEM", {}, False),
    ("ClusterKernel", "ClusterKernel", {}, False),
    ("LNP", "LNP", {}, True),
    ("LLELP", "LLELP", {}, True),
    ("LTSALP", "LTSALP", {}, True),
)
PEERS = (
    ("graphlearning Laplace", "laplace"),
    ("graphlearning Poisson", "poisson"),
    ("scikit-learn LabelSpreading(0.2)", "spreading 0.2"),
    ("scikit-learn LabelSpreading(0.99)", "spreading 0.99"),
)

TOLD = {  # what docs/methods.md shows, and its names there
    "CSC+GFHF": "CSCGFHF",
    "GFHF, class mass": "GFHF, class mass",
    "LLGC(0.99), class mass": "LLGC, class mass",
    "Poisson": "Poisson",
    "LELPC": "LELPC",
    "graphlearning Poisson": "graphlearning Poisson",
    "scikit-learn LabelSpreading(0.99)": "scikit-learn LabelSpreading(alpha=0.99)",
    "scikit-learn LabelSpreading(0.2)": "scikit-learn LabelSpreading, its default 0.2",
}


def ours(
    points: str, graph: str, estimator: str, options: dict[str, Any], on_points: bool, draws: int
) -> dict[str, Any]:
    """One of our methods, every rate and draw; the graph keeps what is computed from it alone."""
    import mustlink as ml
    from mustlink_io import formats

    shared = ml.Graph.from_affinity(formats.load(graph, "graph").value)
    X = formats.load(f"{points}:/points").value if on_points else None
    affinity = "knn" if on_points else "precomputed"
    clusters = {"n_clusters": 10} if estimator == "CSCGFHF" else {}

    def answer(given: Any) -> Any:
        make = getattr(ml, estimator)
        est = make(**clusters, affinity=affinity, random_state=0, **options)
        (est.fit(X, given, shared) if on_points else est.fit(shared, given))
        return est.labels_

    return _measured(points, answer, draws, named=estimator != "CSCGFHF")


def peer(points: str, graph: str, name: str, draws: int) -> dict[str, Any]:
    """One of the peers on the same graph."""
    import warnings

    import numpy as np

    from mustlink_io import formats

    W = formats.load(graph, "graph").value.tocsr()

    def answer(given: Any) -> Any:
        nodes = np.flatnonzero(given >= 0)
        if name.startswith("spreading"):
            from sklearn.semi_supervised import LabelSpreading

            model = LabelSpreading(kernel=lambda A, B: W, alpha=float(name.split()[1]))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # 30 steps do not converge; its default
                return model.fit(np.arange(len(given))[:, None], given).transduction_
        import graphlearning

        return getattr(graphlearning.ssl, name)(W).fit_predict(nodes, given[nodes])

    return _measured(points, answer, draws, named=True)


def _measured(points: str, answer: Any, draws: int, named: bool) -> dict[str, Any]:
    """Accuracy (of clusters: named by the labelled nodes in them) and seconds per rate."""
    import numpy as np

    from mustlink_io import formats

    y = formats.load_labels(f"{points}:/labels")
    answer(common.labels_per_class(y, 1, np.random.default_rng(99)))  # compiles, loads
    found: dict[str, Any] = {"accuracy": {}, "seconds": {}}
    for rate in RATES:
        right, seconds = [], []
        for draw in range(draws):
            given = common.labels_per_class(y, rate, np.random.default_rng(draw))
            labels, time = common.timed(answer, given)
            if not named:
                labels = _named(labels, given)
            right.append(float(np.mean(labels == y)))
            seconds.append(time)
        found["accuracy"][str(rate)] = right
        found["seconds"][str(rate)] = seconds
    return {**found, "peak_bytes": common.own_peak_bytes()}


def _named(clusters: Any, given: Any) -> Any:
    """Classes of clusters by the given labels alone: the assignment that obeys most of them."""
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    k = int(given.max()) + 1
    known = (given >= 0) & (clusters >= 0)
    votes = np.zeros((max(k, int(clusters.max()) + 1), k))
    np.add.at(votes, (clusters[known], given[known]), 1)
    rows, columns = linear_sum_assignment(-votes)
    name = np.full(votes.shape[0], -1)
    name[rows] = columns
    return np.where(clusters >= 0, name[clusters], -1)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--only", nargs="*", help="names of estimators, or: peers")
    asked = parser.parse_args()
    files = mnist.prepared(asked.out, None)
    if files is None:
        return
    data = {"points": str(files[0]), "graph": str(files[1]), "draws": asked.draws}
    found: dict[str, Any] = {}
    for name, estimator, options, on_points in OURS:
        if asked.only and estimator not in asked.only:
            continue
        common.say(name)
        more = {"estimator": estimator, "options": options, "on_points": on_points}
        found[name] = common.call("mnist_propagate:ours", **data, **more)
        common.write_json(asked.out, "mnist-propagate", found)
    for name, key in PEERS:
        if asked.only and "peers" not in asked.only:
            continue
        if name.startswith("graphlearning") and importlib.util.find_spec("graphlearning") is None:
            print(f"skipped {name}: `pip install graphlearning` to compare with it")
            continue
        common.say(name)
        found[name] = common.call("mnist_propagate:peer", **data, name=key)
    common.write_json(asked.out, "mnist-propagate", found)
    rows = [
        (
            name,
            *(f"{100 * statistics.mean(one['accuracy'][str(rate)]):.2f}" for rate in RATES),
            statistics.mean(s for rate in RATES for s in one["seconds"][str(rate)]),
            common.gigabytes(one["peak_bytes"]),
        )
        for name, one in found.items()
    ]
    headers = ("method", *(f"{rate} a class" for rate in RATES), "seconds a fit", "peak memory")
    common.table(f"MNIST, accuracy %, mean of {asked.draws} draws", headers, rows)
    if not asked.only and set(TOLD) <= set(found):
        means = {
            shown: [100 * statistics.mean(found[name]["accuracy"][str(r)]) for r in RATES]
            for name, shown in TOLD.items()
        }
        common.record("mnist_propagate", {"draws": asked.draws, "rows": means})


if __name__ == "__main__":
    main()
