"""Cuts of one vector by trying every threshold."""

from __future__ import annotations

import numpy as np

from oracles.scores import ncut_of


def best_split(W, vector):
    """Least NCut over all thresholds between two distinct values of a vector."""
    values = np.unique(vector)
    return min(ncut_of(W, vector > t) for t in (values[1:] + values[:-1]) / 2)
