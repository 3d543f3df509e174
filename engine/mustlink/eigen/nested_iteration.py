"""Nested iteration: solve on a coarse grid, prolongate, smooth, finish with a few LOBPCG steps.

The coarse problem PᵀL̄P c = λc costs next to nothing and its prolongated, smoothed solution is
within a few steps of the fine one, where a random start needs dozens.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.lobpcg import Lobpcg, lobpcg
from mustlink.kernels.blocks import combine, gram
from mustlink.kernels.spmm import spmm
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.operators.null_space import NullSpace
from mustlink.result import EigenResult

_SMOOTHINGS = 4
_COARSE_TOL = 1e-3
_COARSE_STEPS = 12


def random_block(n: int, b: int, seed: int) -> Block:
    """Start block, standard normal; row i depends on the seed and i only through the stream."""
    return np.random.default_rng(seed).standard_normal((n, b))


def nested_start(laplacian: NormalizedLaplacian, grids: Hierarchy, b: int, seed: int) -> Block:
    """Approximate b smoothest vectors of L̄ in the complement of its null space, (m, b).

    Cost: a dense eigenproblem of a few hundred nodes, some LOBPCG steps on each coarse grid,
    four products on the fine one.
    """
    nulls = _coarse_nulls(laplacian, grids)
    rooms = [size - null.n_components for size, null in zip(grids.sizes, nulls, strict=True)]
    depth = max((i for i, room in enumerate(rooms) if room >= 3 * b), default=0)
    if depth == 0:
        noise = random_block(laplacian.size, b, seed)
        # Smoothing alone would remove λ = 2, which may be all there is beyond the null space.
        return laplacian.smooth(noise, 2 * _SMOOTHINGS) + 1e-3 * noise
    X = _deepest(grids, depth, nulls[depth], b, seed)
    for level in range(depth, 0, -1):
        if level < depth:
            X = _refine(grids, level, nulls[level], X)
        X = grids.prolongation[level - 1] @ X
    X = laplacian.null.project(laplacian.smooth(X, _SMOOTHINGS))
    return _leading(laplacian, X, b)


def _coarse_nulls(laplacian: NormalizedLaplacian, grids: Hierarchy) -> list[NullSpace]:
    """Null space of every grid: the fine one restricted, PᵀZ, aggregates lying in one component.

    Known exactly, it is projected out: with ten thousand components, computing it would need a
    block of ten thousand columns.
    """
    nulls = [laplacian.null]
    for P in grids.prolongation:
        fine = nulls[-1]
        component = np.zeros(P.shape[1], dtype=np.int64)
        component[P.indices] = fine.component[np.flatnonzero(np.diff(P.indptr))]
        kept, number = np.unique(component, return_inverse=True)
        nulls.append(NullSpace(number.ravel().astype(np.int32), P.T @ fine.weight, kept.size))
    return nulls


def _deepest(grids: Hierarchy, depth: int, null: NullSpace, b: int, seed: int) -> Block:
    """Smoothest vectors on the coarsest useful grid."""
    A = grids.coarse[depth]
    assert A is not None
    if A.shape[0] <= 2500:
        dense = A.toarray() + 4.0 * (null.matrix @ null.matrix.T).toarray()
        _, vectors = np.linalg.eigh((dense + dense.T) / 2)
        return np.ascontiguousarray(vectors[:, :b])
    return _refine(grids, depth, null, random_block(A.shape[0], b, seed), steps=10 * _COARSE_STEPS)


def _refine(
    grids: Hierarchy, level: int, null: NullSpace, X: Block, steps: int = _COARSE_STEPS
) -> Block:
    """A few LOBPCG steps on a coarse grid."""
    A = grids.coarse[level]
    assert A is not None
    diagonal = float(A.diagonal().max())
    rule = Lobpcg(X.shape[1], _COARSE_TOL, steps, norm_A=diagonal)
    found = lobpcg(
        lambda B: spmm(A, np.ascontiguousarray(B)),
        X,
        rule,
        precondition=grids.cycle(level),
        project=null.project,
    )
    return found.vectors


def _leading(laplacian: NormalizedLaplacian, X: Block, b: int) -> Block:
    """Rayleigh-Ritz in the span of X: its b smoothest vectors."""
    G = gram(X, X)
    g, U = np.linalg.eigh(G)
    keep = g > 1e-10 * g[-1]
    T = U[:, keep] / np.sqrt(g[keep])
    H = T.T @ gram(X, laplacian.apply(X)) @ T
    _, C = np.linalg.eigh((H + H.T) / 2)
    return combine(X, T @ C[:, :b])


def guard(k: int) -> int:
    """Columns computed beyond the k wanted ones: they decide how fast the last pairs converge."""
    return max(3, k // 5)


def nested(
    laplacian: NormalizedLaplacian,
    grids: Hierarchy,
    k: int,
    *,
    tol: float,
    max_iter: int = 100,
    seed: int = 0,
    on_step: Callable[[int, NDArray[np.float64]], bool] | None = None,
) -> EigenResult:
    """The k smallest pairs of L̄ in the complement of its null space, to ‖L̄v − λv‖ <= tol.

    Shapes: values (k,), vectors (m, k) orthonormal, in working order.
    """
    b = min(k + guard(k), laplacian.size - laplacian.null.n_components)
    return lobpcg(
        laplacian.apply,
        nested_start(laplacian, grids, b, seed),
        Lobpcg(k, tol, max_iter),
        precondition=grids.cycle(),
        project=laplacian.null.project,
        on_step=on_step,
    )
