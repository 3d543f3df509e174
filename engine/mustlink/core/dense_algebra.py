"""Small dense problems by LAPACK, with a second driver where the first fails, and clear errors.

LAPACK fails in three ways: NaN or Inf in its input, a driver that does not converge (divide and
conquer on numbers of 10⁻³⁰⁰ beside 1), a pivot of rounding size. The first is an error with its
cause, the second is tried again with plain QR steps on the matrix scaled to 1, the third with a
small ridge. The only exception of this module is `NumericalError`.
"""

from __future__ import annotations

import warnings
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
