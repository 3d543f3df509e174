"""Affinities of points: from neighbour lists with distances, and the full Gaussian one."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.core.check import as_points, check_positive
from mustlink.errors import InputError
from mustlink.graph.graph import Graph

WEIGHTS = ("local", "gaussian", "connectivity")
FLOOR = 1e-8  # keeps far neighbours connected where the kernel would underflow to 0
_NEIGHBOUR = 7  # Zelnik-Manor & Perona (2004)
_BLOCK = 1 << 13  # entries looked at in one go: they stay in the cache
_FEW = 1 << 18  # neighbours up to which scipy, half as fast, need not load a compiler


def local_scales(distances: NDArray[np.floating]) -> NDArray[np.float64]:
    """Scale s_i = distance of node i to its 7th neighbour (or its last), (n,), always > 0.

    `distances` (n, k) ascend along each row; missing neighbours are infinite. A node whose first
    7 neighbours are duplicates of it takes its smallest positive distance; a node with duplicates
    only takes the median scale of the others (1 if there are none).
    """
    return settled_scales(raw_scales(distances))


def raw_scales(distances: NDArray[np.floating]) -> NDArray[np.float64]:
    """Scales (m,) of some nodes: < 0 is minus the smallest positive distance, 0 copies only."""
    near = distances[:, :_NEIGHBOUR]
    scales = near[:, -1].astype(np.float64)
    fewer = np.flatnonzero(~np.isfinite(scales))
    scales[fewer] = np.where(np.isfinite(near[fewer]), near[fewer], 0.0).max(axis=1)
    zero = np.flatnonzero(scales <= 0)
    rows = distances[zero]
    positive = np.where(np.isfinite(rows) & (rows > 0), rows, np.inf).min(axis=1, initial=np.inf)
    scales[zero] = np.where(np.isfinite(positive), -positive, 0.0)
    return scales


def settled_scales(scales: NDArray[Any]) -> NDArray[Any]:
    """Scales of all nodes, in place, for raw ones."""
    zero = np.flatnonzero(scales <= 0)
    if zero.size:
        usual = float(np.median(scales[scales > 0])) if zero.size < scales.size else 1.0
        scales[zero] = np.where(scales[zero] < 0, -scales[zero], usual)
    return scales


def mean_distance(distances: NDArray[np.floating]) -> float:
    """Mean of the finite neighbour distances; 1 when all points coincide."""
    finite = np.isfinite(distances)
    known = distances.ravel() if finite.all() else distances[finite]
    mean = float(known.mean(dtype=np.float64)) if known.size else 0.0
    return mean if mean > 0 else 1.0


def edge_weights(
    distances: NDArray[np.floating],
    rows: NDArray[np.integer],
    columns: NDArray[np.integer],
    kind: str,
    scale: NDArray[np.floating] | float,
) -> NDArray[np.float64]:
    """Weights of edges (rows_e, columns_e) of length distances_e, (m,), in [1e-8, 1].

    "local": exp(-d²/(s_i s_j)), `scale` = s (n,). "gaussian": exp(-d²/(2σ²)), `scale` = σ.
    "connectivity": 1.
    """
    if kind == "connectivity":
        return np.ones(distances.shape[0])
    weights = np.asarray(distances, dtype=np.float64) ** 2
    if isinstance(scale, np.ndarray):
        weights /= scale[rows]
        weights /= scale[columns]
    else:
        weights /= 2 * scale * scale
    np.negative(weights, out=weights)
    np.exp(weights, out=weights)
    return np.maximum(weights, FLOOR, out=weights)


def neighbour_affinity(
    indices: NDArray[np.int32],
    distances: NDArray[np.floating],
    kind: str,
    scale: NDArray[np.float64] | float,
) -> sp.csr_matrix:
    """W = (A + Aᵀ)/2 of the directed neighbour graph A, (n, n) float64 CSR, sorted indices.

    `indices` (n, k), -1 where a neighbour is missing. i and j are joined when either lists the
    other. Row blocks keep the temporaries small: peak is A and W, of few points Aᵀ as well.
    """
    n, k = indices.shape
    data = np.empty((n, k))
    weigh(indices, distances, kind, scale, data)
    # The mean, not the maximum: neighbours that list each other count twice as much as one-sided
    # ones (ARI on MNIST is higher by 0.01 to 0.05 in every setting tried).
    if n * k > _FEW:
        return _symmetric(indices, data)
    present = indices >= 0
    if present.all():
        indptr = np.arange(0, n * k + 1, k, dtype=np.int64)
        parts = (data.ravel(), indices.ravel(), indptr)
    else:
        indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
        parts = (data[present], indices[present], indptr)
    # Two transpositions sort the columns in linear time; the first one is needed anyway.
    T = sp.csr_matrix(parts, shape=(n, n)).T.tocsr()
    W = T + T.T.tocsr()
    W.data *= 0.5
    return sp.csr_matrix(W)


def lean_affinity(
    indices: NDArray[np.int32],
    distances: NDArray[np.float32],
    kind: str,
    scale: NDArray[np.float64] | float,
) -> sp.csr_matrix:
    """W of `neighbour_affinity` in single precision, (n, n) float32 CSR, written once.

    `distances` (n, k) are overwritten by the weights. Peak is the lists and W. Equal to the other
    within 1e-7. Cost O(n k²), k² comparisons of numbers that lie together.
    """
    weigh(indices, distances, kind, scale, distances)
    return _symmetric(indices, distances)


def weigh(
    indices: NDArray[np.int32],
    distances: NDArray[np.floating],
    kind: str,
    scale: NDArray[np.floating] | float,
    out: NDArray[np.floating],
    node: int = 0,
) -> None:
    """Weights of neighbours (n, k) of the nodes from `node` on into `out`, or the distances."""
    n, k = indices.shape
    block = max(1, _BLOCK // max(k, 1))

    def some(start: int) -> None:
        part = slice(start, min(start + block, n))
        rows = np.repeat(np.arange(node + part.start, node + part.stop), k)
        flat = indices[part].ravel()
        lengths = np.where(flat >= 0, distances[part].ravel(), np.float32(0.0))
        out[part] = edge_weights(lengths, rows, flat, kind, scale).reshape(-1, k)

    starts = range(0, n, block)
    if n * k <= _FEW:
        for start in starts:
            some(start)
        return
    from mustlink.kernels.threads import in_threads

    in_threads(some, starts)


def _symmetric(indices: NDArray[np.int32], weights: NDArray[np.floating]) -> sp.csr_matrix:
    """(A + Aᵀ)/2 of weights (n, k), in their precision, written once."""
    from mustlink.kernels.symmetric_lists import symmetric_lists

    data, columns, indptr = symmetric_lists(indices, weights)
    n = indices.shape[0]
    W: sp.csr_matrix = sp.csr_matrix((data, columns, indptr.astype(columns.dtype)), shape=(n, n))
    W.has_canonical_format = True
    return W


def with_edges(
    W: sp.csr_matrix, pairs: NDArray[np.int64], values: NDArray[np.floating]
) -> sp.csr_matrix:
    """W with new edges `pairs` (m, 2) of weight `values` (m,), none of which it has.

    Equal to the sum of two matrices, but one array is copied at a time, and those of W are given
    up: the caller's W is not to be used again.
    """
    rows, columns = pairs.T.ravel(), pairs[:, ::-1].T.ravel()
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    data = np.tile(values, 2)[order].astype(W.data.dtype)
    at = np.empty(rows.size, dtype=np.int64)
    for e, (i, j) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        first, stop = int(W.indptr[i]), int(W.indptr[i + 1])
        at[e] = first + int(np.searchsorted(W.indices[first:stop], j))
    added = np.cumsum(np.bincount(rows, minlength=W.shape[0]))
    indptr = W.indptr.copy()
    indptr[1:] += added.astype(indptr.dtype)
    shape, old = W.shape, W.data
    W.data = np.empty(0, dtype=old.dtype)
    new = _inserted(old, at, data)
    del old
    indices = _inserted(W.indices, at, columns.astype(W.indices.dtype))
    found = sp.csr_matrix((new, indices, indptr), shape=shape)
    found.has_canonical_format = True
    return found


def _inserted(values: NDArray[Any], at: NDArray[np.int64], more: NDArray[Any]) -> NDArray[Any]:
    """As `np.insert` of a few values before ascending places: pieces between them are copied."""
    pieces = np.split(values, at)
    both = [pieces[0]]
    for e, piece in enumerate(pieces[1:]):
        both += [more[e : e + 1], piece]
    return np.concatenate(both)


# --- The full Gaussian affinity of small point sets, that of the papers' experiments


LARGEST = 20_000  # nodes; 4·10⁸ entries


def rbf_graph(points: Any, sigma: float | None = None) -> Graph:
    """Complete graph W_ij = exp(-|x_i - x_j|²/(2σ²)), W_ii = 0, entries at least 1e-8.

    Without `sigma`, σ² is the mean variance of the features, so that standardised features give
    σ = 1 (WHC11 §5, FLI11 §5). For at most 20,000 points: 12 n² bytes. Raises InputError.
    """
    X = as_points(points).astype(np.float64)
    n, exponent = X.shape[0], -int(np.frexp(np.abs(X).max())[1])
    X = np.ldexp(X, exponent)  # squares of values of any size fit
    if not 2 <= n <= LARGEST:
        advice = "use affinity='knn'" if n > LARGEST else "give at least 2"
        raise InputError(f"points: {n} given, affinity='rbf' takes 2 to {LARGEST}; {advice}")
    if sigma is None:
        spread = float(np.sqrt(X.var(axis=0).mean()))
        sigma = spread if spread > 0 else float(np.ldexp(1.0, exponent))
    else:
        sigma = float(np.ldexp(check_positive(sigma, "sigma"), exponent))
    X -= X.mean(axis=0)
    norms = np.einsum("ij,ij->i", X, X)
    data = np.empty((n, n - 1))
    indices = np.empty((n, n - 1), dtype=np.int32)
    nodes = np.arange(n, dtype=np.int32)
    block = max(1, (1 << 22) // n)
    for start in range(0, n, block):
        rows = np.arange(start, min(start + block, n))
        squared = np.maximum(norms[rows, None] + norms - 2 * (X[rows] @ X.T), 0.0)
        weights = np.maximum(np.exp(squared / (-2 * sigma * sigma)), FLOOR)
        off = nodes[None, :] != rows[:, None]
        data[rows] = weights[off].reshape(rows.size, n - 1)
        indices[rows] = np.broadcast_to(nodes, off.shape)[off].reshape(rows.size, n - 1)
    indptr = np.arange(0, n * (n - 1) + 1, n - 1, dtype=np.int64)
    _mirror(data)
    W = sp.csr_matrix((data.ravel(), indices.ravel(), indptr), shape=(n, n))
    return Graph(W, {"kind": "rbf", "sigma": float(np.ldexp(sigma, -exponent))})


def _mirror(data: np.ndarray) -> None:
    """Make the off-diagonal array (n, n-1) exactly symmetric: block products round differently."""
    n = data.shape[0]
    for i in range(1, n):
        data[i, :i] = data[np.arange(i), i - 1]
