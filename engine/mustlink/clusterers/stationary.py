"""Stationary label propagation (WD12 §IV): labelings that a further propagation does not change."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigs, splu

from mustlink.core import dense_algebra
from mustlink.core.check import as_integer
from mustlink.errors import InputError

Floats = NDArray[np.float64]
_DENSE = 2000  # nodes up to which LAPACK finds all pairs
_SYMMETRY = 1e-10
_SHIFT = 1e-3  # σ, in units of ‖I − P_GG‖/‖P_GH‖
_ZERO = 1e-9  # |λ|, in the same units, that counts as 0
_NULL = 1e-12  # 1/|λ|, in their inverse, that counts as 0


def stationary_labelings(
    P_GG: Any, P_GH: Any, n_vectors: int | None = None
) -> tuple[Floats, Floats]:
    """Labelings f = λ(I − P_GG)⁻¹P_GH f with λ ≠ 0 (WD12 Definition 1, eq. 11): λ (k,), F (n, k).

    A label-bearing graph H, node by node the same as G, sends its labels to G by P_GH (n, n), G
    passes them on by P_GG (n, n), dense or sparse; f comes back as it was, up to λ. With
    P_GG = D^-½WD^-½ and P_GH = Q̄ these are the vectors of CSC at β = 0 (Claim 1), with P_GG = αĀ
    and P_GH = I those of LLGC (Claim 2). The `n_vectors` of least λ, columns of length 1; None: all
    with finite λ, for at most 2,000 nodes. Symmetric positive semidefinite I − P_GG and P_GH have
    real λ > 0 only; of other matrices the real pairs are given, by |λ|, and there may be fewer.
    Directions that both sides send to 0 are no labelings.

    Raises InputError. Cost: O(n³) up to 2,000 nodes, else a sparse factorisation of
    I − P_GG + σP_GH and some tens of solves with it.
    """
    A, B = _pair(P_GG, P_GH)
    n = A.shape[0]
    wanted = n if n_vectors is None else as_integer(n_vectors, "n_vectors", 1)
    if n_vectors is None and n > _DENSE:
        raise InputError(f"n_vectors: None asks for all of {n}; say how many you want")
    # Bf = ν(A + σB)f with ν = 1/(λ + σ): one finite spectrum, λ = 0 and λ = ∞ included.
    sigma = _SHIFT * _norm(A) / _norm(B)
    if n <= _DENSE:
        lam, F = _labelings(*_dense(_array(A), _array(B), sigma), A, B, sigma)
    else:
        for nu, V in _shift_invert(A, B, sigma, wanted):
            lam, F = _labelings(nu, V, A, B, sigma)
            if lam.size >= wanted:
                break
    return lam[:wanted], F[:, :wanted]


def stationary_residual(f: Any, lam: Any, P_GG: Any, P_GH: Any) -> Floats:
    """‖f − P_GG f − λP_GH f‖/‖f‖ for every column of f (n,) or (n, k), λ a number or (k,).

    0 for a stationary labeling (WD12 eq. 11, free of the inverse). Independent of the solver.
    """
    A, B = _pair(P_GG, P_GH)
    F = np.asarray(f, dtype=np.float64)
    F = F[:, None] if F.ndim == 1 else F
    if F.ndim != 2 or F.shape[0] != A.shape[0]:
        raise InputError(f"f: shape {F.shape}; give labelings of {A.shape[0]} nodes as columns")
    values = np.broadcast_to(np.asarray(lam, dtype=np.float64), (F.shape[1],))
    R = A @ F - (B @ F) * values
    return np.linalg.norm(R, axis=0) / np.maximum(np.linalg.norm(F, axis=0), 1e-300)


def _pair(P_GG: Any, P_GH: Any) -> tuple[Any, Any]:
    """I − P_GG and P_GH, checked; sparse if they came so."""
    found = []
    for P, where in ((P_GG, "P_GG"), (P_GH, "P_GH")):
        M: Any = sp.csr_matrix(P, dtype=np.float64) if _is_sparse(P) else None
        if M is None:
            try:
                M = np.asarray(P, dtype=np.float64)
            except (TypeError, ValueError):
                raise InputError(f"{where}: not a matrix of numbers; give (n, n)") from None
        if M.ndim != 2 or M.shape[0] != M.shape[1] or M.shape[0] == 0:
            raise InputError(f"{where}: shape {M.shape}; give a square matrix (n, n)")
        if not np.isfinite(M.data if _is_sparse(M) else M).all():
            raise InputError(f"{where}: NaN or Inf among the entries; remove them")
        found.append(M)
    A, B = found
    if A.shape != B.shape:
        raise InputError(f"P_GH: shape {B.shape}, but P_GG is {A.shape}; G and H share their nodes")
    if _norm(B) == 0:
        raise InputError("P_GH: all zero, no label ever reaches G; give transitions from H to G")
    eye = sp.identity(A.shape[0], format="csr") if _is_sparse(A) else np.eye(A.shape[0])
    return eye - A, B


def _is_sparse(M: Any) -> bool:
    return bool(sp.issparse(M))


def _array(M: Any) -> Floats:
    dense: Any = M.toarray() if _is_sparse(M) else M
    return np.asarray(dense, dtype=np.float64)


def _norm(M: Any) -> float:
    """Largest sum of |entries| of a row."""
    return float(abs(M).sum(axis=1).max())


def _is_symmetric(M: Any) -> bool:
    gap = abs(M - M.T)
    return bool(gap.max() <= _SYMMETRY * _norm(M))


def _dense(A: Floats, B: Floats, sigma: float) -> tuple[Floats, Floats]:
    """All pairs by LAPACK."""
    if _is_symmetric(A) and _is_symmetric(B):
        c, U = dense_algebra.eigh((A + A.T + sigma * (B + B.T)) / 2)
        if c[0] > -_NULL * c[-1]:  # else A + σB, of indefinite matrices, is no inner product
            kept = c > _NULL * c[-1]
            T = U[:, kept] / np.sqrt(c[kept])
            nu, V = dense_algebra.eigh(T.T @ B @ T)
            return nu, T @ V
    lam, V = dense_algebra.general_pairs(A, B)
    real = np.isfinite(lam) & (np.abs(lam.imag) <= _ZERO * (np.abs(lam) + sigma))
    lam, V = lam[real].real, V[:, real]
    largest = V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])]
    F = np.real(V * (np.abs(largest) / largest))  # real but for a factor
    distinct = lam != -sigma
    return 1.0 / (lam[distinct] + sigma), F[:, distinct]


def _shift_invert(A: Any, B: Any, sigma: float, wanted: int) -> Iterator[tuple[Floats, Floats]]:
    """More and more real pairs of largest |ν| by ARPACK with factors of A + σB."""
    n, C = A.shape[0], A + sigma * B
    solve: Any
    if _is_sparse(C):
        solve = splu(sp.csc_matrix(C)).solve
    else:
        solve = partial(sla.lu_solve, sla.lu_factor(np.asarray(C)))
    T: Any = LinearOperator((n, n), matvec=lambda x: solve(B @ x), dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n)
    k = min(wanted + 2, n - 2)
    while True:
        nu, V = eigs(T, k=k, which="LM", v0=start)
        real = np.abs(nu.imag) <= _ZERO * np.abs(nu)
        yield nu[real].real, np.real(V[:, real])
        if k == n - 2:
            return
        k = min(2 * k, n - 2)


def _labelings(nu: Floats, F: Floats, A: Any, B: Any, sigma: float) -> tuple[Floats, Floats]:
    """λ = 1/ν − σ where it is neither 0 nor infinite, and its vectors; by |λ|, length 1."""
    scale = _norm(A) / _norm(B)
    finite = np.abs(nu) > _NULL / scale
    lam, F = 1.0 / nu[finite] - sigma, F[:, finite]
    F = F / np.linalg.norm(F, axis=0)
    size = np.linalg.norm(A @ F, axis=0) + scale * np.linalg.norm(B @ F, axis=0)
    kept = (np.abs(lam) > _ZERO * scale) & (size > _ZERO * _norm(A))
    order = np.argsort(np.abs(lam[kept]), kind="stable")
    return lam[kept][order], F[:, kept][:, order]
