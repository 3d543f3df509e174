"""Polynomials in S applied to sparse columns that stay near where they begin."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.diffused_columns import diffused_columns, workspace
from mustlink.operators.grounded_laplacian import GroundedLaplacian

Floats = NDArray[np.float64]
Columns = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]


def local_diffusion(
    laplacian: GroundedLaplacian,
    B: sp.csc_matrix,
    coefficients: Floats,
    thresholds: Floats,
    final: tuple[Floats, float],
    dtype: Any,
) -> Callable[[tuple[int, int]], Columns]:
    """A function of (first, last): Σ_k c_kq S^k b for these columns b of B (m, c), truncated.

    `coefficients` c (K+1, Q); thresholds, what is dropped at the end and the result are those of
    `kernels.diffused_columns`. Any number of threads may call it.
    """
    own = threading.local()

    def columns(span: tuple[int, int]) -> Columns:
        if not hasattr(own, "space"):
            own.space = workspace(laplacian.size, laplacian.S.nnz, coefficients.shape[1])
        return diffused_columns(
            laplacian.S,
            laplacian.root_degree,
            B,
            span,
            coefficients,
            thresholds,
            final,
            dtype,
            own.space,
        )

    return columns
