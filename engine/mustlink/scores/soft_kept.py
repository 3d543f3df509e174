"""What clusters keep of soft labels: expected must-links and cannot-links, through sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints.soft_labels import SoftLabels

Floats = NDArray[np.float64]


def soft_tally(found: NDArray[np.int64], told: SoftLabels, beliefs: tuple[float, float]) -> Floats:
    """Return the nine numbers of `kept`: pairs count by what is expected, weights by belief.

    `found` (n,) are clusters, -1 none. A pair is a must-link with chance ⟨y_i, y_j⟩, else a
    cannot-link. Cost O(nK).
    """
    left = told.told & (found < 0)
    there = told.only(found >= 0)
    m, out = int(there.told.sum()), int(left.sum())
    unclustered = out * m + out * (out - 1) // 2
    clusters = np.maximum(found, 0)
    counts = _kept(clusters, there.certain) * (np.repeat(beliefs, 2) > 0)
    weights = _kept(clusters, there) * np.repeat(beliefs, 2)
    return np.array([*counts, *weights, unclustered])


def _kept(clusters: NDArray[np.int64], told: SoftLabels) -> Floats:
    """Σ_{i<j} of must-links, of those kept, of cannot-links, of those kept."""
    u = told.belief
    shares = u[:, None] * told.values
    must, must_kept = _pairs(shares, clusters)
    both, together = _pairs(u[:, None], clusters)
    cannot = both - must
    return np.maximum([must, must_kept, cannot, cannot - (together - must_kept)], 0.0)


def _pairs(A: Floats, clusters: NDArray[np.int64]) -> tuple[float, float]:
    """Σ_{i<j} ⟨a_i, a_j⟩ over all pairs of rows of A (n, K), and over those in one cluster."""
    own = float(np.square(A).sum())
    inside = np.column_stack([np.bincount(clusters, a) for a in A.T])
    whole = float(np.square(A.sum(axis=0)).sum())
    return (whole - own) / 2, (float(np.square(inside).sum()) - own) / 2
