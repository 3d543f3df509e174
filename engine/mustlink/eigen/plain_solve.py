"""Smallest pairs of L̄ by the chosen solver, and the rule behind "auto"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mustlink.context.method_cost import FEW
from mustlink.context.workspace import SolutionKey
from mustlink.core import dense_algebra
from mustlink.core.deadline import Deadline
from mustlink.core.observe import Recorder
from mustlink.core.result import Convergence, EigenResult
from mustlink.core.stopping import STAGNATED, TIME_LIMIT
from mustlink.eigen.arpack import shift_invert
from mustlink.eigen.chebyshev import chebyshev
from mustlink.eigen.nested_iteration import n_guard_vectors, nested
from mustlink.linear.cg import towards
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.operators.protocol import Laplacian
from mustlink.operators.rank_laplacian import RankLaplacian
from mustlink.space import Space

SOLVERS = ("auto", "dense", "lobpcg", "shift-invert")
PLAIN_SOLVERS = (*SOLVERS, "chebyshev")  # which is for L̄ alone, without a pencil
WITHOUT_GRIDS = ("dense", "chebyshev")
DENSE_BELOW = 1000  # nodes: below, LAPACK takes about a second and is exact
_DENSE_COMPLETE = 4000
_SINGLE = 1e-4  # residual down to which single precision does, at half the cost
_BLUNT = 1e-2  # residual from which on it is no worse: what it rounds is a ten thousandth of that


def is_small(laplacian: NormalizedLaplacian) -> bool:
    """Whether LAPACK is the solver of choice: few nodes, or a complete graph of some more."""
    n = laplacian.size
    return n <= DENSE_BELOW or (n <= _DENSE_COMPLETE and 10 * laplacian.n_entries > n * n)


def choose(laplacian: NormalizedLaplacian, k: int, solver: str) -> str:
    """The rule behind `solver="auto"`: LAPACK for small graphs, nested LOBPCG otherwise.

    With regularised degrees Chebyshev filters: no eigenvalue is near 0, and on networks coarse
    grids are no smaller than the fine one (DBLP, K = 20, CPU seconds: 4 where LOBPCG takes 26).
    ARPACK needs a basis of more than 2k vectors; where that is most of the space, LAPACK it is.
    """
    n = laplacian.size
    if solver == "auto":
        large = "lobpcg" if laplacian.null.n_components else "chebyshev"
        return "dense" if is_small(laplacian) or 5 * k >= n else large
    return "dense" if solver == "shift-invert" and 3 * k >= n - 20 else solver


def plain_solve(
    laplacian: NormalizedLaplacian,
    grids: Hierarchy | None,
    key: SolutionKey[EigenResult],
    advance: Callable[[float], None],
    deadline: Deadline,
) -> EigenResult:
    """The pairs that the key asks for; `grids` for solvers that use them, see `WITHOUT_GRIDS`."""
    k, solver, tol, max_iter, seed = key.count, key.solver, key.tol, key.max_iter, key.seed
    if k == 0:
        return no_pairs(laplacian, tol, solver)
    if solver == "dense":
        return dense_smallest(laplacian, k + key.extra)
    if solver == "chebyshev":
        return filtered(laplacian, key, advance, deadline)
    assert grids is not None
    if solver == "shift-invert":
        return shift_invert(
            laplacian,
            grids,
            k + key.extra,
            tol=tol,
            max_iter=10 * max_iter,
            seed=seed,
            deadline=deadline,
        )
    return two_precisions(laplacian, grids, key, advance, deadline)


def no_pairs(laplacian: Laplacian, tol: float, solver: str = "lobpcg") -> EigenResult:
    """What is found where no pair is wanted."""
    none, space = np.empty(0), laplacian.space
    convergence = Convergence(solver, "direct", 0, none, tol)
    return EigenResult(none, space.zeros(0, laplacian.dtype), convergence)


def first_pairs(space: Space, found: EigenResult, count: int, extra: int = 0) -> EigenResult:
    """The first `count` of the pairs, and `extra` ones; the value after these is known then."""
    end, had = count + extra, found.values.size
    vectors = found.vectors if had <= end else space.columns(found.vectors, slice(0, end))
    beyond = float(found.values[count]) if count < had else found.beyond
    convergence = replace(found.convergence, residuals=found.convergence.residuals[:count])
    return EigenResult(found.values[:end], vectors, convergence, beyond)


def filtered(
    laplacian: NormalizedLaplacian | RankLaplacian,
    key: SolutionKey[EigenResult],
    advance: Callable[[float], None],
    deadline: Deadline,
) -> EigenResult:
    """Chebyshev filters from noise, in single precision where that is sharp enough."""
    k, tol = key.count, key.tol
    width = min(k + n_guard_vectors(k), laplacian.size - laplacian.null.n_components)
    used = laplacian.in_single if tol >= _SINGLE else laplacian
    result = chebyshev(
        used,
        used.space.normals(width, key.seed).astype(used.dtype, copy=False),
        k,
        tol=tol,
        max_iter=key.max_iter,
        on_step=towards(tol, advance),
        deadline=deadline,
        extra=key.extra,
    )
    return replace(result, vectors=result.vectors.astype(laplacian.dtype, copy=False))


def two_precisions(
    laplacian: NormalizedLaplacian | RankLaplacian,
    grids: Hierarchy,
    key: SolutionKey[EigenResult],
    advance: Callable[[float], None],
    deadline: Deadline,
) -> EigenResult:
    """Nested iteration, on large graphs in single precision as far as that is sharp enough.

    Then Rayleigh-Ritz in double, and more steps where the tolerance asks for them: values and
    residuals are those of the graph as it is. Not for spans that need not be sharp.
    """
    k, tol = key.count, key.tol
    how: dict[str, Any] = {
        "extra": key.extra,
        "seed": key.seed,
        "on_step": towards(tol, advance),
        "deadline": deadline,
    }
    rough = laplacian.in_single
    if rough is laplacian or laplacian.size <= FEW:
        return nested(laplacian, grids, k, tol=tol, max_iter=key.max_iter, **how)
    whole, enough = tol < _BLUNT, max(tol, _SINGLE)
    first = nested(rough, grids, k, tol=enough, max_iter=key.max_iter, whole=whole, **how)
    if not whole:
        return replace(first, vectors=first.vectors.astype(laplacian.dtype))
    start, taken = first.vectors, first.convergence.iterations
    how |= {"max_iter": key.max_iter - taken, "start": start}
    result = nested(laplacian, grids, k, tol=tol, **how)
    steps = taken + result.convergence.iterations
    return replace(result, convergence=replace(result.convergence, iterations=steps))


# --- Dense eigensolvers: the oracle for small graphs in memory, and the method for them


def dense_smallest(laplacian: NormalizedLaplacian, k: int) -> EigenResult:
    """The k smallest pairs of L̄ beyond its null space, by LAPACK. Cost O(m³), m² numbers."""
    m, null = laplacian.size, laplacian.null
    shifted = laplacian.to_dense() + 4.0 * (null.matrix @ null.matrix.T).toarray()
    room = m - null.n_components
    values, vectors = dense_algebra.eigh(shifted, subset=(0, min(k + 1, m) - 1))
    beyond = float(values[k]) if k < room else None
    values, vectors = values[:k], vectors[:, :k]
    R = laplacian.apply(vectors) - vectors * values
    residuals = np.linalg.norm(R, axis=0)
    convergence = Convergence("dense", "direct", 0, residuals, 1e-10)
    return EigenResult(values, vectors, convergence, beyond)


# --- Tolerances of eigenvectors, and the warnings where they are missed


SINGLE_TOL = 1e-6  # a residual that single precision reaches; rounding alone makes some 1e-7


def default_tolerance(n: int, *, single: bool = False) -> float:
    """The default tolerance of residuals: 1e-8, 1e-4 from 20,000, 1e-3 from 200,000.

    Measured on well and badly separated graphs: the labels do not change below these. With vectors
    in single precision it is at least 1e-6.
    """
    usual = 1e-8 if n <= 20_000 else 1e-4 if n <= 200_000 else 1e-3
    return max(usual, SINGLE_TOL) if single else usual


def asked_tolerance(tol: float | None, n: int, tau: float, *, single: bool = False) -> float:
    """What the caller names, or the default with τ times the mean degree added to every degree."""
    if tol is not None:
        return tol
    usual = default_tolerance(n, single=single)
    return max(usual, regularized_tolerance(n)) if tau else usual


def regularized_tolerance(n: int) -> float:
    """The least default with regularised degrees: 1e-4, 1e-3 from 20,000, 1e-2 from 200,000.

    Networks have no gaps that would want more: clusters of sharper vectors were not better.
    """
    return 1e-4 if n <= 20_000 else 1e-3 if n <= 200_000 else 1e-2


def tell_unconverged(recorder: Recorder, convergence: Convergence, *, single: bool) -> None:
    """Warn of residuals above the tolerance; a time limit is reported where it ended the iteration.

    Vectors in `single` precision are not made for every tolerance.
    """
    if convergence.converged.all() or convergence.reason == TIME_LIMIT:
        return
    told = convergence.status
    if single and convergence.tolerance < SINGLE_TOL:
        told += (
            f", or give more memory: single precision, all that fits, reaches about "
            f"{SINGLE_TOL:.0e}"
        )
    recorder.warn(told)


def tell_end(recorder: Recorder, convergence: Convergence, *, single: bool = False) -> None:
    """Report how an iteration ended where more steps would not have helped.

    Who uses the vectors reports what a few more steps would have reached.
    """
    if convergence.reason == TIME_LIMIT:
        recorder.skip_for_time(convergence.status)
    elif convergence.reason == STAGNATED:
        tell_unconverged(recorder, convergence, single=single)
