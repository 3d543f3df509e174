"""Rayleigh-Ritz, and block LOBPCG for A x = θ M x, one end of the spectrum, with soft locking.

Nodes are touched by the verbs of a space and by what the caller hands in (A, M, preconditioner,
projection) only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.core import dense_algebra
from mustlink.core.observe import NEVER, Deadline
from mustlink.core.result import (
    MAX_ITER,
    STAGNATED,
    TIME_LIMIT,
    TOLERANCE,
    Convergence,
    EigenResult,
    Stagnation,
)
from mustlink.operators.protocol import Preconditioner
from mustlink.space import Block, Dots, Gram, LocalSpace, Small, Space

_WINDOW, _FACTOR = 80, 0.9  # see `Stagnation`; pauses of up to 44 steps were measured
_SHORTEST = 1e-30  # largest entry of a column, whose square is sound in single precision too
_ANEW = 8  # steps after which inner products of [X P] are summed again: rounding adds up
_LOST = 1e-28  # squared length of a direction, the new vectors having length 1, that is none


@dataclass(frozen=True)
class Lobpcg:
    """Stopping rule for `n_pairs` pairs: ‖Ax − θMx‖ <= tol·norm_A·‖x‖, norm_A the size of A.

    With `relative` it is ‖Ax − θMx‖ <= tol·|θ|·‖Mx‖ instead: for a pencil with M = L̄ the wanted
    x are those that L̄ makes small, and the size of L̄ says nothing about them. It also ends when
    no residual that is too large has fallen by a tenth for 80 steps, and at the `deadline`.
    With `whole` the guard columns are returned, too: for an iteration that goes on from them.
    The first `extra` of them are returned in any case, and wanted with residuals of √tol.
    `dtype` is the precision of the blocks, if not that of the start.
    """

    n_pairs: int
    tol: float
    max_iter: int = 200
    largest: bool = False
    norm_A: float = 1.0
    relative: bool = False
    deadline: Deadline = NEVER
    whole: bool = False
    dtype: Any = None
    extra: int = 0


def lobpcg(
    A: Map,
    X: Block,
    method: Lobpcg,
    M: Map | None = None,
    precondition: Preconditioner | None = None,
    project: Map | None = None,
    on_step: Callable[[float], None] | None = None,
    space: Space | None = None,
) -> EigenResult:
    """Solve A x = θ M x from the start block X (n, b), b >= n_pairs; guard columns speed it up.

    A symmetric, M symmetric positive definite (identity if None), `project` maps a block onto
    the subspace searched (for example the complement of a null space), `on_step` gets the largest
    residual of the wanted pairs. X is not changed; `space` is where it lives, if not in an array.
    Ritz values only ever improve: an iteration that ends early returns the last X as its best.
    Per step: one product with A (and M) for the unconverged columns, one preconditioner, Gram
    matrices of 3b columns. Without M new directions stay as they come: what makes them orthonormal
    is part of the coefficients, unless they are nearly dependent. In the precision of X: single
    halves the memory, about eight blocks (n, b), and reaches residuals of 1e-5.

    Source: Knyazev 2001; basis of P by Hetmaniuk & Lehoucq 2006; SVQB by Stathopoulos & Wu 2002.
    """
    space = LocalSpace(X.shape[0]) if space is None else space
    sign = -1.0 if method.largest else 1.0
    project = project or (lambda V: V)
    b, wanted = X.shape[1], method.n_pairs
    dtype = np.float32 if (method.dtype or X.dtype) == np.float32 else np.float64
    theta, X, AX, MX = _first_pairs(space, A, M, project(space.copy(X, dtype)), sign)
    P = AP = MP = space.zeros(0, dtype)
    known: tuple[Small, Small] | None = None
    watch = Stagnation(min(wanted + method.extra, b), _WINDOW, _FACTOR)
    step = 0
    while True:
        R, squares = space.lessened(AX, MX, sign * theta)
        residuals = np.sqrt(squares) / _sizes(space, X, MX, theta, method, M)
        reason = ending(step, residuals, method, watch, on_step)
        if reason:
            del R
            break
        active = residuals > method.tol * 0.5
        W = R if active.all() else space.columns(R, active)
        del R  # here and below: blocks that are done with go before new ones come
        W = _preconditioned(space, W, precondition, project)
        known, E = None if step % _ANEW == 0 else known, None
        MV: list[Block] = []
        if M is None:
            V, AV = [X, P, W], [AX, AP, A(W)]
            H, G = _forms(space, V, AV, V, known)
            E = set_free(G, W.shape[1], dtype)
        if E is None:
            V = AV = []
            W = _bounded(space, W)  # a preconditioner may blow up what is left along a null space
            W, MW = _new_directions(space, W, (X, P), (MX, MP), M, project)
            if W.shape[1] == 0:
                reason = STAGNATED
                break
            V, AV = [X, P, W], [AX, AP, A(W)]
            MV = [] if M is None else [MX, MP, MW]
            del MW
            H, G = _forms(space, V, AV, MV or V, known)
            E = np.eye(len(G))
        del W, MX, MP
        H, G = E.T @ H @ E, E.T @ G @ E
        theta, C, Cp = _step(sign * H, (G + G.T) / 2, b, active, dtype)
        kept = np.concatenate([C, Cp], axis=1)
        known = None if M is not None else (kept.T @ H @ kept, kept.T @ G @ kept)
        C, Cp = E @ C, E @ Cp
        X, P = space.recombine(V, C, Cp)
        del V
        AX, AP = space.recombine(AV, C, Cp)
        del AV
        MX, MP = (X, P) if M is None else space.recombine(MV, C, Cp)
        del MV
        step += 1
    del AX, P, AP, MX, MP
    ascending = np.argsort(theta)
    order = ascending[:wanted]
    convergence = Convergence("lobpcg", reason, step, residuals[order], method.tol)
    beyond = float(sign * theta[ascending[wanted]]) if theta.size > wanted else None
    order = ascending if method.whole else ascending[: wanted + method.extra]
    return EigenResult(sign * theta[order], space.columns(X, order), convergence, beyond)


def _preconditioned(
    space: Space, W: Block, precondition: Preconditioner | None, project: Map
) -> Block:
    """What W asks for, in its precision and the subspace that is searched."""
    if precondition is None:
        return project(W)
    result = precondition(project(W))
    return project(result if result.dtype == W.dtype else space.copy(result, W.dtype))


def _first_pairs(
    space: Space, A: Map, M: Map | None, X: Block, sign: float
) -> tuple[Small, Block, Block, Block]:
    """Rayleigh-Ritz on the span of the start: θ, X, AX and MX."""
    MX = X if M is None else M(X)
    G = space.gram(X, MX)
    if not is_even(G, LIMITS[np.dtype(X.dtype)].even):
        X = orthonormal(space, X, M)
        MX = X if M is None else M(X)
        G = space.gram(X, MX)
    AX = A(X)
    H = space.gram(X, AX)
    theta, C = ritz_pairs(sign * H, whitening(G, LIMITS[np.dtype(X.dtype)].basis))
    AX = space.combine(AX, C)
    MX = MX if M is None else space.combine(MX, C)
    X = space.combine(X, C)
    return theta, X, AX, X if M is None else MX


def ending(
    step: int,
    residuals: Small,
    method: Lobpcg,
    watch: Stagnation,
    on_step: Callable[[float], None] | None,
) -> str:
    """Why an iteration ends after this step, or nothing; the wanted pairs are the first."""
    wanted = np.full(watch.best.size, np.inf)  # a rank deficient start has fewer columns at first
    first = residuals[: wanted.size]
    wanted[: first.size] = first
    if on_step is not None:
        on_step(float(first[: method.n_pairs].max(initial=0.0)))
    enough = np.where(np.arange(wanted.size) < method.n_pairs, method.tol, method.tol**0.5)
    if np.all(wanted <= enough):
        return TOLERANCE
    if np.all(watch.update(wanted) | (wanted <= enough)):
        return STAGNATED
    if method.deadline.is_over:
        return TIME_LIMIT
    return MAX_ITER if step >= method.max_iter else ""


def _bounded(space: Space, W: Block) -> Block:
    """W with columns of a length whose square is no number brought to 1, and without NaN."""
    size = np.abs(space.peaks(W))
    if np.all((size >= _SHORTEST) & (size <= 1 / _SHORTEST)):
        return W
    sound = np.isfinite(size) & (size > 0)
    W = space.columns(W, sound)
    space.blend(W, 1.0 / size[sound])
    return W


def _forms(
    space: Space,
    V: list[Block],
    AV: list[Block],
    MV: list[Block],
    known: tuple[Small, Small] | None,
) -> list[Small]:
    """VᵀAV and VᵀMV, V = [X P W]; of [X P] they are `known` from the step before."""
    if known is None:
        return space.sums(Gram(V, AV), Gram(V, MV))
    result = []
    columns = space.sums(Gram(V, AV[-1]), Gram(V, MV[-1]))
    for inside, last in zip(known, columns, strict=True):
        beside = last[: len(inside)]
        result.append(np.block([[inside, beside], [beside.T, last[len(inside) :]]]))
    return result


def _sizes(space: Space, X: Block, MX: Block, theta: Small, method: Lobpcg, M: Map | None) -> Small:
    """The unit of residuals in the stopping rule, one reduction; without M, X is orthonormal."""
    if M is None and not method.relative:
        return np.full(theta.size, method.norm_A)
    blocks = (X, MX) if method.relative else (X,)
    x, *m = np.sqrt(space.sums(*(Dots(V, V) for V in blocks)))
    size = method.norm_A * x
    return np.maximum(np.abs(theta) * m[0], 1e-14 * size) if method.relative else size


def _step(
    H: Small, G: Small, b: int, active: NDArray[np.bool_], dtype: type
) -> tuple[Small, Small, Small]:
    """Lowest b Ritz pairs of (H, G) and coefficients of the next conjugate directions.

    The first active.size rows belong to the present X, of which there are fewer than b only if
    the start block was rank deficient.
    """
    limits = LIMITS[np.dtype(dtype)]
    theta, C = ritz_pairs(H, whitening(G, limits.basis), b)
    moving = np.ones(C.shape[1], dtype=np.bool_)
    moving[: active.size] = active[: C.shape[1]]
    Cp = C[:, moving]
    Cp[: active.size] = 0.0
    # Orthonormal to the new X in the metric, so that [X P] stays well conditioned.
    for _ in range(2):
        Cp -= C @ (C.T @ (G @ Cp))
    return theta, C, Cp @ whitening(Cp.T @ G @ Cp, limits.fresh, _LOST)


def _new_directions(
    space: Space,
    W: Block,
    bases: tuple[Block, Block],
    metric: tuple[Block, Block],
    M: Map | None,
    project: Map,
) -> tuple[Block, Block]:
    """M-orthonormal W outside the span of the bases, and MW; what is left of others is rounding.

    The W that is given is changed. Where it is far from the span and from dependent, one Gram
    matrix is enough. Else one after the other: in a small space the bases may fill nearly all of
    it. Columns that are rounding, blown up to length 1, are neither orthogonal to the bases nor
    free of what `project` removes.
    """
    if M is None:
        B, G = space.sums(Gram(list(metric), W), Gram(W, W))
        inside = G - B.T @ B
        if is_even(inside, LIMITS[np.dtype(W.dtype)].even, np.diag(G)):
            T = whitening(inside, LIMITS[np.dtype(W.dtype)].basis)
            W = space.combine([W, *bases], np.concatenate([T, -B @ T]))
            return W, W
    before = space.norms(W)
    _against(space, W, bases, metric)
    new = space.norms(W) > LIMITS[np.dtype(W.dtype)].column * before
    W = orthonormal(space, W if new.all() else space.columns(W, new), M)
    if W.shape[1]:
        W = project(W)
        _against(space, W, bases, metric)
    MW = W if M is None else M(W)
    lengths = space.dots(W, MW)
    sound = (lengths > 0.5) & (lengths < 2.0)
    return (W, MW) if sound.all() else (space.columns(W, sound), space.columns(MW, sound))


def _against(
    space: Space, W: Block, bases: tuple[Block, Block], metric: tuple[Block, Block]
) -> None:
    """Take its M-projection on orthonormal bases from W."""
    for V, MV in zip(bases, metric, strict=True):
        if V.shape[1] and W.shape[1]:
            space.subtract(W, V, space.gram(MV, W))


# --- Rayleigh-Ritz: the best pairs inside a span, and what counts as rounding on the way
#
# Everything but `rayleigh_ritz` and `orthonormal` is small dense algebra on Gram matrices.


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
