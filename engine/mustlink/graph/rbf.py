"""The full Gaussian affinity of small point sets, as in the papers' experiments."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mustlink.check import as_points, check_positive
from mustlink.errors import InputError
from mustlink.graph.graph import Graph
from mustlink.graph.weights import FLOOR

LARGEST = 20_000  # nodes; 4·10⁸ entries


def rbf_graph(points: Any, sigma: float | None = None) -> Graph:
    """Complete graph W_ij = exp(-|x_i - x_j|²/(2σ²)), W_ii = 0, entries at least 1e-8.

    Without `sigma`, σ² is the mean variance of the features, so that standardised features give
    σ = 1 (WHC11 §5, FLI11 §5). For at most 20,000 points: 12 n² bytes. Raises InputError.
    """
    X = as_points(points).astype(np.float64)
    n, exponent = X.shape[0], -int(np.frexp(np.abs(X).max())[1])
    X = np.ldexp(X, exponent)  # squares of values of any size fit
    if not 2 <= n <= LARGEST:
        advice = "use affinity='knn'" if n > LARGEST else "give at least 2"
        raise InputError(f"points: {n} given, affinity='rbf' takes 2 to {LARGEST}; {advice}")
    if sigma is None:
        spread = float(np.sqrt(X.var(axis=0).mean()))
        sigma = spread if spread > 0 else float(np.ldexp(1.0, exponent))
    else:
        sigma = float(np.ldexp(check_positive(sigma, "sigma"), exponent))
    X -= X.mean(axis=0)
    norms = np.einsum("ij,ij->i", X, X)
    data = np.empty((n, n - 1))
    indices = np.empty((n, n - 1), dtype=np.int32)
    nodes = np.arange(n, dtype=np.int32)
    block = max(1, (1 << 22) // n)
    for start in range(0, n, block):
        rows = np.arange(start, min(start + block, n))
        squared = np.maximum(norms[rows, None] + norms - 2 * (X[rows] @ X.T), 0.0)
        weights = np.maximum(np.exp(squared / (-2 * sigma * sigma)), FLOOR)
        off = nodes[None, :] != rows[:, None]
        data[rows] = weights[off].reshape(rows.size, n - 1)
        indices[rows] = np.broadcast_to(nodes, off.shape)[off].reshape(rows.size, n - 1)
    indptr = np.arange(0, n * (n - 1) + 1, n - 1, dtype=np.int64)
    _mirror(data)
    W = sp.csr_matrix((data.ravel(), indices.ravel(), indptr), shape=(n, n))
    return Graph(W, {"kind": "rbf", "sigma": float(np.ldexp(sigma, -exponent))})


def _mirror(data: np.ndarray) -> None:
    """Make the off-diagonal array (n, n-1) exactly symmetric: block products round differently."""
    n = data.shape[0]
    for i in range(1, n):
        data[i, :i] = data[np.arange(i), i - 1]
