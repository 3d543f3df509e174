"""FLI11 Algorithm 1 on all pairs of nodes, in numpy and scipy; of mustlink only k-means."""

from __future__ import annotations

from typing import Any

MU = 0.2


def propagated(values: Any, Q: Any, y: Any, pairs: Any) -> Any:
    """F (n, n) with (μI + L̄)F + F(μI + L̄) = 2μY (eq. 5) for L̄ = QΛQᵀ."""
    import numpy as np
    import scipy.sparse as sp

    n = len(y)
    i, j = pairs.T
    belief = np.where(y[i] == y[j], 1.0, -1.0)
    Y = sp.csr_matrix((belief, (i, j)), shape=(n, n))
    Y = sp.csr_matrix(Y + Y.T)
    inside = Q.T @ (Y @ Q)
    inside *= 2.0 * MU / (2.0 * MU + values[:, None] + values)
    return Q @ inside @ Q.T


def adjusted(W: Any, F: Any, normalize: bool) -> Any:
    """W* (n, n) of eq. 9 with zeros on its diagonal."""
    import numpy as np

    F = F.copy()
    np.fill_diagonal(F, 0.0)
    if normalize:
        F /= np.abs(F).max()
    F = np.clip(F, -1.0, 1.0)
    return np.where(F >= 0, 1.0 - (1.0 - F) * (1.0 - W), (1.0 + F) * W) * (1.0 - np.eye(len(W)))


def smoothest(W: Any, k: int) -> Any:
    """D^-½Z (n, k), Z the k smoothest eigenvectors of a dense graph's normalised Laplacian."""
    import numpy as np
    import scipy.linalg as la
    from scipy.sparse.linalg import eigsh

    n = len(W)
    root = np.sqrt(np.maximum(W.sum(axis=1), 1e-300))
    S = W / root[:, None] / root
    S = (S + S.T) / 2
    if n > 1000:  # seconds by LAPACK
        _, Z = eigsh(S, k, which="LA", v0=root, ncv=6 * k, tol=1e-10)
    else:
        _, Z = la.eigh(S, subset_by_index=[n - k, n - 1])
    return Z[:, ::-1] / root[:, None]


def clusters(rows: Any, k: int, variant: str) -> Any:
    """k-means on D^-½Z (von Luxburg), or on its rows of length 1 (ng), which are those of Z."""
    import numpy as np

    from mustlink.discretize.assign import kmeans

    if variant == "ng":
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    return kmeans(rows, k, 0).labels
