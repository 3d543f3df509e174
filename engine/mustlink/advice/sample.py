"""Points that are looked at: a sample of rows, quickly read wherever they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.check import as_points
from mustlink.errors import InputError
from mustlink.neighbours.points_by_rows import is_rows
from mustlink.preparation.prepared_rows import prepared
from mustlink.preparation.request import Preparation

WORK = 6e9  # m²(d + 130) of comparing all pairs of a sample: half a second
MOST = 6000  # points of a sample
RUN = 32  # neighbouring rows read in one go from a file
Floats = NDArray[np.floating]


def is_square(data: Any) -> bool:
    """Whether data are a square sparse matrix, and so a graph."""
    is_matrix: bool = sp.issparse(data)
    return is_matrix and data.ndim == 2 and data.shape[0] == data.shape[1]


def readable(points: Any) -> tuple[Any, bool]:
    """Points (n, d) as a checked array, or as rows to be read by blocks; raises InputError.

    Missing values (NaN) of an array are filled with means; tells whether there were some.
    """
    is_sparse: bool = sp.issparse(points)
    if is_sparse:
        raise InputError(
            f"points: sparse matrix of shape {points.shape}; reduce it first, as by "
            "sklearn.decomposition.TruncatedSVD(100), or pass points.toarray()"
        )
    if not is_rows(points):
        X = as_points(points, allow_missing=True)
        if not np.isnan(X).any():
            return X, False
        if np.isnan(X).all():
            raise InputError("points: NaN in every cell; there is nothing to look at")
        return prepared(X, Preparation(impute="mean"))[:], True
    if len(points.shape) != 2 or 0 in points.shape:
        raise InputError(f"points: shape {tuple(points.shape)}; give (n points, d features)")
    return points, False


def sample_size(n: int, d: int) -> int:
    """Points that are compared with each other within a fixed amount of work."""
    return int(min(n, MOST, max(500, (WORK / (d + 130)) ** 0.5)))


def sampled_rows(points: Any, rng: np.random.Generator) -> NDArray[np.int64]:
    """Numbers of the rows of a sample, ascending: any of an array, short runs of a file."""
    n, d = (int(size) for size in points.shape)
    m = sample_size(n, d)
    if m == n:
        return np.arange(n)
    if not is_rows(points):
        return np.sort(rng.choice(n, m, replace=False))
    starts = np.sort(rng.choice(n // RUN, m // RUN, replace=False)) * RUN
    found: NDArray[np.int64] = (starts[:, None] + np.arange(RUN)).ravel()
    return found


def take(points: Any, rows: NDArray[np.int64]) -> NDArray[np.floating]:
    """Ascending rows (m, d) of an array or a file; raises InputError for NaN and Inf."""
    if isinstance(points, np.ndarray):
        return points[rows]
    cuts = np.flatnonzero(np.diff(rows) > 1) + 1
    parts = [points[int(run[0]) : int(run[-1]) + 1] for run in np.split(rows, cuts)]
    return as_points(np.concatenate([np.asarray(part) for part in parts]))
