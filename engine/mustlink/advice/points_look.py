"""What points look like as numbers: zeros, whole numbers, columns of other scale, duplicates."""

from __future__ import annotations

import numpy as np

from mustlink.advice.observations import Coordinates
from mustlink.advice.sample import Floats

_ROWS = 2000  # looked at: shares need no more
_COUNTS_ZEROS = 0.9  # share of zeros from which non-negative numbers are words, tags, genes …
_COUNTS_COLUMNS = 100


def look_at_points(X: Floats) -> Coordinates:
    """Traits of points (m, d), a sample of them where m is large. Cost O(md)."""
    step = max(1, X.shape[0] // _ROWS)
    some = X[::step]
    variance = X.var(axis=0, dtype=np.float64)
    varying = variance > 0
    total = float(variance.sum())
    largest = int(np.argmax(variance))
    median = float(np.median(variance[varying])) if varying.any() else 0.0
    return Coordinates(
        zeros=float(np.mean(some == 0)),
        whole=bool(np.all(some == np.round(some))),
        negative=bool((X < 0).any()),
        largest=largest,
        dominance=float(variance[largest] / total) if total > 0 else 0.0,
        spread=float(np.sqrt(variance[largest] / median)) if median > 0 else 1.0,
        constant=int(np.count_nonzero(~varying)),
        duplicates=_duplicates(X),
    )


def _duplicates(X: Floats) -> float:
    """Share of rows that equal an earlier or later one."""
    rows = np.ascontiguousarray(X).view(np.dtype((np.void, X.dtype.itemsize * X.shape[1])))
    times = np.unique(rows.ravel(), return_counts=True)[1]
    return float(times[times > 1].sum() / X.shape[0])


def are_counts(c: Coordinates, d: int) -> bool:
    """Whether points look like words or tags of documents: few of many columns, none negative."""
    return not c.negative and c.zeros >= _COUNTS_ZEROS and d >= _COUNTS_COLUMNS
