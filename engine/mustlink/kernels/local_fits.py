"""Local fits: every point against its neighbours, by weights (LLE, LNP) or a tangent space (LTSA).

All neighbours are compared as differences from the point itself, in double precision whatever the
points are stored in, a few hundred coordinates at once: scratch is a few kilobytes a thread, and
points far from the origin lose no digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.threads import helper, loop

_NODES = 256  # nodes that share one scratch
_WIDE = 256  # coordinates compared at once: 16 neighbours of them stay in the first cache
_RANK = 1e-10  # share of the squared spread below which a direction is taken for rounding
_SUMS = {"reassoc", "contract", "nsz"}  # sums may be reordered; infinities keep their meaning


@loop(makes_arrays=True, fastmath=_SUMS)
def _nearest(lo: int, hi: int, points: Any, indptr: Any, indices: Any, out: Any) -> None:
    n, k = out.shape
    d = nb.uint64(points.shape[1])
    for block in range(lo, hi):
        best = np.empty(k)
        for i in range(block * _NODES, min(n, (block + 1) * _NODES)):
            row = nb.uint64(i)
            count = 0
            for q in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
                j = nb.uint64(indices[q])
                if j == row:
                    continue
                distance = 0.0
                for c in range(d):
                    gap = np.float64(points[row, c]) - np.float64(points[j, c])
                    distance += gap * gap
                at = count
                while at > 0 and (
                    distance < best[at - 1]
                    or (distance == best[at - 1] and indices[q] < out[i, at - 1])
                ):
                    at -= 1
                if at == k:
                    continue
                count = min(count + 1, k)
                for c in range(count - 1, at, -1):
                    best[c] = best[c - 1]
                    out[i, c] = out[i, c - 1]
                best[at] = distance
                out[i, at] = indices[q]
            for c in range(count, k):
                out[i, c] = -1


def nearest_listed(points: NDArray[Any], indptr: Any, indices: Any, k: int) -> NDArray[np.int32]:
    """Return the k nearest of every node's listed others, (n, k), nearest first.

    `points` (n, d), lists in CSR form. Euclidean distances, ties to the smaller index; -1 where
    a list is shorter. A symmetrised kNN graph lists all of a node's own k nearest, so its
    directed lists come back without a second search. Cost O(nnz d).
    """
    out = np.empty((points.shape[0], k), dtype=np.int32)
    work = indices.size * points.shape[1]
    _nearest(-(-len(out) // _NODES), work, points, indptr, indices, out)
    return out


@helper(fastmath=_SUMS)
def _gram(points: Any, i: Any, near: Any, m: Any, gaps: Any, G: Any) -> None:
    """G_ab = (x_a − x_i)ᵀ(x_b − x_i) for the first m of `near`, both triangles."""
    d = points.shape[1]
    row = nb.uint64(i)
    for a in range(m):
        for b in range(a + 1):
            G[a, b] = 0.0
    for start in range(0, d, _WIDE):
        width = nb.uint64(min(_WIDE, d - start))
        first = nb.uint64(start)
        for a in range(m):
            j = nb.uint64(near[a])
            for c in range(width):
                gaps[a, c] = np.float64(points[j, first + c]) - np.float64(points[row, first + c])
        for a in range(m):
            for b in range(a + 1):
                total = 0.0
                for c in range(width):
                    total += gaps[a, c] * gaps[b, c]
                G[a, b] += total
    for a in range(m):
        for b in range(a):
            G[b, a] = G[a, b]


@helper()
def _listed(neighbors: Any, i: Any, near: Any, place: Any) -> int:
    """Neighbours of i that are not missing and their places in the row; returns how many."""
    m = 0
    for c in range(neighbors.shape[1]):
        if neighbors[i, c] >= 0:
            near[m] = neighbors[i, c]
            place[m] = c
            m += 1
    return m


@loop(makes_arrays=True)
def _weights(
    lo: int, hi: int, points: Any, neighbors: Any, reg: Any, convex: Any, out: Any
) -> None:
    n, k = neighbors.shape
    for block in range(lo, hi):
        gaps = np.empty((k, min(_WIDE, points.shape[1])))
        G, factor = np.empty((k, k)), np.empty((k, k))
        near, place = np.empty(k, dtype=np.int64), np.empty(k, dtype=np.int64)
        chosen, every = np.empty(k, dtype=np.int64), np.arange(k)
        w, trial, slope = np.empty(k), np.empty(k), np.empty(k)
        for i in range(block * _NODES, min(n, (block + 1) * _NODES)):
            m = _listed(neighbors, i, near, place)
            _gram(points, i, near, m, gaps, G)
            spread = 0.0
            for a in range(m):
                spread += G[a, a]
            for a in range(m):
                G[a, a] += reg * spread
                w[a] = 1.0
            if spread > 0.0 and convex:
                simplex_minimum(G, m, w, chosen, factor, trial, slope)
            elif spread > 0.0:
                cholesky_solve(G, every, m, factor, w)
            total = 0.0
            for a in range(m):
                total += w[a]
            for c in range(k):
                out[i, c] = 0.0
            for a in range(m):
                out[i, place[a]] = w[a] / total


def reconstruction_weights(
    points: NDArray[Any], neighbors: NDArray[np.integer[Any]], reg: float = 1e-3
) -> NDArray[np.float64]:
    """Return w_i (n, k) minimising ‖x_i − Σ_j w_ij x_j‖² + reg·t‖w_i‖², Σ_j w_ij = 1; any sign.

    t is the sum of squared distances from x_i to its neighbours (n, k), -1 where missing (w = 0).
    A point whose neighbours are all copies of it gets equal weights. As
    `sklearn.manifold._locally_linear.barycenter_weights`. Cost O(n k² (d + k)).
    Source: Roweis & Saul 2000; AB09 §5.1.
    """
    return _fit(points, neighbors, reg, False)


def convex_weights(
    points: NDArray[Any], neighbors: NDArray[np.integer[Any]], reg: float = 1e-3
) -> NDArray[np.float64]:
    """As `reconstruction_weights` with w_ij >= 0: a probability distribution over neighbours.

    Exact, by an active set. Source: Wang & Zhang 2006; AB09 §3.5.3.
    """
    return _fit(points, neighbors, reg, True)


def _fit(points: Any, neighbors: Any, reg: float, convex: bool) -> NDArray[np.float64]:
    n, k = neighbors.shape
    out = np.empty((n, k))
    work = n * k * k * points.shape[1]
    _weights(-(-n // _NODES), work, points, neighbors, float(reg), convex, out)
    return out


@helper(makes_arrays=True)
def _centred(G: Any, size: Any) -> Any:
    """Gram matrix of the point itself, at the origin, and its neighbours, centred; its trace."""
    B = np.zeros((size, size))
    mean = np.zeros(size)
    for a in range(1, size):
        for b in range(1, size):
            B[a, b] = G[a - 1, b - 1]
            mean[a] += B[a, b] / size
    overall, spread = mean.mean(), 0.0
    for a in range(size):
        for b in range(size):
            B[a, b] += overall - mean[a] - mean[b]
        spread += B[a, a]
    return spread, B


@loop(makes_arrays=True)
def _frames(lo: int, hi: int, points: Any, neighbors: Any, out: Any) -> None:
    n, k = neighbors.shape
    d = out.shape[2] - 1
    for block in range(lo, hi):
        gaps, G = np.empty((k, min(_WIDE, points.shape[1]))), np.empty((k, k))
        near, place = np.empty(k, dtype=np.int64), np.empty(k + 1, dtype=np.int64)
        place[0] = 0
        for i in range(block * _NODES, min(n, (block + 1) * _NODES)):
            m = _listed(neighbors, i, near, place[1:])
            place[1 : m + 1] += 1
            _gram(points, i, near, m, gaps, G)
            size = m + 1
            spread, B = _centred(G, size)
            values, vectors = np.linalg.eigh(B)
            for a in range(k + 1):
                for c in range(d + 1):
                    out[i, a, c] = 0.0
            for a in range(size):
                out[i, place[a], 0] = 1.0 / np.sqrt(size)
            for c in range(min(d, m)):
                if values[size - 1 - c] <= _RANK * spread:
                    break
                g = vectors[:, size - 1 - c]
                g -= g.mean()  # small eigenvalues: orthogonal to 1 up to 1e-16/λ only
                g /= np.sqrt((g * g).sum())
                for a in range(size):
                    out[i, place[a], c + 1] = g[a]


def tangent_frames(
    points: NDArray[Any], neighbors: NDArray[np.integer[Any]], d: int
) -> NDArray[np.float64]:
    """Return orthonormal G_i = [1/√(k+1), g_1 … g_d] of every neighbourhood: (n, k+1, d+1).

    The neighbourhood is the point itself (row 0) and its neighbours (n, k), -1 where missing
    (zero rows, k fewer); g are the d leading left singular vectors of its centred coordinates,
    from their Gram matrix. Where it spans fewer than d directions, as duplicates do, the rest of
    the columns are zero. Cost O(n k² (D + k)) for points (n, D).
    Source: Zhang & Zha 2004; AB09 §5.1.
    """
    n, k = neighbors.shape
    out = np.empty((n, k + 1, d + 1))
    _frames(-(-n // _NODES), n * k * k * points.shape[1], points, neighbors, out)
    return out


# --- Least squares on the simplex for small matrices: weights of linear neighbourhoods


_ROUNDING = 64 * np.finfo(np.float64).eps


@helper()
def cholesky_solve(C: Any, chosen: Any, m: Any, factor: Any, out: Any) -> bool:
    """Solve C[S, S] v = 1 for the first m indices S of `chosen`: v in `out`, False if C[S, S] <= 0.

    `factor` is scratch of at least (m, m).
    """
    for a in range(m):
        for b in range(a + 1):
            total = C[chosen[a], chosen[b]]
            for c in range(b):
                total -= factor[a, c] * factor[b, c]
            if a > b:
                factor[a, b] = total / factor[b, b]
            elif total <= 0.0:
                return False
            else:
                factor[a, a] = np.sqrt(total)
    for a in range(m):
        total = 1.0
        for c in range(a):
            total -= factor[a, c] * out[c]
        out[a] = total / factor[a, a]
    for a in range(m - 1, -1, -1):
        total = out[a]
        for c in range(a + 1, m):
            total -= factor[c, a] * out[c]
        out[a] = total / factor[a, a]
    return True


@helper()
def simplex_minimum(
    C: Any, m: Any, w: Any, chosen: Any, factor: Any, trial: Any, slope: Any
) -> None:
    """Minimise wᵀCw over w >= 0, Σw = 1, for the leading m x m block of C, positive definite.

    Wolfe's active set: the index of steepest descent joins the chosen ones, the minimum over
    their affine hull is taken, and where that leaves the simplex the first weight to vanish goes
    out. The value falls at every step, so no set returns and the end is the exact minimum:
    (Cw)_j >= wᵀCw up to rounding, with equality where w_j > 0. `w` (m,) is the answer; `chosen`,
    `trial`, `slope` (m,) and `factor` (m, m) are scratch. Some m steps of at most m³/6 operations.
    Source: Wolfe 1976, Finding the nearest point in a polytope.
    """
    first, largest = 0, 0.0
    for a in range(m):
        w[a] = 0.0
        largest = max(largest, C[a, a])
        if C[a, a] < C[first, first]:
            first = a
    w[first] = 1.0
    chosen[0] = first
    count = 1
    for a in range(m):
        slope[a] = C[a, first]
    best = C[first, first]
    while True:
        entering = 0
        for a in range(m):
            if slope[a] < slope[entering]:
                entering = a
        if slope[entering] >= best - _ROUNDING * largest:
            return
        chosen[count] = entering
        count = _descend(C, count + 1, w, chosen, factor, trial)
        value = 0.0
        for a in range(m):
            total = 0.0
            for b in range(count):
                total += C[a, chosen[b]] * w[chosen[b]]
            slope[a] = total
            value += w[a] * total
        if value >= best:  # nothing left but rounding
            return
        best = value


@helper()
def _descend(C: Any, count: Any, w: Any, chosen: Any, factor: Any, trial: Any) -> int:
    """Move w to the minimum over the affine hull of the chosen, dropping those that vanish."""
    while cholesky_solve(C, chosen, count, factor, trial):
        total = 0.0
        for a in range(count):
            total += trial[a]
        step, leaving = 1.0, -1
        for a in range(count):
            trial[a] /= total
            if trial[a] <= 0.0:
                at = w[chosen[a]]
                limit = at / (at - trial[a]) if at > 0.0 else 0.0
                if limit < step:
                    step, leaving = limit, a
        for a in range(count):
            at = w[chosen[a]]
            w[chosen[a]] = trial[a] if leaving < 0 else max(0.0, at + step * (trial[a] - at))
        if leaving < 0:
            return count
        w[chosen[leaving]] = 0.0
        count -= 1
        for a in range(leaving, count):
            chosen[a] = chosen[a + 1]
    return count


# --- Products with the alignment matrix of tangent frames, M = Σ_i c_i E_i (I − G_iG_iᵀ) E_iᵀ


@loop(fastmath=_SUMS)
def _gather(lo: int, hi: int, members: Any, frames: Any, X: Any, C: Any) -> None:
    """C_i = G_iᵀX_(members of i)."""
    size, width, columns = members.shape[1], frames.shape[2], nb.uint64(X.shape[1])
    for i in range(lo, hi):
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
    lo: int, hi: int, start: Any, owner: Any, slot: Any, total: Any, frames: Any, C: Any, X: Any,
    Y: Any,
) -> None:  # fmt: skip
    """Y_j = (memberships of j, `total`) X_j − Σ over them of their row of G times C."""
    width, columns = frames.shape[2], nb.uint64(X.shape[1])
    for j in range(lo, hi):
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
        _gather(len(self.members), work, self.members, self.frames, X, C)
        if self.weights is not None:
            C *= self.weights[:, None, None].astype(C.dtype)
        _scatter(len(X), work, *self._places, self.total, self.frames, C, X, Y)
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
