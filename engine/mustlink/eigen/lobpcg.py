"""Block LOBPCG for A x = θ M x, one end of the spectrum, with soft locking.

Written on few primitives only (apply to a block, `gram`, precondition), so that the same code
serves a distributed backend: `gram` is the only place where a sum over nodes happens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.blocks import combine, gram, gram_of, recombine, subtract
from mustlink.result import Convergence, EigenResult


@dataclass(frozen=True)
class _Cuts:
    """What counts as rounding: of a column outside a span, and of eigenvalues of Gram matrices."""

    column: float
    basis: float
    sweeps: tuple[float, float]


_CUTS = {
    np.dtype(np.float64): _Cuts(1e-10, 1e-13, (1e-14, 1e-10)),
    np.dtype(np.float32): _Cuts(1e-5, 1e-9, (1e-11, 1e-9)),
}

Block = NDArray[np.float64]
Map = Callable[[Block], Block]


@dataclass(frozen=True)
class Lobpcg:
    """Stopping rule for `n_pairs` pairs: ‖Ax − θMx‖ <= tol·norm_A·‖x‖, norm_A the size of A.

    With `relative` it is ‖Ax − θMx‖ <= tol·|θ|·‖Mx‖ instead: for a pencil with M = L̄ the wanted
    x are those that L̄ makes small, and the size of L̄ says nothing about them.
    """

    n_pairs: int
    tol: float
    max_iter: int = 200
    largest: bool = False
    norm_A: float = 1.0
    relative: bool = False


def lobpcg(
    A: Map,
    X: Block,
    method: Lobpcg,
    M: Map | None = None,
    precondition: Map | None = None,
    project: Map | None = None,
    on_step: Callable[[int, NDArray[np.float64]], bool] | None = None,
) -> EigenResult:
    """Solve A x = θ M x from the start block X (n, b), b >= n_pairs; guard columns speed it up.

    A symmetric, M symmetric positive definite (identity if None), `project` maps a block onto
    the subspace searched (for example the complement of a null space), `on_step(step, residuals)`
    returns True to stop early. X is not changed. Per step: one product with A (and M) for the
    unconverged columns, one preconditioner, Gram matrices of 3b columns. In the precision of X:
    single halves the memory, about eight blocks (n, b), and reaches residuals of 1e-5.

    Source: Knyazev 2001; basis of P by Hetmaniuk & Lehoucq 2006; SVQB by Stathopoulos & Wu 2002.
    """
    sign = -1.0 if method.largest else 1.0
    project = project or (lambda V: V)
    b = X.shape[1]
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    X = _orthonormal(project(np.array(X, dtype=dtype)), M)
    AX, MX = A(X), X if M is None else M(X)
    theta, C = np.linalg.eigh(sign * gram(X, AX))
    X, AX = combine(X, C), combine(AX, C)
    MX = X if M is None else combine(MX, C)
    P = AP = MP = np.empty((X.shape[0], 0), dtype=dtype)
    wanted = method.n_pairs
    step, reason = 0, "max_iter"
    while True:
        R = MX * (-sign * theta).astype(dtype)
        R += AX
        size = method.norm_A * np.linalg.norm(X, axis=0)
        if method.relative:
            size = np.maximum(np.abs(theta) * np.linalg.norm(MX, axis=0), 1e-14 * size)
        residuals = np.linalg.norm(R, axis=0) / size
        enough = residuals.size >= min(wanted, b)
        if enough and np.all(residuals[:wanted] <= method.tol):
            reason = "tolerance"
            break
        if on_step is not None and on_step(step, residuals[:wanted]):
            reason = "caller"
            break
        if step >= method.max_iter:
            break
        active = residuals > method.tol * 0.5
        W = R if active.all() else R[:, active]
        del R  # here and below: blocks that are done with go before new ones come
        if precondition is not None:  # which may blow up what is left along a null space
            W = precondition(project(W)).astype(dtype, copy=False)
        W = project(W)
        W, MW = _new_directions(W, (X, P), (MX, MP), M, project)
        if W.shape[1] == 0:
            reason = "stagnation"
            break
        AW = A(W)
        V, AV = [X, P, W], [AX, AP, AW]
        MV = V if M is None else [MX, MP, MW]
        H, G = gram_of(V, AV), gram_of(V, MV)
        theta, C, Cp = _rayleigh_ritz(sign * H, (G + G.T) / 2, b, active, dtype)
        del W, AW, MW
        X, P = recombine(V, C, Cp)
        del V
        AX, AP = recombine(AV, C, Cp)
        del AV
        MX, MP = (X, P) if M is None else recombine(MV, C, Cp)
        del MV
        step += 1
    ascending = np.argsort(theta)
    order = ascending[:wanted]
    convergence = Convergence("lobpcg", reason, step, residuals[order], method.tol)
    beyond = float(sign * theta[ascending[wanted]]) if theta.size > wanted else None
    return EigenResult(sign * theta[order], X[:, order], convergence, beyond)


def _rayleigh_ritz(
    H: Block, G: Block, b: int, active: NDArray[np.bool_], dtype: type
) -> tuple[NDArray[np.float64], Block, Block]:
    """Lowest b Ritz pairs of (H, G) and coefficients of the next conjugate directions.

    The first active.size rows belong to the present X, of which there are fewer than b only if
    the start block was rank deficient.
    """
    H = (H + H.T) / 2
    scale = 1.0 / np.sqrt(np.diag(G))
    g, U = np.linalg.eigh(G * scale[:, None] * scale)
    keep = g > _CUTS[np.dtype(dtype)].basis * g[-1]
    T = scale[:, None] * U[:, keep] / np.sqrt(g[keep])
    theta, Y = np.linalg.eigh(T.T @ H @ T)
    C = T @ Y[:, :b]
    moving = np.ones(C.shape[1], dtype=np.bool_)
    moving[: active.size] = active[: C.shape[1]]
    Cp = C[:, moving]
    Cp[: active.size] = 0.0
    # Orthonormal to the new X in the metric, so that [X P] stays well conditioned.
    for _ in range(2):
        Cp -= C @ (C.T @ (G @ Cp))
    K = Cp.T @ G @ Cp
    size = np.sqrt(np.maximum(np.diag(K), 0))
    good = size > 1e-14
    Cp, size = Cp[:, good], size[good]
    if size.size:
        k, Z = np.linalg.eigh(K[np.ix_(good, good)] / size[:, None] / size)
        kept = k > 1e-10 * k[-1]
        Cp = (Cp / size) @ (Z[:, kept] / np.sqrt(k[kept]))
    return theta[:b], C, Cp


def _new_directions(
    W: Block,
    bases: tuple[Block, ...],
    metric: tuple[Block, ...],
    M: Map | None,
    project: Map,
) -> tuple[Block, Block]:
    """M-orthonormal W outside the span of the bases, and MW; what is left of others is rounding.

    The W that is given is changed.

    In a small space the bases may fill nearly all of it. Columns that are rounding, blown up to
    length 1, are neither orthogonal to the bases nor free of what `project` removes.
    """
    before = np.linalg.norm(W, axis=0)
    _against(W, bases, metric)
    W = W[:, np.linalg.norm(W, axis=0) > _CUTS[W.dtype].column * before]
    W = _orthonormal(W, M)
    if W.shape[1]:
        W = project(W)
        _against(W, bases, metric)
    MW = W if M is None else M(W)
    lengths = np.einsum("ij,ij->j", W, MW)
    sound = (lengths > 0.5) & (lengths < 2.0)
    return (W, MW) if sound.all() else (W[:, sound], MW[:, sound])


def _against(W: Block, bases: tuple[Block, ...], metric: tuple[Block, ...]) -> None:
    """Take its M-projection on orthonormal bases from W."""
    for V, MV in zip(bases, metric, strict=True):
        if V.shape[1]:
            subtract(W, V, gram(MV, W))


def _orthonormal(X: Block, M: Map | None) -> Block:
    """M-orthonormal basis of the span of X by two sweeps of SVQB; dependent columns dropped."""
    for cut in _CUTS[X.dtype].sweeps:
        G = gram(X, X if M is None else M(X))
        size = np.sqrt(np.maximum(np.diag(G), 0))
        good = size > 1e-300
        if not good.any():
            return X[:, :0]
        G, size, X = G[np.ix_(good, good)], size[good], X[:, good]
        g, U = np.linalg.eigh((G + G.T) / 2 / size[:, None] / size)
        keep = g > cut * g[-1]
        X = combine(X, (U[:, keep] / np.sqrt(g[keep])) / size[:, None])
    return X
