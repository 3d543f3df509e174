"""I − S with T >= the degrees: a Laplacian with a diagonal added, or with nodes taken out.

(M + diag(w))_ff of M = D − W or L̄ is, scaled to a diagonal of ones, I − T^-½WT^-½ on the nodes f
that are kept, T their degrees and a ground: w, and w times the degree. Nodes that are taken out
keep their place, with T^½ = 0: rows of blocks are 0 there. So it is wherever the rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.blocks import next_term
from mustlink.kernels.spmm import scaled, scaled_permutation, spmm_axpby
from mustlink.operators.edges import Edges
from mustlink.operators.sparse_operator import SparseOperator
from mustlink.space import LocalSpace, Space, Vector

Block = NDArray[np.float64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GroundedLaplacian:
    """I − S with S = T^-½WT^-½, `root_degree` T^½, T >= the degrees of W, on m nodes.

    Positive definite where T exceeds the degree somewhere in every component: by a diagonal added
    to the Laplacian, or by edges to nodes that were taken out (a Dirichlet problem). `ground` (m,)
    is by how much, in the weights of W, and known without a difference; None where it is 0.

    The m rows are all in memory, or those of a rank: products go by `beside`.
    """

    S: sp.csr_matrix
    root_degree: NDArray[np.float64]
    ground: NDArray[np.float64] | None = field(default=None, kw_only=True, repr=False)

    @property
    def size(self) -> int:
        """Number m of nodes."""
        return int(self.S.shape[0])

    @cached_property
    def space(self) -> LocalSpace:
        """Where its blocks live: all nodes at home."""
        return LocalSpace(self.size)

    def beside(self, X: Any) -> Any:
        """The rows of a block, or of a vector, that the columns of S are: all, at home."""
        return X

    @cached_property
    def matrix(self) -> SparseOperator:
        """S as an operator."""
        return SparseOperator(self.S)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of S, in which blocks of vectors are held."""
        return self.S.dtype

    @property
    def grounding(self) -> NDArray[np.float64]:
        """By how much T exceeds the degrees, (m,)."""
        return np.zeros(self.size) if self.ground is None else self.ground

    @property
    def norm(self) -> float:
        """A bound on ‖I − S‖₂."""
        return 2.0

    @property
    def diagonal(self) -> NDArray[np.float64]:
        """1 − s_ii, (m,)."""
        return np.asarray(1.0 - self.S.diagonal(), dtype=np.float64)

    @property
    def n_entries(self) -> int:
        """Stored entries of S: two an edge."""
        return int(self.S.nnz)

    @property
    def edges(self) -> sp.csr_matrix:
        """S by rows, for work that walks along the edges of nodes at home; not to be changed."""
        return self.S

    @property
    def pattern(self) -> Edges:
        """Where there are edges."""
        return Edges(self.S.indptr, self.S.indices)

    @property
    def single_edges(self) -> sp.csr_matrix:
        """S in single precision for preconditioners; shares its indices with S."""
        return self.matrix.in_single.local

    @property
    def in_single(self) -> Self:
        """The same with S in single precision, for who needs few digits."""
        return self if self.S.dtype == np.float32 else replace(self, S=self.single_edges)

    def apply(self, X: Block) -> Block:
        """(I − S)X for a block (m, b), in the block's precision."""
        X = np.ascontiguousarray(X)
        return spmm_axpby(self.S, self.beside(X), X, -1.0, 1.0)

    def neighbours(self, X: Block) -> Block:
        """SX for a block (m, b): sums over neighbours."""
        return self.matrix.apply(X)

    def of_few(self, rows: sp.csr_matrix) -> sp.csr_matrix:
        """XS for sparse rows X (b, m): costs what their neighbours are."""
        return rows @ self.S

    def smooth(self, X: Block, times: int) -> Block:
        """((I + S)/2)^times X in single precision: damps rough vectors, keeps smooth ones."""
        Y, spare = np.array(X, dtype=np.float32, order="C"), None
        for _ in range(times):
            Y, spare = spmm_axpby(self.single_edges, self.beside(Y), Y, 0.5, 0.5, spare), Y
        return Y.astype(self.S.dtype, copy=False)

    def three_terms(
        self, V: Block, old: Block, weights: tuple[float, float, float], out: Block
    ) -> tuple[float, float]:
        """Write out = a·SV + b·V + c·old, `weights` (a, b, c); ⟨out, V⟩ and ‖out‖² (Frobenius).

        `out` is neither V nor old. Cost: one product and nothing else.
        """
        return next_term(self.S, self.beside(V), old, weights, out)

    def recurrence(self, X: Block, steps: Sequence[tuple[float, float, float]]) -> Block:
        """The last term of X_{t+1} = a_t SX_t + b_t X_t + c_t X_{t−1}, X_0 = X, by steps (a, b, c).

        The first step has c = 0. X is not changed. Memory: three blocks.
        """
        old, new, spare = X, X, None
        for weights in steps:
            out = np.empty_like(X) if spare is None else spare
            next_term(self.S, self.beside(new), old, weights, out)
            old, new, spare = new, out, None if old is X else old
        return new

    def grounded(self, ground: Vector, kept: Vector) -> Self:
        """I − T^-½WT^-½, T = D + diag(ground), on the nodes `kept` (m,), `ground` (m,) >= 0.

        Rows of blocks are 0 on the others. Its indices are those of S where all nodes are kept.
        """
        root, total, ratio = grounded_degrees(self, ground, kept)
        values = scaled(self.S, self.beside(ratio))
        inner = sp.csr_matrix((values, self.S.indices, self.S.indptr), shape=self.S.shape)
        if not values.all():
            inner = inner.copy()
            inner.eliminate_zeros()
        return replace(self, S=inner, root_degree=root, ground=total)

    def system_on(
        self, free: NDArray[np.integer[Any]], ratio: Floats, smooth: Any, ground: Floats | None
    ) -> GroundedLaplacian:
        """I − RSR on the rows `free` alone, R = diag(ratio) <= 1; `smooth` (f,) spans what is so.

        `ground` (f,) is smooth·(I − RSR)smooth, entry by entry.
        """
        S = self.S.astype(np.float64, copy=False)
        if free.size < S.shape[0]:
            S = scaled_permutation(
                S, free.astype(np.int64, copy=False), np.ones(free.size), S.dtype
            )
        inner = sp.csr_matrix((scaled(S, ratio), S.indices, S.indptr), shape=S.shape)
        return GroundedLaplacian(inner, smooth, ground=ground)

    def to_dense(self) -> Block:
        """I − S as a dense matrix; for small graphs."""
        return np.eye(self.size) - self.S.toarray()


class Degrees(Protocol):
    """What is asked of a Laplacian L̄ = I − D^-½WD^-½, rows without an edge being 0."""

    @property
    def space(self) -> Space:
        """Where its blocks live."""

    @property
    def root_degree(self) -> Vector:
        """D^½."""

    @property
    def volume(self) -> float:
        """Sum of the degrees."""

    def apply(self, X: Any, /) -> Any:
        """L̄X, in the precision of X."""


def grounded_degrees(laplacian: Any, ground: Vector, kept: Vector) -> tuple[Vector, Vector, Vector]:
    """T^½ (n,), 0 on nodes that are not `kept` (n,) or have no edge, the ground of all, (D/T)^½.

    T = D + diag(ground). The ground of a kept node is its own, and the weights to those that are
    taken out: by how much T exceeds the degrees among kept nodes, known without a difference. Cost:
    a product, where nodes are taken out.
    """
    space, root = laplacian.space, laplacian.root_degree
    inside = space.rowwise(_inside, kept, root, ground)
    ratio = space.rowwise(_ratio, kept, root, ground)
    outside = space.column(space.rowwise(_outside, kept, root))
    if not space.dots(outside, outside)[0]:
        return inside, space.rowwise(_where, kept, ground), ratio
    away = laplacian.apply(outside)  # less the weights to them, over D^½
    return inside, space.rowwise(_total, kept, ground, root, away), ratio


def regularized(laplacian: Degrees, tau: float) -> tuple[Vector, Vector]:
    """What is grounded of L̄_τ = I − T^-½WT^-½, T = D + τd̄I: ground and nodes, all.

    d̄ is the mean degree of the nodes with an edge, each counted as often as it stands for rows. A
    set A of nodes costs (cut(A) + τd̄|A|)/(vol(A) + τd̄|A|): small ones cost nearly 1 however few
    edges they hang by, large ones hardly notice. Isolated nodes stay out. Source: Amini, Chen,
    Bickel & Levina 2013; Qin & Rohe 2013; Zhang & Rohe 2018.
    """
    space, root = laplacian.space, laplacian.root_degree
    linked = space.rowwise(_linked, root)
    copies = linked if space.weights is None else space.weights
    count = space.dots(space.column(linked), space.column(copies))[0]
    mean = tau * laplacian.volume / count
    return space.rowwise(lambda c: c * mean, copies), space.rowwise(_all, root)


def _outside(kept: NDArray[Any], root: Floats) -> Floats:
    return np.where(kept, 0.0, root)


def _inside(kept: NDArray[Any], root: Floats, ground: Floats) -> Floats:
    return np.where(kept & (root > 0), np.sqrt(root**2 + ground), 0.0)


def _ratio(kept: NDArray[Any], root: Floats, ground: Floats) -> Floats:
    degree, there = root**2, kept & (root > 0)
    return np.sqrt(np.divide(degree, degree + ground, out=np.zeros_like(degree), where=there))


def _where(kept: NDArray[Any], ground: Floats) -> Floats:
    return np.where(kept, ground, 0.0)


def _total(kept: NDArray[Any], ground: Floats, root: Floats, away: Floats) -> Floats:
    return np.where(kept, ground + np.maximum(-root * away[:, 0], 0.0), 0.0)


def _linked(root: Floats) -> Floats:
    return (root > 0).astype(np.float64)


def _all(root: Floats) -> NDArray[np.bool_]:
    return np.ones(root.shape, dtype=np.bool_)
