"""Smooth vectors of a graph that has grown: those of the graph before, extended and sharpened.

A new node gets the mean of its neighbours' values: u_i = Σ_j W_ij u_j / ((1 − λ) d_i), which is
L̄v = λv solved for its row (Nyström), v = D^½u, v_i = Σ_j S_ij v_j / (1 − λ). Vectors that are
smooth on the old graph then are nearly so on the new one; a few filters and Rayleigh-Ritz in their
span make them as sharp as clusters need, and LOBPCG from there where they do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.workspace import Workspace
from mustlink.core.result import Convergence, EigenResult
from mustlink.eigen.nested_iteration import nested
from mustlink.eigen.ritz import rayleigh_ritz
from mustlink.eigen.smooth_subspace import SmoothBasis, smooth_basis
from mustlink.eigen.solver import (
    BASIS_TOL,
    BasisKey,
    PairsKey,
    grids_of,
    laplacian_of,
)
from mustlink.graph.graph import Graph
from mustlink.operators.laplacian import Block, NormalizedLaplacian

Floats = NDArray[np.float64]
FEWEST = 20_000  # nodes below which vectors are computed anew: that is quick, and sharp
_FILTERS, _SWEEPS = 2, 4  # products of a sweep, and sweeps at most
_STEPS = 40  # of LOBPCG, where sweeps did not do


def extend_vectors(before: Graph, work: Workspace) -> None:
    """Put the vectors of the graph `before`, extended, into the cache of the grown graph of `work`.

    The first nodes are those before. Vectors of few nodes, of several components, or of regularised
    degrees are computed anew when they are needed.
    """
    graph = work.graph
    if graph.n_nodes < FEWEST or before.n_components != 1 or graph.n_components != 1:
        return
    plain = Workspace(before, single=work.single)
    for key, pairs in before.derived.of(PairsKey):
        if key.single == work.single:
            result = _extended(laplacian_of(plain), pairs.values, pairs.vectors, work, key)
            graph.derived.put(key, result)
    for basis_key, basis in before.derived.of(BasisKey):
        if basis_key.single == work.single and type(basis_key) is BasisKey:
            graph.derived.put(basis_key, _basis(laplacian_of(plain), basis, work, basis_key))


def _basis(
    old: NormalizedLaplacian, basis: SmoothBasis, work: Workspace, key: BasisKey
) -> SmoothBasis:
    wanted = PairsKey(
        key.single, key.solver, key.tol, key.max_iter, key.seed, key.budget, key.count,
        limit=key.limit,
    )  # fmt: skip
    vectors = basis.vectors[:, 1 + basis.n_ties :]
    result = _extended(old, basis.values[basis.n_ties :], vectors, work, wanted)
    residuals = result.convergence.residuals
    return smooth_basis(laplacian_of(work), result.values, result.vectors, residuals)


def _extended(
    old: NormalizedLaplacian, values: Floats, vectors: Block, work: Workspace, key: PairsKey
) -> EigenResult:
    """Pairs of the grown graph from those (m, k) of the graph before, in working order."""
    laplacian, tol = laplacian_of(work), max(key.tol, BASIS_TOL)
    with work.recorder.stage("vectors of the new nodes"):
        result = _filtered(laplacian, _nystrom(old, values, vectors, laplacian), tol)
    if result.convergence.converged.all():
        return result
    grids = grids_of(work)
    with work.recorder.stage("eigenvectors"):
        X, k = result.vectors, values.size
        return nested(laplacian, grids, k, tol=tol, max_iter=_STEPS, seed=key.seed, start=X)


def _filtered(laplacian: NormalizedLaplacian, X: Block, tol: float) -> EigenResult:
    """Ritz pairs in the span of X (m, k), filtered till residuals are within tol, or some times."""
    space, steps = laplacian.space, 0
    for _ in range(_SWEEPS):
        X = laplacian.null.project(laplacian.smooth(X, _FILTERS))
        AX = laplacian.apply(X)
        theta, C = rayleigh_ritz(space, X, AX)
        squares = np.einsum("ij,ij->j", C, space.gram(AX, AX) @ C)  # of L̄x, x of length 1
        residuals = np.sqrt(np.maximum(squares - theta**2, 0.0))
        X, steps = space.combine(X, C), steps + _FILTERS
        if (residuals <= tol).all():
            break
    return EigenResult(theta, X, Convergence("filters", "tolerance", steps, residuals, tol))


def _nystrom(
    old: NormalizedLaplacian, values: Floats, vectors: Block, laplacian: NormalizedLaplacian
) -> Block:
    """D^½u on all nodes, in the new working order: u of old nodes, and means for new ones."""
    there = laplacian.positions[old.nodes]
    V: Any = np.zeros((laplacian.size, values.size), dtype=np.float32)  # as it is filtered
    V[there] = vectors
    ratio = np.ones(laplacian.size, dtype=np.float32)
    ratio[there] = laplacian.root_degree[there] / old.root_degree
    V *= ratio[:, None]
    new = np.flatnonzero(np.bincount(there, minlength=laplacian.size) == 0)
    ones, at = np.ones(new.size, dtype=np.float32), np.arange(new.size + 1)
    rows = sp.csr_matrix((ones, new, at), shape=(new.size, laplacian.size))
    S = laplacian.of_few(rows).astype(np.float32)
    shrunk = np.maximum(1.0 - values, 0.1).astype(np.float32)
    for _ in range(2):  # the second time with the values of new neighbours
        V[new] = (S @ V) / shrunk
    return V
