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

from mustlink.core.names import ESTIMATORS

if TYPE_CHECKING:
    from mustlink.advice.auto import Auto
    from mustlink.advice.pair_questions import next_queries, settled
    from mustlink.advice.stability import stability
    from mustlink.advice.suggest import Suggestion, suggest
    from mustlink.clusterers.constrained_ap import ConstrainedAP
    from mustlink.clusterers.csc_gfhf import CSCGFHF, stationary_labelings, stationary_residual
    from mustlink.clusterers.csp import CSP
    from mustlink.clusterers.disim import DISIM
    from mustlink.clusterers.embedding import LLE, LTSA, LaplacianEigenmaps
    from mustlink.clusterers.fast_ge import FastGE
    from mustlink.clusterers.ncut import NCut
    from mustlink.clusterers.spectral_learning import SpectralLearning
    from mustlink.clusterers.srcp import E2CP, SRCP
    from mustlink.clusterers.sskk import SSKK
    from mustlink.clusterers.sssc import SSSC
    from mustlink.constraints import Constraints
    from mustlink.core.io_entry_points import load, ui
    from mustlink.graph import Graph, bipartite_graph, graph_from_neighbors, image_graph, rbf_graph
    from mustlink.neighbors import knn_graph
    from mustlink.propagation.cluster_kernel import ClusterKernel
    from mustlink.propagation.generalized import GLP
    from mustlink.propagation.gfhf import GFHF
    from mustlink.propagation.gwem import GWEM
    from mustlink.propagation.label_embeddings import LELP, LLELP, LTSALP
    from mustlink.propagation.llgc import LLGC
    from mustlink.propagation.lnp import LNP
    from mustlink.propagation.poisson import GreenFunction, Poisson
    from mustlink.propagation.tikreg import NCutPropagation, TikReg
    from mustlink.segmentation.region_cut import RegionCut
    from mustlink.segmentation.stroke_cut import StrokeCut
    from mustlink.selection.held_out import (
        ConstraintKFold,
        ConstraintScorer,
        constraint_satisfaction_score,
    )


try:
    __version__ = version("mustlink")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

_HOMES = {
    **ESTIMATORS,
    "Auto": "mustlink.advice.auto",
    "stationary_labelings": "mustlink.clusterers.csc_gfhf",
    "stationary_residual": "mustlink.clusterers.csc_gfhf",
    "Suggestion": "mustlink.advice.suggest",
    "suggest": "mustlink.advice.suggest",
    "ui": "mustlink.core.io_entry_points",
    "ConstraintKFold": "mustlink.selection.held_out",
    "ConstraintScorer": "mustlink.selection.held_out",
    "constraint_satisfaction_score": "mustlink.selection.held_out",
    "Constraints": "mustlink.constraints",
    "Graph": "mustlink.graph",
    "bipartite_graph": "mustlink.graph",
    "graph_from_neighbors": "mustlink.graph",
    "image_graph": "mustlink.graph",
    "knn_graph": "mustlink.neighbors",
    "load": "mustlink.core.io_entry_points",
    "next_queries": "mustlink.advice.pair_questions",
    "settled": "mustlink.advice.pair_questions",
    "rbf_graph": "mustlink.graph",
    "RegionCut": "mustlink.segmentation.region_cut",
    "StrokeCut": "mustlink.segmentation.stroke_cut",
    "stability": "mustlink.advice.stability",
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
    "Auto",
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
    "graph_from_neighbors",
    "image_graph",
    "knn_graph",
    "load",
    "next_queries",
    "rbf_graph",
    "settled",
    "stability",
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
