"""The right side Y = BCBᵀ: constraints as sources, with as few columns as they allow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.constraints.links import capped_links
from mustlink.operators.edges import Edges
from mustlink.operators.laplacian import Block, NormalizedLaplacian

_GIVEN, _BUSY = 2_000_000, 64
_HUB = 16  # partners from which a node's pairs become one source, not one for each partner


@dataclass(frozen=True, eq=False)
class Sources:
    """Y = BCBᵀ: what is known about pairs of m nodes, B (m, c) CSC and C (c, c) CSR, symmetric.

    A column of B is a source that spreads over the graph: a node, the partners of a node that has
    very many, or the nodes of a class. Nothing of size m × m is ever stored.
    """

    B: sp.csc_matrix
    C: sp.csr_matrix

    @property
    def count(self) -> int:
        """Number c of sources."""
        return int(self.B.shape[1])

    def dot(self, X: Block) -> Block:
        """YX for a block (m, b)."""
        return np.asarray(self.B @ (self.C @ (self.B.T @ X)))

    def scaled(self, by: NDArray[np.float64]) -> Sources:
        """diag(by)·Y·diag(by), `by` (m,)."""
        return Sources(sp.csc_matrix(sp.diags_array(by) @ self.B), self.C)

    @cached_property
    def norm(self) -> float:
        """Frobenius norm of Y: ‖Y‖² = tr(C G C G) with G = BᵀB. Cost O(nnz(GC))."""
        product = sp.csr_matrix((self.B.T @ self.B) @ self.C)
        return float(np.sqrt(max(float(product.multiply(product.T).sum()), 0.0)))

    @cached_property
    def largest(self) -> float:
        """Largest |Y_ij|, at most: exact where sources do not overlap."""
        size = np.asarray(abs(self.B).max(axis=0).todense()).ravel()
        C = self.C.tocoo()
        return float((np.abs(C.data) * size[C.row] * size[C.col]).max(initial=0.0))


def sources_of(known: Constraints, laplacian: NormalizedLaplacian) -> Sources:
    """Y of FLI11 eq. 2 in working order: beliefs in [-1, 1], zero diagonal, no isolated nodes.

    Labels give one source per class, and their own nodes to keep Y_ii = 0. The c sources are the
    constrained nodes, except that a node with more than 16 partners costs two: itself and all its
    partners together. Of nodes that stand for C copies C^-½YC^-½, Y summed over copies: so the
    solution is C^½FC^½. Cost O(n + number of pairs).
    """
    return sources_at(known, laplacian.nodes, laplacian.weights)


def sources_at(
    known: Constraints, nodes: NDArray[np.int64], weights: NDArray[np.float64] | None = None
) -> Sources:
    """The same of what is said of some `nodes` (t,) alone, which are the rows of B."""
    inside = np.zeros(known.n_nodes)
    inside[nodes] = 1.0
    must, cannot = capped_links(known, inside)
    Y = must + cannot.times(-1.0)
    if weights is not None:
        inside[nodes] = 1.0 / np.sqrt(weights)
        Y = Y.between(inside)
    pairs = _stored(Y.matrix[nodes][:, nodes])
    B, C = _stars(pairs)
    if Y.factor is not None:
        factor = sp.csr_matrix(Y.factor[nodes])
        B = sp.csr_matrix(sp.hstack([B, factor]))
        C = sp.csr_matrix(sp.block_diag([C, sp.csr_matrix(Y.core)]))
    C = _stored(C)
    used = np.flatnonzero(np.diff(C.indptr))
    columns = sp.csc_matrix(B[:, used])
    columns.sort_indices()
    return Sources(columns, sp.csr_matrix(C[used][:, used]))


def given_pairs(Y: Sources) -> tuple[Edges, NDArray[np.float64]]:
    """Where Y is not 0, and Y there; beyond two million entries only between some of the nodes.

    These are the 64 with most partners, and every second, third … of the others.
    """
    B, C = sp.csr_matrix(Y.B), Y.C.tocoo()
    counts = np.diff(Y.B.indptr).astype(np.float64)
    entries = float((counts[C.row] * counts[C.col]).sum())
    nodes = np.flatnonzero(np.diff(B.indptr))
    step = int(np.ceil(np.sqrt(entries / _GIVEN)))
    if step > 1:
        partners = np.asarray(abs(B) @ (abs(Y.C) @ counts)).ravel()[nodes]
        busy = np.argsort(-partners, kind="stable")[:_BUSY]
        nodes = nodes[np.union1d(busy, np.arange(0, nodes.size, step))]
    some = B[nodes]
    found = _stored(sp.csr_matrix(some @ Y.C @ some.T)).tocoo()
    ends, m = (nodes[found.row], nodes[found.col]), B.shape[0]
    pairs = sp.csr_matrix((found.data, ends), shape=(m, m))
    return Edges.of_matrix(pairs), pairs.data


def _stars(Y: sp.csr_matrix) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Y = BCBᵀ for sparse Y: unit columns, and one column for the partners of every hub."""
    m = Y.shape[0]
    hub = np.diff(Y.indptr) > _HUB
    entries = Y.tocoo()
    plain = hub[entries.row] == hub[entries.col]
    rest = sp.csr_matrix(
        (entries.data[plain], (entries.row[plain], entries.col[plain])), shape=(m, m)
    )
    hubs = np.flatnonzero(hub)
    nodes = np.flatnonzero((np.diff(rest.indptr) > 0) | hub)
    place = sp.csr_matrix((np.ones(nodes.size), (nodes, np.arange(nodes.size))), (m, nodes.size))
    ray = hub[entries.row] & ~hub[entries.col]
    star = sp.csr_matrix(
        (entries.data[ray], (entries.col[ray], np.searchsorted(hubs, entries.row[ray]))),
        shape=(m, hubs.size),
    )
    core = sp.coo_matrix(rest[nodes][:, nodes])
    centre, ring = np.searchsorted(nodes, hubs), nodes.size + np.arange(hubs.size)
    ends = np.concatenate([core.row, centre, ring]), np.concatenate([core.col, ring, centre])
    values = np.concatenate([core.data, np.ones(2 * hubs.size)])
    C = sp.csr_matrix((values, ends), shape=(nodes.size + hubs.size,) * 2)
    return sp.csr_matrix(sp.hstack([place, star])), C


def _stored(matrix: sp.csr_matrix) -> sp.csr_matrix:
    found = sp.csr_matrix(matrix)
    found.eliminate_zeros()
    found.sort_indices()
    return found
