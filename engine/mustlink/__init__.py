"""mustlink: clusters very large graphs with side information.

    import mustlink as ml
    graph = ml.knn_graph(X, n_neighbors=15)
    known = ml.Constraints.from_pairs(pairs, belief=[1, -1, 1], n_nodes=len(X))
    labels = ml.CSP(n_clusters=10, affinity="precomputed").fit(graph, constraints=known).labels_

Names are imported when first used, so that `import mustlink` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mustlink.advice import Suggestion, suggest
    from mustlink.constraints import Constraints
    from mustlink.embedding import LLE, LTSA, LaplacianEigenmaps
    from mustlink.graph import Graph, bipartite_graph, image_graph, rbf_graph
    from mustlink.methods import (
        CSCGFHF,
        CSP,
        DISIM,
        E2CP,
        SRCP,
        SSKK,
        SSSC,
        ConstrainedAP,
        FastGE,
        NCut,
        SpectralLearning,
        stationary_labelings,
        stationary_residual,
    )
    from mustlink.model_selection import (
        ConstraintKFold,
        ConstraintScorer,
        constraint_satisfaction_score,
    )
    from mustlink.neighbours import knn_graph
    from mustlink.propagate import (
        GFHF,
        GLP,
        GWEM,
        LELP,
        LLELP,
        LLGC,
        LNP,
        LTSALP,
        ClusterKernel,
        GreenFunction,
        NCutPropagation,
        Poisson,
        TikReg,
    )
    from mustlink.regions import RegionCut
    from mustlink.strokes import StrokeCut

try:
    __version__ = version("mustlink")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

_HOMES = {
    "CSP": "mustlink.methods",
    "DISIM": "mustlink.methods",
    "NCut": "mustlink.methods",
    "SpectralLearning": "mustlink.methods",
    "ConstrainedAP": "mustlink.methods",
    "FastGE": "mustlink.methods",
    "SSKK": "mustlink.methods",
    "SSSC": "mustlink.methods",
    "GFHF": "mustlink.propagate",
    "GLP": "mustlink.propagate",
    "GWEM": "mustlink.propagate",
    "ClusterKernel": "mustlink.propagate",
    "LELP": "mustlink.propagate",
    "LLGC": "mustlink.propagate",
    "GreenFunction": "mustlink.propagate",
    "NCutPropagation": "mustlink.propagate",
    "Poisson": "mustlink.propagate",
    "TikReg": "mustlink.propagate",
    "LLELP": "mustlink.propagate",
    "LNP": "mustlink.propagate",
    "LTSALP": "mustlink.propagate",
    "LLE": "mustlink.embedding",
    "LTSA": "mustlink.embedding",
    "LaplacianEigenmaps": "mustlink.embedding",
    "CSCGFHF": "mustlink.methods",
    "E2CP": "mustlink.methods",
    "SRCP": "mustlink.methods",
    "stationary_labelings": "mustlink.methods",
    "stationary_residual": "mustlink.methods",
    "Suggestion": "mustlink.advice",
    "suggest": "mustlink.advice",
    "ConstraintKFold": "mustlink.model_selection",
    "ConstraintScorer": "mustlink.model_selection",
    "constraint_satisfaction_score": "mustlink.model_selection",
    "Constraints": "mustlink.constraints",
    "Graph": "mustlink.graph",
    "bipartite_graph": "mustlink.graph",
    "image_graph": "mustlink.graph",
    "knn_graph": "mustlink.neighbours",
    "rbf_graph": "mustlink.graph",
    "RegionCut": "mustlink.regions",
    "StrokeCut": "mustlink.strokes",
}

__all__ = [
    "CSCGFHF",
    "CSP",
    "DISIM",
    "E2CP",
    "GFHF",
    "GLP",
    "GWEM",
    "LELP",
    "LLE",
    "LLELP",
    "LLGC",
    "LNP",
    "LTSA",
    "LTSALP",
    "SRCP",
    "SSKK",
    "SSSC",
    "ClusterKernel",
    "ConstrainedAP",
    "ConstraintKFold",
    "ConstraintScorer",
    "Constraints",
    "FastGE",
    "Graph",
    "GreenFunction",
    "LaplacianEigenmaps",
    "NCut",
    "NCutPropagation",
    "Poisson",
    "RegionCut",
    "SpectralLearning",
    "StrokeCut",
    "Suggestion",
    "TikReg",
    "__version__",
    "bipartite_graph",
    "constraint_satisfaction_score",
    "image_graph",
    "knn_graph",
    "rbf_graph",
    "stationary_labelings",
    "stationary_residual",
    "suggest",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mustlink' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
