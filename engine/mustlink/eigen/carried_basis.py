"""The smooth subspace of regularised degrees, as a basis in which L̄ itself is the cost.

Inside the span of the smoothest vectors of a sparse network constraints can only move its crumbs:
these are the smoothest there is. Those of L̄_τ show its clusters. What is minimised stays the cut
of the graph as it is, so that all that is solved inside a smooth basis is solved in this one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.ritz import orthonormal, rayleigh_ritz
from mustlink.eigen.smooth_subspace import SmoothBasis, tie_of
from mustlink.eigen.wide_spectrum import ROUNDING
from mustlink.operators.protocol import Laplacian
from mustlink.result import EigenResult


def carried_basis(plain: Laplacian, regular: Laplacian, found: EigenResult) -> SmoothBasis:
    """Basis of the span of z = D^½1/√vol and D^½T^-½V, V (m, p) the smoothest vectors of L̄_τ.

    V lives where u = T^-½v is a function on the nodes; D^½u is the same function where L̄ lives.
    Directions are the Ritz vectors of L̄ beside z, at most p: what z spans already is dropped.
    Cost: a product with L̄ and some products of blocks (m, p). Memory: 3 blocks beside V.
    """
    space, root = plain.space, plain.root_degree
    z = space.column(space.rowwise(lambda r: r / np.sqrt(plain.volume), root))
    U = space.scaled(found.vectors, space.rowwise(_ratio, root, regular.root_degree))
    for _ in range(2):
        U = orthonormal(space, U)
        space.subtract(U, z, space.gram(z, U))
    U = orthonormal(space, U)
    values, C = rayleigh_ritz(space, U, plain.apply(U))
    faint = int((values <= ROUNDING).sum())
    residuals = found.convergence.residuals[: values.size]
    return SmoothBasis(
        plain,
        space.stack([space.copy(z, U.dtype), space.combine(U, C)]),
        np.concatenate([np.full(faint, tie_of(values[faint:])), values[faint:]]),
        residuals,
        faint,
    )


def _ratio(root: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(root, other, out=np.zeros_like(root), where=other > 0)
