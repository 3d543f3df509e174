"""Dense definite pairs whose numbers differ by more than a double holds.

Nearly isolated nodes (a Gaussian affinity without floor: degrees from 10⁻²⁴ to 10) make Q̄ as large
as 10²⁴ and L̄ singular to rounding. LAPACK's error is that of the largest number, so that what is
small is lost beside it. Two remedies, both congruences: a window on the end of the spectrum that is
wanted, and factors that are put on top of each other instead of sums.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from mustlink.core import dense_algebra

Floats = NDArray[np.float64]
Block = NDArray[np.float64]

ROUNDING = 1e-14  # eigenvalues of L̄, between 0 and 2, below this are rounding
_DEFINITE = 1e-12  # pivot² of Cholesky's factor of L̄ from which it is definite beyond doubt
_FAINT = 1e-13  # eigenvalues of L̄ whose directions are split off where it is not
_HIDDEN = 1e-6  # share of the largest |μ| below which the largest μ > 0 may be inaccurate
NOISE = 1e-13  # share of the largest |μ| that rounding may be
_WINDOWS = 3


def leading_pairs(S: Block, M: Block) -> tuple[Floats, Block]:
    """All pairs (μ, w) of Sw = μMw, μ falling; S and M (m, m) symmetric, M positive definite.

    M may be L̄ with eigenvalues 0 < λ <= 10⁻¹³ that are rounding. Along their vectors N, wᵀMw = 0
    to all that is known: N is split off like a null space, w = Nc for |μ| beyond all measure, and
    w ⟂ N completed by −N(NᵀSN)⁻¹NᵀSw for all others. Cost O(m³).
    """
    S, M = _even(S), _even(M)
    if is_definite(M):
        return _pairs(S, M)
    values, X = dense_algebra.eigh(M)
    faint = values <= _FAINT
    N, R = X[:, faint], X[:, ~faint]
    inner, across = N.T @ S @ N, N.T @ S @ R
    taken = -dense_algebra.lstsq(inner, across, ROUNDING)
    mu, W = _pairs(R.T @ S @ R + across.T @ taken, R.T @ M @ R)
    beyond, C = _pairs(inner, np.diag(np.maximum(values[faint], ROUNDING)))
    mu, W = np.concatenate([mu, beyond]), np.column_stack([R @ W + N @ (taken @ W), N @ C])
    order = np.argsort(-mu, kind="stable")
    return mu[order], W[:, order]


def _pairs(S: Block, M: Block) -> tuple[Floats, Block]:
    """All pairs, accurate beside the largest μ > 0 however large −μ is elsewhere.

    Where the positive ones drown in the rounding of a negative one, the pairs come from
    Sw = ν(2tM − S)w, ν = μ/(2t − μ), t about the largest μ: all that is negative lies in
    −1 < ν < 0, and 2tM − S is definite. A window for every 13 digits that are missing.
    """
    if S.shape[0] == 0:
        return np.empty(0), S
    S, M = _even(S), _even(M)
    mu, W = dense_algebra.eigh(S, M)
    t = np.inf
    for _ in range(_WINDOWS):
        top, size = float(mu[-1]), min(float(-mu[0]), t)
        if size <= 0 or top > _HIDDEN * size:
            break
        t = max(top, NOISE * size)
        window = 2 * t * M - S
        if not is_definite(window, cut=0.0):
            break  # no μ > 0 but rounding
        nu, W = dense_algebra.eigh(S, window)
        mu = 2 * t * nu / np.maximum(1 + nu, np.finfo(float).eps)
    return mu[::-1], W[:, ::-1]


def is_definite(M: Block, *, cut: float = _DEFINITE, relative: bool = False) -> bool:
    """Whether M is positive definite: every pivot above the cut, or that share of the largest."""
    try:
        pivots = np.diag(np.linalg.cholesky(M)) ** 2
    except np.linalg.LinAlgError:
        return False
    return bool((pivots > cut * (pivots.max(initial=0.0) if relative else 1.0)).all())


def _even(A: Block) -> Block:
    """A with the rounding that makes it unsymmetric taken out."""
    return np.asarray((A + A.T) / 2, dtype=np.float64)


def smallest_quotients(
    upper: Sequence[Block], lower: Sequence[Block], k: int
) -> tuple[Floats, Block]:
    """The k smallest ρ >= 0, ascending, and v (m, k) of Kv = ρMv, vᵀMv = 1.

    K = Σ `upper` and M = Σ `lower` are sums of positive semidefinite (m, m); K + M is definite. The
    parts may differ by more than a double holds, so that sums would keep only the largest: their
    factors are put on top of each other, the heavy rows first, and the quotients are those of
    cosine and sine in [K^½; M^½] = [C; S]R (a generalised singular value decomposition). Cost
    O(m³) a part. Source: Paige & Saunders 1981; order of the rows by Cox & Higham 1998.
    """
    factors = [_factor(A) for A in (*upper, *lower)]
    rows = np.concatenate(factors)
    above = sum(len(F) for F in factors[: len(upper)])
    order = np.argsort(-np.linalg.norm(rows, axis=1), kind="stable")
    Q, R, column = sla.qr(rows[order], mode="economic", pivoting=True)
    # By QR steps: entries of 10⁻³⁰⁰ were seen to make NaN of divide and conquer.
    Y = dense_algebra.svd(Q[order < above], by_steps=True)[2][::-1][:k].T
    V = np.empty_like(Y)
    V[column] = sla.solve_triangular(R, Y)
    cosine, sine = (
        np.linalg.norm(Q[which] @ Y, axis=0) for which in (order < above, order >= above)
    )
    return (cosine / sine) ** 2, V / sine


def _factor(A: Block) -> Block:
    """F (r, m) with FᵀF = A, what is rounding beside the largest eigenvalue left out."""
    values, X = dense_algebra.eigh(_even(A))
    kept = values > NOISE * max(float(values[-1]), 0.0)
    return np.asarray((X[:, kept] * np.sqrt(values[kept])).T, dtype=np.float64)
