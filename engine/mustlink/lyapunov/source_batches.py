"""Y cut into parts of low rank, so that one part's basis fits into memory: F is linear in Y."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from mustlink.lyapunov.sources import Sources
from mustlink.numeric import dense_algebra
from mustlink.operators.laplacian import Block

_ZERO = 1e-15  # eigenvalue of Y, as a share of the largest, that is rounding


@dataclass(frozen=True, eq=False)
class Part:
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


def parts(sources: Sources, columns: int) -> Iterator[Part]:
    """Y = Σ XΛXᵀ, every part of rank at most max(columns, 2); parts of rank 0 are left out.

    Every entry of C belongs to that of its two sources that has more entries, and a part takes
    over a run of sources in the order of reverse Cuthill-McKee, so that pairs with common nodes
    come together. A source that owns any number of entries adds no more than 2 to the rank: a hub
    with thousands of partners is a part of rank 2. Cost O(t·min(k, t)²) for t nodes and k columns.
    """
    for owners, C in _cut(sources.C, columns):
        found = _factor(sources.B, owners, C)
        if found.values.size:
            yield found


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


def _factor(B: sp.csc_matrix, owners: NDArray[np.int64], D: sp.csr_matrix) -> Part:
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
    return Part(nodes, Q @ vectors[:, kept], values[kept])
