"""Memberships by the words of their definition, one copy of one node after the other."""

from __future__ import annotations

import numpy as np


def memberships(graph, labels, X, k, alpha, beta):
    """p (n, K) of `mustlink.discretize.memberships`."""
    W, n = graph.affinity.toarray(), labels.size
    C = np.ones(n) if graph.weights is None else graph.weights
    there = labels >= 0
    size = np.array([C[labels == c].sum() for c in range(k)])
    prior = size / size.sum()
    mean, spread = np.zeros((k, X.shape[1])), np.zeros(k)
    for c in np.flatnonzero(size):
        own = labels == c
        mean[c] = np.average(X[own], axis=0, weights=C[own])
        spread[c] = np.average(((X[own] - mean[c]) ** 2).sum(axis=1), weights=C[own])
    spread += 1e-6 * spread.max()
    P = np.zeros((n, k))
    for i in np.flatnonzero(there):
        clusters, edges = [], []  # of one copy of i
        for j in range(n):
            copies = int(C[j]) - (i == j)
            if labels[j] >= 0 and W[i, j] > 0:
                clusters += [labels[j]] * copies
                edges += [W[i, j] / (C[i] * C[j])] * copies
        edges = np.array(edges)
        often = edges.sum() ** 2 / (edges**2).sum() if edges.size else 0.0
        score = np.full(k, -np.inf)
        for c in np.flatnonzero(size):
            inside = edges[np.array(clusters) == c].sum() / edges.sum() if edges.size else 0.0
            score[c] = alpha * np.log((often * inside + prior[c]) / (often + 1))
            if graph.degrees[i] > 0:
                score[c] -= beta * np.log(((X[i] - mean[c]) ** 2).sum() + spread[c])
        own = score[labels[i]]
        score = np.minimum(score, own - 1e-9)
        score[labels[i]] = own
        P[i] = np.exp(score - own)
        P[i] /= P[i].sum()
    return P
