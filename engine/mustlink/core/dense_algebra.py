"""Small dense problems by LAPACK, with a second driver where the first fails, and clear errors.

LAPACK fails in three ways: NaN or Inf in its input, a driver that does not converge (divide and
conquer on numbers of 10⁻³⁰⁰ beside 1), a pivot of rounding size. The first is an error with its
cause, the second is tried again with plain QR steps on the matrix scaled to 1, the third with a
small ridge. The only exception of this module is `NumericalError`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg as sla
from numpy.typing import NDArray

from mustlink.errors import NumericalError

Floats = NDArray[np.float64]
Array = NDArray[Any]
_RIDGES = (0.0, 1e-15, 1e-13, 1e-11)  # shares of the mean diagonal


def eigh(
    A: Array, M: Array | None = None, *, subset: tuple[int, int] | None = None
) -> tuple[Floats, Floats]:
    """All pairs of Ax = θx or Ax = θMx, θ rising, or those numbered first to last of `subset`.

    Both triangles are averaged. Raises NumericalError.
    """
    A, size = _scaled(_even(A), "eigenvalues")
    if A.size == 0:
        return np.zeros(0), A
    M, unit = (None, 1.0) if M is None else _scaled(_even(M), "eigenvalues")
    for ridge in _RIDGES[:1] if M is None else _RIDGES:
        right = M if M is None or not ridge else M + ridge * np.trace(M) / len(M) * np.eye(len(M))
        for driver in (None, "ev" if M is None else "gv"):
            found = _pairs(A, right, subset, driver)
            if found is not None:
                return found[0] * (size / unit), found[1] / np.sqrt(unit)
    raise NumericalError(_failed("eigenvalues", len(A)))


def _pairs(
    A: Floats, M: Floats | None, subset: tuple[int, int] | None, driver: Any
) -> tuple[Floats, Floats] | None:
    """Pairs by one driver, None if it fails; the default ones are the quickest."""
    try:
        if driver is None and subset is None and M is None:
            values, X = np.linalg.eigh(A)
        else:  # plain QR steps give all pairs
            chosen = subset if driver is None else None
            values, X = sla.eigh(A, M, subset_by_index=chosen, driver=driver)
    except sla.LinAlgError:
        return None
    if subset is not None and driver is not None:
        values, X = values[subset[0] : subset[1] + 1], X[:, subset[0] : subset[1] + 1]
    if subset is not None and values.size <= subset[1] - subset[0]:
        return None  # of many equal eigenvalues the default returns too few, without an error
    return (values, X) if np.isfinite(values).all() and np.isfinite(X).all() else None


def eigvalsh(A: Array) -> Floats:
    """All eigenvalues of a symmetric matrix, rising. Raises NumericalError."""
    A, size = _scaled(_even(A), "eigenvalues")
    if A.size == 0:
        return np.zeros(0)
    try:
        return np.asarray(np.linalg.eigvalsh(A) * size)
    except sla.LinAlgError:
        return np.asarray(eigh(A)[0] * size)


def svd(A: Array, *, by_steps: bool = False) -> tuple[Floats, Floats, Floats]:
    """U, σ falling, Vᵀ of a matrix, in their short form; by QR steps at once if asked for."""
    A, size = _scaled(A, "singular values")
    drivers: Any = ("gesvd",) if by_steps else ("gesdd", "gesvd")
    for driver in drivers:
        try:
            U, sigma, Vt = sla.svd(A, full_matrices=False, lapack_driver=driver)
        except sla.LinAlgError:
            continue
        if np.isfinite(U).all() and np.isfinite(Vt).all():
            return U, sigma * size, Vt
    raise NumericalError(_failed("singular values", max(A.shape)))


def lstsq(A: Array, B: Array, cut: float) -> Floats:
    """Shortest solution of Ax = B, singular values up to cut·largest counting as zero."""
    U, sigma, Vt = svd(A)
    real = sigma > cut * sigma.max(initial=0.0)
    inside = U[:, real].T @ _finite(B, "least squares")
    return np.asarray(Vt[real].T @ (inside / sigma[real].reshape(-1, *([1] * (inside.ndim - 1)))))


def orthogonal(A: Array, *, complete: bool = False) -> Floats:
    """Q of A = QR, its short form or all of it."""
    return np.asarray(
        np.linalg.qr(_scaled(A, "QR")[0], mode="complete" if complete else "reduced")[0]
    )


class Definite:
    """A positive definite A (m, m), scaled to unit diagonal and factored; solves with it.

    `rcond` estimates 1/(‖A‖‖A⁻¹‖) of the scaled matrix. A pivot that is rounding is a
    NumericalError, or has 10⁻¹⁵ to 10⁻¹¹ of the diagonal added with `lift`.
    """

    def __init__(self, A: Array, *, lift: bool = False) -> None:
        A = _even(_finite(A, "a linear system"))
        diagonal = np.diag(A)
        largest = float(diagonal.max(initial=0.0))
        self.scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, largest or 1.0))
        unit = A * self.scale[:, None] * self.scale
        for ridge in _RIDGES if lift else _RIDGES[:1]:
            try:
                self.factor = sla.cho_factor(unit + ridge * np.eye(len(A)) if ridge else unit)
                break
            except sla.LinAlgError:
                continue
        else:
            raise NumericalError(_failed("a linear system", len(A), "it is singular to rounding"))
        size = float(np.abs(unit).sum(axis=0).max(initial=0.0))
        self.rcond = float(sla.lapack.dpocon(self.factor[0], size, uplo="U")[0]) if size else 1.0

    def solve(self, B: Array) -> Floats:
        """A⁻¹B for vectors (m,) or blocks (m, b)."""
        scale = self.scale.reshape(-1, *([1] * (np.ndim(B) - 1)))
        return np.asarray(scale * sla.cho_solve(self.factor, scale * _finite(B, "right sides")))


def cholesky(A: Array) -> Array:
    """Lower factor of a positive definite A in columns, written over it. Raises NumericalError."""
    try:
        return np.asarray(sla.cholesky(A, lower=True, overwrite_a=True, check_finite=False))
    except sla.LinAlgError:
        raise NumericalError(_failed("a linear system", len(A))) from None


def general_pairs(A: Array, B: Array) -> tuple[Array, Array]:
    """Eigenvalues and vectors, complex ones as they come, of Ax = λBx. Raises NumericalError."""
    try:
        values, X = sla.eig(_finite(A, "eigenvalues"), _finite(B, "eigenvalues"))[:2]
        return values, X
    except sla.LinAlgError:
        raise NumericalError(_failed("eigenvalues", len(A))) from None


def solve(A: Array, B: Array) -> Floats:
    """A⁻¹B of any square A, rows scaled to length 1; the shortest solution where A is singular."""
    A, B = _finite(A, "a linear system"), _finite(B, "right sides")
    size = np.abs(A).max(axis=1, initial=0.0)
    inverse = np.divide(1.0, size, out=np.ones_like(size), where=size > 0)
    A, B = A * inverse[:, None], B * inverse.reshape(-1, *([1] * (np.ndim(B) - 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", sla.LinAlgWarning)
        try:
            return np.asarray(sla.solve(A, B))
        except (sla.LinAlgError, sla.LinAlgWarning):
            return lstsq(A, B, 1e-14)


def _even(A: Array) -> Floats:
    """The symmetric part, rounding taken out; halves first, as sums may overflow."""
    return np.asarray(0.5 * A + 0.5 * A.T, dtype=np.float64)


def _scaled(A: Array, what: str) -> tuple[Floats, float]:
    """A divided by the power of two near its largest entry, and that power."""
    A = _finite(A, what)
    largest = float(np.abs(A).max(initial=0.0))
    if largest == 0.0 or 1e-100 < largest < 1e100:
        return A, 1.0
    size = 2.0 ** int(np.clip(np.floor(np.log2(largest)), -1000, 1000))
    return A / size, size


def _finite(A: Array, what: str) -> Floats:
    A = np.asarray(A, dtype=np.float64)
    if not np.isfinite(A).all():
        raise NumericalError(_failed(what, max(A.shape, default=0), "NaN or Inf in it"))
    return A


def _failed(what: str, m: int, wrong: str = "LAPACK did not find them") -> str:
    return (
        f"graph: {what} of a problem of {m} unknowns: {wrong}; its weights differ by more than "
        "the precision holds, so raise the smallest, or leave out nodes that hardly hang on"
    )


# --- Dense definite pairs whose numbers differ by more than a double holds
#
# Nearly isolated nodes (a Gaussian affinity without floor: degrees from 10⁻²⁴ to 10) make Q̄ as
# large as 10²⁴ and L̄ singular to rounding. LAPACK's error is that of the largest number, so that
# what is small is lost beside it. Two remedies, both congruences: a window on the end of the
# spectrum that is wanted, and factors that are put on top of each other instead of sums.


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
        return _windowed(S, M)
    values, X = eigh(M)
    faint = values <= _FAINT
    N, R = X[:, faint], X[:, ~faint]
    inner, across = N.T @ S @ N, N.T @ S @ R
    taken = -lstsq(inner, across, ROUNDING)
    mu, W = _windowed(R.T @ S @ R + across.T @ taken, R.T @ M @ R)
    beyond, C = _windowed(inner, np.diag(np.maximum(values[faint], ROUNDING)))
    mu, W = np.concatenate([mu, beyond]), np.column_stack([R @ W + N @ (taken @ W), N @ C])
    order = np.argsort(-mu, kind="stable")
    return mu[order], W[:, order]


def _windowed(S: Block, M: Block) -> tuple[Floats, Block]:
    """All pairs, accurate beside the largest μ > 0 however large −μ is elsewhere.

    Where the positive ones drown in the rounding of a negative one, the pairs come from
    Sw = ν(2tM − S)w, ν = μ/(2t − μ), t about the largest μ: all that is negative lies in
    −1 < ν < 0, and 2tM − S is definite. A window for every 13 digits that are missing.
    """
    if S.shape[0] == 0:
        return np.empty(0), S
    S, M = _even(S), _even(M)
    mu, W = eigh(S, M)
    t = np.inf
    for _ in range(_WINDOWS):
        top, size = float(mu[-1]), min(float(-mu[0]), t)
        if size <= 0 or top > _HIDDEN * size:
            break
        t = max(top, NOISE * size)
        window = 2 * t * M - S
        if not is_definite(window, cut=0.0):
            break  # no μ > 0 but rounding
        nu, W = eigh(S, window)
        mu = 2 * t * nu / np.maximum(1 + nu, np.finfo(float).eps)
    return mu[::-1], W[:, ::-1]


def is_definite(M: Block, *, cut: float = _DEFINITE, relative: bool = False) -> bool:
    """Whether M is positive definite: every pivot above the cut, or that share of the largest."""
    try:
        pivots = np.diag(np.linalg.cholesky(M)) ** 2
    except np.linalg.LinAlgError:
        return False
    return bool((pivots > cut * (pivots.max(initial=0.0) if relative else 1.0)).all())


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
    Y = svd(Q[order < above], by_steps=True)[2][::-1][:k].T
    V = np.empty_like(Y)
    V[column] = sla.solve_triangular(R, Y)
    cosine, sine = (
        np.linalg.norm(Q[which] @ Y, axis=0) for which in (order < above, order >= above)
    )
    return (cosine / sine) ** 2, V / sine


def _factor(A: Block) -> Block:
    """F (r, m) with FᵀF = A, what is rounding beside the largest eigenvalue left out."""
    values, X = eigh(_even(A))
    kept = values > NOISE * max(float(values[-1]), 0.0)
    return np.asarray((X[:, kept] * np.sqrt(values[kept])).T, dtype=np.float64)
