"""What the edges of nodes say of clusters: shares of weight, weights between clusters, cuts.

And moves of single nodes to the cluster that their edges and pairs say.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.kernels.threads import helper, kernel, loop

Floats = NDArray[np.float64]
_PIECE = 1024  # rows that share a thread's scratch


# --- What a node's edges and its row of the embedding say of every cluster


Ints = NDArray[np.int64]


@helper()
def _shares_of(W: Any, labels: Any, counts: Any, prior: Any, i: Any, out: Any) -> None:
    indptr, indices, data = W
    single_nodes = counts.size == 0  # of which each stands for itself: nothing is looked up
    own = 1.0 if single_nodes else counts[i]
    total, squares = 0.0, 0.0
    out[:] = 0.0
    for q in range(nb.uint64(indptr[i]), nb.uint64(indptr[i + 1])):
        j = nb.uint64(indices[q])
        weight = float(data[q])
        if labels[j] < 0 or weight <= 0.0:
            continue
        often = 1.0 if single_nodes else counts[j]
        # of one copy of the node: to all copies of j, and to the other copies of itself
        others = often if j != i else max(own - 1.0, 0.0)
        single = weight / (own * often)
        out[labels[j]] += single * others
        total += single * others
        squares += single * single * others
    alike = total * total / squares if squares > 0.0 else 0.0
    for c in range(out.size):
        share = out[c] / total if total > 0.0 else 0.0
        out[c] = np.log((alike * share + prior[c]) / (alike + 1.0)) if prior[c] > 0.0 else -np.inf


@loop()
def _evidence(
    lo: int, hi: int, W: Any, about: Any, X: Any, centers: Any, nodes: Any, out: Any
) -> None:
    labels, counts, prior, spread = about
    shares, nearness = out
    k, width = centers.shape
    for piece in range(lo, hi):
        for at in range(piece * _PIECE, min((piece + 1) * _PIECE, nodes.size)):
            i = nodes[at]
            _shares_of(W, labels, counts, prior, i, shares[at])
            for g in range(k):
                gap = 0.0
                for c in range(width):
                    step = float(X[i, c]) - centers[g, c]
                    gap += step * step
                nearness[at, g] = -np.log(gap + spread[g]) if prior[g] > 0.0 else -np.inf


def cluster_evidence(
    W: Any,
    labels: Ints,
    counts: Floats,
    prior: Floats,
    embedding: tuple[NDArray[Any], Floats, Floats],
    nodes: Ints,
) -> tuple[Floats, Floats]:
    """Logarithms of shares of edges, and −log squared distances, (b, K) each, of `nodes` (b,).

    With the share a_ic of the weight of i's edges that goes to cluster c, self-loops and nodes of
    label -1 left out, and m_i = (Σ_j w_ij)²/Σ_j w_ij² edges of equal weight that say as much,
    log (m_i a_ic + π_c)/(m_i + 1): as if one more edge went to all clusters by their sizes `prior`
    π (K,). −log(‖x_i − μ_c‖² + v_c) from the `embedding`, rows X (n, r), centres (K, r), spreads
    (K,). Clusters of size 0 have −∞. `W` (n, n) CSR is folded where nodes stand for `counts` (n,),
    empty where each stands for itself.
    Cost O(edges of the nodes + bKr).
    """
    X, centers, spread = embedding
    shares, nearness = np.empty((nodes.size, prior.size)), np.empty((nodes.size, prior.size))
    work = nodes.size * (centers.size + W.nnz // max(labels.size, 1))
    _evidence(
        -(-nodes.size // _PIECE),
        work,
        (W.indptr, W.indices, W.data),
        (labels, counts, prior, spread),
        X,
        centers,
        nodes,
        (shares, nearness),
    )
    return shares, nearness


# --- Weights between clusters, and how many edges have them, of a block of rows of a graph


@kernel()
def _links(indptr: Any, indices: Any, data: Any, first: Any, clusters: Any, found: Any) -> None:
    for r in range(indptr.size - 1):
        g = clusters[first + r]
        for q in range(indptr[r], indptr[r + 1]):
            h = clusters[indices[q]]
            if g >= 0 and h >= 0:
                found[0, g, h] += data[q]
                found[1, g, h] += 1.0


def cluster_links(rows: Any, clusters: Any, found: Any, first: int = 0) -> None:
    """In place found (2, K, K) += Σ w_ij and Σ 1 over the entries of rows `first` and on.

    `rows` have indptr, indices and data; by clusters (n,) of i and j, -1 for none.
    """
    _links(rows.indptr, rows.indices, rows.data, first, clusters, found)


# --- How much of every node's weight stays inside of its cluster


@loop()
def _row_cuts(
    lo: int, hi: int, indptr: Any, indices: Any, data: Any, place: Any, volume: Any, inside: Any
) -> None:
    for i in range(lo, hi):
        whole, kept, own = 0.0, 0.0, place[i]
        for q in range(indptr[i], indptr[i + 1]):
            whole += data[q]
            if place[indices[q]] == own:
                kept += data[q]
        volume[i], inside[i] = whole, kept


def row_cuts(matrix: sp.csr_matrix, place: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Σ_j w_ij and Σ_j w_ij over j of the same cluster, (n,) each; `place` (n,) are clusters.

    Sums are double whatever the precision of W. Cost: one pass over the matrix.
    """
    volume, inside = np.empty(place.size), np.empty(place.size)
    arrays = matrix.indptr, matrix.indices, matrix.data
    _row_cuts(place.size, matrix.nnz, *arrays, place, volume, inside)
    return volume, inside


# --- Single nodes moved to where their edges and pairs want them


@kernel(makes_arrays=True)
def _moved(W: Any, pairs: Any, labels: Any, order: Any, k: int, sweeps: int) -> None:
    indptr, indices, data = W
    p_indptr, p_indices, p_data = pairs
    votes = np.zeros(k)
    for _ in range(sweeps):
        changed = 0
        for i in order:
            votes[:] = 0.0
            total = 0.0
            for q in range(indptr[i], indptr[i + 1]):
                j = indices[q]
                if j != i and labels[j] >= 0:
                    votes[labels[j]] += data[q]
                    total += data[q]
            if total > 0.0:
                votes /= total
            for q in range(p_indptr[i], p_indptr[i + 1]):
                if labels[p_indices[q]] >= 0:
                    votes[labels[p_indices[q]]] += p_data[q]
            best = np.argmax(votes)
            if votes[best] > votes[labels[i]] + 1e-9:
                labels[i] = best
                changed += 1
        if changed == 0:
            return


def moved_by_links(
    W: sp.csr_matrix, links: sp.csr_matrix, labels: Ints, order: Ints, k: int, sweeps: int
) -> Ints:
    """Labels (n,) after moves that each raise a node's votes, in so many sweeps at most.

    Votes of node i for cluster c: Σ_j w_ij [l_j = c]/Σ_j w_ij + Σ_j q_ij [l_j = c], j ≠ i, of the
    weights W (n, n) and the `links` Q (n, n), q > 0 must-links and q < 0 cannot-links, both CSR.
    Nodes of `order` are visited in turn until none moves; -1 are in no cluster and stay. Cost: a
    pass over W and Q a sweep.
    """
    found = labels.copy()
    arrays = [(M.indptr, M.indices, M.data) for M in (W, links)]
    _moved(arrays[0], arrays[1], found, order, k, sweeps)
    return found
