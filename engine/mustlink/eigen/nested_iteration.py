"""Nested iteration: solve on a coarse grid, prolongate, smooth, finish with a few LOBPCG steps.

The coarse problem PᵀL̄P c = λc costs next to nothing and its prolongated, smoothed solution is
within a few steps of the fine one, where a random start needs dozens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mustlink.core import dense_algebra
from mustlink.core.deadline import NEVER, Deadline
from mustlink.core.result import EigenResult
from mustlink.eigen.lobpcg import Lobpcg, lobpcg
from mustlink.eigen.ritz import rayleigh_ritz
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.operators.null_space import NullSpace
from mustlink.operators.protocol import Laplacian
from mustlink.space import Block

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


def n_guard_vectors(k: int) -> int:
    """Columns computed beyond the k wanted ones: they decide how fast the last pairs converge."""
    return max(3, k // 5)


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
