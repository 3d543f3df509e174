"""Who clusters the networks of `networks.py`, and what they are told.

An estimator of ours is one line of `METHODS`: its name, what it is told, its options. Peers run
with their defaults and the number of clusters where they take one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import common

# ---------------------------------------------------------------- what is known


@dataclass(frozen=True)
class Setting:
    """What a fit is told: nothing, labels of so many nodes a class, or n/10 pairs."""

    kind: str
    amount: int = 0

    @classmethod
    def parse(cls, text: str) -> Setting:
        """`none`, `pairs` or a number of labels a class."""
        return cls("labels", int(text)) if text.isdigit() else cls(text)

    def __str__(self) -> str:
        return f"{self.amount} labels" if self.kind == "labels" else self.kind


@dataclass(frozen=True)
class Known:
    """A network with its classes y (n,), -1 unknown, and what one draw tells of them."""

    W: Any
    y: Any
    k: int
    labels: Any = None
    pairs: Any = None

    def constraints(self) -> Any:
        """As the constraints of an estimator."""
        import mustlink as ml

        if self.labels is not None:
            return ml.Constraints.from_labels(self.labels)
        pairs, belief = self.pairs
        return ml.Constraints.from_pairs(pairs, belief=belief, n_nodes=len(self.y))


def draw(W: Any, y: Any, k: int, setting: Setting, seed: int) -> Known:
    """The same labels or pairs for every method; pairs only of nodes whose class is known."""
    import numpy as np

    rng = np.random.default_rng(seed)
    if setting.kind == "labels":
        return Known(W, y, k, labels=common.labels_per_class(y, setting.amount, rng))
    if setting.kind == "pairs":
        nodes = np.flatnonzero(y >= 0)
        pairs, belief = common.random_pairs(y[nodes], len(y) // 10, rng)
        return Known(W, y, k, pairs=(nodes[pairs], belief))
    return Known(W, y, k)


# ---------------------------------------------------------------- methods

Answer = tuple[Any, dict[str, Any]]


@dataclass(frozen=True)
class Method:
    """One column of the table: `fit(known, seed, **options)` gives labels and what was told."""

    name: str
    told: tuple[str, ...]
    fit: Callable[..., Answer]
    options: dict[str, Any] = field(default_factory=dict)
    package: str = "mustlink"

    @property
    def ours(self) -> bool:
        """Whether it is an estimator of this package."""
        return self.package == "mustlink"

    @property
    def distribution(self) -> str:
        """What the package is installed as."""
        return {"sknetwork": "scikit-network"}.get(self.package, self.package)


def ours(name: str, estimator: str, *told: str, **options: Any) -> Method:
    """An estimator of this package with options."""
    fit = _propagated if estimator in ("GFHF", "LLGC", "Poisson") else _clustered
    return Method(name, told, fit, {"estimator": estimator, **options})


def _clustered(known: Known, seed: int, estimator: str, **options: Any) -> Answer:
    import mustlink as ml

    make = getattr(ml, estimator)
    est = make(known.k, affinity="precomputed", random_state=seed, **options)
    told = known.labels is not None or known.pairs is not None
    est.fit(known.W, **({"constraints": known.constraints()} if told else {}))
    return est.labels_, _report(est)


def _propagated(known: Known, seed: int, estimator: str, **options: Any) -> Answer:
    import mustlink as ml

    est = getattr(ml, estimator)(affinity="precomputed", random_state=seed, **options)
    est.fit(known.W, known.labels)
    return est.labels_, _report(est)


def _report(est: Any) -> dict[str, Any]:
    report = est.report_.to_dict()
    return {
        "status": (report["convergence"] or {}).get("status"),
        "choices": report["choices"],
        "stages": common.stage_table(report),
        "notes": [*report["notes"], *report["warnings"]],
    }


def _igraph(W: Any) -> Any:
    import igraph
    import scipy.sparse as sp

    upper = sp.triu(W, 1).tocoo()
    edges = list(zip(upper.row.tolist(), upper.col.tolist(), strict=True))
    return igraph.Graph(W.shape[0], edges, edge_attrs={"weight": upper.data.tolist()})


def _louvain(known: Known, seed: int) -> Answer:
    import random

    random.seed(seed)  # igraph draws from Python's generator
    return _igraph(known.W).community_multilevel(weights="weight").membership, {}


def _leiden(known: Known, seed: int) -> Answer:
    import leidenalg

    quality = leidenalg.ModularityVertexPartition
    graph = _igraph(known.W)
    return leidenalg.find_partition(graph, quality, weights="weight", seed=seed).membership, {}


def _scikit_spectral(known: Known, seed: int) -> Answer:
    from sklearn.cluster import KMeans
    from sknetwork.embedding import Spectral

    rows = Spectral(known.k).fit_transform(known.W)
    return KMeans(known.k, n_init=10, random_state=seed).fit_predict(rows), {}


def _scikit_classifier(known: Known, seed: int, classifier: str) -> Answer:
    import sknetwork.classification as classification

    return getattr(classification, classifier)().fit_predict(known.W, known.labels), {}


def _graphlearning_poisson(known: Known, seed: int) -> Answer:
    import graphlearning
    import numpy as np
    from scipy.sparse.csgraph import connected_components

    component = connected_components(known.W, directed=False)[1]
    one = component == np.bincount(component).argmax()  # with several its system has no solution
    given = known.labels[one]
    nodes = np.flatnonzero(given >= 0)
    labels = np.full(len(one), -1)
    labels[one] = graphlearning.ssl.poisson(known.W[one][:, one]).fit_predict(nodes, given[nodes])
    return labels, {}


def _scikit(name: str) -> Method:
    options = {"classifier": name}
    name = f"scikit-network {name.removesuffix('Classifier')}"
    return Method(name, ("labels",), _scikit_classifier, options, "sknetwork")


METHODS: tuple[Method, ...] = (
    ours("NCut", "NCut", "none"),
    ours("CSP", "CSP", "labels", "pairs"),
    ours("SSSC", "SSSC", "labels", "pairs"),
    ours("GFHF", "GFHF", "labels"),
    ours("LLGC", "LLGC", "labels"),
    ours("Poisson", "Poisson", "labels"),
    Method("Louvain", ("none",), _louvain, package="igraph"),
    Method("Leiden", ("none",), _leiden, package="leidenalg"),
    Method("scikit-network Spectral", ("none",), _scikit_spectral, package="sknetwork"),
    _scikit("DiffusionClassifier"),
    _scikit("PageRankClassifier"),
    _scikit("Propagation"),
    Method("graphlearning Poisson", ("labels",), _graphlearning_poisson, package="graphlearning"),
)
