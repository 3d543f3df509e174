"""The repeated problem written out, and nodes that stand for several as its restriction."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def membership(counts):
    """P (n, m): copy r is of node i; whole counts."""
    return np.repeat(np.eye(len(counts)), counts, axis=0)


def repeated(W, counts):
    """PWPᵀ: every copy a node, joined as its node is; copies of one node as its loop says."""
    P = membership(counts)
    return sp.csr_matrix(P @ sp.csr_matrix(W).toarray() @ P.T)
