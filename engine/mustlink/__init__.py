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

from mustlink.names import ESTIMATORS

if TYPE_CHECKING:
    from mustlink.advice.suggest import Suggestion, suggest
    from mustlink.constraints import Constraints
    from mustlink.embedding import LLE, LTSA, LaplacianEigenmaps
    from mustlink.graph import Graph, bipartite_graph, image_graph, rbf_graph
    from mustlink.methods.constrained_ap import ConstrainedAP
    from mustlink.methods.csc_gfhf import CSCGFHF
    from mustlink.methods.csp import CSP
    from mustlink.methods.disim import DISIM
    from mustlink.methods.e2cp import E2CP
    from mustlink.methods.fast_ge import FastGE
    from mustlink.methods.ncut import NCut
    from mustlink.methods.spectral_learning import SpectralLearning
    from mustlink.methods.srcp import SRCP
    from mustlink.methods.sskk import SSKK
    from mustlink.methods.sssc import SSSC
    from mustlink.methods.stationary import stationary_labelings, stationary_residual
    from mustlink.model_file import load
    from mustlink.model_selection import (
        ConstraintKFold,
        ConstraintScorer,
        constraint_satisfaction_score,
    )
    from mustlink.neighbours import knn_graph
    from mustlink.page import ui
    from mustlink.pictures.region_cut import RegionCut
    from mustlink.pictures.stroke_cut import StrokeCut
    from mustlink.propagate.cluster_kernel import ClusterKernel
    from mustlink.propagate.generalized import GLP
    from mustlink.propagate.gfhf import GFHF
    from mustlink.propagate.green_function import GreenFunction
    from mustlink.propagate.gwem import GWEM
    from mustlink.propagate.label_embeddings import LELP, LLELP, LTSALP
    from mustlink.propagate.llgc import LLGC
    from mustlink.propagate.lnp import LNP
    from mustlink.propagate.ncut_propagation import NCutPropagation
    from mustlink.propagate.poisson import Poisson
    from mustlink.propagate.tikreg import TikReg
    from mustlink.queries import next_queries, settled


try:
    __version__ = version("mustlink")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

_HOMES = {
    **ESTIMATORS,
    "stationary_labelings": "mustlink.methods.stationary",
    "stationary_residual": "mustlink.methods.stationary",
    "Suggestion": "mustlink.advice",
    "suggest": "mustlink.advice",
    "ui": "mustlink.page",
    "ConstraintKFold": "mustlink.model_selection",
    "ConstraintScorer": "mustlink.model_selection",
    "constraint_satisfaction_score": "mustlink.model_selection",
    "Constraints": "mustlink.constraints",
    "Graph": "mustlink.graph",
    "bipartite_graph": "mustlink.graph",
    "image_graph": "mustlink.graph",
    "knn_graph": "mustlink.neighbours",
    "load": "mustlink.model_file",
    "next_queries": "mustlink.queries",
    "settled": "mustlink.queries",
    "rbf_graph": "mustlink.graph",
    "RegionCut": "mustlink.pictures.region_cut",
    "StrokeCut": "mustlink.pictures.stroke_cut",
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
    "load",
    "next_queries",
    "rbf_graph",
    "settled",
    "stationary_labelings",
    "stationary_residual",
    "suggest",
    "ui",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mustlink' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
