"""I − S with T >= the degrees: a Laplacian with a diagonal added, or with nodes taken out.

(M + diag(w))_ff of M = D − W or L̄ is, scaled to a diagonal of ones, I − T^-½WT^-½ on the nodes f
that are kept, T their degrees and a ground: w, and w times the degree. Nodes that are taken out
keep their place, with T^½ = 0: rows of blocks are 0 there. So it is wherever the rows are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core import dense_algebra
from mustlink.kernels.blocks import next_term
from mustlink.kernels.diffused_columns import diffused_columns, workspace
from mustlink.kernels.spmm import scaled, spmm_axpby
from mustlink.operators.protocol import Laplacian
from mustlink.operators.sparse_operator import Edges, SparseOperator
from mustlink.space import LocalSpace, Vector

Block = NDArray[np.float64]
Floats = NDArray[np.float64]
Own = TypeVar("Own", bound=Laplacian)  # that of a home


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
        return int(self.S.shape[0])

    @cached_property
    def space(self) -> LocalSpace:
        return LocalSpace(self.size)

    def beside(self, X: Any) -> Any:
        """The rows of a block, or of a vector, that the columns of S are: all, in memory."""
        return X

    @cached_property
    def matrix(self) -> SparseOperator:
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
    def diagonal(self) -> NDArray[np.float64]:
        return np.asarray(1.0 - self.S.diagonal(), dtype=np.float64)

    @property
    def n_entries(self) -> int:
        """Stored entries of S: two an edge."""
        return int(self.S.nnz)

    @property
    def edges(self) -> sp.csr_matrix:
        """S by rows, for work that walks along the edges of nodes in memory; not to be changed."""
        return self.S

    @property
    def pattern(self) -> Edges:
        """Where there are edges."""
        return Edges(self.S.indptr, self.S.indices)

    @property
    def in_single(self) -> Self:
        """The same with S in single precision, which shares its indices with S."""
        single = self.matrix.in_single.local
        return self if single is self.S else replace(self, S=single)

    def apply(self, X: Block) -> Block:
        X = np.ascontiguousarray(X)
        return spmm_axpby(self.S, self.beside(X), X, -1.0, 1.0)

    def neighbours(self, X: Block) -> Block:
        """SX for a block (m, b): sums over neighbours."""
        return self.matrix.apply(X)

    def of_few(self, rows: sp.csr_matrix) -> sp.csr_matrix:
        """XS for sparse rows X (b, m): costs what their neighbours are."""
        return rows @ self.S

    def smooth(self, X: Block, times: int) -> Block:
        Y, spare, S = np.array(X, dtype=np.float32, order="C"), None, self.matrix.in_single.local
        for _ in range(times):
            Y, spare = spmm_axpby(S, self.beside(Y), Y, 0.5, 0.5, spare), Y
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

    def local_diffusion(
        self,
        B: sp.csc_matrix,
        coefficients: Floats,
        thresholds: Floats,
        final: tuple[Floats, float],
        dtype: Any,
    ) -> Callable[[tuple[int, int]], Any]:
        """A function of (first, last): Σ_k c_kq S^k b for these columns b of B (m, c), truncated.

        `coefficients` c (K+1, Q); thresholds, what is dropped at the end and the result, sparse
        columns, are those of `kernels.diffused_columns`. Any number of threads may call it.
        """
        own, how = threading.local(), (coefficients, thresholds, final, dtype)

        def columns(span: tuple[int, int]) -> Any:
            if not hasattr(own, "space"):
                own.space = workspace(self.size, self.S.nnz, coefficients.shape[1])
            return diffused_columns(self.S, self.root_degree, B, span, *how, own.space)

        return columns

    def to_dense(self) -> Block:
        """I − S as a dense matrix; for small graphs."""
        return np.eye(self.size) - self.S.toarray()

    @cached_property
    def dense_pairs(self) -> tuple[Floats, Block]:
        """All eigenvalues (m,) and vectors (m, m), by LAPACK; for small graphs. 9m³ operations."""
        return dense_algebra.eigh(self.to_dense())


def grounded_degrees(laplacian: Any, ground: Vector, kept: Vector) -> tuple[Vector, Vector, Vector]:
    """T^½ (n,), 0 on nodes that are not `kept` (n,) or have no edge, the ground of all, (D/T)^½.

    T = D + diag(ground). The ground of a kept node is its own, and the weights to those that are
    taken out: by how much T exceeds the degrees among kept nodes, known without a difference. Cost:
    a product, where nodes are taken out.
    """
    space, root = laplacian.space, laplacian.root_degree

    def ratio(k: NDArray[Any], r: Floats, g: Floats) -> Floats:
        degree, there = r**2, k & (r > 0)
        return np.sqrt(np.divide(degree, degree + g, out=np.zeros_like(degree), where=there))

    def total(k: NDArray[Any], g: Floats, r: Floats, to: Floats) -> Floats:
        return np.where(k, g + np.maximum(-r * to[:, 0], 0.0), 0.0)

    inside = space.rowwise(
        lambda k, r, g: np.where(k & (r > 0), np.sqrt(r**2 + g), 0.0), kept, root, ground
    )
    by = space.rowwise(ratio, kept, root, ground)
    outside = space.column(space.rowwise(lambda k, r: np.where(k, 0.0, r), kept, root))
    if not space.dots(outside, outside)[0]:
        return inside, space.rowwise(lambda k, g: np.where(k, g, 0.0), kept, ground), by
    away = laplacian.apply(outside)  # less the weights to them, over D^½
    return inside, space.rowwise(total, kept, ground, root, away), by


def regularized(laplacian: Own, tau: float) -> Own:
    """L̄_τ = I − T^-½WT^-½, T = D + τd̄I, τ > 0.

    d̄ is the mean degree of the nodes with an edge, each counted as often as it stands for rows. A
    set A of nodes costs (cut(A) + τd̄|A|)/(vol(A) + τd̄|A|): small ones cost nearly 1 however few
    edges they hang by, large ones hardly notice. Isolated nodes stay out. Source: Amini, Chen,
    Bickel & Levina 2013; Qin & Rohe 2013; Zhang & Rohe 2018.
    """
    space, root = laplacian.space, laplacian.root_degree
    linked = space.rowwise(lambda r: (r > 0).astype(np.float64), root)
    copies = linked if space.weights is None else space.weights
    count = space.dots(space.column(linked), space.column(copies))[0]
    mean = tau * laplacian.volume / count
    every = space.rowwise(lambda r: np.ones(r.shape, dtype=np.bool_), root)
    return laplacian.grounded(space.rowwise(lambda c: c * mean, copies), every)
