"""One grid of a hierarchy: its matrix, the smoother's step, the way to the next coarser one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.spmm import (
    add_product,
    chebyshev_step,
    jacobi_step,
    residual,
    scaled_rows,
    spmm,
)
from mustlink.operators.grounded_laplacian import Block
from mustlink.space import LocalSpace

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Level:
    """One grid: A_l = shift·I + factor·matrix, with PᵀP = I to the next coarser grid.

    All arrays and blocks are in the precision of the matrix, but for what goes to coarser grids.
    `coarse_inverse` is A_l⁺ on the last one. For every Laplacian D⁻¹A <= 2, so that the smoother's
    interval needs no eigenvalue estimate.
    """

    matrix: sp.csr_matrix
    shift: float
    factor: float
    inverse_diagonal: Floats
    P: sp.csr_matrix | None = None
    R: sp.csr_matrix | None = None
    coarse_inverse: Block | None = None
    interval: tuple[float, float] = (0.475, 1.9)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of its blocks."""
        return np.dtype(self.matrix.dtype)

    @property
    def size(self) -> int:
        """Number of nodes of this level."""
        return int(self.matrix.shape[0])

    @cached_property
    def space(self) -> LocalSpace:
        """Where its blocks live."""
        return LocalSpace(self.size)

    @property
    def is_last(self) -> bool:
        """Whether there is no coarser grid."""
        return self.P is None

    def first(self, B: Floats, new: float) -> Floats:
        """new·D⁻¹B."""
        return scaled_rows(B, self.inverse_diagonal * self.dtype.type(new))

    def relax(self, B: Floats, X: Floats, step: Floats | None, old: float, new: float) -> Floats:
        """X + step after step = old·step + new·D⁻¹(B − A_l X), in one pass; None for 0."""
        how = self.matrix, X, B, self.inverse_diagonal
        if step is None:
            return jacobi_step(*how, (self.shift, self.factor, new))
        return chebyshev_step(*how, step, (self.shift, self.factor, old, new))

    def residual(self, B: Floats, X: Floats) -> Floats:
        """B − A_l X."""
        return residual(self.matrix, X, B, self.shift, self.factor)

    def down(self, R: Floats) -> Floats:
        """PᵀR."""
        return spmm(self.R, R).astype(np.float64, copy=False)

    def lift(self, X: Floats, C: Floats) -> None:
        """In place X += PC."""
        add_product(self.P, C, X)

    def solve(self, B: Floats) -> Floats | None:
        """A_l⁺B, in double precision, where it is known."""
        if self.coarse_inverse is None:
            return None
        found: Floats = self.coarse_inverse @ B.astype(np.float64, copy=False)
        return found.astype(self.dtype, copy=False)

    def dense(self, exact: sp.csr_matrix) -> Block:
        """A_l from its `exact` matrix in double precision."""
        A: Any = exact.toarray().astype(np.float64) * self.factor
        A += self.shift * np.eye(self.size)
        found: Block = A
        return found
