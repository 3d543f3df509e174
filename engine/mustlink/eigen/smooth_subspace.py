"""The smooth subspace: constrained problems projected on the span of L̄'s smoothest eigenvectors.

With few constraints on many nodes the exact problem's best vectors are spikes on the constrained
nodes and no clustering comes out. Inside the span of the p smoothest eigenvectors V_p a problem
is p by p, every parameter, every prefix p and every new set of constraints costs milliseconds, and
the graph's eigenvectors are computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core import dense_algebra
from mustlink.core.result import EigenResult
from mustlink.eigen.ritz import orthonormal, rayleigh_ritz
from mustlink.eigen.wide_spectrum import ROUNDING
from mustlink.operators.constraint_operator import ConstraintOperator
from mustlink.operators.protocol import Laplacian, NullSpace
from mustlink.space import Block, GroupSums, LocalSpace, Small, Space

_COUPLING = 1e-3  # how strongly components hold together, as a share of the smallest λ > 0
_NULL_LIMIT = 200  # components carried as directions of their own
_TINY = 1e-3  # share of the nodes below which a component is none


@dataclass(frozen=True, eq=False)
class SmoothBasis:
    """Orthonormal U (m, 1 + p): z = D^½1/√vol first, then p directions in order of smoothness.

    They are the first of the columns of `whole`, which a shorter basis shares with the longer one.
    `values` (p,) are their Rayleigh quotients. For a disconnected graph the first of the p are
    indicator directions of the largest components, with a small positive value that stands for
    an infinitely weak tie between components; so do vectors whose λ is rounding.
    """

    laplacian: Any
    whole: Block
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
        result: Space = self.laplacian.space
        return result

    @cached_property
    def vectors(self) -> Block:
        """U; a copy where `whole` is wider."""
        width = 1 + self.p
        if self.whole.shape[1] == width:
            return self.whole
        return self.space.columns(self.whole, slice(0, width))

    def rows(self, nodes: NDArray[np.int64]) -> Small:
        """U on a few nodes, (len(nodes), 1 + p)."""
        result: Small = self.space.take(self.whole, nodes)[:, : 1 + self.p]
        return result

    def combine(self, C: Small) -> Block:
        """UC, (m, b), for coefficients C (1 + p, b)."""
        rest = np.zeros((self.whole.shape[1] - len(C), C.shape[1]))
        return self.space.combine(self.whole, np.vstack([C, rest]))

    def first(self, p: int) -> SmoothBasis:
        """The p smoothest directions, or all where there are fewer."""
        p = min(p, self.p)
        return SmoothBasis(
            self.laplacian,
            self.whole,
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
        width = 1 + self.p
        return dense_operator(operator.within(self.whole)[:width, :width])


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
        """Coefficients are in memory."""
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
    laplacian: Laplacian,
    values: NDArray[np.float64],
    vectors: Block,
    residuals: NDArray[np.float64],
) -> SmoothBasis:
    """Basis from the smallest pairs beyond the null space; components become directions too.

    But not tiny ones: a hundred pairs of nodes beside a large component would fill the subspace.
    """
    space, null, dtype = laplacian.space, laplacian.null, vectors.dtype
    size = np.sqrt(laplacian.volume)
    z = space.column(space.rowwise(lambda root: root / size, laplacian.root_degree))
    faint = int((values <= ROUNDING).sum())  # parts that hang together by rounding only
    tie = tie_of(values[faint:])
    frame = _component_frame(null, z)
    parts = [] if frame.shape[1] == 0 else [null.expand(frame, dtype)]
    return SmoothBasis(
        laplacian,
        space.stack([space.copy(z, dtype), *parts, vectors]),
        np.concatenate([np.full(frame.shape[1] + faint, tie), values[faint:]]),
        np.concatenate([np.zeros(frame.shape[1]), residuals]),
        frame.shape[1] + faint,
    )


def tie_of(values: NDArray[np.float64]) -> float:
    """What stands for an infinitely weak tie between components, from the values λ > 0."""
    return _COUPLING * (float(values[0]) if values.size else 1.0)


def _component_frame(null: NullSpace, z: Block) -> Small:
    """F (c, h): ZF are orthonormal directions of the large components, all orthogonal to z.

    Z is orthonormal and z = Zζ, so the part of a few columns of Z beside z is one of F beside ζ.
    """
    count, space = null.n_components, null.space
    if count == 1:
        return np.zeros((1, 0))
    ones = space.rowwise(np.ones_like, z)
    (sizes,) = space.sums(GroupSums(ones, null.component, count))
    large = np.flatnonzero(sizes[:, 0] / space.size >= _TINY)
    held = (large if large.size else np.arange(count))[:_NULL_LIMIT]
    share = null.coefficients(z)
    chosen = np.zeros((count, held.size))
    chosen[held, np.arange(held.size)] = 1.0
    if held.size == count:
        return dense_algebra.orthogonal(np.hstack([share, chosen]))[:, 1:count]
    return dense_algebra.orthogonal(chosen - share @ share[held].T)


# --- The smooth subspace of regularised degrees, as a basis in which L̄ itself is the cost
#
# Inside the span of the smoothest vectors of a sparse network constraints can only move its crumbs:
# these are the smoothest there is. Those of L̄_τ show its clusters. What is minimised stays the cut
# of the graph as it is, so that all that is solved inside a smooth basis is solved in this one.


def carried_basis(plain: Laplacian, regular: Laplacian, result: EigenResult) -> SmoothBasis:
    """Basis of the span of z = D^½1/√vol and D^½T^-½V, V (m, p) the smoothest vectors of L̄_τ.

    V lives where u = T^-½v is a function on the nodes; D^½u is the same function where L̄ lives.
    Directions are the Ritz vectors of L̄ beside z, at most p: what z spans already is dropped.
    Cost: a product with L̄ and some products of blocks (m, p). Memory: 3 blocks beside V.
    """
    space, root = plain.space, plain.root_degree

    def ratio(r: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.divide(r, other, out=np.zeros_like(r), where=other > 0)

    z = space.column(space.rowwise(lambda r: r / np.sqrt(plain.volume), root))
    U = space.scaled(result.vectors, space.rowwise(ratio, root, regular.root_degree))
    for _ in range(2):
        U = orthonormal(space, U)
        space.subtract(U, z, space.gram(z, U))
    U = orthonormal(space, U)
    values, C = rayleigh_ritz(space, U, plain.apply(U))
    faint = int((values <= ROUNDING).sum())
    residuals = result.convergence.residuals[: values.size]
    return SmoothBasis(
        plain,
        space.stack([space.copy(z, U.dtype), space.combine(U, C)]),
        np.concatenate([np.full(faint, tie_of(values[faint:])), values[faint:]]),
        residuals,
        faint,
    )
