"""Harmonic values by elimination that never subtracts: right to the last digits, any weights."""

import numpy as np

__all__ = ["harmonic_by_elimination"]


def harmonic_by_elimination(W, labelled, Y):
    """F (n, K) with F = Y on labelled nodes and the weighted mean of the neighbours elsewhere.

    A node is taken out by joining its neighbours, w_ij += w_iv w_vj/Σ_j w_vj, and put back as their
    mean: what Grassmann, Taksar & Heyman do for Markov chains.
    """
    W = np.array(W, dtype=np.longdouble)
    np.fill_diagonal(W, 0.0)
    n, F = len(W), np.array(Y, dtype=np.longdouble)
    held = set(np.asarray(labelled).tolist())
    taken = []
    for v in (i for i in range(n) if i not in held):
        share = W[v] / W[v].sum()
        taken.append((v, share))
        W += np.outer(W[:, v], share)
        W[v] = W[:, v] = 0.0
        np.fill_diagonal(W, 0.0)
    for v, share in reversed(taken):
        F[v] = share @ F
    return F.astype(float)
