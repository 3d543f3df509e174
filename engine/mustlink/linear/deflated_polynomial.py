"""Solves with a Laplacian whose smoothest vectors are known: a polynomial does the rest.

Where clusters are clear, a few eigenvalues are 1000 times smaller than all others. Conjugate
gradients spend most of their steps on these, coarse grids tell them badly. With their vectors
known the rest is well conditioned, and products in single precision are all that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mustlink.linear.laplacian_solve import solve_laplacian
from mustlink.linear.multigrid.hierarchy import polynomial
from mustlink.numeric import dense_algebra
from mustlink.operators.grounded_laplacian import Block, GroundedLaplacian
from mustlink.result import Convergence

_SHARE = 1e-2  # that one step leaves: fewer products than with 1e-1, 1e-3 or 1e-4

_ROUGH = 1e-4  # residual from which on classes that are close might change


@dataclass(frozen=True, eq=False)
class Smooth:
    """Vectors Z (m, p), and from which eigenvalue on there are others."""

    vectors: Block
    low: float


class DeflatedPolynomial:
    """Fixed symmetric positive map R -> ≈A⁻¹R, exact on the columns of Z (m, p), A = I − S.

        M = ZE⁻¹Zᵀ + (I − ZE⁻¹ZᵀA) q(A) (I − AZE⁻¹Zᵀ),   E = ZᵀAZ

    q is the Chebyshev polynomial that contracts eigenvalues of A in [low, 2]; of those below no
    more should be left than Z spans, and Z need not be sharp. It solves with A from `start` on:
    residuals stay orthogonal to Z. Sources: Nicolaides 1987; Tang, Nabben, Vuik & Erlangga 2009
    (A-DEF, BNN). Raises NumericalError where E is singular.

    Cost: two blocks as Z, a product with p columns to make; q and four products of m × p blocks.
    """

    def __init__(self, operator: GroundedLaplacian, Z: Block, low: float) -> None:
        self.operator, self.Z = operator, Z
        self.image = operator.apply(Z)
        E = operator.space.gram(Z, self.image)
        self.inner = dense_algebra.Definite(E)
        self.gain = low / float(dense_algebra.eigh(E, operator.space.gram(Z, Z))[0][0])
        self.rest = polynomial(operator, low, _SHARE)

    def __call__(self, R: Block, /) -> Block:
        """Apply to a block (m, b)."""
        space = self.operator.space
        inside = self.inner.solve(space.gram(self.Z, R))
        left = space.copy(R)
        space.subtract(left, self.image, inside)
        X = self.rest(left)
        inside -= self.inner.solve(space.gram(self.image, X))
        space.subtract(X, self.Z, -inside)
        return X

    def tolerance(self, tol: float) -> float:
        """The residual, as a share of B, that bounds the error as `tol` does without Z.

        ‖x − A⁻¹b‖ <= ‖r‖/λ, λ the smallest eigenvalue; where r is orthogonal to Z, the next one.
        """
        return max(tol, min(_ROUGH, tol * self.gain))

    def start(self, B: Block) -> Block:
        """ZE⁻¹ZᵀB, the solution's part in the span of Z."""
        space = self.operator.space
        return space.combine(self.Z, self.inner.solve(space.gram(self.Z, B)))


def solve_deflated(
    inverse: DeflatedPolynomial, B: Block, *, tol: float, **how: Any
) -> tuple[Block, Convergence]:
    """`solve_laplacian` of B (m, b) with the operator that `inverse` is of, from its start on."""
    operator, space = inverse.operator, inverse.operator.space
    X = inverse.start(B)
    R = B - operator.apply(X)
    given, left = space.norms(B, R)
    share = np.divide(left, given, out=np.zeros_like(left), where=given > 0)
    tight = min(1.0, tol / max(float(share.max(initial=0.0)), tol))
    step, found = solve_laplacian(operator, R, tol=tight, precondition=inverse, **how)
    X += step
    return X, replace(found, residuals=found.residuals * share, tolerance=tol)
