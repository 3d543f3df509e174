"""Weighted kernel k-means on a penalised sparse graph: the matrix, batch steps, single moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.constraints.links import NodeMatrix, cannot_links, must_links
from mustlink.kernels.kernel_kmeans import (
    Clusters,
    Penalized,
    clusters_of,
    fill_empty,
    lloyd_step,
    sweep,
)
from mustlink.operators.constraint_operator import ConstraintOperator, local_operator
from mustlink.operators.laplacian import NormalizedLaplacian

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PenalizedGraph:
    """A' = W + wQ without Q's diagonal, on the working nodes.

    `Q` is that Q as an operator, `penalty` w, `bound` at least −λ_min(M^-½A'M^-½).
    """

    A: Penalized
    Q: ConstraintOperator
    penalty: float
    bound: float


@dataclass(frozen=True, eq=False)
class Descent:
    """A clustering and how it was reached: objective at the start, work done, whether at rest."""

    state: Clusters
    start: float
    steps: int = 0
    moves: int = 0
    sweeps: int = 0
    settled: bool = False

    @property
    def objective(self) -> float:
        """J of the clustering."""
        return objective(self.state)


def objective(state: Clusters) -> float:
    """J = K − Σ_c a_c/s_c with a_c = Σ_{i,j∈c} A'_ij: the penalised normalised cut."""
    return float(state.weight.size - (state.inside / state.weight).sum())


def penalized(
    laplacian: NormalizedLaplacian,
    known: Constraints,
    k: int,
    penalty: float | str,
    volume: str,
) -> PenalizedGraph:
    """Graph and constraints as one matrix; w = vol/(k·Σ_{i<j}|Q_ij|) if `penalty` is "auto".

    Node weights M are the degrees of W + wQ⁺ (`volume` "links") or of W ("graph"). The bound is
    max_i (d_i + w Σ_j |Q_ij|)/M_ii: rows of |M⁻¹A'|, and W >= −D. Cost O(n + constraints).
    """
    degrees = laplacian.root_degree**2
    linked = (laplacian.positions >= 0).astype(np.float64)
    must = laplacian.enter(must_links(known).dot(linked))
    both = must + laplacian.enter(cannot_links(known).dot(linked))
    total = float(both.sum()) / 2
    w = laplacian.volume / (k * max(total, 1e-300)) if penalty == "auto" else float(penalty)
    w = w if total > 0 else 0.0
    weight = degrees + w * must if volume == "links" else degrees

    Q = NodeMatrix(known.matrix, known.factor, known.core)
    local = local_operator(Q, laplacian, known.nodes, scaled=False)
    size = local.support.size
    factor = sp.csr_matrix((size, 0)) if local.factor is None else local.factor
    core = sp.csr_matrix((0, 0) if local.core is None else local.core)
    own = np.asarray((factor @ core).multiply(factor).sum(axis=1), dtype=np.float64).ravel()
    own = own + local.matrix.diagonal()
    local = replace(local, matrix=sp.csr_matrix(local.matrix - sp.diags(own, format="csr")))
    indptr, indices, data = _rows(local.matrix, w)
    place = np.full(laplacian.size, -1, dtype=np.int64)
    place[local.support] = np.arange(size)
    A = Penalized(
        *(laplacian.S.indptr, laplacian.S.indices, laplacian.S.data),
        *(laplacian.root_degree, weight, place),
        *(indptr, local.support[indices], data),
        *_rows(factor, 1.0),
        *_rows(core, w),
    )
    return PenalizedGraph(A, local, w, float(((degrees + w * both) / weight).max()))


def _rows(matrix: sp.csr_matrix, times: float) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """A CSR matrix for the kernels, always of the same types."""
    data = np.asarray(matrix.data, dtype=np.float64) * times
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), data


def descend(A: Penalized, labels: Ints, k: int, sigmas: Sequence[float], max_iter: int) -> Descent:
    """From a start (m,) down to a clustering that no batch step and no single move improves.

    A cluster that is empty in the start first gets the one node that J gains most by.
    """
    state = clusters_of(A, labels, k)
    if fill_empty(A, state):
        state = clusters_of(A, state.labels, k)
    found = Descent(state, objective(state))
    for sigma in sigmas:
        found = lloyd(A, found, sigma, max_iter)
    return local_search(A, found, max_iter)


def lloyd(A: Penalized, found: Descent, sigma: float, max_iter: int) -> Descent:
    """Batch steps with one shift (Kulis et al. 2005, SS-Kernel-KMeans) while J falls.

    With a shift that makes the kernel positive semidefinite no step can raise J.
    """
    while found.steps < max_iter:
        nearest = lloyd_step(A, found.state, sigma)
        if np.array_equal(nearest, found.state.labels):
            break
        state = clusters_of(A, nearest, found.state.weight.size)
        if not objective(state) < found.objective:
            break
        found = replace(found, state=state, steps=found.steps + 1)
    return found


def local_search(A: Penalized, found: Descent, max_iter: int) -> Descent:
    """Single moves until none helps (Dhillon, Guan & Kulis 2007, local search, chains of one).

    Nodes are looked at again when a neighbour has moved; all of them, with totals computed anew,
    before the end is declared.
    """
    k = found.state.weight.size
    moves, sweeps, settled = found.moves, 0, False
    state = clusters_of(A, found.state.labels, k)
    awake = np.zeros(state.labels.size, dtype=np.uint8)
    while sweeps < max_iter and not settled:
        moved = sweep(A, state, awake, every=True)
        moves, sweeps, settled = moves + moved, sweeps + 1, moved == 0
        while moved and sweeps < max_iter:
            moved = sweep(A, state, awake, every=False)
            moves, sweeps = moves + moved, sweeps + 1
        state = clusters_of(A, state.labels, k)
    return replace(found, state=state, moves=moves, sweeps=sweeps, settled=settled)
