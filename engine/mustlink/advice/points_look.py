"""What points look like as numbers: zeros, whole numbers, columns of other scale, duplicates."""

from __future__ import annotations

import numpy as np

from mustlink.advice.observations import Coordinates
from mustlink.advice.sample import Floats

_ROWS = 2000  # looked at: shares need no more
_COUNTS_ZEROS = 0.9  # share of zeros from which non-negative numbers are words, tags, genes …
_COUNTS_COLUMNS = 100
_NUMBERED = 20  # rows from which whole numbers, each once, may be numbers of rows
_COVERED = 1.1  # times as many whole numbers as rows in the range of such a column


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


def row_numbers(X: Floats, n: int) -> tuple[int, ...]:
    """Columns of a sample X (m, d) of n rows, in their order, that only number the rows.

    Whole numbers, each once, that rise or fall throughout or fill nearly all of their range.
    """
    if X.shape[0] < _NUMBERED:
        return ()

    def numbers(x: Floats) -> bool:
        if not np.all(x == np.rint(x)):
            return False
        step = np.diff(x)
        if np.all(step > 0) or np.all(step < 0):
            return True
        return bool(np.ptp(x) < _COVERED * n and np.unique(x).size == x.size)

    found = tuple(at for at in range(X.shape[1]) if numbers(X[:, at]))
    return found if len(found) < X.shape[1] else ()


def _duplicates(X: Floats) -> float:
    """Share of rows that equal an earlier or later one."""
    rows = np.ascontiguousarray(X).view(np.dtype((np.void, X.dtype.itemsize * X.shape[1])))
    times = np.unique(rows.ravel(), return_counts=True)[1]
    return float(times[times > 1].sum() / X.shape[0])


def are_counts(c: Coordinates, d: int) -> bool:
    """Whether points look like words or tags of documents: few of many columns, none negative."""
    return not c.negative and c.zeros >= _COUNTS_ZEROS and d >= _COUNTS_COLUMNS
