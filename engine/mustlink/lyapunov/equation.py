"""The Lyapunov equation of constraint propagation (FLI11 eq. 5), and how well it is solved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.operators.laplacian import Block, GroundedLaplacian

_COLUMNS = 256  # unit vectors or probes treated at once
_EXACT_BELOW = 2000  # nodes: the residual is summed over all unit vectors


@dataclass(frozen=True, eq=False)
class Sources:
    """Y = BCBᵀ: what is known about pairs of m nodes, B (m, c) CSC and C (c, c) CSR, symmetric.

    A column of B is a source that spreads over the graph: a node, the partners of a node that has
    very many, or the nodes of a class. Nothing of size m × m is ever stored.
    """

    B: sp.csc_matrix
    C: sp.csr_matrix

    @property
    def count(self) -> int:
        """Number c of sources."""
        return int(self.B.shape[1])

    def dot(self, X: Block) -> Block:
        """YX for a block (m, b)."""
        return np.asarray(self.B @ (self.C @ (self.B.T @ X)))

    @cached_property
    def norm(self) -> float:
        """Frobenius norm of Y: ‖Y‖² = tr(C G C G) with G = BᵀB. Cost O(nnz(GC))."""
        product = sp.csr_matrix((self.B.T @ self.B) @ self.C)
        return float(np.sqrt(max(float(product.multiply(product.T).sum()), 0.0)))


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
        return self.apply(F.dot(X)) + F.dot(self.apply(X)) - self.rhs(X)


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


class Field(Protocol):
    """F (m, m), symmetric, in whatever form its solver found it."""

    def dot(self, X: Block) -> Block:
        """FX for a block (m, b)."""
        ...

    def on_pattern(self, pattern: sp.csr_matrix) -> NDArray[np.float64]:
        """F_ij for every stored (i, j) of a CSR pattern (m, m), in its order, (nnz,)."""
        ...


@dataclass(frozen=True)
class Residual:
    """‖left − right side‖/‖right side‖ in the Frobenius norm; `exact`, or an estimate."""

    relative: float
    exact: bool


def residual(problem: Problem, field: Field, *, probes: int = 64, seed: int = 0) -> Residual:
    """How far F is from solving the problem, from nothing but products with F.

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
    return Residual(float(np.sqrt(total)) / size if size > 0 else float(np.sqrt(total)), exact)
