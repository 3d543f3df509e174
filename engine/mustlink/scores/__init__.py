"""How good a clustering is: constraints kept, cuts, modularity, and WHC11's criterion E."""

from mustlink.scores.cuts import conductances, mncut, network_scores
from mustlink.scores.kept import (
    broken_pairs,
    kept_by_kind,
    satisfaction,
    satisfaction_added,
    stray_labels,
)

__all__ = [
    "broken_pairs",
    "conductances",
    "kept_by_kind",
    "mncut",
    "network_scores",
    "satisfaction",
    "satisfaction_added",
    "stray_labels",
]
