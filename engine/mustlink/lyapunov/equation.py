"""What is solved: the Lyapunov equation of FLI11 (eq. 5), and E2CP's, which spreads twice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mustlink.lyapunov.fields import DenseField, Field
from mustlink.lyapunov.sources import Sources
from mustlink.operators.laplacian import Block, GroundedLaplacian

_COLUMNS = 256  # unit vectors or probes treated at once
_EXACT_BELOW = 2000  # nodes: the residual is summed over all unit vectors


@dataclass(frozen=True, eq=False)
class LyapunovProblem:
    """MF + FM = 2μY with M = μI + L̄ on m nodes, spectrum of M in [μ, μ + 2] (FLI11 eq. 5).

    F minimises μ‖F − Y‖² + ½tr(FᵀL̄F + FL̄Fᵀ) (eq. 3). It exists and is unique for μ > 0, and is
    symmetric as Y is. With α = 1/(1 + μ) it is the limit of eq. 7's spreading.
    """

    laplacian: GroundedLaplacian
    mu: float
    sources: Sources

    @property
    def size(self) -> int:
        """Number m of nodes."""
        return self.laplacian.size

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b), one product with S."""
        return self.laplacian.apply(X) + self.mu * X

    @property
    def weight(self) -> float:
        """What multiplies Y: 2μ."""
        return 2.0 * self.mu

    def symbol(self, a: Block, b: Block) -> Block:
        """φ with F = Σ φ(λ_i, λ_j) q_iq_iᵀYq_jq_jᵀ for the pairs (λ, q) of L̄."""
        return 2.0 * self.mu / (a + b + 2.0 * self.mu)

    def defect(self, F: Field, X: Block) -> Block:
        """(MF + FM − 2μY)X for a block (m, b)."""
        both = F.dot(np.hstack([X, self.apply(X)]))
        left = self.apply(both[:, : X.shape[1]]) + both[:, X.shape[1] :]
        return left - self.weight * self.sources.dot(X)


@dataclass(frozen=True, eq=False)
class ExhaustiveProblem:
    """(I − αS)F(I − αS) = (1 − α)²Y on m nodes, 0 < α < 1: E2CP (Lu & Ip 2010).

    Rows are spread first, as by `LLGC`, then columns; F is unique, and symmetric as Y is.
    """

    laplacian: GroundedLaplacian
    alpha: float
    sources: Sources

    @property
    def size(self) -> int:
        """Number m of nodes."""
        return self.laplacian.size

    @property
    def weight(self) -> float:
        """What multiplies Y: (1 − α)²."""
        return (1.0 - self.alpha) ** 2

    def symbol(self, a: Block, b: Block) -> Block:
        """φ with F = Σ φ(λ_i, λ_j) q_iq_iᵀYq_jq_jᵀ for the pairs (λ, q) of L̄."""
        scale = 1.0 - self.alpha
        return (scale / (scale + self.alpha * a)) * (scale / (scale + self.alpha * b))

    def apply(self, X: Block) -> Block:
        """(I − αS)X for a block (m, b), one product with S."""
        return self.alpha * self.laplacian.apply(X) + (1.0 - self.alpha) * X

    def defect(self, F: Field, X: Block) -> Block:
        """What is missing for equality, times a block (m, b)."""
        return self.apply(F.dot(self.apply(X))) - self.weight * self.sources.dot(X)


Problem = LyapunovProblem | ExhaustiveProblem


def residual(problem: Problem, field: Field, *, probes: int = 64, seed: int = 0) -> float:
    """‖left − right side‖/‖right side‖ in the Frobenius norm, from nothing but products with F.

    Up to 2,000 nodes the residual matrix R is applied to all unit vectors. Beyond, ‖R‖² is the
    mean of ‖Rz‖² over random signs z (Hutchinson 1989); its standard error is at most
    ‖R‖²·(2/probes)^½, 9 % of ‖R‖ with 64 probes. Cost: 2 products with F and M per vector.
    """
    m = problem.size
    size = problem.weight * problem.sources.norm
    exact = m <= _EXACT_BELOW
    rng = np.random.default_rng(seed)
    count = m if exact else probes
    total = 0.0
    for start in range(0, count, _COLUMNS):
        width = min(_COLUMNS, count - start)
        if exact:
            X = np.zeros((m, width))
            X[np.arange(start, start + width), np.arange(width)] = 1.0
        else:
            X = rng.choice([-1.0, 1.0], size=(m, width))
        R = problem.defect(field, X)
        total += float(np.vdot(R, R))
    if not exact:
        total /= count
    return float(np.sqrt(total)) / (size if size > 0 else 1.0)


def solve_dense(problem: Problem) -> DenseField:
    """F = Q(φ(λ_i, λ_j) ∘ QᵀYQ)Qᵀ with L̄ = QΛQᵀ, to rounding.

    For the Lyapunov equation this is Bartels & Stewart (1972): L̄ is symmetric, so that its Schur
    form is diagonal and the triangular solve a division. Cost 9m³ + 6m³ operations, five matrices.
    """
    values, Q = problem.laplacian.dense_pairs
    Y = Q.T @ problem.sources.dot(Q)
    F = Q @ (Y * problem.symbol(values[:, None], values)) @ Q.T
    return DenseField(0.5 * (F + F.T))
