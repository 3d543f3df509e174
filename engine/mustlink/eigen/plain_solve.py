"""Smallest pairs of L̄ by the chosen solver, and the rule behind "auto"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mustlink.context.method_cost import FEW, n_guard_vectors
from mustlink.context.stage_cache import SolutionKey
from mustlink.core import dense_algebra
from mustlink.core.observe import NEVER, Deadline
from mustlink.core.result import SINGLE_TOL, Convergence, EigenResult, Stagnation
from mustlink.eigen.arpack import shift_invert
from mustlink.eigen.lobpcg import (
    LIMITS,
    Lobpcg,
    ending,
    lobpcg,
    orthonormal,
    rayleigh_ritz,
    ritz_pairs,
    whitening,
)
from mustlink.linear.cg import towards
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.operators.protocol import Laplacian
from mustlink.operators.stored_laplacians import RankLaplacian
from mustlink.space import Block, Gram, NullSpace, Small, Space

SOLVERS = ("auto", "dense", "lobpcg", "shift-invert")
PLAIN_SOLVERS = (*SOLVERS, "chebyshev")  # which is for L̄ alone, without a pencil
WITHOUT_GRIDS = ("dense", "chebyshev")
DENSE_BELOW = 1000  # nodes: below, LAPACK takes about a second and is exact
_SINGLE = 1e-4  # residual down to which single precision does, at half the cost
_BLUNT = 1e-2  # residual from which on it is no worse: what it rounds is a ten thousandth of that


@dataclass(frozen=True)
class PairsKey(SolutionKey[EigenResult]):
    """Smallest pairs of L̄ beyond its null space."""

    types: ClassVar[tuple[type, ...]] = (EigenResult, Convergence)


def plain_solve(
    laplacian: NormalizedLaplacian,
    grids: Hierarchy | None,
    key: PairsKey,
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
    key: PairsKey,
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
    key: PairsKey,
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


def default_tolerance(n: int, *, single: bool = False) -> float:
    """The default tolerance of residuals: 1e-8, 1e-4 from 20,000, 1e-3 from 200,000.

    Measured on well and badly separated graphs: the labels do not change below these. With vectors
    in single precision it is at least 1e-6.
    """
    usual = 1e-8 if n <= 20_000 else 1e-4 if n <= 200_000 else 1e-3
    return max(usual, SINGLE_TOL) if single else usual


def tolerance_for(tol: float | None, n: int, tau: float, *, single: bool = False) -> float:
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


# --- Subspace iteration with Chebyshev filters: many smooth vectors at moderate sharpness
#
# Graphs of people and papers have no coarse grids worth the name, and eigenvalues far from 0: what
# an inverse would gain, a polynomial of S has for the price of its products. Vectors are combined
# once in some ten products, which is what the other iterations spend their time on.

_DEGREE = 16
# A filter may lift the smoothest vector above the roughest so many times: beyond, what is left of
# the others is rounding.
_GAIN = {np.dtype(np.float64): 1e7, np.dtype(np.float32): 1e3}
_WELL = 1e8  # condition of a Gram matrix, scaled: inner products of the basis keep half the digits
_WINDOW, _FACTOR = 20, 0.9


def chebyshev(
    laplacian: Laplacian,
    X: Block,
    k: int,
    *,
    tol: float,
    max_iter: int = 30,
    on_step: Callable[[float], None] | None = None,
    deadline: Deadline = NEVER,
    extra: int = 0,
) -> EigenResult:
    """The k smallest pairs of L̄ beyond its null space from a block X (m, b), b > k, to `tol`.

    X <- orth(p(S)X), p the Chebyshev polynomial that is small on [-1, c], c the lowest Ritz value
    of S among the b columns; Rayleigh-Ritz; until ‖L̄v − λv‖ <= tol. `max_iter` counts filters, of
    up to 16 products each. `extra` pairs more are found to √tol. In the precision of X, which is
    not changed. Memory: 4 blocks.

    Source: Zhou, Saad, Tiago & Chelikowsky 2006.
    """
    space, project = laplacian.space, laplacian.null.project
    X = orthonormal(space, project(X))
    ritz: tuple[float, float] | None = None
    rule = Lobpcg(k, tol, max_iter, deadline=deadline, extra=extra)
    watch = Stagnation(k + extra, _WINDOW, _FACTOR)
    step = 0
    while True:
        theta, X = best_pairs(laplacian, project(_filtered(laplacian, X, ritz)))
        R = laplacian.apply(X)
        space.blend(R, 1.0, (X, -theta))
        residuals = space.norms(R)
        step += 1
        reason = ending(step, residuals, rule, watch, on_step)
        if reason:
            break
        ritz = float(theta[0]), float(theta[-1])
    convergence = Convergence("chebyshev", reason, step, residuals[:k], tol)
    beyond = float(theta[k]) if theta.size > k else None
    end = k + extra
    return EigenResult(theta[:end], space.columns(X, slice(0, end)), convergence, beyond)


def best_pairs(laplacian: Laplacian, Y: Block) -> tuple[Small, Block]:
    """Rayleigh-Ritz on the span of Y (m, b): values (b,), orthonormal vectors (m, b).

    Three products with the block where its columns are far from dependent, else two sweeps first.
    """
    space: Space = laplacian.space
    G, H = space.sums(Gram(Y, Y), Gram(Y, laplacian.apply(Y)))
    size = np.sqrt(np.diag(G))
    if size.all() and np.linalg.cond(G / size[:, None] / size, 2) < _WELL:
        theta, C = ritz_pairs(H, whitening(G, LIMITS[np.dtype(Y.dtype)].basis))
    else:
        Y = orthonormal(space, Y)
        theta, C = rayleigh_ritz(space, Y, laplacian.apply(Y))
    return theta, space.combine(Y, C)


def _filtered(laplacian: Laplacian, X: Block, ritz: tuple[float, float] | None) -> Block:
    """p(S)X: T_d of S mapped so that [-1, c] is [-1, 1]; `ritz` are λ of the first and last."""
    low, high = (0.0, 1.0) if ritz is None else ritz
    cut = max(1.0 - high, 0.0)
    half = (cut + 1.0) / 2
    reach = max((1.0 - low - (cut - 1.0) / 2) / half, 1.0 + 1e-12)
    gain = _GAIN[np.dtype(X.dtype)]
    degree = max(2, min(_DEGREE, int(np.arccosh(gain) / np.arccosh(reach))))
    centre = (cut - 1.0) / 2
    begin, onward = (1.0 / half, -centre / half, 0.0), (2.0 / half, -2.0 * centre / half, -1.0)
    return laplacian.recurrence(X, [begin, *[onward] * (degree - 1)])


# --- Nested iteration: solve on a coarse grid, prolongate, smooth, finish with a few LOBPCG steps
#
# The coarse problem PᵀL̄P c = λc costs next to nothing and its prolongated, smoothed solution is
# within a few steps of the fine one, where a random start needs dozens.

_SMOOTHINGS = 4
_COARSE_TOL = 1e-3
_COARSE_STEPS = 12
_DENSE = 1000  # nodes of the coarsest useful grid up to which LAPACK solves it: some ten megabytes


def nested_start(laplacian: Laplacian, grids: Hierarchy, b: int, seed: int) -> Block:
    """Approximate b smoothest vectors of L̄ in the complement of its null space, (m, b).

    Cost: a dense eigenproblem of a few hundred nodes, some LOBPCG steps on each coarse grid,
    five products on the fine one.
    """
    space, X = laplacian.space, _from_coarse(laplacian, grids, b, seed)
    X = laplacian.null.project(X)
    _, C = rayleigh_ritz(space, X, laplacian.apply(X), count=b)
    return space.combine(X, C)


def _from_coarse(laplacian: Laplacian, grids: Hierarchy, b: int, seed: int) -> Block:
    """The span of the start, in which Rayleigh-Ritz is yet to be done."""
    space, nulls = laplacian.space, grids.nulls(laplacian.null)
    rooms = [size - null.n_components for size, null in zip(grids.sizes, nulls, strict=True)]
    depth = max((i for i, room in enumerate(rooms) if room >= 3 * b), default=0)
    if depth == 0:
        return grids.cycle()(laplacian.null.project(space.normals(b, seed)))
    X = _deepest(grids, depth, nulls[depth], b, seed)
    for level in range(depth, 0, -1):
        if level < depth:
            X = _refine(grids, level, nulls[level], X)
        X = grids.up(level, X if level > 1 else X.astype(np.float32))  # in which it is smoothed
    return laplacian.smooth(X, _SMOOTHINGS)


def _deepest(grids: Hierarchy, depth: int, null: NullSpace, b: int, seed: int) -> Block:
    """Smoothest vectors on the coarsest useful grid."""
    A = grids.coarse_operator(depth)
    if A.space.size <= _DENSE:
        Z = A.space.take(null.columns(np.arange(null.n_components)), np.arange(A.space.size))
        dense = A.to_dense() + 4.0 * Z @ Z.T
        _, vectors = dense_algebra.eigh(dense)
        return A.space.place(np.ascontiguousarray(vectors[:, :b]))
    return _refine(grids, depth, null, A.space.normals(b, seed), steps=10 * _COARSE_STEPS)


def _refine(
    grids: Hierarchy, level: int, null: NullSpace, X: Block, steps: int = _COARSE_STEPS
) -> Block:
    """A few LOBPCG steps on a coarse grid."""
    A = grids.coarse_operator(level)
    most = float(A.space.peaks(A.space.column(A.diagonal))[0])
    rule = Lobpcg(X.shape[1], _COARSE_TOL, steps, norm_A=most)
    result = lobpcg(
        A.apply, X, rule, precondition=grids.cycle(level), project=null.project, space=A.space
    )
    return result.vectors


def nested(
    laplacian: Laplacian,
    grids: Hierarchy,
    k: int,
    *,
    tol: float,
    max_iter: int = 100,
    seed: int = 0,
    on_step: Callable[[float], None] | None = None,
    deadline: Deadline = NEVER,
    start: Block | None = None,
    whole: bool = False,
    extra: int = 0,
) -> EigenResult:
    """The k smallest pairs of L̄ in the complement of its null space, to ‖L̄v − λv‖ <= tol.

    Shapes: values (k,), vectors (m, k) orthonormal, in working order; with `extra` as many more, to
    √tol, with `whole` all guard columns. Without a `start` (m, b), b >= k, it is that from coarse
    grids, which is there even where the deadline is over.
    """
    b = min(k + n_guard_vectors(k), laplacian.space.size - laplacian.null.n_components)
    how: dict[str, Any] = {"whole": whole, "extra": extra, "dtype": laplacian.dtype}
    rule = Lobpcg(k, tol, max_iter, deadline=deadline, **how)
    return lobpcg(
        laplacian.apply,
        _from_coarse(laplacian, grids, b, seed) if start is None else start,
        rule,
        precondition=grids.cycle(),
        project=laplacian.null.project,
        on_step=on_step,
        space=laplacian.space,
    )
