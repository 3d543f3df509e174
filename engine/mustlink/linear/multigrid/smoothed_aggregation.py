"""Smoothed aggregation for graphs whose weights span many orders of magnitude, such as pictures.

Plain aggregation looks at the pattern only and glues pixels across an outline that the weights
separate by 10⁶; conjugate gradients then take 90 steps where these grids take 10. They cost more to
set up, which ordinary kNN graphs do not pay back. Prolongation is smoothed along strong links
only: on a photograph with links between similar pixels the second grid would have 2,130 entries a
row, and take 18 s, for two thirds of the steps; so it takes 1 s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.linear.multigrid.hierarchy import (
    Hierarchy,
    build_hierarchy,
    inverse_diagonal,
    pseudo_inverse,
)
from mustlink.linear.multigrid.level import Level
from mustlink.linear.multigrid.power_method import largest_eigenvalue
from mustlink.operators.grounded_laplacian import GroundedLaplacian
from mustlink.space import LocalSpace

_STRENGTH = 0.05  # |a_ij| >= θ√(a_ii a_jj); 0 and 0.25 were five times slower
_COARSEST = 200
_WIDE = 1e3  # ratio of large to small weights from which a graph needs these grids
_SAMPLE = 100_000
_POWER_STEPS = 15


def has_wide_weights(laplacian: GroundedLaplacian) -> bool:
    """Whether the 1 % smallest and the 5 % largest weights of S are orders of magnitude apart."""
    data = laplacian.edges.data[:: max(1, laplacian.n_entries // _SAMPLE)]
    if data.size == 0:
        return False
    low, high = np.quantile(data, [0.01, 0.95])
    return bool(high > _WIDE * max(low, 1e-300))


def build_grids(operator: GroundedLaplacian) -> Hierarchy:
    """Plain or, for wide weights, smoothed aggregation."""
    return (build_smoothed if has_wide_weights(operator) else build_hierarchy)(operator)


def build_smoothed(laplacian: GroundedLaplacian) -> Hierarchy:
    """Grids by pyamg's smoothed aggregation with symmetric strength, near-null vector D^½1."""
    from pyamg import smoothed_aggregation_solver

    L = (sp.identity(laplacian.size, format="csr") - laplacian.edges).tocsr()
    found: Any = smoothed_aggregation_solver(
        L,
        B=laplacian.root_degree[:, None],
        strength=("symmetric", {"theta": _STRENGTH}),
        smooth=("jacobi", {"omega": 4.0 / 3.0, "filter_entries": True}),  # else coarse grids fill
        improve_candidates=None,
        max_coarse=_COARSEST,
        max_levels=15,
        presmoother=None,
        postsmoother=None,
    )
    levels: list[Level] = []
    coarse: list[sp.csr_matrix | None] = []
    prolongation: list[sp.csr_matrix] = []
    for depth, grid in enumerate(found.levels):
        A = sp.csr_matrix(grid.A)
        last = depth == len(found.levels) - 1
        inverse = inverse_diagonal(A.diagonal())
        if depth:  # D⁻¹A <= 2, on which the smoother counts, holds for Laplacians only
            inverse = inverse * min(1.0, 2.0 / (1.05 * _largest(A, inverse)))
        P = None if last else sp.csr_matrix(grid.P)
        levels.append(
            Level(
                A.astype(np.float32),
                0.0,
                1.0,
                inverse.astype(np.float32),
                None if P is None else P.astype(np.float32),
                None if P is None else P.T.tocsr().astype(np.float32),
            )
        )
        coarse.append(A if depth else None)
        if P is not None:
            prolongation.append(P)
    last_level, exact = levels[-1], sp.csr_matrix(found.levels[-1].A)
    small = last_level.size <= 10 * _COARSEST
    if small:
        coarse_inverse = pseudo_inverse(last_level, exact, laplacian.dtype)
        levels[-1] = replace(last_level, coarse_inverse=coarse_inverse)
    return Hierarchy(tuple(levels), tuple(coarse), tuple(prolongation))


def _largest(A: sp.csr_matrix, inverse: NDArray[np.float64]) -> float:
    """Largest eigenvalue of D⁻¹A, roughly; 1 where the coarsest grid is all null space."""
    root, space = np.sqrt(inverse)[:, None], LocalSpace(A.shape[0])
    return largest_eigenvalue(lambda X: root * (A @ (root * X)), space, _POWER_STEPS) or 1.0
