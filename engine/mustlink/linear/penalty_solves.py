"""What preconditions a graph with a penalty aL̄ + bU: exact local solves, or links in the grids.

A multigrid of the graph alone knows nothing about the penalty. With A = L̄ + penalty, C ≈ L̄⁻¹ from
the multigrid and E the placement of the s constrained nodes,

    T = G + (I − GA) C (I − AG),   G = E (EᵀAE)⁻¹ Eᵀ,

is symmetric positive, and exact where the penalty acts: however hard constraints are, they cost no
more steps.

Must-links alone may be inside the multigrid: a clique of weights h_i h_j is what remains of a star
when its hub is eliminated: spokes a_i = h_i Σ_j h_j give a_i a_j / Σa = h_i h_j. So aL̄ + bU, U a
Laplacian of pairs and cliques, is the Schur complement of a sparse graph with as many more nodes as
there are groups, and grids of that graph precondition it however hard the links are, and however
many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core import dense_algebra
from mustlink.linear.cg import Map
from mustlink.linear.multigrid.hierarchy import Hierarchy, build_hierarchy
from mustlink.operators.constraint_operator import ConstraintOperator
from mustlink.operators.laplacian import Block, NormalizedLaplacian

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
    F, core = penalty.factor, np.zeros((0, 0))
    if F is not None:
        core = sp.csr_matrix(penalty.core).toarray() * b
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
        result: Block = Y - solved @ dense_algebra.solve(small, K @ (columns.T @ Y))
        return result

    return solve


# --- must-links inside the multigrid


def linked_graph(
    laplacian: NormalizedLaplacian, penalty: ConstraintOperator, a: float, b: float
) -> NormalizedLaplacian:
    """The graph aW + b(links of U) with hubs, (m + r) nodes, hubs last; U normalised as L̄ is.

    U = matrix − factor·diag(c)·factorᵀ, c >= 0, with zero row sums against D^½1: its diagonal
    follows from the links. Cost O(nnz).
    """
    m, root = laplacian.size, laplacian.root_degree
    rows = penalty.support
    scale = sp.diags_array(root)
    links = sp.coo_matrix(penalty.matrix)
    off = (links.row != links.col) & (links.data < 0)
    at = rows[links.row[off]], rows[links.col[off]]
    pairs = sp.csr_matrix((-b * links.data[off], at), shape=(m, m))
    W: Any = scale @ (laplacian.edges * a + pairs) @ scale
    if penalty.factor is not None:
        core: Any = penalty.core
        strength = np.sqrt(np.maximum(-b * np.asarray(core.diagonal()), 0.0))
        h: Any = sp.diags_array(root[rows]) @ penalty.factor @ sp.diags_array(strength)
        used = np.flatnonzero(np.diff(sp.csc_matrix(h != 0).indptr) > 1)  # groups of two or more
        h = sp.csc_matrix(h)[:, used]
        spokes = sp.coo_matrix(h @ sp.diags_array(np.asarray(h.sum(axis=0)).ravel()))
        T = sp.csr_matrix((spokes.data, (rows[spokes.row], spokes.col)), shape=(m, used.size))
        W = sp.bmat([[W, T], [T.T, None]], format="csr")
    return NormalizedLaplacian.of_weights(sp.csr_matrix(W))


class LinkedCycle:
    """Symmetric positive map R -> ≈(aL̄ + bU)⁻¹R on blocks (m, c); identity on what is null."""

    def __init__(
        self, laplacian: NormalizedLaplacian, penalty: ConstraintOperator, a: float, b: float
    ) -> None:
        self.linked = linked_graph(laplacian, penalty, a, b)
        self.grids: Hierarchy = build_hierarchy(self.linked)
        self.ratio = (laplacian.root_degree / self.linked.root_degree[: laplacian.size])[:, None]
        self.size = laplacian.size

    def __call__(self, R: Block) -> Block:
        """Apply to a block (m, c). Cost: one V-cycle of the graph with the links."""
        null = self.linked.null
        X = np.zeros((self.linked.size, R.shape[1]))
        X[: self.size] = self.ratio * R
        smooth = null.project(X)
        Y = null.project(self.grids.cycle()(smooth)) + (X - smooth)
        return self.ratio * Y[: self.size]
