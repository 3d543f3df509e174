"""Weighted kernel k-means on a sparse matrix plus low rank: links, totals, one step, one sweep.

A' = W + P has rows W_ij = S_ij r_i r_j (r = D^½) and P = pairs + factor·core·factorᵀ. Clusters are
described by s_c (weights), a_c = Σ_{i,j∈c} A'_ij and core·factorᵀH, so that the links of a node to
all clusters cost its degree and a clique of labels is never written out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from mustlink.kernels.loops import loop

_NOISE = 1e-11  # a gain below this share of the terms it is the difference of is rounding
_ROWS = 2048  # rows that share one buffer of links


class Rows(NamedTuple):
    """A sparse matrix by rows."""

    indptr: Any
    indices: Any
    data: Any


class Penalized(NamedTuple):
    """A' on m nodes: `edges` S (m, m), `root` (m,), and P on the constrained nodes.

    `place` (m,) is a node's row in `pairs` (s, m) and `factor` (s, r), -1 without constraints;
    `core` (r, r). The diagonal of pairs + factor·core·factorᵀ is zero.
    """

    edges: Rows
    root: NDArray[np.float64]
    place: NDArray[np.int64]
    pairs: Rows
    factor: Rows
    core: Rows


class Clusters(NamedTuple):
    """State of a clustering: `labels` (m,), per cluster s, a and size (k,), core·factorᵀH (r, k).

    Changed in place by `sweep`.
    """

    labels: NDArray[np.int64]
    weight: NDArray[np.float64]
    inside: NDArray[np.float64]
    size: NDArray[np.int64]
    mass: NDArray[np.float64]


@nb.njit(cache=True, nogil=True, inline="never")
def _links(A: Any, labels: Any, mass: Any, i: Any, links: Any) -> float:
    """Fill links[c] = Σ_{j∈c, j≠i} A'_ij; return A'_ii."""
    links[:] = 0.0
    loops = 0.0
    root = A.root
    edges = A.edges
    for q in range(nb.uint64(edges.indptr[i]), nb.uint64(edges.indptr[i + 1])):
        j = nb.uint64(edges.indices[q])
        if j == i:
            loops += edges.data[q] * root[j]
        else:
            links[nb.uint64(labels[j])] += edges.data[q] * root[j]
    for c in range(links.size):
        links[c] *= root[i]
    at = A.place[i]
    if at >= 0:
        for q in range(A.pairs.indptr[at], A.pairs.indptr[at + 1]):
            links[labels[A.pairs.indices[q]]] += A.pairs.data[q]
        for q in range(A.factor.indptr[at], A.factor.indptr[at + 1]):
            column, f = A.factor.indices[q], A.factor.data[q]
            for c in range(links.size):
                links[c] += f * mass[column, c]
    return loops * root[i]


@loop()
def _own_links(A: Any, labels: Any, mass: Any, own: Any) -> None:
    m = labels.size
    for block in nb.prange((m + _ROWS - 1) // _ROWS):
        links = np.empty(mass.shape[1])
        for i in range(nb.uint64(block * _ROWS), nb.uint64(min(m, (block + 1) * _ROWS))):
            loops = _links(A, labels, mass, i, links)
            own[i] = links[labels[i]] + loops


@loop()
def _all_links(A: Any, labels: Any, mass: Any, found: Any) -> None:
    for block in nb.prange((labels.size + _ROWS - 1) // _ROWS):
        first, last = block * _ROWS, min(labels.size, (block + 1) * _ROWS)
        for i in range(nb.uint64(first), nb.uint64(last)):
            loops = _links(A, labels, mass, i, found[i])
            found[i, labels[i]] += loops


@loop()
def _nearest(A: Any, state: Any, sigma: Any, best: Any, extra: Any) -> None:
    k, m = state.weight.size, state.labels.size
    for block in nb.prange((m + _ROWS - 1) // _ROWS):
        links = np.empty(k)
        for i in range(nb.uint64(block * _ROWS), nb.uint64(min(m, (block + 1) * _ROWS))):
            own = state.labels[i]
            loops = _links(A, state.labels, state.mass, i, links)
            links[own] += loops
            degree = A.root[i] * A.root[i]
            stay, least, chosen = 0.0, np.inf, own
            for c in range(k):
                s = state.weight[c]
                distance = (sigma + state.inside[c] / s) / s - 2 * links[c] / (degree * s)
                if c == own:
                    distance -= 2 * sigma / s
                    stay = distance
                if distance < least:
                    least, chosen = distance, c
            gap = degree * (stay - least)
            if gap <= _NOISE * degree * (abs(stay) + abs(least)):
                best[i], extra[i] = own, 0.0
            else:
                best[i], extra[i] = chosen, gap


@nb.njit(cache=True, nogil=True)
def _move(A: Any, state: Any, i: Any, links: Any, loops: Any, target: Any) -> None:
    """Put node i into another cluster and bring the totals up to date."""
    own, degree = state.labels[i], A.root[i] * A.root[i]
    state.inside[own] -= 2 * links[own] + loops
    state.inside[target] += 2 * links[target] + loops
    state.weight[own] -= degree
    state.weight[target] += degree
    state.size[own] -= 1
    state.size[target] += 1
    state.labels[i] = target
    at = A.place[i]
    if at >= 0:
        for q in range(A.factor.indptr[at], A.factor.indptr[at + 1]):
            column, f = A.factor.indices[q], A.factor.data[q]
            for p in range(A.core.indptr[column], A.core.indptr[column + 1]):
                state.mass[A.core.indices[p], own] -= f * A.core.data[p]
                state.mass[A.core.indices[p], target] += f * A.core.data[p]


@nb.njit(cache=True, nogil=True)
def _sweep(A: Any, state: Any, awake: Any, every: Any) -> int:
    m, k = state.labels.size, state.weight.size
    links = np.empty(k)
    moves = 0
    for i in range(m):
        own = state.labels[i]
        if not (every or awake[i]) or state.size[own] == 1:
            continue
        awake[i] = 0
        loops = _links(A, state.labels, state.mass, nb.uint64(i), links)
        degree = A.root[i] * A.root[i]
        ratio = state.inside[own] / state.weight[own]
        rest = state.weight[own] - degree
        leave = (ratio * degree - 2 * links[own] - loops) / rest
        noise = (abs(ratio) * degree + 2 * abs(links[own]) + loops) / rest
        best, target, doubt = -np.inf, own, 0.0
        for c in range(k):
            if c == own:
                continue
            ratio, grown = state.inside[c] / state.weight[c], state.weight[c] + degree
            join = (loops + 2 * links[c] - ratio * degree) / grown
            if join > best:
                best, target = join, c
                doubt = (abs(ratio) * degree + 2 * abs(links[c]) + loops) / grown
        if leave + best <= _NOISE * (noise + doubt):
            continue
        _move(A, state, i, links, loops, target)
        moves += 1
        for q in range(nb.uint64(A.edges.indptr[i]), nb.uint64(A.edges.indptr[i + 1])):
            awake[nb.uint64(A.edges.indices[q])] = 1
        at = A.place[i]
        if at >= 0:
            for q in range(A.pairs.indptr[at], A.pairs.indptr[at + 1]):
                awake[A.pairs.indices[q]] = 1
    return moves


@nb.njit(cache=True, nogil=True)
def _split_off(A: Any, state: Any, empty: Any) -> None:
    """Give the empty cluster the node that the objective gains most (or loses least) by."""
    links, kept = np.empty(state.weight.size), np.empty(state.weight.size)
    best, chosen, kept_loops = -np.inf, -1, 0.0
    for i in range(state.labels.size):
        own = state.labels[i]
        if state.size[own] == 1:
            continue
        loops = _links(A, state.labels, state.mass, nb.uint64(i), links)
        degree = A.root[i] * A.root[i]
        ratio = state.inside[own] / state.weight[own]
        leave = (ratio * degree - 2 * links[own] - loops) / (state.weight[own] - degree)
        if leave + loops / degree > best:
            best, chosen, kept_loops = leave + loops / degree, i, loops
            kept[:] = links
    _move(A, state, chosen, kept, kept_loops, empty)


def clusters_of(A: Penalized, labels: NDArray[np.int64], k: int) -> Clusters:
    """State of a clustering, computed anew; `labels` (m,) is copied. Cost O(nnz).

    Each row is summed by one thread and the rows in order: the same on every machine.
    """
    labels = labels.astype(np.int64)
    mass = np.zeros((A.core.indptr.size - 1, k))
    _class_counts(A, labels, mass)
    own = np.empty(labels.size)
    _own_links(A.edges.data.size, A, labels, mass, own)
    return Clusters(
        labels,
        np.bincount(labels, weights=A.root**2, minlength=k),
        np.bincount(labels, weights=own, minlength=k),
        np.bincount(labels, minlength=k),
        mass,
    )


@nb.njit(cache=True, nogil=True)
def _class_counts(A: Any, labels: Any, mass: Any) -> None:
    """mass = core·factorᵀH."""
    for i in range(labels.size):
        at = A.place[i]
        if at < 0:
            continue
        for q in range(A.factor.indptr[at], A.factor.indptr[at + 1]):
            column, f = A.factor.indices[q], A.factor.data[q]
            for p in range(A.core.indptr[column], A.core.indptr[column + 1]):
                mass[A.core.indices[p], labels[i]] += f * A.core.data[p]


def cluster_links(A: Penalized, state: Clusters) -> NDArray[np.float64]:
    """Σ_{j∈c} A'_ij for all nodes and clusters, (m, k); loops count for the node's own cluster."""
    found = np.empty((state.labels.size, state.weight.size))
    _all_links(A.edges.data.size, A, state.labels, state.mass, found)
    return found


def lloyd_step(A: Penalized, state: Clusters, sigma: float) -> NDArray[np.int64]:
    """Nearest cluster (m,) of every node for K = σD⁻¹ + D⁻¹A'D⁻¹; ties stay.

    K_ii − 2Σ_{j∈c} d_jK_ij/s_c + Σ_{j,l∈c} d_jd_lK_jl/s_c². A cluster that all nodes would leave
    keeps the one for which that costs least, which leaves descent intact. Cost O(nnz + mk).
    """
    best, extra = np.empty(state.labels.size, dtype=np.int64), np.empty(state.labels.size)
    _nearest(A.edges.data.size, A, state, sigma, best, extra)
    for c in np.flatnonzero(np.bincount(best, minlength=state.weight.size) == 0):
        members = np.flatnonzero(state.labels == c)
        best[members[extra[members].argmin()]] = c
    return best


def sweep(A: Penalized, state: Clusters, awake: NDArray[np.uint8], *, every: bool) -> int:
    """Visit all nodes in order, or those awake, and move each to where the objective falls most.

    Exact gain of every move, in O(degree + k); nodes next to one that moved are woken. A cluster's
    last node stays. Changes `state` and `awake`; returns the number of moves.
    """
    return int(_sweep(A, state, awake, every))


def fill_empty(A: Penalized, state: Clusters) -> int:
    """Give every empty cluster one node of another, the best by the objective; changes `state`."""
    empty = np.flatnonzero(state.size == 0)
    for c in empty:
        _split_off(A, state, c)
    return int(empty.size)
