"""The smooth subspace: constrained problems solved in the span of L̄'s smoothest eigenvectors.

With few constraints on many nodes the exact pencil's best vectors are spikes on the constrained
nodes and no clustering comes out. Inside the span of the p smoothest eigenvectors V_p the pencil
is p by p, every β, every prefix p and every new set of constraints costs milliseconds, and the
graph's eigenvectors are computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.pencil import exceeds
from mustlink.eigen.wide_spectrum import NOISE, ROUNDING, leading_pairs
from mustlink.operators.constraint_operator import ConstraintOperator
from mustlink.operators.laplacian import Block, NormalizedLaplacian

_COUPLING = 1e-3  # how strongly components hold together, as a share of the smallest λ > 0
_SINGULAR = 1e-10  # share of ‖B‖ below which zᵀBz, or Bz, is zero
_NULL_LIMIT = 200  # components carried as directions of their own
_TINY = 1e-3  # share of the nodes below which a component is none


@dataclass(frozen=True, eq=False)
class SmoothBasis:
    """Orthonormal U (m, 1 + p): z = D^½1/√vol first, then p directions in order of smoothness.

    `values` (p,) are their Rayleigh quotients. For a disconnected graph the first of the p are
    indicator directions of the largest components, with a small positive value that stands for
    an infinitely weak tie between components; so do vectors whose λ is rounding.
    """

    laplacian: NormalizedLaplacian
    vectors: Block
    values: NDArray[np.float64]
    residuals: NDArray[np.float64]
    n_ties: int = 0

    @property
    def stiffness(self) -> NDArray[np.float64]:
        """`values` without the ties between components: 0 for the first `n_ties` directions."""
        found = self.values.copy()
        found[: self.n_ties] = 0.0
        return found

    @property
    def p(self) -> int:
        """Number of directions beside z."""
        return int(self.values.size)


def smooth_basis(
    laplacian: NormalizedLaplacian,
    values: NDArray[np.float64],
    vectors: Block,
    residuals: NDArray[np.float64],
) -> SmoothBasis:
    """Basis from the smallest pairs beyond the null space; components become directions too.

    But not tiny ones: a hundred pairs of nodes beside a large component would fill the subspace.
    """
    root = laplacian.root_degree / np.sqrt(laplacian.volume)
    count = laplacian.null.n_components
    faint = int((values <= ROUNDING).sum())  # parts that hang together by rounding only
    tie = _COUPLING * (float(values[faint]) if faint < values.size else 1.0)
    values = np.concatenate([np.full(faint, tie), values[faint:]])
    if count == 1:
        return SmoothBasis(
            laplacian, np.column_stack([root, vectors]), values, np.concatenate([residuals]), faint
        )
    share = np.bincount(laplacian.null.component, minlength=count) / laplacian.size
    large = np.flatnonzero(share >= _TINY)
    held = (large if large.size else np.arange(count))[:_NULL_LIMIT]
    Z = laplacian.null.columns(held)
    # z first, then the part of the component indicators orthogonal to it.
    C = Z.T @ root
    frame = np.linalg.qr(np.column_stack([C, np.eye(held.size)]))[0][:, 1 : held.size]
    directions = Z @ frame if held.size == count else _orthogonal_to(Z, root)
    extra = np.full(directions.shape[1], tie)
    return SmoothBasis(
        laplacian,
        np.column_stack([root, directions, vectors]),
        np.concatenate([extra, values]),
        np.concatenate([np.zeros(extra.size), residuals]),
        extra.size + faint,
    )


def _orthogonal_to(Z: Block, root: NDArray[np.float64]) -> Block:
    """Orthonormal basis of span(Z) made orthogonal to z, when Z does not contain z."""
    return np.linalg.qr(Z - root[:, None] * (root @ Z))[0]


@dataclass(frozen=True, eq=False)
class ReducedPencil:
    """UᵀQ̄U once for all p and β; see `solve`."""

    basis: SmoothBasis
    Q: ConstraintOperator

    @cached_property
    def constraint(self) -> Block:
        """UᵀQ̄U, (1 + p, 1 + p); only rows of constrained nodes take part."""
        U = self.basis.vectors[self.Q.support]
        T = U.T @ self.Q.inner(U)
        return (T + T.T) / 2

    def spectrum(self, p: int) -> NDArray[np.float64]:
        """Eigenvalues of Q̄ inside span{z, V_p}, descending."""
        T = self.constraint[: p + 1, : p + 1]
        return np.asarray(np.linalg.eigvalsh(T)[::-1], dtype=np.float64)

    def solve(self, p: int, beta: float) -> tuple[NDArray[np.float64], Block, NDArray[np.float64]]:
        """Feasible pairs in span{z, V_p}: λ (r,), coefficients C (1 + p, r), cost vᵀL̄v (r,).

        v = UC has ‖v‖² = vol; pairs come in order of cost. β as in `Pencil`.
        """
        T = self.constraint[: p + 1, : p + 1]
        B = T - beta * np.eye(p + 1)
        theta = np.maximum(self.basis.values[:p], 1e-300)
        bz, inner, corner = B[1:, 0], B[1:, 1:], B[0, 0]
        floor = _SINGULAR * max(np.abs(B).max(), 1e-300)
        regular = abs(corner) > floor
        S = inner - np.outer(bz, bz) / corner if regular else inner
        coupled = not regular and np.linalg.norm(bz) > floor
        M = np.diag(theta)
        if coupled:  # zᵀBv = 0 demands w ⟂ Bz, see `Pencil`
            P = np.eye(p) - np.outer(bz, bz) / (bz @ bz)
            S, M = P @ S @ P, P @ M @ P + np.eye(p) - P
        mu, W = leading_pairs(S, M)
        positive = mu > NOISE * mu.max(initial=0.0)
        mu, W = mu[positive], W[:, positive]
        a = np.zeros(mu.size)
        if regular:
            a = -(bz @ W) / corner
        elif coupled:
            a = bz @ (theta[:, None] * W * mu - inner @ W) / (bz @ bz)
        C = np.vstack([a, W])
        volume = self.basis.laplacian.volume
        C *= np.sqrt(volume) / np.linalg.norm(C, axis=0)
        cost = theta @ (C[1:] ** 2)
        real = exceeds(mu, cost, volume, float(np.abs(B).max()))
        mu, C, cost = mu[real], C[:, real], cost[real]
        order = np.argsort(cost, kind="stable")
        return 1.0 / mu[order], C[:, order], cost[order]
