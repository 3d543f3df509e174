"""Smooth vectors of a fitted estimator's graph: those that the fit left, or few new ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.smooth_subspace import SmoothBasis, smooth_basis
from mustlink.eigen.solver import BasisKey, CarriedKey, PairsKey, smoothest
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.workspace import Workspace
from mustlink.workspace.workspace import RegularizedKey

Floats = NDArray[np.float64]
_COLUMNS = 60  # on few nodes they take no time; twice as many ask no better
_FEWER, _MANY = 24, 200_000  # on so many nodes


def smooth_rows(estimator: Any, work: Workspace, laplacian: NormalizedLaplacian) -> Any:
    """Orthonormal U (m, p) in working order, its first column z, and their values (p,) of L̄.

    The widest basis that the fit left; else its eigenvectors, else the span of its embedding, and
    for methods that have none of these 60 vectors (24 on very large graphs), which the graph keeps.
    """
    left = _left(estimator.graph_)
    if left is not None and not np.array_equal(left.laplacian.nodes, laplacian.nodes):
        left = None
    if left is None and hasattr(estimator, "embedding_"):
        return _of_embedding(estimator, laplacian)
    if left is None:
        seed = getattr(estimator, "_used_seed", 0)
        count = _COLUMNS if laplacian.size <= _MANY else _FEWER
        left = smoothest(work, count, seed=seed)
    return left.vectors, np.concatenate([[0.0], left.values])


def _left(graph: Any) -> SmoothBasis | None:
    """The widest basis that is kept with a graph, else its eigenvectors as one."""
    several = [graph.derived, *(one for _, one in graph.derived.of(RegularizedKey))]
    found = [one for each in several for kind in (BasisKey, CarriedKey) for _, one in each.of(kind)]
    if found:
        return max(found, key=lambda basis: basis.p)
    return None


def _of_embedding(estimator: Any, laplacian: NormalizedLaplacian) -> tuple[Floats, Floats]:
    """Ritz vectors of L̄ in the span of z, the fit's eigenvectors and the embedding's columns."""
    graph, root = estimator.graph_, laplacian.root_degree[:, None]
    rows = np.asarray(estimator.embedding_)[graph.first_rows][laplacian.nodes]
    for _, pairs in graph.derived.of(PairsKey):
        if len(pairs.vectors) == laplacian.size:
            basis = smooth_basis(
                laplacian, pairs.values, pairs.vectors, pairs.convergence.residuals
            )
            return basis.vectors, np.concatenate([[0.0], basis.values])
    z = root / np.sqrt(laplacian.volume)
    rest = root * rows.astype(np.float64)
    rest = rest - z @ (z.T @ rest)
    Q, s, _ = np.linalg.svd(rest, full_matrices=False)
    Q = Q[:, s > 1e-10 * max(s.max(initial=0.0), 1e-300)]
    values, V = np.linalg.eigh(Q.T @ laplacian.apply(Q)) if Q.shape[1] else (np.empty(0), Q.T @ Q)
    return np.hstack([z, Q @ V]), np.concatenate([[0.0], np.maximum(values, 0.0)])
