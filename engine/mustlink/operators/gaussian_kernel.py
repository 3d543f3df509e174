"""The Gaussian kernel of n points in factored form: Q ≈ ΦΦᵀ, never n by n.

Q_ij = exp(−‖y_i − y_j‖²/2σ²) is what WD12 (eq. 15) makes of propagated labels. Such points lie in
a simplex with few corners, so that a few columns of Q determine nearly all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustlink.operators.laplacian import Block

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_ROUNDING = 1e-14  # residual diagonal (Q_ii = 1) below which a column would be rounding
_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class FactoredKernel:
    """Φ (n, r) with Q ≈ ΦΦᵀ, the nodes `pivots` (r,) whose columns of Q are exact.

    Q − ΦΦᵀ is positive semidefinite; `error` is its trace over n, `spread` the trace over n that
    one column leaves: what is known beyond "all alike".
    """

    factor: Block
    pivots: Ints
    error: float
    spread: float


def gaussian_factor(
    points: Block,
    sigma: float,
    *,
    tol: float = 1e-4,
    least: int = 1,
    max_rank: int = 200,
    copies: Floats | None = None,
) -> FactoredKernel:
    """Pivoted Cholesky of the Gaussian kernel of points (n, d), greedy on the residual diagonal.

    Stops when tr(Q − ΦΦᵀ) <= tol times the trace that the first column leaves, so that points that
    hardly differ are resolved as well as others, but not below `least` columns; or at `max_rank`,
    or where every point is a pivot's duplicate. All nodes are alike at first: the first pivot is
    node 0. The trace counts `copies` (n,) of every point. Cost O(n r (d + r)), n·r numbers.
    Source: Fine & Scheinberg 2001.
    """
    n = points.shape[0]
    most = min(max_rank, n)
    columns = np.empty((most, n))  # transposed: every step reads and writes whole rows
    left = np.ones(n)
    pivots: list[int] = []
    spread = error = 1.0
    while len(pivots) < most:
        pivot = int(left.argmax())
        if left[pivot] <= _ROUNDING:
            break
        done = columns[: len(pivots)]
        new = kernel_column(points, pivot, sigma)
        if pivots:
            new -= done[:, pivot] @ done
        new /= np.sqrt(left[pivot])
        columns[len(pivots)] = new
        left -= new * new
        np.maximum(left, 0.0, out=left)
        left[pivot] = 0.0
        pivots.append(pivot)
        error = float(left.mean() if copies is None else np.average(left, weights=copies))
        if len(pivots) == 1:
            spread = error
        if len(pivots) >= least and error <= tol * spread:
            break
    return FactoredKernel(columns[: len(pivots)].T, np.array(pivots, dtype=np.int64), error, spread)


def kernel_column(points: Block, node: int, sigma: float) -> Floats:
    """Column of Q, (n,). By differences, not by ‖y_i‖² + ‖y_j‖² − 2y_iᵀy_j: they may be tiny."""
    n = points.shape[0]
    squared = np.empty(n)
    for start in range(0, n, _ROWS):
        gap = points[start : start + _ROWS] - points[node]
        squared[start : start + _ROWS] = np.einsum("ij,ij->i", gap, gap)
    return np.exp(squared / (-2.0 * sigma * sigma))


def normalized_factor(factor: Block, copies: Floats | None = None) -> Block:
    """Φ̄ = D_Q^-½Φ (n, r), D_Q the row sums of ΦΦᵀ, so that Q̄ = D_Q^-½QD_Q^-½ ≈ Φ̄Φ̄ᵀ.

    With `copies` (n,) of every row, the diagonal of C: Φ̄ = C^½D_Q^-½Φ, D_Q the sums ΦΦᵀc.

    The row sums of Q are at least 1, its diagonal; those of ΦΦᵀ are lifted to 1 where the factor
    stopped short of it. The largest eigenvalue of Q̄ is 1 and belongs to D_Q^½1. Cost O(n r).
    """
    if copies is None:
        sums = np.maximum(factor @ factor.sum(axis=0), 1.0)
        return factor / np.sqrt(sums)[:, None]
    sums = np.maximum(factor @ (copies @ factor), copies)
    return factor * np.sqrt(copies / sums)[:, None]
