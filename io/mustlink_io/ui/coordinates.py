"""Where rows are on a map: two coordinates each, and which of them lie inside a drawn line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.embedding import LaplacianEigenmaps
from mustlink.errors import InputError
from mustlink.graph import Graph

Floats = NDArray[np.float64]
_SAMPLE = 20_000  # rows from which directions are found
_RIDGE = 1e-6  # of the mean variance: columns may depend on each other
_OUTER = 0.001  # share of rows on either side that do not decide what is shown at first
_MARGIN = 0.04
_MAPS = 6  # vectors of a graph, among which its map is found


def flat(estimator: Any, given: Any = None, seed: int = 0) -> NDArray[np.float32]:
    """Coordinates (n, 2) of a fitted estimator's rows; they stay when it is refitted.

    `given` (n, 2) are taken as they are, and so are points of two columns. Else it is the plane in
    which the clusters lie farthest apart for how wide they are (Fisher's discriminant), of points,
    or of a graph's embedding; found from a sample. A fit without an embedding of two columns has
    Laplacian eigenmaps made of its graph, which take an eigenproblem. The rows of an embedding
    crowd together, so that its axes are x ↦ asinh(x / median |x|) about the median. Raises
    InputError.
    """
    n = estimator.labels_.size
    if given is not None:
        return as_given(given, n)
    points = getattr(estimator, "_points", None)
    if isinstance(points, np.ndarray) and points.ndim == 2 and len(points) == n:
        if points.shape[1] == 2:
            return _finite(points)
        return _finite(points @ _plane(points, estimator.labels_, seed))
    rows = getattr(estimator, "embedding_", None)
    if not (isinstance(rows, np.ndarray) and rows.ndim == 2 and len(rows) == n):
        rows = _eigenmaps(estimator, seed)
    elif rows.shape[1] < 2:
        rows = np.column_stack([rows, _eigenmaps(estimator, seed)])
    found = rows @ _plane(rows, estimator.labels_, seed)
    found -= np.median(found, axis=0)
    return _finite(np.arcsinh(found / np.maximum(np.median(np.abs(found), axis=0), 1e-30)))


def as_given(given: Any, n: int) -> NDArray[np.float32]:
    """Coordinates (n, 2) that a person gave; raises InputError for other shapes, NaN and Inf."""
    found = np.asarray(given)
    if found.shape != (n, 2) or found.dtype.kind not in "fiu":
        raise InputError(f"map: shape {found.shape}; give two coordinates for each of {n} rows")
    return _finite(found)


def inside(where: NDArray[np.float32], xs: Any, ys: Any) -> NDArray[np.int64]:
    """Numbers of the points (n, 2) inside a closed line through corners (m,), by even and odd.

    Every edge looks only at the points beside it: these are in order of their second coordinate.
    Cost: O(n log n) of those in the line's bounding box.
    """
    x, y = np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64)
    if x.size < 3 or x.shape != y.shape or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return np.empty(0, dtype=np.int64)
    box = (where[:, 0] >= x.min()) & (where[:, 0] <= x.max())
    box &= (where[:, 1] >= y.min()) & (where[:, 1] <= y.max())
    near = np.flatnonzero(box)
    near = near[np.argsort(where[near, 1], kind="stable")]
    px, py = where[near, 0].astype(np.float64), where[near, 1].astype(np.float64)
    odd = np.zeros(near.size, dtype=bool)
    for x0, y0, x1, y1 in zip(x, y, np.roll(x, -1), np.roll(y, -1), strict=True):
        if y0 == y1:
            continue
        first, last = np.searchsorted(py, [min(y0, y1), max(y0, y1)])  # lower end in, upper out
        part = slice(first, last)
        odd[part] ^= px[part] < x0 + (py[part] - y0) * (x1 - x0) / (y1 - y0)
    return np.sort(near[odd])


def nearest(where: NDArray[np.float32], x: float, y: float, ranges: Any) -> int:
    """The row nearest to a place, as far as one sees: axes count by their `ranges`."""
    (x0, x1), (y0, y1) = ranges
    across = (where[:, 0] - np.float32(x)) / np.float32(abs(x1 - x0) or 1.0)
    along = (where[:, 1] - np.float32(y)) / np.float32(abs(y1 - y0) or 1.0)
    return int(np.argmin(across**2 + along**2))


def window(where: NDArray[np.float32]) -> tuple[tuple[float, float], tuple[float, float]]:
    """What to show at first: all but a few outliers, with a margin."""
    low, high = np.quantile(where, [_OUTER, 1 - _OUTER], axis=0)
    room = np.where(high > low, _MARGIN * (high - low), 1.0)
    (x0, y0), (x1, y1) = low - room, high + room
    return (float(x0), float(x1)), (float(y0), float(y1))


def _eigenmaps(estimator: Any, seed: int) -> NDArray[np.float64]:
    """Laplacian eigenmaps (n, d) of the graph of a fit; raises InputError."""
    graph = getattr(estimator, "graph_", None)
    if not isinstance(graph, Graph):
        raise InputError("map: the fit has no graph here; give coordinates (n, 2) as map")
    d = min(_MAPS, graph.n_nodes - 2)
    made = LaplacianEigenmaps(d, affinity="precomputed", random_state=seed).fit(graph)
    found: NDArray[np.float64] = np.asarray(made.embedding_)
    return found


def _plane(rows: NDArray[Any], labels: NDArray[Any], seed: int) -> NDArray[np.float32]:
    """Two directions (p, 2), by the generalised eigenproblem of scatter between and within."""
    from scipy.linalg import eigh

    n, p = rows.shape
    some = np.random.default_rng(seed).permutation(n)[:_SAMPLE]
    X = rows[some].astype(np.float64)
    scale = X.std(axis=0)
    scale[scale == 0] = 1.0
    X = (X - X.mean(axis=0)) / scale
    if p < 2:
        return np.column_stack([1 / scale, np.zeros(p)]).astype(np.float32)
    groups, codes = np.unique(labels[some], return_inverse=True)
    counts = np.bincount(codes)
    sums = np.zeros((groups.size, p))
    np.add.at(sums, codes, X)
    means = sums / counts[:, None]
    within = (X - means[codes]).T @ (X - means[codes]) / len(X)
    between = X.T @ X / len(X) - within
    if groups.size < 3:  # these have one direction, the widest is put beside it
        between += 1e-3 * within @ within
    within += _RIDGE * np.trace(within + between) / p * np.eye(p)
    found = eigh(between, within)[1][:, ::-1][:, :2]
    found *= np.sign(found[np.abs(found).argmax(axis=0), [0, 1]])
    return np.asarray(found / scale[:, None], dtype=np.float32)


def _finite(found: NDArray[Any]) -> NDArray[np.float32]:
    flat = np.ascontiguousarray(found, dtype=np.float32)
    if not np.isfinite(flat).all():
        raise InputError("map: NaN or Inf among the coordinates; give numbers")
    return flat
