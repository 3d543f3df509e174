"""Smooth vectors of a fitted estimator's graph: those that the fit left, or few new ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.eigen.solver import BasisKey, laplacian_of, smoothest
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.workspace import Workspace

Floats = NDArray[np.float64]
_COLUMNS = 60  # on few nodes they take no time; twice as many ask no better
_FEWER, _MANY = 24, 200_000  # on so many nodes
_USUAL = 4  # times K: what every fit that chooses has at hand


def smooth_rows(estimator: Any, work: Workspace, laplacian: NormalizedLaplacian) -> Any:
    """Orthonormal U (m, p) in working order, its first column z, and their values (p,) of L̄.

    Those that the fit was made in, 4K at least where it chose how many; else the span of its
    embedding, and for methods that have neither 60 vectors (24 on very large graphs), which the
    graph keeps. What else the graph holds is of other fits, and counts for nothing: of a wider
    basis the first columns are taken, which are those of the fit as far as either is sharp.
    """
    choice, seed = getattr(estimator, "_choice", None), getattr(estimator, "_used_seed", 0)
    if choice is not None and choice.p is not None:
        open_ = isinstance(estimator.subspace, str) and not choice.tau
        p = max(choice.p, _USUAL * estimator.report_.n_clusters) if open_ else choice.p
        basis = _of_choice(work.regularized(choice.tau), p, seed)
        if np.array_equal(basis.laplacian.nodes, laplacian.nodes):
            return basis.vectors, np.concatenate([[0.0], basis.values])
    if hasattr(estimator, "embedding_"):
        return _of_embedding(estimator, laplacian)
    count = _COLUMNS if laplacian.size <= _MANY else _FEWER
    basis = smoothest(work, count, seed=seed).first(count)
    return basis.vectors, np.concatenate([[0.0], basis.values])


def _of_choice(work: Workspace, p: int, seed: int) -> SmoothBasis:
    """The p smoothest directions, from the basis that the fit left where it is still there."""
    p, kept = min(p, laplacian_of(work).size - 1), work.derived.of(BasisKey)
    same = (basis for key, basis in kept if basis.p >= p and key.seed == seed)
    basis = next(same, None)
    return (smoothest(work, p, seed=seed) if basis is None else basis).first(p)


def _of_embedding(estimator: Any, laplacian: NormalizedLaplacian) -> tuple[Floats, Floats]:
    """Ritz vectors of L̄ in the span of z and the embedding's columns."""
    graph, root = estimator.graph_, laplacian.root_degree[:, None]
    rows = np.asarray(estimator.embedding_)[graph.first_rows][laplacian.nodes]
    z = root / np.sqrt(laplacian.volume)
    rest = root * rows.astype(np.float64)
    rest = rest - z @ (z.T @ rest)
    Q, s, _ = np.linalg.svd(rest, full_matrices=False)
    Q = Q[:, s > 1e-10 * max(s.max(initial=0.0), 1e-300)]
    values, V = np.linalg.eigh(Q.T @ laplacian.apply(Q)) if Q.shape[1] else (np.empty(0), Q.T @ Q)
    return np.hstack([z, Q @ V]), np.concatenate([[0.0], np.maximum(values, 0.0)])
