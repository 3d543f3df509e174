"""F by LAPACK, for small graphs: every entry, to rounding."""

from __future__ import annotations

from mustlink.lyapunov.equation import Problem
from mustlink.lyapunov.fields import DenseField
from mustlink.numeric import dense_algebra


def solve_dense(problem: Problem) -> DenseField:
    """F = Q(φ(λ_i, λ_j) ∘ QᵀYQ)Qᵀ with L̄ = QΛQᵀ, to rounding.

    For the Lyapunov equation this is Bartels & Stewart (1972): L̄ is symmetric, so that its Schur
    form is diagonal and the triangular solve a division. Cost 9m³ + 6m³ operations, five matrices.
    """
    values, Q = dense_algebra.eigh(problem.laplacian.to_dense())
    Y = Q.T @ problem.sources.dot(Q)
    F = Q @ (Y * problem.symbol(values[:, None], values)) @ Q.T
    return DenseField(0.5 * (F + F.T))
