"""The plane in which clusters lie farthest apart: coordinates of a map."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_SAMPLE = 20_000  # rows from which directions are found
_RIDGE = 1e-6  # of the mean variance: columns may depend on each other


def plane(rows: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float32]:
    """Two directions (p, 2) of rows (n, p), by scatter between clusters (n,) and within them.

    They are those of Fisher's discriminant: an eigenproblem of p × p, on a sample of the rows.
    """
    from scipy.linalg import eigh

    n, p = rows.shape
    some = np.random.default_rng(0).permutation(n)[:_SAMPLE]
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


def spread_in_plane(rows: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Places (n, 2) of the rows of an embedding (n, p) in the plane of their clusters (n,).

    Such rows crowd together, so axes are x ↦ asinh(x / median |x|) about the median.
    """
    found = rows @ plane(rows, labels)
    found -= np.median(found, axis=0)
    scale = np.maximum(np.median(np.abs(found), axis=0), 1e-30)
    return np.asarray(np.arcsinh(found / scale), dtype=np.float64)
