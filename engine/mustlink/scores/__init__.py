"""How good a clustering is: constraints kept, cuts, modularity, and WHC11's criterion E."""

from mustlink.scores.cuts import cluster_cuts, conductances, criterion_e, mncut, network_scores
from mustlink.scores.kept import (
    balanced_share,
    broken_pairs,
    kept_by_kind,
    pairs_kept,
    satisfaction,
    satisfaction_added,
    stray_labels,
)

__all__ = [
    "balanced_share",
    "broken_pairs",
    "cluster_cuts",
    "conductances",
    "criterion_e",
    "kept_by_kind",
    "mncut",
    "network_scores",
    "pairs_kept",
    "satisfaction",
    "satisfaction_added",
    "stray_labels",
]
