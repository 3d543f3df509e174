"""Numbers of clusters by dense algebra."""

from __future__ import annotations

import numpy as np


def bethe_hessian(W):
    """Eigenvalues of (r² − 1)I − rA + D of the nodes with edges, r² = Σd²/Σd − 1."""
    A = (np.asarray(W) != 0).astype(float)
    A = A[A.any(axis=1)][:, A.any(axis=0)]
    d = A.sum(axis=1)
    squared = max((d**2).sum() / d.sum() - 1.0, 1.5)
    H = (squared - 1) * np.eye(len(A)) - np.sqrt(squared) * A + np.diag(d)
    return np.linalg.eigvalsh(H)
