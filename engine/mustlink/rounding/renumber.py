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
