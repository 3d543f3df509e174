"""Subspace iteration with Chebyshev filters: many smooth vectors at moderate sharpness.

Graphs of people and papers have no coarse grids worth the name, and eigenvalues far from 0: what
an inverse would gain, a polynomial of S has for the price of its products. Vectors are combined
once in some ten products, which is what the other iterations spend their time on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mustlink.core.deadline import NEVER, Deadline
from mustlink.core.result import Convergence, EigenResult
from mustlink.core.stopping import Stagnation
from mustlink.eigen.lobpcg import Lobpcg, ending
from mustlink.eigen.ritz import LIMITS, orthonormal, rayleigh_ritz, ritz_pairs, whitening
from mustlink.operators.protocol import Laplacian
from mustlink.space import Block, Gram, Small, Space

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
