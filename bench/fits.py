"""The table of methods, one way to fit any of them, and how an answer is scored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import runner
from data import Known

WARM = 150  # side of the grid: past the size up to which the engine solves to 1e-8


@dataclass(frozen=True)
class Method:
    """An estimator with options; `points` where it looks at coordinates, not at a graph alone."""

    estimator: str
    options: dict[str, Any] = field(default_factory=dict)
    points: bool = False


CONSTRAINED = ("CSP", "SSSC", "SpectralLearning", "ConstrainedAP", "FastGE", "SSKK")
PROPAGATORS = (
    "GFHF", "LLGC", "TikReg", "NCutPropagation", "GreenFunction", "Poisson", "LELP", "GWEM",
    "ClusterKernel", "LNP", "LLELP", "LTSALP",
)  # fmt: skip
METHODS: dict[str, Method] = {
    name: Method(name, points=name in ("LNP", "LLELP", "LTSALP"))
    for name in ("NCut", *CONSTRAINED, "SRCP", "E2CP", "CSCGFHF", *PROPAGATORS)
} | {
    "Auto": Method("Auto", points=True),
    "CSP exact": Method("CSP", {"subspace": "exact", "beta": 0.01}),
    "SSSC, γ = 0.1": Method("SSSC", {"gamma": 0.1}),
    "SL-L̄": Method("SpectralLearning", {"normalized": True}),
    "SL exact": Method("SpectralLearning", {"subspace": "exact"}),
    "AP exact": Method("ConstrainedAP", {"subspace": "exact", "noise": 0.3}),
    "FastGE exact": Method("FastGE", {"subspace": "exact"}),
    "GFHF, class mass": Method("GFHF", {"class_mass": "equal"}),
    "LLGC, class mass": Method("LLGC", {"class_mass": "equal"}),
    "Poisson-by-shares": Method("Poisson", {"class_mass": False}),
    "LELPC": Method("LELP", {"orthogonal": True}),
    "LLELPC": Method("LLELP", {"orthogonal": True}, points=True),
    "LTSALPC": Method("LTSALP", {"orthogonal": True}, points=True),
    "GWEM, fixed point": Method("GWEM", {"variant": "fixed-point"}),
    "LNP, minimiser": Method("LNP", {"variant": "minimizer"}, points=True),
}


def make(name: str, k: int, **more: Any) -> Any:
    """An estimator of the table, for a graph unless it looks at points."""
    import mustlink as ml

    method = METHODS[name]
    cls = getattr(ml, method.estimator)
    if "n_clusters" in cls._get_param_names():
        more["n_clusters"] = k
    affinity = "knn" if method.points else "precomputed"
    return cls(**{"affinity": affinity, "random_state": 0, **method.options, **more})


def fit(est: Any, graph: Any, known: Known, points: Any = None) -> Any:
    """Fit to a graph, or to points whose graph it is, and to what is known."""
    if known.nothing or type(est).__name__ == "NCut":
        return est.fit(graph)
    if known.pairs is None:
        return (
            est.fit(graph, known.labels)
            if points is None
            else est.fit(points, known.labels, graph=graph)
        )
    return est.fit(graph, constraints=known.constraints(_rows(graph)))


def _rows(graph: Any) -> int:
    rows = getattr(graph, "rows", None)
    if rows is not None:
        return len(rows)
    return graph.n_nodes if hasattr(graph, "n_nodes") else graph.shape[0]


def warm_graph() -> Any:
    """A small grid: one fit on it loads libraries and compiled kernels before the clock runs."""
    import scipy.sparse as sp

    line = sp.diags([1.0, 1.0], [-1, 1], shape=(WARM, WARM))
    eye = sp.identity(WARM)
    return sp.csr_matrix(sp.kron(line, eye) + sp.kron(eye, line))


def warm(name: str, labels: bool, **more: Any) -> None:
    """One fit of a method on the grid, or on its coordinates."""
    import numpy as np

    import data
    import mustlink as ml

    side = WARM if not METHODS[name].points else 40
    y = (np.arange(side * side) % side < side // 2).astype(np.int64)
    known = data.draw(y, "20 labels" if labels else "200 pairs", 0)
    if not METHODS[name].points:
        fit(make(name, 2, **more), warm_graph(), known)
        return
    X = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2) * 1.0
    X += 0.1 * np.random.default_rng(0).standard_normal(X.shape)
    fit(make(name, 2, **more), ml.knn_graph(X, 8, random_state=0), known, X)


def measured(
    name: str, graph: str, source: str, setting: str, wrong: float = 0.0, seed: int = 0,
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """One fit on the sheets of a file, from the matrix on, in a process of its own.

    The ten sheets are five pairs, which the graph does not show. `seconds` are those to the
    vectors, without discretisation and scores, where there are vectors.
    """
    import h5py
    import numpy as np

    import data

    with h5py.File(source) as file:
        y = file["labels"][()] // 2
        X = file["points"][()] if METHODS[name].points else None
    known = data.draw(y, setting, seed, wrong)
    k, W = int(y.max()) + 1, data.read_graph(graph)
    warm(name, known.labels is not None, **more)
    before = runner.own_peak_bytes()
    est, total, cpu = runner.cpu_timed(fit, make(name, k, **more), W, known, X)
    report = est.report_.to_dict()
    clusters = hasattr(est, "embedding_")
    return {
        "seconds": runner.vector_seconds(total, report) if clusters else total,
        "fit_seconds": total,
        "cpu_seconds": cpu,
        "ari": ari(y, est.labels_),
        "accuracy": None if clusters else float(np.mean(est.labels_ == y)),
        "peak_bytes": runner.own_peak_bytes(),
        "before_bytes": before,
        **runner.report_figures(report),
    }


# ---------------------------------------------------------------- scores


def ari(y: Any, labels: Any) -> float:
    """Adjusted Rand index over nodes whose class is known."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(y[y >= 0], labels[y >= 0]))


def named(clusters: Any, given: Any) -> Any:
    """The class that most labels of a cluster say, -1 where none does."""
    import numpy as np

    known = (given >= 0) & (clusters >= 0)
    votes = np.zeros((int(clusters.max()) + 1, int(given.max()) + 1))
    np.add.at(votes, (clusters[known], given[known]), 1)
    says = np.where(votes.any(axis=1), votes.argmax(axis=1), -1)
    return np.where(clusters >= 0, says[clusters], -1)


def front(labels: Any, strokes: Any) -> Any:
    """Pixels of the cluster with the larger share of foreground than of ground strokes."""
    import numpy as np

    y = strokes.ravel()
    share = [np.mean(labels[y == 1] == c) - np.mean(labels[y == 0] == c) for c in (0, 1)]
    return (labels == int(np.argmax(share))).reshape(strokes.shape)


def iou(front: Any, truth: Any) -> float:
    """Intersection over union of a foreground; pixels of truth 128 (unsure) do not count."""
    certain, real = truth != 128, truth > 128
    return float((front & real)[certain].sum() / max((front | real)[certain].sum(), 1))
