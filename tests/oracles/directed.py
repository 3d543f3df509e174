"""Directed and rectangular graphs by their singular vectors, dense, as printed."""

from __future__ import annotations

import numpy as np


def disim(A, t=1.0):
    """Rohe, Qin & Yu 2016, steps 1 and 2: U, σ, V of L with τ = t times the mean out-degree."""
    n = len(A)
    out_degree = np.array([sum(A[i, j] for j in range(n)) for i in range(n)])
    in_degree = np.array([sum(A[i, j] for i in range(n)) for j in range(n)])
    tau = t * out_degree.mean()
    L = np.zeros((n, n))
    for i, j in np.argwhere(A):
        L[i, j] = A[i, j] / np.sqrt((out_degree[i] + tau) * (in_degree[j] + tau))
    U, sigma, Vt = np.linalg.svd(L)
    return U, sigma, Vt.T


def coclusters(M, tau):
    """Dhillon 2001, degrees regularised: U, σ, V of D_r^-½ M D_c^-½, D + tau of what has entries.

    `tau` is in units of the mean degree of rows and columns that have an entry.
    """
    rows, columns = M.sum(axis=1), M.sum(axis=0)
    linked = np.count_nonzero(rows) + np.count_nonzero(columns)
    ground = tau * (rows.sum() + columns.sum()) / linked
    left, right = np.zeros(len(rows)), np.zeros(len(columns))
    left[rows > 0] = (rows[rows > 0] + ground) ** -0.5
    right[columns > 0] = (columns[columns > 0] + ground) ** -0.5
    U, sigma, Vt = np.linalg.svd(left[:, None] * M * right[None, :])
    return U, sigma, Vt.T
