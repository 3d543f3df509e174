"""What is solved: the Lyapunov equation of FLI11 (eq. 5), and E2CP's, which spreads twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mustlink.lyapunov.fields import Field
from mustlink.lyapunov.sources import Sources
from mustlink.operators.grounded_laplacian import Block, GroundedLaplacian


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

    def rhs(self, X: Block) -> Block:
        """2μYX for a block (m, b)."""
        return 2.0 * self.mu * self.sources.dot(X)

    def defect(self, F: Field, X: Block) -> Block:
        """(MF + FM − 2μY)X for a block (m, b)."""
        both = F.dot(np.hstack([X, self.apply(X)]))
        return self.apply(both[:, : X.shape[1]]) + both[:, X.shape[1] :] - self.rhs(X)


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


class Problem(Protocol):
    """What `residual`, the dense and the diffusion solver ask of a problem."""

    @property
    def laplacian(self) -> GroundedLaplacian:
        """L̄."""
        ...

    @property
    def sources(self) -> Sources:
        """Y."""
        ...

    @property
    def size(self) -> int:
        """Number m of nodes."""
        ...

    @property
    def weight(self) -> float:
        """What multiplies Y on the right side."""
        ...

    def symbol(self, a: Block, b: Block) -> Block:
        """φ with F = Σ φ(λ_i, λ_j) q_iq_iᵀYq_jq_jᵀ."""
        ...

    def defect(self, F: Field, X: Block) -> Block:
        """Left minus right side, times a block."""
        ...
