"""How sure and how often right: expected calibration error with 20 labels a class.

    python bench/calibration.py [--draws 5] [--only CSP LLGC] [--sets optdigits usps] [--each 20]

Clusterers by `confidence_`, a cluster's class being that of most labels in it; propagators by the
largest entry of `membership_`, and beside it by that of `label_distributions_`, which nothing
calibrates. Nodes without a given label are counted. Needs the data folder, but for digits.
"""

from __future__ import annotations

import statistics
import warnings
from typing import Any

import common

CLUSTERERS = ("CSP", "SSSC")
METHODS = (*CLUSTERERS, "LLGC", "GFHF", "Poisson")
POINTS = ("digits", "optdigits", "usps", "mfeat_fourier", "letter", "mnist")
NETWORKS = ("coauthor_phy", "amazon_photo")
SETS = (*POINTS, *NETWORKS)
ASKED = 0.05
_MNIST = 10_000


def loaded(name: str) -> tuple[Any, Any] | None:
    """A neighbour graph, or the network, and classes; None without the data."""
    import numpy as np
    import scipy.sparse as sp

    import mustlink as ml

    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        return ml.knn_graph(X, 15, random_state=0), y
    folder = {"mnist": "points"}.get(name, "graphs" if name in NETWORKS else "uci")
    path = common.data_file(f"{folder}/{name}.npz")
    if path is None:
        return None
    with np.load(path, allow_pickle=False) as held:
        y = held["y"].astype(np.int64)
        if name in NETWORKS:
            arrays = held["data"], held["indices"], held["indptr"]
            return ml.Graph.from_affinity(sp.csr_matrix(arrays, shape=held["shape"])), y
        X = held["X"]
    if len(y) > 3 * _MNIST:
        some = np.sort(np.random.default_rng(0).choice(len(y), _MNIST, replace=False))
        X, y = X[some], y[some]
    return ml.knn_graph(X.astype(np.float64), 15, random_state=0), y


def measure(name: str, method: str, each: int, draw: int) -> dict[str, Any] | None:
    """Errors of one fit, and what is told of them without the classes."""
    import numpy as np

    import mustlink as ml
    from mustlink.discretize.reliability import Reliability

    found = loaded(name)
    if found is None:
        return None
    graph, y = found
    given = common.labels_per_class(y, each, np.random.default_rng(draw))
    number = {"n_clusters": int(np.unique(y[y >= 0]).size)} if method in CLUSTERERS else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nodes without an edge or a label in reach
        est = getattr(ml, method)(**number, affinity="precomputed", random_state=0).fit(
            graph, given
        )
    labels, plain = est.labels_, None
    if method in CLUSTERERS:
        labels, sure = named(est.labels_, given), est.confidence_
    else:
        sure, plain = (P.max(axis=1) for P in (est.membership_, est.label_distributions_))
    asked = (given < 0) & (y >= 0) & (labels >= 0)
    right = (labels == y)[asked]
    told = est.calibration_.reliability
    return {
        "error": Reliability.of(sure[asked], right).error,
        "plain": None if plain is None else Reliability.of(plain[asked], right).error,
        "right": float(right.mean()),
        "told": None if told is None else told.error,
        "table": Reliability.of(sure[asked], right).rows(),
    }


def named(clusters: Any, given: Any) -> Any:
    """The class that most labels of a cluster say, -1 where none does."""
    import numpy as np

    known = (given >= 0) & (clusters >= 0)
    votes = np.zeros((int(clusters.max()) + 1, int(given.max()) + 1))
    np.add.at(votes, (clusters[known], given[known]), 1)
    says = np.where(votes.any(axis=1), votes.argmax(axis=1), -1)
    return np.where(clusters >= 0, says[clusters], -1)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--each", type=int, default=20, help="labels a class")
    parser.add_argument("--only", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--sets", nargs="*", choices=SETS, default=list(SETS))
    asked = parser.parse_args()
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name in asked.sets:
        for method in asked.only:
            runs = [measure(name, method, asked.each, draw) for draw in range(asked.draws)]
            if runs[0] is None:
                common.say(f"{name}: skipped, its data is not in the data folder")
                break
            found.setdefault(name, {})[method] = [run for run in runs if run is not None]
            mean = statistics.fmean(run["error"] for run in found[name][method])
            common.say(f"{name}, {method}: {mean:.3f}")
        common.write_json(asked.out, "calibration", found)
    rows = [(name, *(_cell(runs) for runs in methods.values())) for name, methods in found.items()]
    title = f"Expected calibration error (most of {asked.draws} draws), {asked.each} labels a class"
    common.table(title, ("set", *asked.only), rows)
    plain = [
        (name, *(_mean(runs, "plain") for m, runs in methods.items() if m not in CLUSTERERS))
        for name, methods in found.items()
    ]
    heads = [m for m in asked.only if m not in CLUSTERERS]
    common.table("… of label_distributions_ as they are", ("set", *heads), plain)
    if set(asked.only) == set(METHODS) and set(found) == set(SETS):
        means = {
            name: {m: [_mean(r, "error"), _mean(r, "plain")] for m, r in methods.items()}
            for name, methods in found.items()
        }
        common.record("calibration", {"draws": asked.draws, "each": asked.each, "rows": means})


def _cell(runs: list[dict[str, Any]]) -> str:
    errors = [run["error"] for run in runs]
    return f"{statistics.fmean(errors):.3f} ({max(errors):.3f})"


def _mean(runs: list[dict[str, Any]], of: str) -> float | None:
    values = [run[of] for run in runs if run[of] is not None]
    return round(statistics.fmean(values), 4) if values else None


if __name__ == "__main__":
    main()
