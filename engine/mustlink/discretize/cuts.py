"""Edges that a clustering cuts: conductance, multiple normalised cut, and WHC11's criterion E."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.discretize.satisfaction import as_clusters, satisfaction
from mustlink.errors import InputError
from mustlink.kernels.block_moves import row_cuts

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_CRUMB = 0.05  # of an even share of the nodes; power-law block models have none or few so small
_FEW = 4, 0.25  # nodes, but at most this part of an even share: fewer are crumbs as well


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """All that clusters are judged by: sums over nodes, which every home of a graph can make.

    `weights` (K, K) from cluster to cluster, `edges` (K, K) how many entries have them, see
    `Graph.cluster_weights`; `sizes` (K,), nodes counted as often as they stand for rows.
    """

    weights: Floats
    edges: Floats
    sizes: Floats

    @property
    def nats(self) -> float:
        """What clusters tell about an edge, in nats: mean of edges by weight, and counted alike.

        By weight alone a few heavy edges decide where weights are of many powers of ten; counted
        alike a graph of all pairs would tell nothing.
        """
        return 0.5 * (information(self.weights) + information(self.edges))

    @property
    def mncut(self) -> float:
        """MNCut = Σ_k Cut(C_k, rest) / Vol(C_k)."""
        return mncut_of(self.weights)

    def cut(self, tau: float = 0.0) -> float:
        """MNCut where τ times the mean degree is added to every degree, as edges to outside.

        Σ_k z_kᵀL̄_τz_k over unit vectors z_k ∝ T^½1_k, T = D + τd̄I; with τ = 0 it is MNCut.
        """
        added = tau * self.weights.sum() / self.sizes.sum() * self.sizes
        volume = self.weights.sum(axis=1) + added
        out = np.maximum(volume - self.weights.diagonal(), 0.0)
        return float((out[volume > 0] / volume[volume > 0]).sum())

    @property
    def largest(self) -> float:
        """Share of the nodes in the largest cluster."""
        return float(self.sizes.max() / self.sizes.sum())

    @property
    def crumbs(self) -> int:
        """Clusters that are next to nothing by nodes or by weight, and no components."""
        volume = self.weights.sum(axis=1)
        hang = volume - self.weights.diagonal() > 0
        tiny = volume < _CRUMB * volume.mean()
        return int(np.count_nonzero(hang & (tiny | few_nodes(self.sizes, self.sizes.size))))


def few_nodes(sizes: NDArray[Any], k: int) -> NDArray[np.bool_]:
    """Which of k clusters have next to no nodes of those that are not empty."""
    even = sizes.sum() / k
    return (sizes > 0) & (sizes < max(_CRUMB * even, min(_FEW[0], _FEW[1] * even)))


def mncut_of(links: Floats, rest: int = 0) -> float:
    """MNCut from weights between clusters; the last `rest` are nodes in none, to which is cut."""
    k = len(links) - rest
    volume = links.sum(axis=1)[:k]
    cut = np.maximum(volume - links.diagonal()[:k], 0.0)
    return float((cut[volume > 0] / volume[volume > 0]).sum())


def least_cut(values: Floats, residuals: Floats, rounding: float) -> float:
    """A number that no cut into K clusters is below, from the K smallest eigenvalues found.

    MNCut = Σ_k z_kᵀL̄z_k with orthonormal z_k, so that no cut is below the sum of the K smallest
    eigenvalues λ (Fan 1949). Of Ritz pairs (θ_i, v_i), orthonormal, with residuals r_i:

        Σλ_i >= Σ(θ_i − ‖r_i‖),

    if no eigenvalue was missed: if L̄ among the vectors orthogonal to all v_i has none below the
    last θ. For then L̄ is diag(Θ, M) with M >= θ_K, but for the blocks R and Rᵀ, whose K smallest
    eigenvalues sum to at least −Σ‖r_i‖. LAPACK finds all; iterations start at random, with more
    columns than are wanted and with exact null vectors, so that what is smoother than the last
    vector found would have to be orthogonal to the start. `values` (K,) and `residuals` (<= K,),
    none of null vectors; `rounding` is the relative error of the products that made them.
    """
    return max(0.0, float(values.sum() - residuals.sum()) - 32 * rounding * values.size)


def conductances(affinity: Any, labels: Any) -> tuple[Ints, Floats, Floats]:
    """Clusters (K,), their conductance (K,) in [0, 1] and their share (K,) of the volume.

    φ(C) = Cut(C, rest) / min(Vol(C), Vol(rest)): the share of its edges' weight that a cluster, or
    what is outside of it if that is smaller, has across the border; 0 is a component of its own.
    Cost O(nnz); raises InputError for another n.
    """
    return _conductances(*cluster_cuts(affinity, labels))


def _conductances(clusters: Ints, cut: Floats, volume: Floats) -> tuple[Ints, Floats, Floats]:
    total = float(volume.sum())
    smaller = np.minimum(volume, total - volume)
    part = np.divide(cut, smaller, out=np.zeros_like(cut), where=smaller > 0)
    share = volume / total if total > 0 else np.zeros_like(volume)
    assigned = clusters >= 0
    # The two sums of a cluster with all but nothing of the volume differ by rounding.
    return clusters[assigned], np.minimum(part, 1.0)[assigned], share[assigned]


def network_scores(affinity: Any, labels: Any) -> dict[str, Any]:
    """Modularity, coverage, MNCut and the worst conductance of clusters of a network.

    Q = Σ_k [in_k/v − (vol_k/v)²] < 1 (Newman & Girvan 2004): the share of the edges' weight inside
    of clusters, which is the coverage, less what it would be between the same degrees at random;
    in_k the row sums within cluster k, vol_k its degrees, v all of them. 0: the clusters
    are no denser than chance, 0.3 to 0.7 is usual where a network has clusters. Also where a graph
    has none, clusters can be found with a Q well above 0.

    Unassigned nodes (-1) add nothing. `conductance` (K,) is of `clusters` (K,), see `conductances`,
    `worst_cluster` the one of the largest, None without clusters. `affinity`
    is W (n, n) or a Graph, whose nodes may stand for several: scores are those of the graph of all
    of them. Cost O(nnz), one walk; raises InputError for another n.
    """
    return _network_scores(*cluster_cuts(affinity, labels))


def scores_of_links(links: Floats) -> tuple[dict[str, Any], tuple[Ints, Floats, Floats]]:
    """`network_scores` and `conductances` from the weights between clusters, links (K, K).

    Row k sums to the degrees of cluster k; nodes without an edge add nothing. O(K²).
    """
    volume = links.sum(axis=1)
    sums = np.arange(len(links)), np.maximum(volume - links.diagonal(), 0.0), volume
    return _network_scores(*sums), _conductances(*sums)


def _network_scores(clusters: Ints, cut: Floats, volume: Floats) -> dict[str, Any]:
    total, assigned = float(volume.sum()), clusters >= 0
    found, conductance, _ = _conductances(clusters, cut, volume)
    cut, volume = cut[assigned], volume[assigned]
    inside = (volume - cut) / total if total > 0 else np.zeros_like(cut)
    expected = (volume / total) ** 2 if total > 0 else np.zeros_like(cut)
    worst = int(conductance.argmax()) if found.size else None
    return {
        "modularity": float((inside - expected).sum()),
        "coverage": float(inside.sum()),
        "mncut": float((cut[volume > 0] / volume[volume > 0]).sum()),
        "worst_conductance": None if worst is None else float(conductance[worst]),
        "worst_cluster": None if worst is None else int(found[worst]),
        "clusters": found.tolist(),
        "conductance": conductance.tolist(),
    }


def cluster_cuts(affinity: Any, labels: Any) -> tuple[Ints, Floats, Floats]:
    """Clusters (K,), Cut(C_k, rest) (K,) and Vol(C_k) (K,) of a clustering (WHC11 §2.1.1).

    `affinity` is W (n, n), dense, sparse or a Graph. Unassigned nodes are cluster -1. Cost O(nnz),
    whatever K; raises InputError for another n.
    """
    found = as_clusters(labels)
    given = getattr(affinity, "affinity", affinity)
    csr = given if isinstance(given, sp.csr_matrix | sp.csr_array) else sp.csr_matrix(given)
    if csr.shape != (found.size, found.size):
        raise InputError(
            f"scores: {found.size} labels for an affinity of shape {csr.shape}; give one per node"
        )
    clusters, place = np.unique(found, return_inverse=True)
    place, count = np.asarray(place).ravel(), clusters.size
    csr = csr.astype(np.result_type(csr.dtype, np.float32), copy=False)
    volume, inside = (np.bincount(place, v, count).astype(np.float64) for v in row_cuts(csr, place))
    # Summation in two orders may leave a cut of -1e-17.
    return clusters, np.maximum(volume - inside, 0.0), volume


def mncut(affinity: Any, labels: Any) -> float:
    """MNCut = Σ_k Cut(C_k, rest) / Vol(C_k), in [0, K] (WHC11 eq. 2).

    A cluster without any edge (volume 0) adds 0: nothing was cut. Cost O(nnz).
    """
    return float(network_scores(affinity, labels)["mncut"])


def e_of(ratio: float, labels: Any, constraints: Constraints, weight: float) -> float:
    """E = (1 − MNCut) + rate of must-links kept + rate of cannot-links kept (WHC11 eq. 17).

    `ratio` is the mean of MNCut over clusters, MNCut/K, as WHC11 §2.1 describes it in words, so
    that all three terms are in [0, 1]; or the sum of eq. 2. A kind of constraint that was not given
    has rate 1. `weight` is that of the two rates, `labels` may be of the constrained nodes alone.
    """
    kept = satisfaction(labels, constraints)
    return 1.0 - ratio + weight * (kept["must_kept"] + kept["cannot_kept"])


# --- How much clusters tell about the edges: the degree-corrected block model


def information(links: Any) -> float:
    """I = Σ_rs p_rs log(p_rs / (p_r p_s)) >= 0, in nats, from weights between clusters (K, K).

    p_rs is the share of weight from r to s, p_r = Σ_s p_rs. It is what the cluster at one end of an
    edge tells of the cluster at the other, and, times the number of edge ends, the log-likelihood
    that the degree-corrected block model gains over the same degrees without blocks. A giant with
    crumbs tells next to nothing, whatever it costs to cut.

    Source: Karrer & Newman 2011, §III.
    """
    blocks = sp.coo_matrix(links)
    volume = np.asarray(blocks.sum(axis=1), dtype=np.float64).ravel()
    total = float(volume.sum())
    weight = np.asarray(blocks.data, dtype=np.float64)
    there = weight > 0
    r, s, weight = blocks.row[there], blocks.col[there], weight[there]
    # Ratios first: products of volumes of tiny weights would be 0.
    gain = np.log(weight / volume[r]) - np.log(volume[s] / total)
    return max(0.0, float((weight / total) @ gain)) if total > 0 else 0.0
