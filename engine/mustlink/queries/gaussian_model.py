"""What answers tell of the other nodes: a Gaussian model on the smooth vectors of the graph.

A class's indicator is f = Uα with α ~ N(0, diag(c)), an answer on node k is f_k with noise of
variance γ, so that wrong answers are allowed for. Then

    C = (diag(1/c) + Σ_known u_k u_kᵀ/γ)⁻¹,   C⁺ = C − C u_k u_kᵀ C/(γ + u_kᵀ C u_k)

before and after one more: p × p, whatever it will say (Zhu, Ghahramani & Lafferty 2003; cut off at
p vectors: Miller & Bertozzi, arXiv:2110.07739). What is needed of C is kept node by node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.blocks import combine, row_slices
from mustlink.numeric import dense_algebra

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NOISE = 0.1  # variance of an answer, of an indicator whose mean variance is 1
_CUT = 9  # the smooth vector from whose λ on directions are no longer equally likely
_SLACK = 0.1  # of that λ, added to all


@dataclass(eq=False)
class GaussianModel:
    """U (m, p) orthonormal, C (p, p); `variance` u_iᵀCu_i and `reach` ‖Cu_i‖² (m,)."""

    U: Floats
    C: Floats
    variance: Floats
    reach: Floats
    noise: float = NOISE

    @classmethod
    def of(cls, U: Floats, values: Floats, known: Ints, noise: float = NOISE) -> Self:
        """The model once the nodes `known` are answered; `values` (p,) are those of U's columns.

        Cost O(mp²).
        """
        c = prior(values, len(U))
        rows = U[known].astype(np.float64)
        C = dense_algebra.solve(np.diag(1.0 / c) + rows.T @ rows / noise, np.eye(c.size))
        variance, reach = np.empty(len(U)), np.empty(len(U))
        for some in row_slices(*U.shape):
            part = U[some].astype(np.float64, copy=False)
            A = part @ C
            variance[some] = np.einsum("ij,ij->i", A, part)
            reach[some] = np.einsum("ij,ij->i", A, A)
        return cls(U, C, variance, reach, noise)

    def covariance(self, node: int) -> Floats:
        """Of the node with every one, (m,): U C u_k. Cost O(mp)."""
        found = combine(self.U, (self.C @ self.row(node))[:, None])[:, 0]
        return found.astype(np.float64, copy=False)

    def row(self, node: int) -> Floats:
        """The row u_k (p,), double."""
        return self.U[node].astype(np.float64)

    def answer(self, node: int) -> Floats:
        """Take a node as answered; returns its covariances before. Cost O(mp)."""
        c = self.C @ self.row(node)
        both = combine(self.U, np.column_stack([c, self.C @ c])).astype(np.float64, copy=False)
        t, s = both[:, 0], both[:, 1]
        left = self.noise + self.variance[node]
        self.reach += t * (t * (c @ c) / left**2 - 2.0 * s / left)
        self.variance -= t**2 / left
        np.maximum(self.reach, 0.0, out=self.reach)
        np.maximum(self.variance, 0.0, out=self.variance)
        self.C = self.C - np.outer(c, c) / left
        return t


def prior(values: Floats, m: int) -> Floats:
    """Variances c (p,) ~ 1/(λ + τ), such that m nodes have a mean variance of 1."""
    bend = _SLACK * values[min(_CUT, values.size - 1)]
    c = 1.0 / np.maximum(values + bend, np.finfo(np.float64).tiny ** 0.25)
    found: Floats = c * (m / c.sum())
    return found
