"""Dense Laplacians, their null spaces and normalised constraints."""

from __future__ import annotations

import numpy as np

from oracles.graph import components


def laplacian(W):
    """L̄ (m, m), D^½ (m,) and the numbers of the m nodes that have an edge, from a dense W."""
    d = W.sum(axis=1)
    nodes = np.flatnonzero(d > 0)
    root = np.sqrt(d[nodes])
    return np.eye(nodes.size) - W[np.ix_(nodes, nodes)] / np.outer(root, root), root, nodes


def regularized_laplacian(W, tau, counts=None):
    """I − T^-½WT^-½ and T^½, T = D + τd̄·diag(counts), d̄ = Σd/Σcounts, on nodes with an edge."""
    d = W.sum(axis=1)
    nodes = np.flatnonzero(d > 0)
    counts = np.ones(nodes.size) if counts is None else counts[nodes]
    root = np.sqrt(d[nodes] + tau * d.sum() / counts.sum() * counts)
    return np.eye(nodes.size) - W[np.ix_(nodes, nodes)] / np.outer(root, root), root, nodes


def null_space(W):
    """Z (m, c): D^½1_c/√vol_c for every component of the nodes that have an edge."""
    _, root, nodes = laplacian(W)
    part = components(W[np.ix_(nodes, nodes)])
    Z = np.array([np.where(part == c, root, 0.0) for c in range(part.max() + 1)]).T
    return Z / np.linalg.norm(Z, axis=0)


def normalized_constraints(Q, W):
    """D^-½QD^-½ on the nodes that have an edge."""
    _, root, nodes = laplacian(W)
    return Q[np.ix_(nodes, nodes)] / np.outer(root, root)
