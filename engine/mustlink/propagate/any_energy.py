"""Energies fᵀMf of matrices and operators that a caller gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from mustlink.check import as_csr
from mustlink.errors import InputError
from mustlink.kernels.spmm import spmm
from mustlink.linear.cg import Map
from mustlink.operators.laplacian import Block
from mustlink.propagate.energies import Energy, Floats, Ints, System, scaled_system
from mustlink.propagate.neighborhoods import Fit

_SYMMETRY = 1e-6  # of the largest entry, or of the lengths of a product's factors
_NEGATIVE = 1e-9  # share of the largest entry below which a negative diagonal is rounding


@dataclass(frozen=True, eq=False)
class MatrixEnergy:
    """M (m, m) CSR, symmetric positive semidefinite; nodes with an entry in common are near."""

    matrix: sp.csr_matrix

    @property
    def size(self) -> int:
        """Number of nodes m."""
        return int(self.matrix.shape[0])

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b)."""
        return spmm(self.matrix, np.ascontiguousarray(X))

    def system(self, free: Ints, weight: Floats) -> System:
        """M + diag(weight) on the rows `free`, with a multigrid that carries constants down."""
        A = sp.csr_matrix(self.matrix[free][:, free])
        A.sort_indices()
        single = sp.csr_matrix((A.data.astype(np.float32), A.indices, A.indptr), shape=A.shape)
        fit = Fit(
            lambda X: spmm(A, np.ascontiguousarray(X)),
            lambda X: spmm(single, np.ascontiguousarray(X)),
            lambda P: sp.csr_matrix(P.T.tocsr() @ (A @ P)),
            np.maximum(A.diagonal().astype(np.float64), 0.0),
        )
        return fit.system(A, weight)


@dataclass(frozen=True, eq=False)
class OperatorEnergy:
    """M by its product alone: no entry is known, and nothing preconditions it."""

    product: Map
    size: int

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b)."""
        found = np.asarray(self.product(X))
        if found.shape != X.shape or found.dtype.kind not in "fiu":
            raise InputError(
                f"M: a block {X.shape} became {found.dtype} of shape {found.shape}; a product "
                "keeps the shape and is real"
            )
        return found.astype(np.float64, copy=False)

    def system(self, free: Ints, weight: Floats) -> System:
        """Scaled by the weights alone."""
        return scaled_system(self, np.ones(self.size), free, weight)


def as_energy(M: Any, n: int) -> Energy:
    """A sparse or dense matrix (n, n), a LinearOperator or a callable; raises InputError.

    Symmetric to 1e-6, and no diagonal entry is negative; of an operator one product is looked at.
    """
    if isinstance(M, LinearOperator) or (callable(M) and not hasattr(M, "shape")):
        if isinstance(M, LinearOperator) and M.shape != (n, n):
            raise InputError(f"M: shape {M.shape} for {n} labels; give one row per node")
        energy = OperatorEnergy(M.matmat if isinstance(M, LinearOperator) else M, n)
        _look(energy)
        return energy
    matrix = as_csr(M, "M").astype(np.float64, copy=False)
    if matrix.shape != (n, n):
        raise InputError(f"M: shape {matrix.shape} for {n} labels; give one row per node")
    largest = float(np.abs(matrix.data).max(initial=0.0))
    if not np.isfinite(largest):
        raise InputError("M: entries that are not finite; remove NaN and Inf")
    gap = abs(matrix - matrix.T).max() if matrix.nnz else 0.0
    if gap > _SYMMETRY * largest:
        raise InputError(
            f"M: not symmetric, M and its transpose differ by {gap:.2g}; pass (M + M.T) / 2"
        )
    least = float(matrix.diagonal().min(initial=0.0))
    if least < -_NEGATIVE * largest:
        raise InputError(
            f"M: diagonal entry {least:.2g} is negative, fᵀMf has no minimum; give a positive "
            "semidefinite M, such as D − W for affinities W"
        )
    return MatrixEnergy(matrix)


def _look(energy: OperatorEnergy) -> None:
    """Raise InputError where one product is not that of a symmetric positive semidefinite M."""
    X = np.random.default_rng(0).standard_normal((energy.size, 2))
    MX = energy.apply(X)
    if not np.isfinite(MX).all():
        raise InputError("M: its product with random vectors is not finite; look at the operator")
    products, size = X.T @ MX, float(np.linalg.norm(X) * np.linalg.norm(MX))
    if abs(products[0, 1] - products[1, 0]) > _SYMMETRY * size:
        raise InputError("M: not symmetric, ⟨x, My⟩ is not ⟨Mx, y⟩; pass (M + Mᵀ) / 2")
    if products.diagonal().min() < -_NEGATIVE * size:
        raise InputError(
            "M: xᵀMx is negative for a random x, fᵀMf has no minimum; give a positive "
            "semidefinite M"
        )
