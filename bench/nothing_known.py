"""Clusters of data of which nothing is known: `NCut` beside what others do without a choice.

    python bench/nothing_known.py [--only digits zoo] [--record]

Tables as they are, networks as they are, the number of classes given; ARI on rows whose class is
known. Sets that chose how `NCut(variant="auto")` decides do not judge it: means are apart. Peers:
scikit-learn's SpectralClustering on 10 neighbours with its three ways of labelling, k-means,
Gaussian mixtures; Louvain and Leiden, without K, on the graph of `NCut`, and on networks
scikit-network's Spectral. Peers that are not installed are left out with a line.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import data_sets
import fits
import peers
import render
import runner

CHOOSING = ("iris", "wine", "digits", "glass", "optdigits", "mfeat_fourier", "polblogs", "email")
MOST = {"usps": 3000, "letter": 5000, "mnist": 5000}
JUDGING = (
    "dermatology", "ionosphere", "pima", "zoo", "usps", "letter", "breast_cancer",
    "breast_cancer_wisconsin_original", "mnist", "news", "amazon", "coauthors",
)  # fmt: skip
OURS = {
    "NCut": {},
    "papers' form": {"variant": "luxburg", "regularization": 0},
    "ng": {"variant": "ng", "regularization": 0},
    "heat": {"variant": "heat", "regularization": 0},
    "0.1": {"variant": "luxburg", "regularization": 0.1},
    "0.3": {"variant": "luxburg", "regularization": 0.3},
    "1": {"variant": "luxburg", "regularization": 1},
}
LABELLED = ("kmeans", "cluster_qr", "discretize")


def case(name: str) -> data_sets.Case | None:
    """Points or a network of a name, with the classes."""
    if name in ("iris", "wine", "breast_cancer"):
        return data_sets._made(f"load_{name}", return_X_y=True)()
    if name in ("polblogs", "email", "amazon"):
        return data_sets.DATA[name]()
    if name == "coauthors":
        return data_sets._graph("coauthor_phy")()
    return data_sets._news(True)() if name == "news" else data_sets._points(name, MOST.get(name))()


def methods(of: data_sets.Case, graph: Any) -> dict[str, Callable[[], Any]]:
    """What clusters the case, by name."""
    import mustlink as ml

    def ours(how: dict[str, Any]) -> Any:
        made = ml.NCut(of.k, affinity="precomputed", random_state=0, **how)
        return made.fit_predict(graph)

    found: dict[str, Callable[[], Any]] = {n: partial(ours, how) for n, how in OURS.items()}
    there = peers.installed(("Louvain", "Leiden", "scikit-network"))
    W = graph.affinity
    for title, count in (("Louvain", peers.louvain), ("Leiden", peers.leiden)):
        if title in there:
            found[f"{title}, no K"] = lambda f=count: graph.spread(f(W, of.k, 0))
    if not isinstance(of.data, np.ndarray):
        if "scikit-network" in there:
            found["scikit-network"] = lambda: peers.sknetwork_spectral(W, of.k, 0)
        return found
    return found | of_points(of.data, of.k)


def of_points(X: Any, k: int) -> dict[str, Callable[[], Any]]:
    """scikit-learn's, on the points."""
    from sklearn.cluster import KMeans, SpectralClustering
    from sklearn.mixture import GaussianMixture

    found: dict[str, Callable[[], Any]] = {
        f"scikit-learn, {how}": SpectralClustering(
            k, affinity="nearest_neighbors", assign_labels=how, random_state=0
        ).fit_predict
        for how in LABELLED
    }
    found["k-means"] = KMeans(k, n_init=10, random_state=0).fit_predict
    if X.shape[1] <= 100:
        found["mixture"] = GaussianMixture(k, reg_covar=1e-3, random_state=0).fit_predict
    return {name: partial(fit, X) for name, fit in found.items()}


def one(name: str) -> dict[str, Any] | None:
    """ARI and CPU seconds of every method on a set."""
    import mustlink as ml

    of = case(name)
    if of is None:
        return None
    if isinstance(of.data, np.ndarray):
        graph = ml.knn_graph(of.data, random_state=0, duplicates="merge")
    else:
        graph = ml.Graph.from_affinity(of.data)
    found: dict[str, Any] = {}
    for method, fit in methods(of, graph).items():
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[method] = fits.ari(of.y, fit())
        found[f"{method}: seconds"] = time.process_time() - began
    return found


def main() -> None:
    args = runner.options(__doc__, only=[*CHOOSING, *JUDGING])
    cache = runner.RunCache(args.out / "nothing_known.jsonl")
    rows: dict[str, dict[str, Any]] = {}
    for name in args.only:
        if not cache.find(data=name):
            found = one(name)
            if found is None:
                continue
            cache.add({"data": name, **found})
        rows[name] = cache.find(data=name)[0]
        runner.say(f"{name}: done")
    figures = {}
    for title, sets in (("choosing", CHOOSING), ("judging", JUDGING)):
        some = {name: rows[name] for name in sets if name in rows}
        shown = {n: {m: v for m, v in r.items() if _is_ari(m)} for n, r in some.items()}
        render.records(f"ARI, {title} sets", shown)
        for kind, names in kinds(some).items():
            means = mean(names)
            render.records(f"Mean ARI, {title}, {kind} ({len(names)})", {"mean": means})
            figures[f"{title}, {kind}"] = means
    runner.record("nothing_known", figures)


def _is_ari(name: str) -> bool:
    return name != "data" and not name.endswith(": seconds")


def kinds(rows: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Rows of points and of networks apart, as not all methods do both."""
    points = [row for row in rows.values() if "k-means" in row]
    others = [row for row in rows.values() if "k-means" not in row]
    return {name: some for name, some in (("points", points), ("networks", others)) if some}


def mean(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Of the methods that all rows have."""
    every = [name for name in rows[0] if _is_ari(name) and all(name in row for row in rows)]
    return {name: statistics.mean(row[name] for row in rows) for name in every}


if __name__ == "__main__":
    main()
