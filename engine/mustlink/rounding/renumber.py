"""Cluster numbers that stay the same from one clustering to the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Ints = NDArray[np.int64]


def aligned(before: Ints, after: Ints, k: int) -> tuple[Ints, float]:
    """`after` with its k clusters renumbered to overlap most with `before`; share that moved.

    Cost O(n + k³). Unassigned nodes stay -1.
    """
    both = (before >= 0) & (after >= 0)
    overlap = np.bincount(before[both] * k + after[both], minlength=k * k).reshape(k, k)
    rows, columns = linear_sum_assignment(-overlap)
    number = np.empty(k, dtype=np.int64)
    number[columns] = rows
    renamed = np.where(after >= 0, number[np.maximum(after, 0)], -1)
    return renamed, float(np.mean(renamed != before)) if before.size else 0.0


def as_classes(clusters: Ints, codes: Ints, k: int, n_classes: int) -> Ints:
    """Clusters (n,) with the numbers of the classes of their labelled nodes, `codes` (n,) or -1.

    Fewer clusters than classes are numbered without gaps; else a labelled node in no cluster
    belongs to its class. Cost O(n + max(k, n_classes)³).
    """
    labels, _ = aligned(codes, clusters, max(k, n_classes))
    if k >= n_classes:
        return np.where((labels < 0) & (codes >= 0), codes, labels)
    there = labels >= 0
    labels[there] = np.unique(labels[there], return_inverse=True)[1]
    return labels
