"""CSP and SSSC on ranks, in the smooth subspace: what is projected is small, and on every rank.

The dimension of the subspace and the method's parameter are the caller's, or usual ones: choosing
by constraints held out of the fit is for one process.
"""

from __future__ import annotations

import numpy as np

from mustlink.check import as_integer, check_number
from mustlink.constraints import Constraints
from mustlink.constraints.links import NodeMatrix, balanced
from mustlink.eigen.penalized import PenalizedProblem
from mustlink.eigen.problem import Problem
from mustlink.eigen.smooth_subspace import SmoothBasis, smooth_basis
from mustlink.eigen.solver import BASIS_TOL
from mustlink.methods.csp import ConstrainedCut
from mustlink.methods.normalized_cut import Cut
from mustlink.on_ranks.work import RankWork
from mustlink.operators.constraint_operator import ConstraintOperator, placed_operator
from mustlink.rounding.assign import assign

_USUAL = 4  # times K: smooth vectors in the subspace that is seldom far from the best
BETA, GAMMA = 0.5, 0.3  # where the caller says nothing: the first that are tried at home
USUAL = {"csp": {"beta": BETA}, "sssc": {"gamma": GAMMA}}


def csp(
    work: RankWork,
    known: Constraints,
    k: int,
    *,
    subspace: int | None = None,
    beta: float = BETA,
    tol: float | None = None,
    max_iter: int = 200,
    seed: int = 0,
) -> Cut:
    """Own rows of k clusters by `CSP` with subspace=p, beta=b and assign="kmeans"; InputError."""
    check_number(beta, "beta", "a fraction below 1")
    Q = _placed(work, NodeMatrix(known.matrix, known.factor, known.core), known, scaled=True)
    problem = ConstrainedCut(work.laplacian, Q, k - 1, max(k - 1, 1))
    basis = _basis(work, k, subspace, tol, max_iter, seed)
    return _clustered(work, problem, basis, float(beta), k, "kmeans", seed)


def sssc(
    work: RankWork,
    known: Constraints,
    k: int,
    *,
    subspace: int | None = None,
    gamma: float = GAMMA,
    tol: float | None = None,
    max_iter: int = 200,
    seed: int = 0,
) -> Cut:
    """Own rows of k clusters by `SSSC` with subspace=p, gamma, balanced=True and assign="sphere".

    Raises InputError.
    """
    check_number(gamma, "gamma", "from 0 on and below 1")
    must, cannot = balanced(known, work.rows.nodes)
    Q = _placed(work, cannot + must.times(-1.0), known, scaled=False)
    problem = PenalizedProblem(
        work.laplacian, Q, columns=k, weights=lambda value: (1.0 - value, value), normalized=True
    )
    basis = _basis(work, k, subspace, tol, max_iter, seed)
    return _clustered(work, problem, basis, float(gamma), k, "sphere", seed)


def dimension(k: int, subspace: int | None) -> int:
    """Of the subspace: what the caller said, or four times K; raises InputError."""
    return _USUAL * k if subspace is None else as_integer(subspace, "subspace", 1)


def _placed(
    work: RankWork, given: NodeMatrix, known: Constraints, *, scaled: bool
) -> ConstraintOperator:
    """A matrix of the nodes that something is said of; D^-½MD^-½ if `scaled`."""
    places, space, root = work.places(known.nodes), work.space, None
    if scaled:
        held = space.column(work.laplacian.root_degree)
        root = space.take(held, np.maximum(places, 0))[:, 0]
    return placed_operator(given, known.nodes, places, root, space)


def _basis(
    work: RankWork, k: int, subspace: int | None, tol: float | None, max_iter: int, seed: int
) -> SmoothBasis:
    """The p smoothest directions and z, as `eigen.solver.smoothest` finds them."""
    p, sharpness = dimension(k, subspace), BASIS_TOL if tol is None else tol
    found = work.smallest_pairs(p, tol=sharpness, max_iter=max_iter, seed=seed)
    had = found.convergence.residuals
    return smooth_basis(work.laplacian, found.values, found.vectors, had).first(p)


def _clustered(
    work: RankWork, problem: Problem, basis: SmoothBasis, value: float, k: int, way: str, seed: int
) -> Cut:
    """The projected problem's vectors on the nodes, and k-means on their rows."""
    space, recorder = work.space, work.recorder
    with recorder.stage("constrained vectors"):
        found = problem.inside(basis, value)
    if found.note:
        recorder.note(found.note)
    rows = found.vectors
    if isinstance(problem, ConstrainedCut):
        rows = work.by_root(rows)
    with recorder.stage("clusters"):
        clusters = assign(rows, k, way, seed, space=space).labels
    return Cut(clusters, rows, found.values, found.convergence, None)
