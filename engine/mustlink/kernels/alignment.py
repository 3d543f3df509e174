"""Products with the alignment matrix of tangent frames, M = Σ_i c_i E_i (I − G_iG_iᵀ) E_iᵀ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.loops import loop

_SUMS = {"reassoc", "contract", "nsz"}


@loop(fastmath=_SUMS)
def _gather(members: Any, frames: Any, X: Any, C: Any) -> None:
    """C_i = G_iᵀX_(members of i)."""
    size, width, columns = members.shape[1], frames.shape[2], nb.uint64(X.shape[1])
    for i in nb.prange(members.shape[0]):
        for a in range(width):
            for c in range(columns):
                C[i, a, c] = 0
        for s in range(size):
            if members[i, s] < 0:
                continue
            j = nb.uint64(members[i, s])
            for a in range(width):  # fused for several a at once it was measured slower
                g = frames[i, s, a]
                for c in range(columns):
                    C[i, a, c] += g * X[j, c]


@loop(fastmath=_SUMS)
def _scatter(
    start: Any, owner: Any, slot: Any, total: Any, frames: Any, C: Any, X: Any, Y: Any
) -> None:
    """Y_j = (memberships of j, `total`) X_j − Σ over them of their row of G times C."""
    width, columns = frames.shape[2], nb.uint64(X.shape[1])
    for j in nb.prange(X.shape[0]):
        count = X.dtype.type(total[j])
        for c in range(columns):
            Y[j, c] = count * X[j, c]
        for q in range(nb.uint64(start[j]), nb.uint64(start[j + 1])):
            i, s = nb.uint64(owner[q]), nb.uint64(slot[q])
            for a in range(width):
                g = frames[i, s, a]
                for c in range(columns):
                    Y[j, c] -= g * C[i, a, c]


@dataclass(frozen=True, eq=False)
class Alignment:
    """M on `size` nodes, never formed: `members` (n, k+1) of n neighbourhoods, -1 where missing.

    G_i is `frames`[i], (k+1, d+1), c_i `weights`[i], None: 1 each. Beside them it keeps, for every
    node, where it is a member: a third of the memory of two sparse matrices, and every row of X is
    fetched once instead of d + 1 times.
    """

    members: NDArray[np.int32]
    frames: NDArray[Any]
    size: int
    weights: NDArray[np.float64] | None = None

    @cached_property
    def _places(self) -> tuple[NDArray[Any], NDArray[np.uint32], NDArray[Any]]:
        """Where every node is a member: row pointers (size+1,), neighbourhoods, rows there."""
        flat = self.members.ravel()
        there = np.flatnonzero(flat >= 0)
        row = sp.csr_matrix((there, flat[there], np.array([0, there.size])), shape=(1, self.size))
        by_node = row.tocsc()  # a counting sort, and stable
        width = self.members.shape[1]
        owner, slot = np.divmod(by_node.data, width)
        return by_node.indptr, owner.astype(np.uint32), slot.astype(np.min_scalar_type(width - 1))

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of neighbourhoods that every node is in, (size,)."""
        return np.diff(self._places[0])

    @cached_property
    def total(self) -> NDArray[np.float64]:
        """Weight of the neighbourhoods that every node is in, (size,)."""
        if self.weights is None:
            return self.counts.astype(np.float64)
        there = self.members >= 0
        each = np.broadcast_to(self.weights[:, None], there.shape)[there]
        found = np.bincount(self.members[there], each, self.size)
        return found.astype(np.float64)

    @cached_property
    def diagonal(self) -> NDArray[np.float64]:
        """diag(M), (size,): how much of a node its neighbourhoods' tangents leave unexplained."""
        there = self.members >= 0
        left = 1.0 - np.einsum("isa,isa->is", self.frames, self.frames, dtype=np.float64)
        if self.weights is not None:
            left = left * self.weights[:, None]
        weights = np.maximum(left[there], 0.0)
        found = np.bincount(self.members[there], weights=weights, minlength=self.size)
        return found.astype(np.float64)

    @cached_property
    def single(self) -> Alignment:
        """The same in single precision; shares everything but the frames."""
        single = self.frames.astype(np.float32)
        found = Alignment(self.members, single, self.size, self.weights)
        found.__dict__["_places"] = self._places
        return found

    def restricted(self, nodes: NDArray[np.int64]) -> Alignment:
        """The rows and columns `nodes` of M, renumbered; shares the frames."""
        number = np.full(self.size + 1, -1, dtype=np.int32)  # the last: of a missing member
        number[nodes] = np.arange(nodes.size, dtype=np.int32)
        return Alignment(number[self.members], self.frames, int(nodes.size), self.weights)

    def apply(self, X: NDArray[Any]) -> NDArray[Any]:
        """MX for a block (size, b) of the frames' type. Cost: 4n(k+1)(d+1)b operations."""
        X = np.ascontiguousarray(X)
        C = np.empty((self.members.shape[0], self.frames.shape[2], X.shape[1]), dtype=X.dtype)
        Y = np.empty_like(X)
        work = self.frames.size * X.shape[1]
        _gather(work, self.members, self.frames, X, C)
        if self.weights is not None:
            C *= self.weights[:, None, None].astype(C.dtype)
        _scatter(work, *self._places, self.total, self.frames, C, X, Y)
        return Y

    def galerkin(self, P: sp.csr_matrix) -> sp.csr_matrix:
        """PᵀMP for a sparse P (size, c), one column of the frames at a time."""
        there = self.members >= 0
        indptr = np.append(0, np.cumsum(there.sum(axis=1)))
        columns = self.members[there]
        found = sp.csr_matrix(P.T @ (sp.diags_array(self.total) @ P))
        root = None if self.weights is None else np.sqrt(self.weights)
        for a in range(self.frames.shape[2]):
            frame = self.frames[:, :, a] if root is None else self.frames[:, :, a] * root[:, None]
            data = frame[there].astype(np.float64)
            G = sp.csr_matrix((data, columns, indptr), shape=(there.shape[0], self.size))
            Z = sp.csr_matrix(G @ P)
            found = found - Z.T.tocsr() @ Z
        return sp.csr_matrix(found)
