"""I − S with T >= the degrees: a Laplacian with a diagonal added, or with nodes taken out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.lanczos_steps import next_term
from mustlink.kernels.permuted_matrix import scaled, scaled_permutation
from mustlink.kernels.spmm import spmm, spmm_axpby
from mustlink.operators.edges import Edges
from mustlink.space import LocalSpace

Block = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GroundedLaplacian:
    """I − S with S = T^-½WT^-½, `root_degree` T^½, T >= the degrees of W, on m nodes.

    Positive definite where T exceeds the degree somewhere in every component: by a diagonal added
    to the Laplacian, or by edges to nodes that were taken out (a Dirichlet problem). `ground` (m,)
    is by how much, in the weights of W, and known without a difference; None where it is 0.
    """

    S: sp.csr_matrix
    root_degree: NDArray[np.float64]
    ground: NDArray[np.float64] | None = field(default=None, kw_only=True, repr=False)

    @staticmethod
    def of_grounded(W: sp.csr_matrix, ground: NDArray[np.float64]) -> GroundedLaplacian:
        """From weights W (m, m) and by how much T exceeds their sums, (m,)."""
        root = np.sqrt(np.asarray(W.sum(axis=1, dtype=np.float64)).ravel() + ground)
        S = sp.csr_matrix((scaled(W, 1.0 / root), W.indices, W.indptr), shape=W.shape)
        return GroundedLaplacian(S, root, ground=ground)

    @property
    def size(self) -> int:
        """Number m of nodes."""
        return int(self.S.shape[0])

    @cached_property
    def space(self) -> LocalSpace:
        """Where its blocks live: all nodes at home."""
        return LocalSpace(self.size)

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

    @cached_property
    def single_edges(self) -> sp.csr_matrix:
        """S in single precision for preconditioners; shares its indices with S."""
        S = self.S
        if S.dtype == np.float32:
            return S
        return sp.csr_matrix((S.data.astype(np.float32), S.indices, S.indptr), shape=S.shape)

    @property
    def in_single(self) -> Self:
        """The same with S in single precision, for who needs few digits."""
        return self if self.S.dtype == np.float32 else replace(self, S=self.single_edges)

    def apply(self, X: Block) -> Block:
        """(I − S)X for a block (m, b), in the block's precision."""
        X = np.ascontiguousarray(X)
        return spmm_axpby(self.S, X, X, -1.0, 1.0)

    def neighbours(self, X: Block) -> Block:
        """SX for a block (m, b): sums over neighbours."""
        return spmm(self.S, np.ascontiguousarray(X))

    def of_few(self, rows: sp.csr_matrix) -> sp.csr_matrix:
        """XS for sparse rows X (b, m): costs what their neighbours are."""
        return rows @ self.S

    def smooth(self, X: Block, times: int) -> Block:
        """((I + S)/2)^times X in single precision: damps rough vectors, keeps smooth ones."""
        Y, spare = np.array(X, dtype=np.float32, order="C"), None
        for _ in range(times):
            Y, spare = spmm_axpby(self.single_edges, Y, Y, 0.5, 0.5, spare), Y
        return Y.astype(self.S.dtype, copy=False)

    def three_terms(
        self, V: Block, old: Block, weights: tuple[float, float, float], out: Block
    ) -> tuple[float, float]:
        """Write out = a·SV + b·V + c·old, `weights` (a, b, c); ⟨out, V⟩ and ‖out‖² (Frobenius).

        `out` is neither V nor old. Cost: one product and nothing else.
        """
        return next_term(self.S, V, old, weights, out)

    def recurrence(self, X: Block, steps: Sequence[tuple[float, float, float]]) -> Block:
        """The last term of X_{t+1} = a_t SX_t + b_t X_t + c_t X_{t−1}, X_0 = X, by steps (a, b, c).

        The first step has c = 0. X is not changed. Memory: three blocks.
        """
        old, new, spare = X, X, None
        for weights in steps:
            out = np.empty_like(X) if spare is None else spare
            self.three_terms(new, old, weights, out)
            old, new, spare = new, out, None if old is X else old
        return new

    def grounded(
        self,
        free: NDArray[np.integer[Any]],
        ratio: NDArray[np.float64],
        smooth: Any,
        ground: NDArray[np.float64] | None = None,
    ) -> GroundedLaplacian:
        """I − RSR on the rows `free`, R = diag(ratio) <= 1; `smooth` (f,) spans what is smooth.

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
