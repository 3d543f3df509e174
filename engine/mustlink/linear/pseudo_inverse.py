"""L̄⁺B: solves with the singular L̄, in the complement of its null space Z."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mustlink.deadline import NEVER, Deadline
from mustlink.linear.cg import block_cg
from mustlink.linear.laplacian_solve import EXACT, by_elimination
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.numeric import dense_algebra
from mustlink.operators.laplacian import Block, NormalizedLaplacian

Inverse = Callable[[Block], Block]
_COLUMNS = 16  # solved at a time: five blocks of that many columns are in memory
_ILL = 1e-7  # reciprocal condition number from which the seventh digit may be lost
_ENOUGH = 1e-6  # relative residual at which rough solves end early


def dense_inverse(laplacian: NormalizedLaplacian) -> Inverse:
    """L̄⁺ by LAPACK: the inverse of L̄ + ZZᵀ on the complement of Z. Cost O(m³), m² numbers.

    By elimination of nodes where that is nearly singular.
    """
    null = laplacian.null
    factored = dense_algebra.Definite(
        laplacian.to_dense() + (null.matrix @ null.matrix.T).toarray(), lift=True
    )
    if factored.rcond < _ILL:
        return lambda B: by_elimination(laplacian, B, tol=EXACT, project=null.project)[0]
    return lambda B: null.project(factored.solve(null.project(B)))


def rough_inverse(
    laplacian: NormalizedLaplacian, grids: Hierarchy, steps: int, deadline: Deadline = NEVER
) -> Inverse:
    """L̄⁺ by so many steps of conjugate gradients with multigrid, 16 columns at a time."""
    null, cycle = laplacian.null, grids.cycle()

    def apply(B: Block) -> Block:
        X = np.empty_like(B)
        for start in range(0, B.shape[1], _COLUMNS):
            part = slice(start, start + _COLUMNS)
            X[:, part], _ = block_cg(
                laplacian.apply,
                B[:, part],
                tol=_ENOUGH,
                max_iter=steps,
                precondition=cycle,
                project=null.project,
                deadline=deadline,
            )
        return X

    return apply
