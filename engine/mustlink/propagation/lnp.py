"""Linear neighbourhood propagation, LNP (Wang & Zhang 2006; AB09 §3.5.3).

Every point is fitted by a convex combination of its neighbours, x_i ≈ Σ_j u_ij x_j with u_i a
probability distribution, and labels follow the same combinations.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, bicgstab

from mustlink.core import dense_algebra
from mustlink.core.check import check_choice, check_positive, check_share
from mustlink.core.observe import Deadline, Recorder
from mustlink.core.result import MAX_ITER, STAGNATED, TIME_LIMIT, TOLERANCE, Convergence
from mustlink.eigen.work import MEMORY
from mustlink.kernels.local_fits import convex_weights, nearest_listed
from mustlink.kernels.spmm import spmm_axpby
from mustlink.linear.cg import LEAST
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.propagation.problem import PropagationProblem, Solution
from mustlink.propagation.propagator import Propagator

Floats = NDArray[np.float64]
VARIANTS = ("iteration", "minimizer")
_STARTS = 5  # of the iteration for a column: its residuals drift from the true one


@dataclass(eq=False, repr=False)
class LNP(Propagator):
    """Soft labels along U, the rows of which reconstruct the points from their neighbours.

    * `variant`: which equation is solved.
      "iteration": f = (1 − α)(I − αU)⁻¹y, the limit of f ← αUf + (1 − α)y that is
      published and was measured in AB09 (eq. 18). U is not symmetric: stabilised bi-conjugate
      gradients (van der Vorst 1992), a class at a time. A labelled point that is in no other's
      combination has no influence, so that classes have unequal influence: `class_mass=True` helps
      (MNIST, 5 labels a class: 86 % right, with it 94 %, the minimiser 94 % without).
      "minimizer": the exact minimiser of Σ_ij u_ij (f_i − f_j)² + μΣ_i (f_i − y_i)²,
      μ = (1 − α)/α (eq. 17), which the iteration is not: (I + D_c − U − Uᵀ + μI)f = μy, D_c the
      column sums of U. AB09's own closed form, (I − (U + Uᵀ)/2)⁻¹(1 − α)y, leaves out D_c and
      α: its matrix is singular or indefinite, since U + Uᵀ has other row sums than 2.
    * `alpha` in (0, 1): how far labels travel.
    * `reg` > 0: ridge of the local fits, as a share of the squared distances.
    * `n_neighbors`: neighbours in a fit, the nearest of the graph.

    Needs points. Cost: O(n k²(d + k)) for the fits, some 10 to 100 products. See `Propagator`.
    """

    alpha: float = 0.99
    variant: str = "iteration"
    reg: float = 1e-3

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY})
    _needs_points: ClassVar[bool] = True

    def _check_parameters(self) -> None:
        check_share(self.alpha, "alpha")
        check_choice(self.variant, VARIANTS, "variant")
        check_positive(self.reg, "reg")

    @property
    def _minimises(self) -> bool:
        return self.variant == "minimizer"

    def _solve(self, problem: PropagationProblem) -> Solution:
        alpha = float(self.alpha)
        with problem.recorder.stage("local fits"):
            points = located(problem.work.points, self.metric)
            k, recorder = int(self.n_neighbors), problem.recorder
            lists = neighbourhoods(points, problem.work.laplacian, k, recorder)
            U = as_matrix(convex_weights(points, lists, float(self.reg)), lists)
        share = problem.share_labelled()[:, None] * problem.Y
        if self.variant == "iteration":
            found = iterated(problem, U, alpha, share)
        else:
            weight = problem.copies * ((1.0 - alpha) / alpha)
            U = sp.csr_matrix(sp.diags_array(problem.copies) @ U)
            along = NormalizedLaplacian.of_weights(sp.csr_matrix(U + U.T))
            work = replace(problem.work, part=along)
            found = replace(problem, work=work).minimise(share, weight=weight)
        chosen = {"variant": self.variant, "alpha": alpha, "reg": float(self.reg)}
        return Solution(*found, chosen)


class _EndedError(Exception):
    """The end of the steps, or of the time."""


def iterated(
    problem: PropagationProblem, U: sp.csr_matrix, alpha: float, Y: Block
) -> tuple[Block, Convergence]:
    """(1 − α)(I − αU)⁻¹Y for row-stochastic U (m, m), column by column."""
    solving, B = problem.solving, (1.0 - alpha) * Y
    tol, k = solving.tolerance(problem.size), B.shape[1]
    F, residuals, steps = np.empty_like(B), np.zeros(k), 0
    with problem.recorder.stage("propagating") as advance:
        if solving.is_dense(problem.size):
            F = dense_algebra.solve(np.eye(problem.size) - alpha * U.toarray(), B)
            return F, Convergence("LAPACK", "direct", 0, residuals, tol)
        for c, b in enumerate(np.ascontiguousarray(B.T)):
            until = solving.deadline.share(1.0 / (k - c))
            F[:, c], residuals[c], taken = _column(U, alpha, b, tol, solving.max_iter, until)
            steps = max(steps, taken)
            advance((c + 1) / k)
    reason = TOLERANCE
    if (residuals > tol).any():
        reason = MAX_ITER if steps >= solving.max_iter else STAGNATED
        reason = TIME_LIMIT if solving.deadline.is_over else reason
    return F, Convergence("BiCGSTAB", reason, steps, residuals, tol)


def _column(
    U: sp.csr_matrix, alpha: float, b: Floats, tol: float, max_iter: int, until: Deadline
) -> tuple[Floats, float, int]:
    """(I − αU)⁻¹b, ‖b − Ax‖/‖b‖ and the steps, started again from the true residual."""
    x, taken = np.zeros_like(b), 0

    def apply(x: Floats) -> Floats:
        X = np.ascontiguousarray(x).reshape(-1, 1)
        return spmm_axpby(U, X, X, -alpha, 1.0)[:, 0]

    def step(now: Floats) -> None:
        nonlocal x, taken
        x, taken = now, taken + 1
        if taken >= max_iter or (taken >= LEAST and until.is_over):
            raise _EndedError

    size, A = max(float(np.linalg.norm(b)), 1e-300), LinearOperator(U.shape, apply, dtype=b.dtype)
    with suppress(_EndedError):
        for _ in range(_STARTS):
            x = bicgstab(A, b, x0=x, rtol=tol, atol=0.0, maxiter=max_iter, callback=step)[0]
            if np.linalg.norm(b - apply(x)) <= tol * size:
                break
    return x, float(np.linalg.norm(b - apply(x))) / size, taken


# --- Neighbourhoods of points, which LNP, LLELP, LTSALP and embeddings without labels fit


Lists = NDArray[np.int32]
_FAR = 1e15  # sizes of coordinates whose sums of squares fit single precision, and their inverse


def located(points: NDArray[np.floating[Any]], metric: str) -> NDArray[np.floating[Any]]:
    """The points (m, d) as neighbours are near: of unit length for the cosine metric.

    Fits do not depend on their unit: a power of two is taken out where squares would not fit.
    """
    size = float(np.abs(points).max(initial=0.0))
    if size and not 1 / _FAR <= size <= _FAR:
        points = np.ldexp(points, -int(np.frexp(size)[1]))
    if metric != "cosine":
        return points
    length = np.linalg.norm(points.astype(np.float64), axis=1, keepdims=True)
    return (points / length).astype(points.dtype)


def neighbourhoods(
    points: NDArray[np.floating[Any]], laplacian: NormalizedLaplacian, k: int, recorder: Recorder
) -> Lists:
    """The k nearest graph neighbours of every node (m, k), -1 where it has fewer.

    Edges that bridge a graph are long, and among the k nearest of nobody. Where the lists fall into
    more parts than the graph, the nearest neighbour in another part is one more column.
    """
    edges, parts, size = laplacian.pattern, laplacian.null.n_components, laplacian.size
    lists = nearest_listed(points, edges.indptr, edges.indices, k)
    while (part := _parts(lists)).max() + 1 > parts:
        ends = edges.rows
        crossing = part[ends] != part[edges.indices]
        counts = np.bincount(ends[crossing], minlength=size)
        indptr = np.append(0, np.cumsum(counts)).astype(edges.indptr.dtype)
        nearest = nearest_listed(points, indptr, edges.indices[crossing], 1)
        recorder.note(
            f"the {k} nearest neighbours leave {int(part.max()) + 1} parts where the graph has "
            f"{parts}; {int((counts > 0).sum())} nodes take their shortest edge across as well"
        )
        lists = np.hstack([lists, nearest])
    return lists


def _parts(lists: Lists) -> NDArray[np.int32]:
    """Part of every node, taking the lists for undirected edges."""
    joined = as_matrix(np.ones(lists.shape), lists)
    return np.asarray(connected_components(joined, directed=False)[1], dtype=np.int32)


def as_matrix(weights: NDArray[np.float64], lists: Lists) -> sp.csr_matrix:
    """Weights (m, k) of the listed neighbours as a CSR matrix (m, m), sorted, without zeros."""
    there = (lists >= 0) & (weights != 0)
    indptr = np.append(0, np.cumsum(there.sum(axis=1))).astype(np.int32)
    m = lists.shape[0]
    found = sp.csr_matrix((weights[there], lists[there], indptr), shape=(m, m))
    found.sort_indices()
    return found
