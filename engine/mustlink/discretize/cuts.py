"""Edges that a clustering cuts: conductance, normalised cut, WHC11's criterion E; and doubts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.core.observe import Recorder
from mustlink.discretize.satisfaction import as_clusters, satisfaction
from mustlink.errors import InputError
from mustlink.kernels.block_moves import row_cuts
from mustlink.kernels.blocks import normals
from mustlink.operators.protocol import Laplacian
from mustlink.space import Block, Dots, Gram, Vector

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


# --- Doubts: sizes, components, gaps


_GIANT = 0.95  # share of the nodes in one cluster that a person should look at
_MUCH = 0.5  # share of the nodes of a component that is worth to be clustered by itself
# Share of λ_{K+1} − λ_1: a single cloud in 20 dimensions has gaps of 0.003 to 0.024, the digits
# 0.13 at K = 10 and 0.03 at 15, separate blobs 0.8 and more at the right K. With τ of 0.3 and 1
# random graphs have 0.011 at most, 14 block models 0.15 to 0.7 at the right K, 0.02 at most beyond.
_TINY_GAP = 0.025


def below_classes(k: int, n_classes: int) -> str | None:
    """Why K clusters cannot be the classes of the labels, where these are more."""
    if k >= n_classes:
        return None
    return (
        f"n_clusters: {k} is below the {n_classes} classes of the labels, so that each cluster "
        f"joins several of them or leaves some out; ask for {n_classes} (-k {n_classes}, or auto)"
    )


def note_alone(count: int, done: str, recorder: Recorder) -> None:
    """Tell what was done with so many nodes without an edge."""
    noun = "node has" if count == 1 else "nodes have"
    recorder.note(f"{count} {noun} no edge and cannot be clustered: {done}")


def warn_of_sizes(
    sizes: NDArray[Any],
    k: int,
    recorder: Recorder,
    *,
    informed: bool = True,
    regularized: bool = False,
) -> None:
    """Warn of a cluster with nearly all of the nodes, of crumbs, and of clusters without any.

    `sizes` (k,) count a node as often as it stands for rows. The advice is what the method at hand
    takes: constraints if `informed`, more on the degrees if it can be `regularized` further.
    """
    largest = sizes.max() / sizes.sum()
    if largest > _GIANT and k > 1:
        recorder.warn(
            f"one cluster holds {largest:.1%} of the nodes, the others are small groups on its "
            "rim or apart from it; look before relying on it"
        )
    count = np.count_nonzero(sizes)
    crumbs = few_nodes(sizes, k)
    if largest <= _GIANT and 2 * np.count_nonzero(crumbs) > k:
        recorder.warn(
            f"{np.count_nonzero(crumbs)} of {k} clusters are crumbs, {sizes[crumbs].sum():,.0f} of "
            f"{sizes.sum():,.0f} nodes together: groups that hang on the rest by few edges; ask "
            "for fewer clusters"
            + (", or add more to the degrees: regularization=1" if regularized else "")
        )
    if count < k:
        recorder.warn(
            f"only {count} of {k} clusters have nodes: the vectors tell no more groups apart; ask "
            f"for fewer clusters{' or give more constraints' if informed else ''}"
        )


def warn_of_components(components: NDArray[Any], labels: Ints, recorder: Recorder) -> None:
    """Warn where clusters (n,) are whole `components` (n,): they can be had without clustering."""
    linked = labels >= 0
    component, labels = components[linked], labels[linked]
    if np.unique(labels).size < 2:
        return
    of_component = np.empty(int(component.max()) + 1, dtype=np.int64)
    of_component[component] = labels
    if not (of_component[component] == labels).all():
        return
    more = ""
    linked_components = np.unique(component)
    heaps = np.bincount(of_component[linked_components])
    heap, share = int(heaps.argmax()), np.bincount(component).max() / component.size
    if heaps[heap] > 1:
        together = np.count_nonzero(labels == heap) / labels.size
        more += (
            f"; cluster {heap} is a heap of {heaps[heap]:,} components with {together:.1%} of the "
            f"nodes, which nothing joins: there are {linked_components.size:,} components, each of "
            "which may be one cluster"
        )
    if share > _MUCH:
        more += f"; the largest has {share:.1%} of the nodes, cluster it by itself"
    recorder.warn(
        "all clusters are whole components of the graph: no edge is cut, and nothing within a "
        f"component is told apart{more}; ask for more clusters to cut components, too"
    )


def warn_of_gap(cut: Any, recorder: Recorder, *, informed: bool = False) -> None:
    """Warn where λ_{K+1} of a cut is so near to λ_K that the K vectors might be others as well.

    A change E of L̄ turns their span by an angle of up to ‖E‖ / (λ_{K+1} − λ_K) (Davis & Kahan).
    The share is of λ_{K+1} − λ_1, as λ_1 = 0 only where nothing is added to the degrees.
    """
    k, first, last = cut.values.size, float(cut.values[0]), float(cut.values[-1])
    if cut.beyond is not None and cut.beyond - last < _TINY_GAP * (cut.beyond - first):
        recorder.warn(
            f"the gap after eigenvalue {k} is tiny ({last:.4g}, then {cut.beyond:.4g}): the graph "
            f"hardly tells {k} clusters from {k + 1}; try other numbers"
            + (", or give more constraints" if informed else ', or n_clusters="auto"')
        )


def note_components(count: int, k: int, recorder: Recorder) -> None:
    """Say what becomes of `count` components in k clusters, where there are several."""
    if count > 1:
        recorder.note(
            f"the graph has {count} connected components beside isolated nodes; their exact "
            "null vectors are "
            + (
                f"part of the {k} eigenvectors"
                if count <= k
                else f"more than the {k} clusters: those beyond the largest are put together"
            )
        )


# --- Clusters refined by the degree-corrected block model (Karrer & Newman 2011)
#
# Edges between nodes i and j are taken to weigh d_i d_j Ω_rs on average, r and s their blocks: hubs
# are no block of their own, and two blocks may be linked more than either is within itself.


Array = NDArray[Any]
_SWEEPS = 15
_SHARES = (0.5, 0.25, 0.125, 0.0625)  # of the improving nodes; half of them hardly ever go too far
_NOISE = 1e-9  # of a node's degree: gains below are rounding


@dataclass(frozen=True, eq=False)
class BlockModel:
    """Blocks (m,) of the nodes of W = D^½SD^½, and the rates that fit these best; in any home.

    B = HᵀWH + 1, κ = Hᵀd + 1, Ω_rs = B_rs/(κ_rκ_s), weights in units of `unit`, the mean weight of
    an edge: as if every block had one more node that is linked to all of these by 1. Nodes of
    block -1 are left out. Cost of a model: a product with W of k columns.
    """

    laplacian: Laplacian
    blocks: Vector
    k: int
    unit: float

    @cached_property
    def _linked(self) -> tuple[Block, Floats, Floats]:
        """SD^½H (m, k), B (k, k) and κ (k,)."""
        space, root, classes = self.laplacian.space, self.laplacian.root_degree, np.arange(self.k)
        scale = self.unit**-0.5

        def rows(own: Array, root: Floats) -> Floats:
            return np.where(own[:, None] == classes, scale * root[:, None], 0.0)

        X = space.rowwise(rows, self.blocks, root)
        SX = self.laplacian.recurrence(X, [(1.0, 0.0, 0.0)])
        between, size = space.sums(Gram(X, SX), Dots(X, X))
        return SX, between + 1.0, size + 1.0

    @cached_property
    def _log_rates(self) -> Floats:
        _, between, size = self._linked
        return np.asarray(np.log(between / np.outer(size, size)))

    @property
    def likelihood(self) -> float:
        """½Σ_rs B_rs log Ω_rs: the log-likelihood of the blocks, their best rates put in."""
        return 0.5 * float(np.vdot(self._linked[1], self._log_rates))

    def _by_gains(self, function: Callable[..., Any], *data: Any) -> Any:
        """What a function makes of rows of gains, blocks, D^½ and data.

        Gains of a node, divided by d_i^½, are those of every block r, all others staying:
        Σ_{j≠i} W_ij log Ω_{r,b_j} + ½W_ii log Ω_rr − d_i Σ_s κ_sΩ_rs.
        """
        laplacian, log_rates = self.laplacian, self._log_rates
        links, between, size = self._linked
        expected, own_rates = between.sum(axis=1) / size, np.diag(log_rates)

        def rows(gain: Floats, own: Array, root: Floats, diagonal: Floats, *data: Array) -> Any:
            root = root * self.unit**-0.5
            gain = gain - root[:, None] * expected
            at = np.flatnonzero(diagonal != 1.0)
            if at.size:  # a node's edge to itself goes along with it
                loops = (root * (1.0 - diagonal))[at, None]
                gain[at] += 0.5 * loops * own_rates
                gain[at] -= np.where(own[at, None] >= 0, loops, 0.0) * log_rates[own[at]]
            return function(gain, own, root, *data)

        gain = laplacian.space.combine(links, log_rates)
        about = self.blocks, laplacian.root_degree, laplacian.diagonal
        return laplacian.space.rowwise(rows, gain, *about, *data)

    def gains(self) -> Block:
        """The gain of every block for every node (m, k), all others staying."""
        return self._by_gains(lambda gain, _, root: root[:, None] * gain)

    def moves(self, held: Vector, possible: NDArray[np.bool_]) -> Vector:
        """The block that a node gains most in, -1 where it stays (m,); `held` (m,) nodes do.

        So do those whose best block is not `possible` (c, k) in their component.
        """

        def rows(gain: Floats, own: Array, root: Floats, held: Array, part: Array) -> Array:
            place, best = np.arange(own.size), gain.argmax(axis=1)
            more = gain[place, best] - gain[place, own] > _NOISE * root
            return np.where((own >= 0) & ~held & more & possible[part, best], best, -1)

        return self._by_gains(rows, held, self.laplacian.null.component)

    def distributions(self, possible: NDArray[np.bool_]) -> Block:
        """How likely every block is for every node (m, k), the others as they are.

        Blocks that are not `possible` (c, k) in a node's component have probability 0.
        """

        def rows(gain: Floats, _: Array, root: Floats, part: Array) -> Floats:
            there = possible[part]
            there = there | ~there.any(axis=1, keepdims=True)
            P = np.where(there, root[:, None] * gain, -np.inf)
            P = np.exp(P - P.max(axis=1, keepdims=True))
            return np.asarray(P / P.sum(axis=1, keepdims=True))

        return self._by_gains(rows, self.laplacian.null.component)


def refine(
    start: BlockModel,
    held: Vector,
    numbers: Vector,
    seed: int,
    *,
    possible: NDArray[np.bool_] | None = None,
    recorder: Recorder | None = None,
) -> BlockModel:
    """Likelier blocks: in a sweep half of the nodes that would gain move, those `held` (m,) never.

    `numbers` (m,) of nodes decide with the seed which half, the same in every home. A node whose
    best block is not `possible` (c, k) in its component, None: all are, does not move. Nodes that
    move at once may be in each other's way: where the likelihood fell, fewer move, and in the end
    none, so that it never falls. At most 15 sweeps, fewer where the `recorder` has a deadline.
    Cost of each: a product of k columns or a few.
    """
    rng, model, space = np.random.default_rng(seed), start, start.laplacian.space
    if possible is None:
        possible = np.ones((start.laplacian.null.n_components, start.k), dtype=np.bool_)
    for _ in range(_SWEEPS):
        to = model.moves(held, possible)
        movers = space.column(space.rowwise(lambda to: (to >= 0) * 1.0, to))
        if space.dots(movers, movers)[0] == 0:
            break
        if recorder is not None and recorder.deadline.is_over:
            recorder.skip_for_time("block model: nodes that would move to likelier clusters stayed")
            break
        for share in _SHARES:
            limit, key = NormalDist().inv_cdf(share), int(rng.integers(2**62))

            def rows(
                own: Array, to: Array, number: Array, limit: float = limit, key: int = key
            ) -> Array:
                return np.where((to >= 0) & (normals(number, 1, key)[:, 0] < limit), to, own)

            trial = replace(model, blocks=space.rowwise(rows, model.blocks, to, numbers))
            if trial.likelihood >= model.likelihood:
                model = trial
                break
        else:
            break
    return model
