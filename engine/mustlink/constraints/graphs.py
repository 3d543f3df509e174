"""Soft constraints from a second graph or from any symmetric matrix (WD14 §4.1 and §6.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.errors import InputError

# Rounding in a matrix assembled twice; anything larger is a mistake of the caller.
ASYMMETRY = 1e-9


def as_symmetric(matrix: Any, *, signed: bool) -> sp.csr_matrix:
    """Return a dense or sparse matrix as a fresh (n, n) CSR float64, no stored zeros.

    Asymmetry within rounding (1e-9 of the largest entry) is averaged away. Raises InputError for
    a matrix that is not square, not finite, not symmetric, or negative unless `signed`.
    """
    kind = "matrix" if signed else "graph"
    given = getattr(matrix, "affinity", matrix)
    try:
        csr = sp.csr_matrix(given, dtype=np.float64, copy=True)
    except (TypeError, ValueError):
        raise InputError(
            f"constraints: the {kind} is a {type(matrix).__name__}; give a square matrix of numbers"
        ) from None
    if csr.shape[0] != csr.shape[1] or csr.shape[0] == 0:
        raise InputError(
            f"constraints: the {kind} has shape {csr.shape}; give one row and one column per node"
        )
    csr.sum_duplicates()
    bad = ~np.isfinite(csr.data)
    if bad.any():
        i, j = _position(csr, bad)
        raise InputError(f"constraints: the {kind} is not finite at ({i}, {j}); correct it")
    csr.eliminate_zeros()
    if not signed and (csr.data < 0).any():
        i, j = _position(csr, csr.data < 0)
        raise InputError(
            f"constraints: the graph has weight {csr[i, j]:g} at ({i}, {j}); weights are "
            "non-negative, use from_matrix for cannot-links"
        )
    return _symmetrised(csr, kind)


def upper_entries(
    matrix: sp.csr_matrix,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Rows, columns and values of the stored entries above the diagonal."""
    coo = matrix.tocoo()
    above = coo.row < coo.col
    return coo.row[above].astype(np.int64), coo.col[above].astype(np.int64), coo.data[above]


def split_entries(
    matrix: sp.csr_matrix, fraction: float, rng: np.random.Generator
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Kept and held-out parts: a random share of the symmetric entries; the diagonal is kept."""
    i, j, values = upper_entries(matrix)
    out = np.zeros(values.size, dtype=bool)
    out[rng.permutation(values.size)[: round(fraction * values.size)]] = True
    upper = sp.coo_matrix((values[out], (i[out], j[out])), shape=matrix.shape)
    held = (upper + upper.T).tocsr()
    held.sort_indices()
    upper = sp.coo_matrix((values[~out], (i[~out], j[~out])), shape=matrix.shape)
    kept = (upper + upper.T + sp.diags(matrix.diagonal(), format="csr")).tocsr()
    kept.eliminate_zeros()
    kept.sort_indices()
    return kept, held


def _symmetrised(csr: sp.csr_matrix, kind: str) -> sp.csr_matrix:
    """Return the matrix if symmetric, its symmetric part if that differs by rounding only."""
    gap = abs(csr - csr.T).tocoo()
    worst = float(gap.data.max(initial=0.0))
    if worst > ASYMMETRY * float(abs(csr.data).max(initial=0.0)):
        at = int(np.argmax(gap.data))
        i, j = sorted((int(gap.row[at]), int(gap.col[at])))
        raise InputError(
            f"constraints: the {kind} is {csr[i, j]:g} at ({i}, {j}) but {csr[j, i]:g} at "
            f"({j}, {i}); make it symmetric"
        )
    if worst > 0:
        csr = ((csr + csr.T) * 0.5).tocsr()
    csr.sort_indices()
    return csr


def _position(csr: sp.csr_matrix, mask: NDArray[np.bool_]) -> tuple[int, int]:
    """Row and column of the first stored entry where the mask holds."""
    at = int(np.flatnonzero(mask)[0])
    return int(np.searchsorted(csr.indptr, at, side="right")) - 1, int(csr.indices[at])
