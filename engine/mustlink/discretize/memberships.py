"""Soft memberships of nodes in clusters that are there, from their edges and the embedding.

    s_ic = α·log (m_i a_ic + π_c)/(m_i + 1) − β·log(‖x_i − μ_c‖² + v_c),   p_ic ∝ exp s_ic

a_ic is the share of i's edges that goes to cluster c, m_i how many edges of equal weight say as
much, π_c the cluster's share of the nodes; x_i is a row of the embedding, μ_c the cluster's mean
row, v_c the mean squared distance from it: ‖x_i − μ_c‖² + v_c is the mean squared distance of i
from the cluster's nodes, whose ratios a silhouette (Rousseeuw 1987) compares, too. Neither has a
scale that could be wrong. No cluster is likelier than the node's own: where evidence says so they
are nearly even.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.graph import Graph
from mustlink.kernels.block_moves import cluster_evidence
from mustlink.kernels.blocks import group_sums, row_slices

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_FLOOR = 1e-6  # of the largest spread: a cluster of equal rows has none
_TIE = 1e-9  # by which the own cluster is ahead of one that evidence puts before it


class MembershipExponents(NamedTuple):
    """How much edges (α) and the embedding (β) count."""

    edges: float
    embedding: float


@dataclass(frozen=True, eq=False)
class Evidence:
    """Clusters of a graph's nodes and what they are compared with.

    `labels` (n,), -1 for no cluster, rows `X` (n, r) with `centers` (K, r) and `spread` (K,),
    `prior` (K,) shares of the clusters, `counts` (n,) how often a node counts, empty for once each.
    """

    graph: Graph
    labels: Ints
    X: NDArray[np.floating]
    centers: Floats
    spread: Floats
    prior: Floats
    counts: Floats

    @classmethod
    def of(cls, graph: Graph, labels: Ints, X: NDArray[np.floating], k: int) -> Self:
        """Clusters (n,) from 0 to k − 1 and an embedding (n, r) of the nodes. Cost O(nr)."""
        counts = np.ones(graph.n_nodes) if graph.weights is None else graph.weights
        there = np.flatnonzero(labels >= 0)
        own, often, rows = labels[there], counts[there], X[there].astype(np.float64, copy=False)
        size = np.bincount(own, often, k)
        full = np.where(size > 0, size, 1.0)
        centers = group_sums(rows, own, k, often) / full[:, None]
        gaps = ((rows - centers[own]) ** 2).sum(axis=1)
        spread = np.bincount(own, often * gaps, k) / full
        spread = spread + max(_FLOOR * spread.max(initial=0.0), np.finfo(np.float64).tiny)
        prior = size / max(size.sum(), 1.0)
        counts = np.empty(0) if graph.weights is None else np.where(counts > 0, counts, 1.0)
        return cls(graph, labels, X, centers, spread, prior, counts)

    def both(self, nodes: Ints) -> tuple[Floats, Floats]:
        """Evidence of edges and of the embedding for nodes (b,), each (b, K), without α and β."""
        shares, nearness = cluster_evidence(
            self.graph.affinity,
            self.labels,
            self.counts,
            self.prior,
            (self.X, self.centers, self.spread),
            nodes,
        )
        alone = self.graph.degrees[nodes] <= 0
        nearness[alone] = np.where(self.prior > 0, 0.0, -np.inf)  # without an edge its row is 0
        return shares, nearness

    def memberships(self, nodes: Ints, trust: MembershipExponents) -> Floats:
        """Rows (b, K) of p that sum to 1, largest in the node's cluster; 0 for nodes without."""
        return softened(*self.both(nodes), self.labels[nodes], trust)

    def all_memberships(self, trust: MembershipExponents) -> Floats:
        """All p (n, K), made by blocks of rows."""
        out = np.empty((self.labels.size, self.prior.size))
        for rows in row_slices(*out.shape):
            out[rows] = self.memberships(np.arange(rows.start, rows.stop), trust)
        return out

    def confidence(self, trust: MembershipExponents) -> Floats:
        """The p of every node's own cluster (n,), 0 without one; never more than a block of p."""
        out = np.empty(self.labels.size)
        for rows in row_slices(out.size, self.prior.size):
            P = self.memberships(np.arange(rows.start, rows.stop), trust)
            out[rows] = own_share(P, self.labels[rows])
        return out


def softened(shares: Floats, nearness: Floats, labels: Ints, trust: MembershipExponents) -> Floats:
    """Shares p (b, K) by the evidence of edges and embedding; `labels` (b,) are the clusters."""
    there, at = labels >= 0, np.maximum(labels, 0)
    empty = np.isneginf(shares)
    S = trust.edges * np.where(empty, 0.0, shares)
    S += trust.embedding * np.where(empty, 0.0, nearness)
    S[empty] = -np.inf
    place = np.arange(labels.size)
    own = np.where(there, S[place, at], 0.0)
    P = np.minimum(S - own[:, None], -_TIE)
    P[place, at] = 0.0
    np.exp(P, out=P)
    P /= P.sum(axis=1, keepdims=True)
    P[~there] = 0.0
    return P


def led_by(P: Floats, labels: Ints) -> Floats:
    """Shares (b, K) in which none is above that of the own cluster (b,); 0 without a cluster."""
    own = own_share(P, labels)[:, None]
    led = np.minimum(P, own * (1.0 - _TIE))
    led[np.arange(labels.size), np.maximum(labels, 0)] = np.where(labels >= 0, own[:, 0], 0.0)
    led[labels < 0] = 0.0
    total = led.sum(axis=1, keepdims=True)
    return np.divide(led, total, out=led, where=total > 0)


def own_share(P: Floats, labels: Ints) -> Floats:
    """The p of every node's own cluster (b,)."""
    found: Floats = P[np.arange(labels.size), np.maximum(labels, 0)]
    return found


# --- How often answers were right beside how sure they were: a reliability table and its error


BINS = 15  # as Guo, Pleiss, Sun & Weinberger (2017) take them


@dataclass(frozen=True)
class Reliability:
    """Answers by their confidence in equal bins of [0, 1], those with an answer, from below.

    `low` is where a bin of width `width` begins, `count` how many answers are in it, `share` their
    share of the weight of all, `sure` the mean of their confidence, `right` the share that is
    right.
    """

    width: float
    low: tuple[float, ...]
    count: tuple[int, ...]
    share: tuple[float, ...]
    sure: tuple[float, ...]
    right: tuple[float, ...]

    @classmethod
    def of(
        cls, sure: NDArray[Any], right: NDArray[Any], weight: Any = None, bins: int = BINS
    ) -> Self:
        """The table of answers (m,): confidence in [0, 1], whether right, what each counts."""
        weight = np.ones(len(sure)) if weight is None else np.asarray(weight, dtype=np.float64)
        place = np.minimum((np.asarray(sure) * bins).astype(np.int64), bins - 1)
        count = np.bincount(place, minlength=bins)
        mass = np.bincount(place, weight, bins)
        full = np.flatnonzero(mass > 0)
        mean = [np.bincount(place, weight * v, bins)[full] / mass[full] for v in (sure, right)]
        return cls(
            1.0 / bins,
            tuple((full / bins).tolist()),
            tuple(count[full].tolist()),
            tuple((mass[full] / mass.sum()).tolist()),
            *(tuple(one.tolist()) for one in mean),
        )

    @property
    def error(self) -> float:
        """The expected calibration error Σ_b share_b |sure_b − right_b|."""
        rows = zip(self.share, self.sure, self.right, strict=True)
        return float(sum(share * abs(sure - right) for share, sure, right in rows))

    def rows(self) -> list[dict[str, float]]:
        """The bins as plain values, for a file or a table."""
        names = ("low", "count", "share", "sure", "right")
        columns = zip(self.low, self.count, self.share, self.sure, self.right, strict=True)
        return [dict(zip(names, row, strict=True)) for row in columns]
