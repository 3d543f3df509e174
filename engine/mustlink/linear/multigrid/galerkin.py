"""Multigrid for squared Laplacians that are applied, never formed: fits of neighbourhoods.

The matrices of LLE and LTSA have some 200 entries a row. Here only PᵀMP on aggregates is formed;
on the fine grid a product is all that is needed. The constant is carried down exactly. A graph
Laplacian's cycle used twice was measured to help little: M kills linear functions, L² does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core import dense_algebra
from mustlink.kernels.spmm import spmm
from mustlink.linear.multigrid.cycle import Cycle, largest_eigenvalue
from mustlink.linear.multigrid.hierarchy import Coarser, Level, aggregate, inverse_diagonal
from mustlink.operators.laplacian import Block
from mustlink.operators.sparse_operator import SparseOperator
from mustlink.space import LocalSpace

Single = NDArray[np.float32]
Product = Callable[[NDArray[Any]], NDArray[Any]]

_DENSE = 2000  # nodes up to which the coarsest matrix is factored
_LOW = 0.1  # share of the largest eigenvalue from which on the smoother acts
_SAFETY = 1.1  # on the estimate of the largest eigenvalue
_POWER_STEPS = 30  # a pair of nodes may have the largest one; 12 steps were measured to miss it
_REGULAR = 1e-11  # share of its diagonal added to the coarsest matrix: it may be singular


@dataclass(frozen=True, eq=False)
class ProductGrid(Level):
    """The finest grid, whose matrix is known by its product only; `matrix` is empty."""

    apply: Product = field(kw_only=True)

    def first(self, B: Single, new: float) -> Single:
        step = self.inverse_diagonal[:, None] * B
        step *= np.float32(new)
        return step

    def relax(self, B: Single, X: Single, step: Single | None, old: float, new: float) -> Single:
        residual = self.residual(B, X)
        residual *= self.inverse_diagonal[:, None]
        if step is None:
            self.space.blend(residual, new, (X, 1.0))
            return residual
        self.space.blend(step, old, (residual, new))
        return X + step

    def residual(self, B: Single, X: Single) -> Single:
        result: Single = B - self.apply(X)
        return result


def galerkin_cycle(
    apply: Product,
    diagonal: NDArray[np.float64],
    coarse: Callable[[sp.csr_matrix], sp.csr_matrix],
    pattern: sp.csr_matrix,
) -> Cycle:
    """Build the grids for A (m, m), near-null vector 1.

    `apply` multiplies single precision blocks (m, b) by A, `diagonal` (m,) is its diagonal,
    `coarse` gives PᵀAP, and nodes are aggregated along `pattern` (m, m). Coarse grids are visited
    twice. Cost: a dozen products, one sparse product with P, and one factorisation of up to 2,000
    nodes.
    """
    vector = np.ones(diagonal.size)
    inverse = _inverted(diagonal)
    interval = _interval(apply, inverse)
    step = aggregate(pattern, vector)
    way = None if step is None else Coarser.of(step[0], np.float32)
    nothing = SparseOperator(sp.csr_matrix(pattern.shape))
    fine = ProductGrid(nothing, 0.0, 1.0, inverse, way, interval=interval, apply=apply)
    if step is None:
        return Cycle((fine,), 2, 2)
    P, vector = step
    matrix = sp.csr_matrix(coarse(P))
    grids: list[Level] = []
    while True:
        pattern = sp.csr_matrix(P.T.tocsr() @ (pattern @ P))
        inverse = _inverted(matrix.diagonal())
        interval = _interval(partial(spmm, matrix.astype(np.float32)), inverse)
        how = SparseOperator(matrix), 0.0, 1.0, inverse.astype(np.float64)
        level = Level(*how, interval=interval)
        step = None if level.size <= _DENSE else aggregate(pattern, vector)
        if step is None:
            exact = _inverse(matrix) if level.size <= _DENSE else None
            grids.append(replace(level, coarse_inverse=exact))
            return Cycle((fine, *grids), 2, 2)
        P, vector = step
        grids.append(replace(level, way=Coarser.of(P, np.float64)))
        matrix = sp.csr_matrix(P.T.tocsr() @ (matrix @ P))


def _inverted(diagonal: NDArray[np.float64]) -> Single:
    return inverse_diagonal(diagonal, LocalSpace(diagonal.size)).astype(np.float32)


def _interval(apply: Product, inverse: Single) -> tuple[float, float]:
    """What the smoother damps: from a tenth of the largest eigenvalue of D⁻¹A."""
    root, space = np.sqrt(inverse)[:, None], LocalSpace(inverse.size)
    result = largest_eigenvalue(
        lambda X: root * apply(root * X), space, _POWER_STEPS, dtype=np.float32
    )
    largest = _SAFETY * max(result, 1e-30)
    return _LOW * largest, largest


def _inverse(matrix: sp.csr_matrix) -> Block:
    """Inverse of the coarsest matrix, lifted from zero by a trace of its diagonal."""
    A = matrix.toarray().astype(np.float64)
    A = (A + A.T) / 2
    diagonal = A.diagonal().copy()
    largest = float(diagonal.max(initial=0.0)) or 1.0
    A[np.diag_indices_from(A)] += _REGULAR * largest
    A[np.diag_indices_from(A)] += np.where(diagonal > 0, 0.0, largest)
    result: Block = dense_algebra.Definite(A, lift=True).solve(np.eye(A.shape[0]))
    return (result + result.T) / 2
