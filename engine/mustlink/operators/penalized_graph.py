"""A graph with penalties for broken constraints, as one sparse plus low-rank matrix A' = W + wQ."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.constraints.links import (
    NodeMatrix,
    between_copies,
    cannot_links,
    must_links,
)
from mustlink.kernels.kernel_kmeans import Penalized
from mustlink.operators.constraint_operator import ConstraintOperator, local_operator
from mustlink.operators.laplacian import NormalizedLaplacian

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PenalizedGraph:
    """A' = W + wQ without Q's diagonal, but for pairs of copies of a node, on the working nodes.

    `Q` is that Q as an operator, `penalty` w, `bound` at least −λ_min(M^-½A'M^-½).
    """

    A: Penalized
    Q: ConstraintOperator
    penalty: float
    bound: float

    @property
    def unconstrained(self) -> Penalized:
        """W alone, with the same node weights."""
        return self.A._replace(place=np.full(self.A.place.size, -1, dtype=np.int64))


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
        w * between_copies(known)[laplacian.nodes[local.support]],
    )
    return PenalizedGraph(A, local, w, float(((degrees + w * both) / weight).max()))


def _rows(matrix: sp.csr_matrix, times: float) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """A CSR matrix for the kernels, always of the same types."""
    data = np.asarray(matrix.data, dtype=np.float64) * times
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), data
