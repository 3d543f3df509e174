"""Eigenvectors of a Gaussian process's posterior covariance whose prior is the affinity itself.

With the covariance K = W + D (W, with loops that make it positive semidefinite) and observations
x_i = ±x_j of variance s², rows of F, the posterior covariance is

    K' = K − KFᵀ(s²I + FKFᵀ)⁻¹FK,    D^-½K'D^-½ = I + S − R,

so that its leading vectors are the smallest of L̄ + R, R >= 0 of as many columns as there are
constrained nodes, and nothing but on their neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints.links import NodeMatrix
from mustlink.eigen.penalized import PenalizedProblem
from mustlink.eigen.problem import Solution, Solving
from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.errors import InputError
from mustlink.numeric import dense_algebra
from mustlink.operators.constraint_operator import ConstraintOperator, local_operator
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.space import Block, LocalSpace, Space
from mustlink.workspace import Workspace

_CONSTRAINED = 3_000  # nodes, whose covariance is a dense matrix
_NOTHING = 1e-12  # relative size below which an observation says nothing


@dataclass(frozen=True, eq=False)
class LostVariance:
    """R(s²) = G·T·diag(1/(s² + σ))·TᵀGᵀ on the nodes of `support`.

    `columns` G (s, c) is D^-½K of the c constrained nodes, `turn` T (c, r), `spectrum` σ (r,).
    """

    columns: sp.csr_matrix
    turn: Block
    spectrum: NDArray[np.float64]
    support: NDArray[np.int64]
    space: Space

    def at(self, s2: float) -> ConstraintOperator:
        """R for one variance s² of the observations."""
        nothing = sp.csr_matrix((self.support.size,) * 2)
        core = (self.turn / (s2 + self.spectrum)) @ self.turn.T
        return ConstraintOperator(nothing, self.columns, core, self.support, self.space)

    def inside(self, basis: SmoothBasis) -> LostVariance:
        """BᵀRB on the coefficients of a smooth basis B."""
        width = 1 + basis.p
        rows = self.space.take(basis.whole, self.support)[:, :width]
        H = sp.csr_matrix(rows.T @ (self.columns @ self.turn))
        own = np.arange(width)
        return LostVariance(H, np.eye(self.spectrum.size), self.spectrum, own, LocalSpace(width))


def lost_variance(
    laplacian: NormalizedLaplacian, observed: NodeMatrix, nodes: NDArray[np.int64]
) -> LostVariance:
    """R of the observations FᵀF = `observed`, which are of the rows `nodes`; raises InputError.

    Of nodes that stand for several, of the means of their copies. Cost O(c³), c = len(nodes).
    """
    told = local_operator(observed, laplacian, nodes, scaled=False)
    at = told.support
    if at.size > _CONSTRAINED:
        raise InputError(
            f'prior: "affinity" takes the covariance of {at.size:,} constrained nodes, at most '
            f'{_CONSTRAINED:,} will do; use prior="laplacian"'
        )
    copies = laplacian.copies[at]
    values, U = dense_algebra.eigh(told.to_dense() / np.outer(copies, copies))
    there = values > _NOTHING * np.abs(values).max(initial=0.0)
    B = U[:, there] * np.sqrt(values[there])  # FᵀF = BBᵀ
    degrees = laplacian.root_degree**2
    near = laplacian.graph_weights[:, at].tocsc()
    own = sp.csc_matrix((degrees[at], (at, np.arange(at.size))), shape=near.shape)
    K: Any = sp.csr_matrix(near + own)
    sigma, V = dense_algebra.eigh(B.T @ (K[at] @ B))
    support = np.flatnonzero(np.diff(K.indptr)).astype(np.int64)
    G = sp.csr_matrix(sp.diags_array(1.0 / laplacian.root_degree[support]) @ K[support])
    return LostVariance(G, B @ V, np.maximum(sigma, 0.0), support, laplacian.space)


@dataclass(frozen=True, eq=False)
class PosteriorProblem(PenalizedProblem):
    """(L̄ + R)v = θv, the smallest θ; the parameter is the noise, s² = noise²·`variance`."""

    lost: LostVariance = field(kw_only=True)
    variance: float = field(kw_only=True)

    def restricted(self, basis: SmoothBasis) -> Self:
        """BᵀL̄B and BᵀRB."""
        return replace(super().restricted(basis), lost=self.lost.inside(basis))

    def solve(
        self,
        value: float,
        how: Solving,
        work: Workspace | None = None,
        start: Block | None = None,
    ) -> Solution:
        """The `columns` smallest pairs for one noise."""
        known = replace(self, penalty=self.lost.at(value**2 * self.variance))
        return PenalizedProblem.solve(known, value, how, work, start)
