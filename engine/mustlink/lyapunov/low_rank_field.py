"""F = Σ ZΘZᵀ with few columns and diagonal Θ: what the Krylov solver finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.blocks import combine, gram
from mustlink.kernels.sampled_product import sampled_product
from mustlink.operators.laplacian import Block

Term = tuple[Block, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class LowRankField:
    """F = Σ_t Z_t·diag(θ_t)·Z_tᵀ on m nodes: dense bases Z (m, k) and weights θ (k,) of any sign.

    The columns of Z are neither orthogonal nor of unit length.
    """

    terms: tuple[Term, ...]
    size: int

    @property
    def rank(self) -> int:
        """Number of columns in all; the rank of F is at most this."""
        return sum(theta.size for _, theta in self.terms)

    def dot(self, X: Block) -> Block:
        """FX for a block (m, b). Cost 4mkb."""
        found = np.zeros((self.size, X.shape[1]))
        for Z, theta in self.terms:
            found += combine(Z, theta[:, None] * gram(Z, X))
        return found

    def on_pattern(self, pattern: sp.csr_matrix) -> NDArray[np.float64]:
        """F_ij for every stored (i, j) of the pattern. Cost 2·nnz·k."""
        found = np.zeros(pattern.nnz)
        for Z, theta in self.terms:
            sampled_product(pattern, Z, Z, theta, found)
        return found
