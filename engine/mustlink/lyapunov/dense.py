"""F by LAPACK, for small graphs: every entry, to rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.lyapunov.equation import Problem
from mustlink.operators.laplacian import Block


@dataclass(frozen=True, eq=False)
class DenseField:
    """F (m, m) written out."""

    matrix: Block

    def dot(self, X: Block) -> Block:
        """FX for a block (m, b)."""
        return self.matrix @ X

    def on_pattern(self, pattern: sp.csr_matrix) -> NDArray[np.float64]:
        """F_ij for every stored (i, j) of the pattern."""
        rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        return np.asarray(self.matrix[rows, pattern.indices])


def solve_dense(problem: Problem) -> DenseField:
    """F = Q(φ(λ_i, λ_j) ∘ QᵀYQ)Qᵀ with L̄ = QΛQᵀ, to rounding.

    For the Lyapunov equation this is Bartels & Stewart (1972): L̄ is symmetric, so that its Schur
    form is diagonal and the triangular solve a division. Cost 9m³ + 6m³ operations, five matrices.
    """
    values, Q = la.eigh(problem.laplacian.to_dense())
    Y = Q.T @ problem.sources.dot(Q)
    F = Q @ (Y * problem.symbol(values[:, None], values)) @ Q.T
    return DenseField(0.5 * (F + F.T))
