"""The exact pencil at scale: leading pairs of S_B w = μL̄w by LOBPCG, preconditioned by AMG(L̄)."""

from __future__ import annotations

import numpy as np

from mustlink.eigen.lobpcg import Lobpcg, lobpcg
from mustlink.eigen.nested_iteration import guard, nested_start
from mustlink.eigen.pencil import Pencil, PencilSolution, finish
from mustlink.kernels.blocks import combine, gram
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.operators.laplacian import Block
from mustlink.result import Convergence


def leading_pencil(
    pencil: Pencil,
    grids: Hierarchy,
    k: int,
    *,
    tol: float,
    max_iter: int = 300,
    seed: int = 0,
    start: Block | None = None,
) -> tuple[PencilSolution, Convergence]:
    """The k pairs of largest μ, the feasible ones among them finished to (λ, v).

    `start` (m, ·) are directions worth beginning with; smooth vectors and responses of the graph
    to the constraints, L̄⁺Q̄x, are always added. Residuals are those of the full pencil.
    """
    laplacian = pencil.laplacian
    room = laplacian.size - laplacian.null.n_components
    b = min(k + guard(k), room)
    X = _start_block(pencil, grids, b, seed, start)
    rule = Lobpcg(min(k, b), tol, max_iter, largest=True, norm_A=pencil.norm, relative=True)
    found = lobpcg(
        pencil.schur,
        X,
        rule,
        M=pencil.metric,
        precondition=grids.cycle(),
        project=pencil.project,
    )
    feasible = pencil.n_feasible()
    complete = feasible is not None and feasible <= found.values.size
    solution = finish(pencil, found.values, found.vectors, complete)
    residuals = pencil.residuals(solution.vectors, solution.lam)
    convergence = Convergence(
        "lobpcg", found.convergence.reason, found.convergence.iterations, residuals, tol
    )
    return solution, convergence


def _start_block(pencil: Pencil, grids: Hierarchy, b: int, seed: int, start: Block | None) -> Block:
    """B directions: given ones, smooth ones, responses to the constraints, random ones."""
    laplacian = pencil.laplacian
    smooth = nested_start(laplacian, grids, b, seed)
    noise = laplacian.space.normals(b, seed + 1)
    response = grids.cycle()(laplacian.null.project(pencil.Q.apply(smooth + noise)))
    parts = [smooth, response, grids.cycle()(noise)]
    if start is not None:
        parts.insert(0, start)
    basis = pencil.project(np.column_stack(parts))
    basis /= np.maximum(np.linalg.norm(basis, axis=0), 1e-300)
    # Rayleigh-Ritz in their span picks the b most promising.
    M = gram(basis, laplacian.apply(basis))
    m, U = np.linalg.eigh((M + M.T) / 2)
    keep = m > 1e-12 * m[-1]
    T = U[:, keep] / np.sqrt(m[keep])
    H = T.T @ gram(basis, pencil.schur(basis)) @ T
    _, C = np.linalg.eigh((H + H.T) / 2)
    return combine(basis, T @ C[:, ::-1][:, :b])
