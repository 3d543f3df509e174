"""Weighted kernel k-means on a sparse matrix plus low rank: links, totals, one step, one sweep.

A' = W + P with W_ij = S_ij r_i r_j (r = D^½) and P = pairs + factor·core·factorᵀ. Clusters are
described by s_c (sum of node weights), a_c = Σ_{i,j∈c} A'_ij and core·factorᵀH, so that the links
of a node to all clusters cost its degree and a clique of labels is never written out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.threads import helper, kernel, loop

_NOISE = 1e-11  # a gain below this share of the terms it is the difference of is rounding
_ROWS = 2048  # rows that share one buffer of links


class Penalized(NamedTuple):
    """A' on m nodes: S (m, m) by rows, `root` r (m,), node weights (m,), and P.

    P lives on the s constrained nodes: `place` (m,) is a node's row in `pairs` (s, m) and `factor`
    (s, r), -1 without constraints; `core` (r, r); each by rows. The diagonal of P is `own` (s,), of
    pairs of copies inside a node, and beside it zero.
    """

    indptr: Any
    indices: Any
    data: Any
    root: NDArray[np.float64]
    weight: NDArray[np.float64]
    place: NDArray[np.int64]
    pairs_indptr: NDArray[np.int64]
    pairs_indices: NDArray[np.int64]
    pairs_data: NDArray[np.float64]
    factor_indptr: NDArray[np.int64]
    factor_indices: NDArray[np.int64]
    factor_data: NDArray[np.float64]
    core_indptr: NDArray[np.int64]
    core_indices: NDArray[np.int64]
    core_data: NDArray[np.float64]
    own: NDArray[np.float64]


class KernelClusters(NamedTuple):
    """State of a clustering: `labels` (m,), per cluster s, a and size (k,), core·factorᵀH (r, k).

    Changed in place by `sweep`.
    """

    labels: NDArray[np.int64]
    weight: NDArray[np.float64]
    inside: NDArray[np.float64]
    size: NDArray[np.int64]
    mass: NDArray[np.float64]


# Kernels take plain tuples of arrays: named ones would put the names of these classes into numba's
# cache on disk, and parallel loops take no nested ones.


@helper()
def _links(A: Any, labels: Any, mass: Any, i: Any, links: Any) -> float:
    """Fill links[c] = Σ_{j∈c, j≠i} A'_ij; return A'_ii."""
    indptr, indices, data, root, _, place, p_indptr, p_indices, p_data = A[:9]
    f_indptr, f_indices, f_data = A[9:12]
    links[:] = 0.0
    loops, inside = 0.0, 0.0
    for q in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
        j = nb.uint64(indices[q])
        if j == i:
            loops += data[q] * root[j]
        else:
            links[nb.uint64(labels[j])] += data[q] * root[j]
    for c in range(links.size):
        links[c] *= root[i]
    at = place[i]
    if at >= 0:
        inside = A[15][at]
        for q in range(p_indptr[at], p_indptr[at + 1]):
            links[labels[p_indices[q]]] += p_data[q]
        for q in range(f_indptr[at], f_indptr[at + 1]):
            for c in range(links.size):
                links[c] += f_data[q] * mass[f_indices[q], c]
    return loops * root[i] + inside


@loop(makes_arrays=True)
def _own_links(lo: int, hi: int, A: Any, labels: Any, mass: Any, own: Any) -> None:
    m = labels.size
    for block in range(lo, hi):
        links = np.empty(mass.shape[1])
        for i in range(nb.uint64(block * _ROWS), nb.uint64(min(m, (block + 1) * _ROWS))):
            loops = _links(A, labels, mass, i, links)
            own[i] = links[labels[i]] + loops


@loop()
def _all_links(lo: int, hi: int, A: Any, labels: Any, mass: Any, found: Any) -> None:
    for block in range(lo, hi):
        first, last = block * _ROWS, min(labels.size, (block + 1) * _ROWS)
        for i in range(nb.uint64(first), nb.uint64(last)):
            loops = _links(A, labels, mass, i, found[i])
            found[i, labels[i]] += loops


@loop(makes_arrays=True)
def _nearest(lo: int, hi: int, A: Any, state: Any, sigma: Any, best: Any, extra: Any) -> None:
    mine = A[4]
    labels, weight, inside, _, mass = state
    k, m = weight.size, labels.size
    for block in range(lo, hi):
        links = np.empty(k)
        for i in range(nb.uint64(block * _ROWS), nb.uint64(min(m, (block + 1) * _ROWS))):
            own = labels[i]
            loops = _links(A, labels, mass, i, links)
            links[own] += loops
            degree = mine[i]
            stay, least, chosen = 0.0, np.inf, own
            for c in range(k):
                s = weight[c]
                distance = (sigma + inside[c] / s) / s - 2 * (links[c] / degree) / s
                if c == own:
                    distance -= 2 * sigma / s
                    stay = distance
                if distance < least:
                    least, chosen = distance, c
            if stay - least <= _NOISE * (abs(stay) + abs(least)):
                best[i], extra[i] = own, 0.0
            else:
                best[i], extra[i] = chosen, degree * (stay - least)


@helper()
def _change(A: Any, mass: Any, i: Any, cluster: Any, sign: Any) -> None:
    """Add (1) or take (-1) constrained node i to or from a cluster's core·factorᵀH."""
    at = A[5][i]
    f_indptr, f_indices, f_data, c_indptr, c_indices, c_data = A[9:15]
    if at >= 0:
        for q in range(f_indptr[at], f_indptr[at + 1]):
            for p in range(c_indptr[f_indices[q]], c_indptr[f_indices[q] + 1]):
                mass[c_indices[p], cluster] += sign * f_data[q] * c_data[p]


@kernel()
def _class_counts(A: Any, labels: Any, mass: Any) -> None:
    """Fill mass = core·factorᵀH."""
    for i in range(labels.size):
        _change(A, mass, i, labels[i], 1.0)


@helper()
def _move(A: Any, state: Any, i: Any, links: Any, loops: Any, target: Any) -> None:
    """Put node i into another cluster and bring the totals up to date."""
    labels, weight, inside, size, mass = state
    own, degree = labels[i], A[4][i]
    inside[own] -= 2 * links[own] + loops
    inside[target] += 2 * links[target] + loops
    weight[own] -= degree
    weight[target] += degree
    size[own] -= 1
    size[target] += 1
    labels[i] = target
    _change(A, mass, i, own, -1.0)
    _change(A, mass, i, target, 1.0)


@helper()
def _wake(A: Any, i: Any, awake: Any) -> None:
    """Mark the nodes that i has an edge or a pair with; i itself has just been looked at."""
    indptr, indices, _, _, _, place, p_indptr, p_indices = A[:8]
    for q in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
        awake[nb.uint64(indices[q])] = 1
    at = place[i]
    if at >= 0:
        for q in range(p_indptr[at], p_indptr[at + 1]):
            awake[p_indices[q]] = 1
    awake[i] = 0


@kernel(makes_arrays=True)
def _sweep(A: Any, state: Any, awake: Any, every: Any) -> int:
    mine = A[4]
    labels, weight, inside, size, mass = state
    k = weight.size
    links = np.empty(k)
    moves = 0
    for i in range(labels.size):
        own = labels[i]
        if not (every or awake[i]):
            continue
        awake[i] = 0
        if size[own] == 1 or not weight[own] > mine[i]:  # the others weigh nothing beside it
            continue
        loops = _links(A, labels, mass, nb.uint64(i), links)
        degree = mine[i]
        ratio, rest = inside[own] / weight[own], weight[own] - degree
        leave = (ratio * degree - 2 * links[own] - loops) / rest
        noise = (abs(ratio) * degree + 2 * abs(links[own]) + loops) / rest
        best, target, doubt = -np.inf, own, 0.0
        for c in range(k):
            ratio, grown = inside[c] / weight[c], weight[c] + degree
            join = (loops + 2 * links[c] - ratio * degree) / grown
            if c != own and join > best:
                best, target = join, c
                doubt = (abs(ratio) * degree + 2 * abs(links[c]) + loops) / grown
        if leave + best > _NOISE * (noise + doubt):
            _move(A, state, i, links, loops, target)
            _wake(A, i, awake)
            moves += 1
    return moves


@kernel(makes_arrays=True)
def _split_off(A: Any, state: Any, empty: Any) -> None:
    """Give the empty cluster the node that the objective gains most (or loses least) by."""
    mine = A[4]
    labels, weight, inside, size, mass = state
    links, kept = np.empty(weight.size), np.empty(weight.size)
    best, chosen, kept_loops = -np.inf, -1, 0.0
    for i in range(labels.size):
        own = labels[i]
        if size[own] == 1 or not weight[own] > mine[i]:  # the others weigh nothing beside it
            continue
        loops = _links(A, labels, mass, nb.uint64(i), links)
        degree = mine[i]
        ratio = inside[own] / weight[own]
        leave = (ratio * degree - 2 * links[own] - loops) / (weight[own] - degree)
        if leave + loops / degree > best:
            best, chosen, kept_loops = leave + loops / degree, i, loops
            for c in range(links.size):
                kept[c] = links[c]
    _move(A, state, chosen, kept, kept_loops, empty)


def clusters_of(A: Penalized, labels: NDArray[np.int64], k: int) -> KernelClusters:
    """State of a clustering, computed anew; `labels` (m,) is copied. Cost O(nnz).

    Each row is summed by one thread and the rows in order: the same on every machine.
    """
    labels = labels.astype(np.int64)
    mass = np.zeros((A.core_indptr.size - 1, k))
    _class_counts(tuple(A), labels, mass)
    own = np.empty(labels.size)
    _own_links(-(-labels.size // _ROWS), A.data.size, tuple(A), labels, mass, own)
    return KernelClusters(
        labels,
        np.bincount(labels, weights=A.weight, minlength=k).astype(np.float64),
        np.bincount(labels, weights=own, minlength=k).astype(np.float64),
        np.bincount(labels, minlength=k),
        mass,
    )


def cluster_links(A: Penalized, state: KernelClusters) -> NDArray[np.float64]:
    """Σ_{j∈c} A'_ij for all nodes and clusters, (m, k); loops count for the node's own cluster."""
    found = np.empty((state.labels.size, state.weight.size))
    _all_links(-(-len(found) // _ROWS), A.data.size, tuple(A), state.labels, state.mass, found)
    return found


def lloyd_step(A: Penalized, state: KernelClusters, sigma: float) -> NDArray[np.int64]:
    """Nearest cluster (m,) of every node by kernel distance; ties stay.

    K_ii − 2Σ_{j∈c} M_jK_ij/s_c + Σ_{j,l∈c} M_jM_lK_jl/s_c² with K = σM⁻¹ + M⁻¹A'M⁻¹. A cluster that
    all nodes would leave keeps the one for which that costs least: J still descends. O(nnz + mk).
    """
    best, extra = np.empty(state.labels.size, dtype=np.int64), np.empty(state.labels.size)
    pieces = -(-best.size // _ROWS)
    _nearest(pieces, A.data.size, tuple(A), tuple(state), sigma, best, extra)
    k = state.weight.size
    while (empty := np.flatnonzero(np.bincount(best, minlength=k) == 0)).size:
        members = np.flatnonzero(state.labels == empty[0])
        best[members[extra[members].argmin()]] = empty[0]
    return best


def sweep(A: Penalized, state: KernelClusters, awake: NDArray[np.uint8], *, every: bool) -> int:
    """Visit all nodes in order, or those awake, and move each to where the objective falls most.

    Exact gain of every move, in O(degree + k); nodes next to one that moved are woken. A cluster's
    last node stays. Changes `state` and `awake`; returns the number of moves.
    """
    return int(_sweep(tuple(A), tuple(state), awake, every))


def fill_empty(A: Penalized, state: KernelClusters) -> int:
    """Give every empty cluster one node of another, the best by the objective; changes `state`."""
    empty = np.flatnonzero(state.size == 0)
    for c in empty:
        _split_off(tuple(A), tuple(state), c)
    return int(empty.size)


# --- Labels spread from a few nodes over a graph, ring by ring


@kernel(makes_arrays=True)
def _grow(indptr: Any, indices: Any, data: Any, root: Any, labels: Any, k: Any) -> None:
    queued = labels >= 0
    front = np.flatnonzero(queued)
    links = np.empty(k)
    while front.size:
        following = np.empty(labels.size - queued.sum(), dtype=np.int64)
        count = 0
        for i in front:
            for q in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
                j = nb.uint64(indices[q])
                if not queued[j]:
                    queued[j] = True
                    following[count] = j
                    count += 1
        front = following[:count].copy()
        chosen = np.empty(count, dtype=np.int64)
        for at in range(count):
            i = front[at]
            links[:] = 0.0
            for q in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
                j = nb.uint64(indices[q])
                if labels[j] >= 0:
                    links[labels[j]] += data[q] * root[j]
            chosen[at] = links.argmax()
        labels[front] = chosen


def grow(S: Any, root: NDArray[np.float64], labels: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Labels (m,) spread from the nodes that have one to those with -1, ring by ring.

    W_ij = S_ij r_i r_j for S (m, m) CSR and `root` r (m,). A node takes the cluster it has the
    strongest edges to among the rings before its own. Parts of the graph without any label keep
    -1. Cost O(nnz + m k).
    """
    found = labels.astype(np.int64)
    _grow(S.indptr, S.indices, S.data, root, found, k)
    return found
