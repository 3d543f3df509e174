"""AB09's generalised label propagation, dense, and its methods as rows of that problem."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import mustlink as ml
from mustlink.kernels.local_fits import nearest_listed
from oracles.local_fits import affine_weights, listed_matrix, ltsa_matrix, simplex_weights


def glp_dense(M, Y, weights, held, delta):
    """AB09 eq. 6: stationarity and constraints in one bordered system, solved by least squares."""
    n, fixed = len(M), np.flatnonzero(held)
    C = np.vstack([np.eye(n)[fixed], delta.T])
    right = np.vstack([Y[fixed], np.zeros((delta.shape[1], Y.shape[1]))])
    zero = np.zeros((len(C), len(C)))
    A = np.block([[M + np.diag(weights), C.T], [C, zero]])
    return np.linalg.lstsq(A, np.vstack([weights[:, None] * Y, right]), rcond=None)[0][:n]


def ab09_rows(X, y, graph, k):
    """AB09's methods: the estimator, and M, u, Δ of docs/methods.md."""
    W = graph.affinity
    n, d = W.shape[0], np.asarray(W.sum(axis=1)).ravel()
    L = sp.csr_matrix(sp.diags_array(d) - W)
    half = sp.diags_array(d**-0.5)
    normal = sp.csr_matrix(half @ L @ half)
    one, root = np.ones(n), np.sqrt(d)
    labels = np.count_nonzero(y >= 0)
    lists = nearest_listed(X, W.indptr, W.indices, k)
    R = np.eye(n) - listed_matrix(affine_weights(X, lists, 1e-3), lists)
    A = ltsa_matrix(X, lists, 2)
    U = listed_matrix(simplex_weights(X, lists, 1e-3), lists)
    C = np.linalg.matrix_power(W.toarray() / d[:, None], 4) / d  # P⁴D⁻¹, symmetric
    walk = np.diag(C.sum(axis=1)) - C
    both = np.diag((U + U.T).sum(axis=1)) - U - U.T
    more = {"n_neighbors": k}
    return {
        "GF": (ml.GFHF(class_mass=False), L, np.inf, None),
        "LELP": (ml.LELP(), L, np.inf, None),
        "LGC": (ml.LLGC(alpha=0.8), normal, np.full(n, 0.25), None),
        "TikReg": (ml.TikReg(gamma=0.01), 0.01 * L, 1 / labels, one),
        "NCut": (ml.NCutPropagation(alpha=2.0), L, np.where(y >= 0, 2.0 * d, 0.0), d),
        "LELPC": (ml.LELP(orthogonal=True, alpha=0.4), normal, 0.4, root),
        "LLELP": (ml.LLELP(**more), R.T @ R, np.inf, None),
        "LLELPC": (ml.LLELP(orthogonal=True, alpha=0.4, **more), R.T @ R, 0.4, one),
        "LTSALP": (ml.LTSALP(**more), A, np.inf, None),
        "LTSALPC": (ml.LTSALP(orthogonal=True, alpha=0.4, **more), A, 0.4, one),
        "LNP": (ml.LNP(variant="minimizer", alpha=0.8, **more), both, np.full(n, 0.25), None),
        "GWEM": (ml.GWEM(variant="fixed-point", n_steps=4), walk, np.inf, None),
    }
