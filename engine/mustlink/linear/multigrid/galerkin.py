"""Multigrid for squared Laplacians that are applied, never formed: fits of neighbourhoods.

The matrices of LLE and LTSA have some 200 entries a row. Here only PᵀMP on aggregates is formed;
on the fine grid a product is all that is needed. The constant is carried down exactly. A graph
Laplacian's cycle used twice was measured to help little: M kills linear functions, L² does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.spmm import spmm
from mustlink.linear.multigrid.hierarchy import aggregate, inverse_diagonal
from mustlink.operators.laplacian import Block

Single = NDArray[np.float32]
Product = Callable[[NDArray[Any]], NDArray[Any]]

_DENSE = 2000  # nodes up to which the coarsest matrix is factored
_LOW = 0.1  # share of the largest eigenvalue from which on the smoother acts
_SAFETY = 1.1  # on the estimate of the largest eigenvalue
_POWER_STEPS = 30  # a pair of nodes may have the largest one; 12 steps were measured to miss it
_REGULAR = 1e-11  # share of its diagonal added to the coarsest matrix: it may be singular


@dataclass(frozen=True, eq=False)
class _Grid:
    """One level: product, inverse diagonal, largest eigenvalue of D⁻¹A, transfer."""

    apply: Product
    inverse: Single
    largest: float
    P: sp.csr_matrix | None
    R: sp.csr_matrix | None

    def smooth(self, B: Single, X: Single | None, degree: int) -> Single:
        """Chebyshev iteration on D⁻¹A over [_LOW, 1]·largest."""
        centre, half = self.largest * (1 + _LOW) / 2, self.largest * (1 - _LOW) / 2
        sigma = centre / half
        rho = 1 / sigma
        step = self.inverse * (B if X is None else B - self.apply(X))
        step *= np.float32(1 / centre)
        X = step.copy() if X is None else X + step
        for _ in range(1, degree):
            following = 1 / (2 * sigma - rho)
            residual = B - self.apply(X)
            residual *= self.inverse
            residual *= np.float32(2 * following / half)
            step *= np.float32(following * rho)
            step += residual
            X += step
            rho = following
        return X


@dataclass(frozen=True, eq=False)
class GalerkinCycle:
    """A fixed symmetric positive map ≈ A⁻¹ on blocks (m, b).

    Single precision inside, but for the coarsest solve. Cost: 2·degree products with A; the
    first coarse grid is visited twice.
    """

    grids: tuple[_Grid, ...]
    coarsest: Block | None
    degree: int

    def __call__(self, B: Block) -> Block:
        """Apply to a block (m, b) in double precision."""
        size = np.abs(B).max(axis=0, initial=0.0)
        size[size == 0.0] = 1.0
        found = self._descend(0, (B / size).astype(np.float32))
        return found.astype(np.float64) * size

    @property
    def sizes(self) -> list[int]:
        """Nodes per level."""
        return [grid.inverse.shape[0] for grid in self.grids]

    def _descend(self, index: int, B: Single) -> Single:
        grid = self.grids[index]
        if grid.P is None or grid.R is None:
            if self.coarsest is not None:
                return (self.coarsest @ B.astype(np.float64)).astype(np.float32)
            return grid.smooth(B, None, 4 * self.degree)
        X = grid.smooth(B, None, self.degree)
        C = spmm(grid.R, B - grid.apply(X))
        E = self._descend(index + 1, C)
        if self.grids[index + 1].P is not None:
            E = E + self._descend(index + 1, C - self.grids[index + 1].apply(E))
        X += spmm(grid.P, E)
        return grid.smooth(B, X, self.degree)


def galerkin_cycle(
    apply: Product,
    diagonal: NDArray[np.float64],
    coarse: Callable[[sp.csr_matrix], sp.csr_matrix],
    pattern: sp.csr_matrix,
    degree: int = 2,
) -> GalerkinCycle:
    """Build the grids for A (m, m), near-null vector 1.

    `apply` multiplies single precision blocks (m, b) by A, `diagonal` (m,) is its diagonal,
    `coarse` gives PᵀAP, and nodes are aggregated along `pattern` (m, m). Cost: a dozen products,
    one sparse product with P, and one factorisation of up to 2,000 nodes.
    """
    vector = np.ones(diagonal.size)
    grids: list[_Grid] = []
    matrix: sp.csr_matrix | None = None
    while True:
        inverse = inverse_diagonal(diagonal).astype(np.float32)[:, None]
        largest = _largest(apply, inverse)
        small = matrix is not None and matrix.shape[0] <= _DENSE
        step = None if small else aggregate(pattern, vector)
        if step is None:
            grids.append(_Grid(apply, inverse, largest, None, None))
            break
        P, vector = step
        R = P.T.tocsr()
        grids.append(_Grid(apply, inverse, largest, P.astype(np.float32), R.astype(np.float32)))
        matrix = sp.csr_matrix(coarse(P) if matrix is None else R @ (matrix @ P))
        pattern = sp.csr_matrix(R @ (pattern @ P))
        apply, diagonal = _product(matrix.astype(np.float32)), matrix.diagonal()
    coarsest = None if matrix is None or matrix.shape[0] > _DENSE else _inverse(matrix)
    return GalerkinCycle(tuple(grids), coarsest, degree)


def _product(matrix: sp.csr_matrix) -> Product:
    return lambda X: spmm(matrix, X)


def _largest(apply: Product, inverse: Single) -> float:
    """Bound on the largest eigenvalue of D⁻¹A by the power method on three vectors."""
    root = np.sqrt(inverse)
    X = np.random.default_rng(0).standard_normal((inverse.shape[0], 3)).astype(np.float32)
    value = 1.0
    for _ in range(_POWER_STEPS):
        X /= np.maximum(np.linalg.norm(X, axis=0), 1e-30)
        X = root * apply(root * X)
        value = float(np.linalg.norm(X, axis=0).max())
    return _SAFETY * max(value, 1e-30)


def _inverse(matrix: sp.csr_matrix) -> Block:
    """Inverse of the coarsest matrix, lifted from zero by a trace of its diagonal."""
    A = matrix.toarray().astype(np.float64)
    A = (A + A.T) / 2
    diagonal = A.diagonal().copy()
    largest = float(diagonal.max(initial=0.0)) or 1.0
    A[np.diag_indices_from(A)] += _REGULAR * largest
    A[np.diag_indices_from(A)] += np.where(diagonal > 0, 0.0, largest)
    factored: Any = sla.cho_factor(A)
    found: Block = sla.cho_solve(factored, np.eye(A.shape[0]))
    return (found + found.T) / 2
