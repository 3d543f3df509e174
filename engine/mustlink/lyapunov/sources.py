"""The right side Y = BCBᵀ: constraints as sources, with as few columns as they allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from mustlink.constraints import Constraints
from mustlink.constraints.links import capped_links, stored
from mustlink.core import dense_algebra
from mustlink.operators.laplacian import Block
from mustlink.operators.protocol import Edges

_GIVEN, _BUSY = 2_000_000, 64
_HUB = 16  # partners from which a node's pairs become one source, not one for each partner
_ZERO = 1e-15  # eigenvalue of Y, as a share of the largest, that is rounding


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

    def at(self, places: NDArray[np.integer], size: int) -> Sources:
        """The same of `size` nodes, of which the rows of B are at `places` (m,), rising."""
        parts = self.B.data, places[self.B.indices], self.B.indptr
        return Sources(sp.csc_matrix(parts, shape=(size, self.count)), self.C)

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


def sources_at(
    known: Constraints, nodes: NDArray[np.int64], weights: NDArray[np.float64] | None = None
) -> Sources:
    """Y of FLI11 eq. 2 between some `nodes` (t,), the rows of B: beliefs in [-1, 1], Y_ii = 0.

    Labels give one source per class, and their own nodes to keep Y_ii = 0. The c sources are the
    constrained nodes, except that a node with more than 16 partners costs two: itself and all its
    partners together. Of nodes that stand for C = `weights` copies C^-½YC^-½, Y summed over copies:
    so the solution is C^½FC^½. Cost O(n + number of pairs).
    """
    inside = np.zeros(known.n_nodes)
    inside[nodes] = 1.0
    must, cannot = capped_links(known, inside)
    Y = must + cannot.times(-1.0)
    if weights is not None:
        inside[nodes] = 1.0 / np.sqrt(weights)
        Y = Y.between(inside)
    pairs = stored(Y.matrix[nodes][:, nodes])
    B, C = _stars(pairs)
    if Y.factor is not None:
        factor = sp.csr_matrix(Y.factor[nodes])
        B = sp.csr_matrix(sp.hstack([B, factor]))
        C = sp.csr_matrix(sp.block_diag([C, sp.csr_matrix(Y.core)]))
    C = stored(C)
    used = np.flatnonzero(np.diff(C.indptr))
    columns = sp.csc_matrix(B[:, used])
    columns.sort_indices()
    return Sources(columns, sp.csr_matrix(C[used][:, used]))


def source_pairs(Y: Sources) -> tuple[Edges, NDArray[np.float64]]:
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
    result = stored(sp.csr_matrix(some @ Y.C @ some.T)).tocoo()
    ends, m = (nodes[result.row], nodes[result.col]), B.shape[0]
    pairs = sp.csr_matrix((result.data, ends), shape=(m, m))
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


@dataclass(frozen=True, eq=False)
class SourceFactor:
    """A part of Y as XΛXᵀ: X (m, r) orthonormal, zero outside `nodes`; Λ (r,) of both signs."""

    nodes: NDArray[np.int64]
    vectors: Block
    values: NDArray[np.float64]

    @property
    def norm(self) -> float:
        """Frobenius norm."""
        return float(np.linalg.norm(self.values))


def source_parts(Y: Sources, count: int) -> Iterator[Sources]:
    """Y = Σ Y_p, each with about `count` sources at most; a hub keeps its partners together."""
    for _, D in _cut(Y.C, count):
        both = sp.csr_matrix(D + D.T)
        used = np.flatnonzero(np.diff(both.indptr))
        yield Sources(sp.csc_matrix(Y.B[:, used]), sp.csr_matrix(both[used][:, used]))


def parts(sources: Sources, columns: int) -> Iterator[SourceFactor]:
    """Y = Σ XΛXᵀ, every part of rank at most max(columns, 2); parts of rank 0 are left out.

    Every entry of C belongs to that of its two sources that has more entries, and a part takes
    over a run of sources in the order of reverse Cuthill-McKee, so that pairs with common nodes
    come together. A source that owns any number of entries adds no more than 2 to the rank: a hub
    with thousands of partners is a part of rank 2. Cost O(t·min(k, t)²) for t nodes and k columns.
    """
    for owners, C in _cut(sources.C, columns):
        result = _factor(sources.B, owners, C)
        if result.values.size:
            yield result


def _cut(C: sp.csr_matrix, columns: int) -> Iterator[tuple[NDArray[np.int64], sp.csr_matrix]]:
    """Owners and what they own, both triangles: C = Σ parts."""
    count = C.shape[0]
    place = np.empty(count, dtype=np.int64)
    place[reverse_cuthill_mckee(sp.csr_matrix(C), symmetric_mode=True)] = np.arange(count)
    degree = np.diff(C.indptr)
    upper = sp.triu(C, format="coo")
    row, col = upper.row.astype(np.int64), upper.col.astype(np.int64)
    is_first = (degree[row] > degree[col]) | (
        (degree[row] == degree[col]) & (place[row] <= place[col])
    )
    owner, other = np.where(is_first, row, col), np.where(is_first, col, row)
    order = np.lexsort((place[other], place[owner]))
    owner, other, values = owner[order], other[order], upper.data[order]
    starts = np.flatnonzero(np.append(True, owner[1:] != owner[:-1])[: owner.size])
    ends = np.append(starts[1:], owner.size)[: starts.size]
    begin, owned, touched = 0, 0, set[int]()
    for start, end in zip(starts, ends, strict=True):
        fresh = {int(owner[start]), *other[start:end].tolist()}
        if owned and min(2 * (owned + 1), len(touched | fresh)) > columns:
            yield _owned(owner[begin:start], other[begin:start], values[begin:start], count)
            begin, owned, touched = int(start), 0, set()
        owned += 1
        touched |= fresh
    if owned:
        yield _owned(owner[begin:], other[begin:], values[begin:], count)


def _owned(
    owner: NDArray[np.int64], other: NDArray[np.int64], values: NDArray[np.float64], count: int
) -> tuple[NDArray[np.int64], sp.csr_matrix]:
    half = np.where(owner == other, 0.5, 1.0) * values
    D = sp.csr_matrix((half, (owner, other)), shape=(count, count))
    return np.unique(owner), D


def _factor(B: sp.csc_matrix, owners: NDArray[np.int64], D: sp.csr_matrix) -> SourceFactor:
    """B(D + Dᵀ)Bᵀ from an orthogonal factorisation of the fewest columns that span it.

    With E the owners' unit vectors D = E·(owned rows), so that [BE, B·(owned rows)ᵀ] spans it;
    all sources together do as well.
    """
    both = sp.csr_matrix(D + D.T)
    used = np.flatnonzero(np.diff(both.indptr))
    if 2 * owners.size < used.size:
        k = owners.size
        columns = sp.hstack([B[:, owners], B @ D[owners].T], format="csr")
        core = np.zeros((2 * k, 2 * k))
        core[np.arange(k), k + np.arange(k)] = core[k + np.arange(k), np.arange(k)] = 1.0
    else:
        columns = sp.csr_matrix(B[:, used])
        core = both[used][:, used].toarray()
    nodes = np.flatnonzero(np.diff(columns.indptr))
    Q, R = la.qr(columns[nodes].toarray(), mode="economic")
    values, vectors = dense_algebra.eigh(R @ core @ R.T)
    kept = np.abs(values) > _ZERO * R.shape[0] * np.abs(values).max(initial=0.0)
    return SourceFactor(nodes, Q @ vectors[:, kept], values[kept])
