"""The smoothest vectors of a form that fits neighbourhoods: eigenvectors of LLE's and LTSA's M."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.eigen.arpack import OutOfTimeError, factor_bytes, smallest_by_factors
from mustlink.eigen.lobpcg import Lobpcg, lobpcg
from mustlink.eigen.nested_iteration import guard
from mustlink.eigen.plain_solve import DENSE_BELOW
from mustlink.eigen.ritz import orthonormal, rayleigh_ritz
from mustlink.eigen.solver import smoothest
from mustlink.embedding.graph_embedding import signed
from mustlink.linear.multigrid.cycle import largest_eigenvalue
from mustlink.numeric import dense_algebra
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.operators.null_space import NullSpace
from mustlink.propagate.generalized import Energy
from mustlink.result import Convergence, EigenResult
from mustlink.workspace import Workspace

SOLVERS = ("auto", "dense", "shift-invert", "lobpcg")
_ROOM = 2e9  # bytes that factors may take where nobody said
_SMOOTH, _AXES = 20, 20  # vectors of the graph, and axes of the points, that lobpcg starts from
_WIDE = 1000  # columns of points from which no axes are looked for
_STEPS = 20  # of the power method, for ‖M‖


class FormedEnergy(Energy, Protocol):
    """An energy that can be written down."""

    def matrix(self) -> sp.csr_matrix:
        """M (m, m)."""


@dataclass(frozen=True)
class Finding:
    """How many coordinates, by which solver, to which tolerance, in how many steps."""

    count: int
    solver: str
    tol: float | None
    max_iter: int
    seed: int


def smoothest_of_fits(
    work: Workspace,
    laplacian: NormalizedLaplacian,
    energy: FormedEnergy,
    points: NDArray[np.floating[Any]],
    how: Finding,
) -> EigenResult:
    """Coordinates F (m, d), least fᵀMf, Σ c_i f_i = 0 on every component, Σ c_i f_i² = Σ c_i.

    c_i copies of node i: with u = C^½f these are eigenvectors of C^-½MC^-½.
    """
    root = np.sqrt(laplacian.copies)
    part = laplacian.null.component
    null = NullSpace(part, root / np.sqrt(np.bincount(part, root**2)[part]), part.max() + 1)
    solver = how.solver
    dense = solver == "dense" or (solver == "auto" and energy.size <= DENSE_BELOW)
    matrix = None
    if dense or solver != "lobpcg":
        by = sp.diags_array(1.0 / root)
        matrix = sp.csr_matrix(by @ energy.matrix() @ by)
    found: EigenResult | None = None
    with work.recorder.stage("eigenvectors of the fits"):
        if matrix is not None and dense:
            found = _dense(matrix, null, how.count)
        elif matrix is not None and (solver == "shift-invert" or _fits(work, matrix)):
            found = _factored(work, matrix, null, how)
    if found is None:
        found = _iterated(work, laplacian, energy, points, null, how)
    U = signed(laplacian, found.vectors)
    return replace(found, vectors=U / root[:, None] * np.sqrt(laplacian.copies.sum()))


def _dense(matrix: sp.csr_matrix, null: NullSpace, count: int) -> EigenResult:
    """By LAPACK, what is constant moved beyond the largest eigenvalue."""
    A = matrix.toarray()
    Z = null.columns(np.arange(null.n_components))
    size = max(float(np.abs(A).sum(axis=1).max()), 1e-300)
    values, V = dense_algebra.eigh(A + 2 * size * Z @ Z.T, subset=(0, count - 1))
    residuals = np.linalg.norm(A @ V - V * values, axis=0) / size
    told = Convergence("LAPACK", "direct", 0, residuals, max(1e-8, float(residuals.max())))
    return EigenResult(np.maximum(values, 0.0), V, told)


def _fits(work: Workspace, matrix: sp.csr_matrix) -> bool:
    """Whether the factors are foretold to fit; tells how large where they do not."""
    budget = work.recorder.budget
    room = _ROOM if budget.limit is None else max(0.0, budget.limit - budget.taken())
    wanted = factor_bytes(matrix)
    if wanted > room:
        work.recorder.note(
            f"solver: factors of the fits would take about {wanted / 1e9:.1f} GB of "
            f"{room / 1e9:.1f}; lobpcg instead"
        )
    return wanted <= room


def _factored(
    work: Workspace, matrix: sp.csr_matrix, null: NullSpace, how: Finding
) -> EigenResult | None:
    """By factors; None where the time was up before the end."""
    tol, until = 1e-8 if how.tol is None else how.tol, work.recorder.deadline
    more: Any = {"tol": tol, "max_iter": how.max_iter, "seed": how.seed, "deadline": until}
    try:
        return smallest_by_factors(matrix, null, how.count, **more)
    except OutOfTimeError:
        return None


def _iterated(
    work: Workspace,
    laplacian: NormalizedLaplacian,
    energy: Energy,
    points: NDArray[np.floating[Any]],
    null: NullSpace,
    how: Finding,
) -> EigenResult:
    """By LOBPCG, from the best in the span of the smoothest vectors and the points' axes."""
    recorder, m = work.recorder, energy.size
    space, tol = null.space, 1e-6 if how.tol is None else how.tol
    scale = 1.0 / np.sqrt(laplacian.copies)[:, None]
    width = min(how.count + guard(how.count), m - null.n_components)

    def product(X: Block) -> Block:
        found: Block = scale * energy.apply(scale * X)
        return found

    basis = smoothest(work, min(max(_SMOOTH, width), m - null.n_components), seed=how.seed)
    with recorder.stage("multigrid set-up"):
        cycle = energy.system(np.arange(m), np.zeros(m)).precondition
    smooth = np.asarray(basis.vectors, dtype=np.float64) / laplacian.root_degree[:, None]
    start = orthonormal(space, null.project(np.hstack([smooth, _axes(points)]) / scale), None)
    _, C = rayleigh_ritz(space, start, product(start), count=min(width, start.shape[1]))
    norm = largest_eigenvalue(product, space, _STEPS)
    rule = Lobpcg(how.count, tol, how.max_iter, norm_A=norm, deadline=recorder.deadline)
    with recorder.stage("eigenvectors of the fits"):
        found = lobpcg(
            product,
            start @ C,
            rule,
            precondition=None if cycle is None else (lambda R: cycle(R / scale) / scale),
            project=null.project,
            space=space,
        )
    reached = float(found.convergence.residuals.max(initial=0.0)) * norm
    if reached > found.values[-1]:
        recorder.warn(
            f"eigenvalues of the fits, {found.values[-1]:.1e}, are below the residual, "
            f"{reached:.1e}: the coordinates are mixed with others that are as smooth; give more "
            "memory for factors, or a smaller tol"
        )
    return found


def _axes(points: NDArray[np.floating[Any]]) -> Block:
    """Points (m, D) along principal axes, mean square 1: fits hardly see what is linear."""
    m, d = points.shape
    if d > _WIDE:
        return np.zeros((m, 0))
    centred = points.astype(np.float64) - points.mean(axis=0, dtype=np.float64)
    values, axes = dense_algebra.eigh(centred.T @ centred)
    there = np.flatnonzero(values > 1e-12 * values[-1])[::-1][:_AXES]
    found: Block = centred @ (axes[:, there] / np.sqrt(values[there] / m))
    return found
