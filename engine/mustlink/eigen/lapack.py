"""Dense eigensolvers: the oracle for small graphs at home, and the method for them."""

from __future__ import annotations

import numpy as np

from mustlink.numeric import dense_algebra
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.result import Convergence, EigenResult


def dense_smallest(laplacian: NormalizedLaplacian, k: int) -> EigenResult:
    """The k smallest pairs of L̄ beyond its null space, by LAPACK. Cost O(m³), m² numbers."""
    m, null = laplacian.size, laplacian.null
    shifted = laplacian.to_dense() + 4.0 * (null.matrix @ null.matrix.T).toarray()
    room = m - null.n_components
    values, vectors = dense_algebra.eigh(shifted, subset=(0, min(k + 1, m) - 1))
    beyond = float(values[k]) if k < room else None
    values, vectors = values[:k], vectors[:, :k]
    R = laplacian.apply(vectors) - vectors * values
    residuals = np.linalg.norm(R, axis=0)
    convergence = Convergence("dense", "direct", 0, residuals, 1e-10)
    return EigenResult(values, vectors, convergence, beyond)
