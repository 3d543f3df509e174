"""Rayleigh-Ritz: the best pairs inside a span, and what counts as rounding on the way.

Everything but `rayleigh_ritz` and `orthonormal` is small dense algebra on Gram matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.core import dense_algebra
from mustlink.space import Block, Dots, Gram, Small, Space

Map = Callable[[Block], Block]
_NOTHING = 1e-300  # squared length of a column that is zero
_SOUND = 1e-30  # squared length of a column that single precision knows well


@dataclass(frozen=True)
class RoundingLimits:
    """Shares below which something is rounding, one set for each precision of the blocks.

    `basis`: of the eigenvalues of a Gram matrix scaled to unit diagonal, for a span that is
    nearly orthonormal; ε would be 2e-16 (6e-8 squared in single), times some hundred rows.
    `sweep`: the same in a first sweep over columns of any kind, which a second one mends.
    `fresh`: the same for directions that are to be new: what is left of others is noise.
    `column`: of the length of a column after its part in another span is taken out.
    `even`: of eigenvalues and of squared lengths, above which one sweep is as good as two.
    `free`: the same, above which combinations of products are the products of combinations.
    """

    basis: float
    sweep: float
    fresh: float
    column: float
    even: float
    free: float


LIMITS = {
    np.dtype(np.float64): RoundingLimits(
        1e-13, 1e-14, fresh=1e-10, column=1e-10, even=1e-6, free=1e-4
    ),
    np.dtype(np.float32): RoundingLimits(
        1e-9, 1e-11, fresh=1e-9, column=1e-5, even=1e-4, free=1e-2
    ),
}


def whitening(G: Small, cut: float, floor: NDArray[np.float64] | float = _NOTHING) -> Small:
    """T (b, r) with TᵀGT = I: the span of a basis with Gram matrix G (b, b), dependent parts left.

    Columns with G_ii <= floor are dropped, the others scaled to length 1, and of that matrix the
    eigenvalues up to cut·largest. Cost O(b³). Source: SVQB, Stathopoulos & Wu 2002.
    """
    squares = np.diag(G)
    good = np.flatnonzero(squares > floor)
    if good.size == 0:
        return np.zeros((len(G), 0))
    size = np.sqrt(squares[good])
    inside = G[np.ix_(good, good)] / size[:, None] / size
    g, U = dense_algebra.eigh(inside)
    keep = g > cut * g[-1]
    T = np.zeros((len(G), int(keep.sum())))
    T[good] = U[:, keep] / np.sqrt(g[keep]) / size[:, None]
    return T


def is_even(G: Small, cut: float, squares: Small | None = None) -> bool:
    """Whether columns with Gram matrix G (b, b) are far from dependent, see `RoundingLimits`.

    `squares` (b,) are their squared lengths before their part in another span was taken out.
    """
    size = np.diag(G)
    if not len(G) or not np.isfinite(G).all() or np.any(size <= _NOTHING):
        return False
    if squares is not None and np.any(size <= cut * squares):
        return False
    root = np.sqrt(size)
    values = dense_algebra.eigvalsh(G / root[:, None] / root)
    return bool(values[0] > cut * values[-1])


def set_free(G: Small, width: int, dtype: type) -> Small | None:
    """E with [X P W]E orthonormal, W being the last `width` columns, by their Gram matrix G.

    [X P] is orthonormal and stays. None where W is not far from its span and from dependent: then
    the rounding of combinations is as much larger as they cancel, and another in W than in AW.
    """
    split = len(G) - width
    B, squares = G[:split, split:], np.diag(G)[split:]
    inside = G[split:, split:] - B.T @ B
    if not np.all((squares > _SOUND) & (squares < 1 / _SOUND)):
        return None
    if not is_even(inside, LIMITS[np.dtype(dtype)].free, squares):
        return None
    T = whitening(inside, LIMITS[np.dtype(dtype)].basis)
    E = np.eye(len(G), split + T.shape[1])
    E[:split, split:], E[split:, split:] = -B @ T, T
    return E


def ritz_pairs(H: Small, T: Small, count: int | None = None) -> tuple[Small, Small]:
    """Lowest `count` pairs of the form H on the span of T: CᵀHC = diag(θ), C = T·rotation."""
    inside = T.T @ H @ T
    theta, Y = dense_algebra.eigh(inside)
    return theta[:count], T @ Y[:, :count]


def rayleigh_ritz(
    space: Space,
    V: Block | list[Block],
    AV: Block | list[Block],
    MV: Block | list[Block] | None = None,
    *,
    count: int | None = None,
    largest: bool = False,
) -> tuple[Small, Small]:
    """Pairs of Ax = θMx in the span of any columns V: θ (r,) and C with X = VC, XᵀMX = I.

    Smallest θ first, or largest; at most `count`, fewer if V has fewer independent columns. A
    column whose vᵀMv is rounding beside the others', at its length, is null in M and left out.
    One reduction.
    """
    cut = LIMITS[np.dtype((V[0] if isinstance(V, list) else V).dtype)].basis
    if MV is None:
        H, G = space.sums(Gram(V, AV), Gram(V, V))
        floor: Any = _NOTHING
    else:
        parts = V if isinstance(V, list) else [V]
        H, G, *squares = space.sums(Gram(V, AV), Gram(V, MV), *(Dots(X, X) for X in parts))
        lengths = np.maximum(np.concatenate(squares), _NOTHING)
        floor = np.maximum(cut * lengths * (np.diag(G) / lengths).max(initial=0.0), _NOTHING)
    sign = -1.0 if largest else 1.0
    theta, C = ritz_pairs(sign * H, whitening(G, cut, floor), count)
    return sign * theta, C


def promising(
    space: Space, parts: list[Block], A: Map, M: Map, count: int, *, largest: bool = False
) -> Block:
    """The `count` best Ritz vectors of Ax = θMx in the span of `parts`, which are changed."""
    for X in parts:
        space.blend(X, 1.0 / np.maximum(space.norms(X), _NOTHING))
    images = [A(X) for X in parts], [M(X) for X in parts]
    _, C = rayleigh_ritz(space, parts, *images, count=count, largest=largest)
    del images
    return space.combine(parts, C)


def orthonormal(space: Space, X: Block, M: Map | None = None) -> Block:
    """M-orthonormal basis of the span of X by two sweeps; dependent columns dropped."""
    limits = LIMITS[np.dtype(X.dtype)]
    for cut in (limits.sweep, limits.fresh):
        if X.shape[1]:
            X = space.combine(X, whitening(space.gram(X, X if M is None else M(X)), cut))
    return X
