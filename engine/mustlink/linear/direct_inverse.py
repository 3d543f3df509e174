"""A preconditioner for a few nodes: L̄ itself, factored.

Up to two thousand nodes LAPACK has the factor as soon as grids are made, and none of the kernels
is needed that grids take: compiling these was half of the time a first fit took.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as sla

from mustlink.errors import NumericalError
from mustlink.linear.multigrid.hierarchy import build_hierarchy
from mustlink.numeric import dense_algebra
from mustlink.operators.grounded_laplacian import Block, GroundedLaplacian
from mustlink.operators.protocol import Preconditioner
from mustlink.space import LocalSpace

# Nodes: problems of fewer LAPACK solves by itself; 2,000 take 16 MB and a twentieth of a second.
FEW = range(1_001, 2_001)
# Added to L̄: null vectors, which are to be projected out, and what single precision makes of them
# are not blown up by more. Eigenvalues below are taken for larger ones, and still found.
_SHIFT = 1e-5


def direct_bytes(size: int) -> int:
    """What it takes: the factor, which is made in place."""
    return 4 * size**2


class DirectInverse:
    """Fixed symmetric positive map R -> (A + 10⁻⁵I)⁻¹R, A = I − S, by Cholesky's factor.

    In single precision, blocks (m, b) in theirs; project on the complement of the null space.
    Cost: m³/3 operations and m² numbers to make, 2m² operations a column. Raises NumericalError.
    """

    def __init__(self, laplacian: GroundedLaplacian) -> None:
        A = laplacian.single_edges.toarray(order="F")
        np.negative(A, out=A)
        A[np.diag_indices_from(A)] += np.float32(1.0 + _SHIFT)
        self.factor = dense_algebra.cholesky(A)
        self.space = LocalSpace(laplacian.size)

    def __call__(self, R: Block, /) -> Block:
        """Apply to a block (m, b)."""
        X = sla.cho_solve((self.factor, True), R.astype(np.float32), check_finite=False)
        return np.ascontiguousarray(X, dtype=R.dtype)


def usual_preconditioner(laplacian: GroundedLaplacian) -> Preconditioner:
    """The factor of few nodes, a multigrid cycle of more; project where there is a null space."""
    if laplacian.size in FEW:
        try:
            return DirectInverse(laplacian)
        except NumericalError:
            pass
    return build_hierarchy(laplacian).cycle()
