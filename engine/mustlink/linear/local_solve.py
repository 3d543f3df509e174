"""Exact solves on the constrained nodes, which a multigrid of the graph alone knows nothing about.

With A = L̄ + penalty, C ≈ L̄⁻¹ from the multigrid and E the placement of the s constrained nodes,

    T = G + (I − GA) C (I − AG),   G = E (EᵀAE)⁻¹ Eᵀ,

is symmetric positive, and exact where the penalty acts: however hard constraints are, they cost no
more steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.numeric import dense_algebra
from mustlink.operators.constraint_operator import ConstraintOperator
from mustlink.operators.laplacian import Block, NormalizedLaplacian

Map = Callable[[Block], Block]
_DENSE = 1500  # constrained nodes up to which the local matrix is factored densely
_REGULAR = 1e-10


@dataclass(frozen=True, eq=False)
class LocalSolve:
    """G: solves with the rows and columns of aL̄ + bU + shift·I on the support of U."""

    support: NDArray[np.int64]
    solve: Callable[[Block], Block]

    def __call__(self, X: Block) -> Block:
        """GX for a block (m, b)."""
        Y = np.zeros_like(X)
        Y[self.support] = self.solve(X[self.support])
        return Y

    def around(self, A: Map, C: Map) -> Map:
        """T, the preconditioner for A made of this and of C. Cost: two products with A more."""

        def apply(R: Block) -> Block:
            first = self(R)
            middle = C(R - A(first))
            return first + middle - self(A(middle))

        return apply


def local_solve(
    laplacian: NormalizedLaplacian, penalty: ConstraintOperator, a: float, b: float
) -> LocalSolve:
    """Factor the local matrix: by Cholesky if small, else sparse with the low rank by Woodbury.

    aL̄ + bU must be positive semidefinite; 1e-10 of its diagonal is added.
    """
    rows = penalty.support
    inner = laplacian.edges[rows][:, rows]
    eye = sp.identity(rows.size, format="csr")
    sparse = sp.csc_matrix(eye * a - inner * a + penalty.matrix * b)
    F, core = penalty.factor, _dense(penalty.core) * b
    sparse = sparse + eye * (_REGULAR * float(np.abs(sparse.diagonal()).max(initial=a)))
    if rows.size <= _DENSE:
        whole = sparse.toarray()
        if F is not None:
            whole += F @ (core @ F.T.toarray())
        return LocalSolve(rows, dense_algebra.Definite(whole, lift=True).solve)
    return LocalSolve(rows, _woodbury(sp.csc_matrix(sparse), F, core))


def _woodbury(matrix: sp.csc_matrix, F: sp.csr_matrix | None, K: Block) -> Map:
    """Solver with matrix + FKFᵀ."""
    from scipy.sparse.linalg import splu

    factored = splu(matrix)
    if F is None:
        return factored.solve
    columns = F.toarray()
    solved = factored.solve(columns)
    small = np.eye(K.shape[0]) + K @ (columns.T @ solved)

    def solve(B: Block) -> Block:
        Y = factored.solve(B)
        found: Block = Y - solved @ dense_algebra.solve(small, K @ (columns.T @ Y))
        return found

    return solve


def _dense(core: Any) -> Block:
    if core is None:
        return np.zeros((0, 0))
    dense: Any = core.toarray() if hasattr(core, "toarray") else core
    return np.asarray(dense, dtype=np.float64)
