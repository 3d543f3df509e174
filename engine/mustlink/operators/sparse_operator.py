"""A symmetric sparse matrix as an operator: a coarse grid's, for example."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.spmm import spmm
from mustlink.operators.laplacian import Block
from mustlink.space import LocalSpace


@dataclass(frozen=True, eq=False)
class SparseOperator:
    """A (n, n) CSR, symmetric, of nodes at home."""

    matrix: sp.csr_matrix

    @cached_property
    def space(self) -> LocalSpace:
        """Where its blocks live."""
        return LocalSpace(int(self.matrix.shape[0]))

    @cached_property
    def diagonal(self) -> NDArray[np.float64]:
        """a_ii, (n,)."""
        return np.asarray(self.matrix.diagonal(), dtype=np.float64)

    @cached_property
    def norm(self) -> float:
        """Bound on ‖A‖₂ by row sums of |a_ij|."""
        return float(np.asarray(abs(self.matrix).sum(axis=1)).max(initial=0.0))

    def apply(self, X: Block) -> Block:
        """AX for a block (n, b)."""
        return spmm(self.matrix, np.ascontiguousarray(X))

    def to_dense(self) -> Block:
        """A as a dense matrix."""
        found: Block = self.matrix.toarray()
        return found
