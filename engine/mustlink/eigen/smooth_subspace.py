"""The smooth subspace: constrained problems projected on the span of L̄'s smoothest eigenvectors.

With few constraints on many nodes the exact problem's best vectors are spikes on the constrained
nodes and no clustering comes out. Inside the span of the p smoothest eigenvectors V_p a problem
is p by p, every parameter, every prefix p and every new set of constraints costs milliseconds, and
the graph's eigenvectors are computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.eigen.wide_spectrum import ROUNDING
from mustlink.operators.constraint_operator import ConstraintOperator
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.operators.null_space import NullSpace
from mustlink.space import Block, LocalSpace, Space

_COUPLING = 1e-3  # how strongly components hold together, as a share of the smallest λ > 0
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
    def p(self) -> int:
        """Number of directions beside z."""
        return int(self.values.size)

    @property
    def space(self) -> Space:
        """Where the vectors live."""
        return self.laplacian.space

    def first(self, p: int) -> SmoothBasis:
        """The p smoothest directions, or all where there are fewer."""
        p = min(p, self.p)
        return SmoothBasis(
            self.laplacian,
            self.vectors[:, : p + 1],
            self.values[:p],
            self.residuals[:p],
            min(self.n_ties, p),
        )

    def laplacian_inside(self, *, tied: bool) -> ProjectedLaplacian:
        """UᵀL̄U, with the ties that make it definite beside z, or as it is."""
        values = np.concatenate([[0.0], self.values])
        if not tied:
            values[: self.n_ties + 1] = 0.0
        return ProjectedLaplacian(values, self.laplacian.volume)

    def inside(self, operator: ConstraintOperator) -> ConstraintOperator:
        """UᵀQ̄U as the same kind of operator, on 1 + p coefficients."""
        return dense_operator(operator.within(self.vectors))


@dataclass(frozen=True, eq=False)
class ProjectedLaplacian:
    """L̄ on coefficients (1 + p, b) of a smooth basis: diagonal, z the first unit vector."""

    values: NDArray[np.float64]
    volume: float

    @property
    def size(self) -> int:
        """Number 1 + p of coefficients."""
        return int(self.values.size)

    @cached_property
    def space(self) -> Space:
        """Coefficients are at home."""
        return LocalSpace(self.size)

    @cached_property
    def null(self) -> NullSpace:
        """The first unit vector, z."""
        return NullSpace(np.zeros(self.size, dtype=np.int32), np.eye(self.size)[0], 1)

    @property
    def root_degree(self) -> NDArray[np.float64]:
        """√vol·z, as D^½1 is on the nodes."""
        return np.sqrt(self.volume) * self.null.weight

    def apply(self, X: Block) -> Block:
        """ΛX."""
        return self.values[:, None] * X

    def to_dense(self) -> Block:
        """Λ."""
        return np.diag(self.values)


def dense_operator(T: Block) -> ConstraintOperator:
    """A small symmetric matrix T (b, b) as an operator on b coefficients."""
    size = len(T)
    return ConstraintOperator(sp.csr_matrix(T), None, None, np.arange(size), LocalSpace(size))


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
