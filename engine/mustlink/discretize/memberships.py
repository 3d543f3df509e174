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
import scipy
from numpy.typing import NDArray

from mustlink.constraints import Constraints
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


# --- How much edges and embedding count: by what was held out, else as usual
#
# A fit to a part of the side information is right or wrong about the rest. α and β are those that
# make the likeliest what was seen of it,
#
#     max Σ_i log(p_i if right else 1 − p_i) + Σ_ij |b_ij| log(s_ij if b_ij > 0 else 1 − s_ij)
#
# over labels held out, p_i the share of the node's own cluster, and pairs, s_ij = Σ_c p_ic p_jc the
# chance that both are in one cluster; with a penalty for leaving the usual values.

# Of 63 fits to ten sets (mean of the likelihood; those that missed the classes left out).
_OF_POINTS, _OF_NETWORKS = MembershipExponents(0.6, 0.6), MembershipExponents(0.7, 1.8)
_MOST = 4000  # labels, and pairs, of one part held out that are looked at
_STIFF = 1.0  # of the penalty ‖log θ − log θ_usual‖²: as much as one label counts
_RANGE = np.log(30.0)  # θ is at most so many times the usual
_SURE = 1e-4  # no answer is held to be surer than that


@dataclass(frozen=True)
class Calibration:
    """What memberships are made with: α and β, and how many labels and pairs they are by.

    Counted are those held out of all fits together; none where α and β are the usual ones.
    `reliability` is of the labels, by the α and β that the other fits gave; of pairs alone it has
    the chance that both are in one cluster, and the share that shall be.
    """

    trust: MembershipExponents
    n_labels: int = 0
    n_pairs: int = 0
    reliability: Reliability | None = None


def usual(graph: Graph) -> Calibration:
    """α and β where nothing was held out."""
    network = graph.is_network or graph.info.get("kind") == "directed"
    return Calibration(_OF_NETWORKS if network else _OF_POINTS)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Evidence (b, K) of nodes, their clusters (b,), and what turned out.

    `right` (l,) is of the first nodes; `first` and `second` (m,) place the ends of pairs, of
    `belief` (m,).
    """

    shares: Floats
    nearness: Floats
    labels: Ints
    right: NDArray[np.bool_]
    first: Ints
    second: Ints
    belief: Floats

    @classmethod
    def of(cls, evidence: Evidence, kept: Constraints, held: Constraints, seed: int) -> Self:
        """How clusters made from `kept` predict `held`, both of the rows."""
        graph, rng = evidence.graph, np.random.default_rng(seed)
        rows = np.arange(graph.n_nodes) if graph.rows is None else graph.rows
        nodes_of = rows.astype(np.int64, copy=False)
        labelled, right = _judged(evidence, kept, held, nodes_of)
        some = _some(labelled.size, rng)
        labelled, right = labelled[some], right[some]
        pairs, belief = held.merged
        ends = nodes_of[pairs]
        good = (evidence.labels[ends] >= 0).all(axis=1) & (ends[:, 0] != ends[:, 1]) & (belief != 0)
        chosen = np.flatnonzero(good)
        chosen = chosen[_some(chosen.size, rng)]
        ends, belief = ends[chosen], belief[chosen]
        of_pairs, place = np.unique(ends, return_inverse=True)
        place = place.reshape(ends.shape) + labelled.size
        nodes = np.concatenate([labelled, of_pairs]).astype(np.int64)
        shares, nearness = evidence.both(nodes)
        return cls(
            shares, nearness, evidence.labels[nodes], right, place[:, 0], place[:, 1], belief
        )

    def loss(self, trust: MembershipExponents) -> float:
        """Minus the logarithm of the likelihood."""
        own, same = self.chances(trust)
        chance = np.where(self.right, own, 1.0 - own)
        kept = np.where(self.belief > 0, same, 1.0 - same)
        return -float(_logs(chance).sum() + np.abs(self.belief) @ _logs(kept))

    def chances(self, trust: MembershipExponents) -> tuple[Floats, Floats]:
        """That nodes (l,) with a label are in their cluster, and ends of pairs (m,) in one."""
        P = softened(self.shares, self.nearness, self.labels, trust)
        n_labels = self.right.size
        same = (P[self.first] * P[self.second]).sum(axis=1)
        return own_share(P[:n_labels], self.labels[:n_labels]), same


def calibrated(usually: Calibration, parts: list[Outcomes]) -> Calibration:
    """α and β by how several fits predict what was held out of them."""
    n_labels = sum(part.right.size for part in parts)
    n_pairs = sum(part.belief.size for part in parts)
    if n_labels + n_pairs == 0:
        return usually
    trust = _likeliest(usually.trust, parts)
    return Calibration(trust, n_labels, n_pairs, _reliability(usually.trust, parts, trust))


def _likeliest(usual: MembershipExponents, parts: list[Outcomes]) -> MembershipExponents:
    start = np.log(np.maximum(usual, np.finfo(np.float64).tiny))
    free = np.array(usual) > 0  # what counts for nothing stays so

    def loss(step: Floats) -> float:
        trust = MembershipExponents(*np.where(free, np.exp(start + step), 0.0))
        return sum(part.loss(trust) for part in parts) + _STIFF * float(step @ step)

    bounds = [(-_RANGE, _RANGE)] * 2
    found = scipy.optimize.minimize(loss, np.zeros(2), method="Nelder-Mead", bounds=bounds)
    return MembershipExponents(*np.where(free, np.exp(start + found.x), 0.0).tolist())


def _reliability(
    usual: MembershipExponents, parts: list[Outcomes], of_all: MembershipExponents
) -> Reliability:
    """Chances of every part by the α and β of the others, of labels or else of pairs."""
    sure, right = [], []
    by_labels = any(part.right.size for part in parts)
    for part in parts:
        others = [one for one in parts if one is not part]
        own, same = part.chances(_likeliest(usual, others) if others else of_all)
        sure.append(own if by_labels else same)
        right.append(part.right if by_labels else part.belief > 0)
    return Reliability.of(np.concatenate(sure), np.concatenate(right))


def _judged(
    evidence: Evidence, kept: Constraints, held: Constraints, nodes_of: Ints
) -> tuple[Ints, NDArray[np.bool_]]:
    """Nodes with a label held out, and whether most kept labels of its cluster are the same."""
    if kept.labels is None or held.labels is None:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
    given, hidden = (np.flatnonzero(one >= 0) for one in (kept.labels, held.labels))
    classes, code = np.unique(kept.labels[given], return_inverse=True)
    cluster = evidence.labels[nodes_of[given]]
    there = cluster >= 0
    votes = np.zeros((evidence.prior.size, classes.size))
    np.add.at(votes, (cluster[there], code[there]), 1.0)
    nodes = nodes_of[hidden]
    own, voted = evidence.labels[nodes], votes.sum(axis=1) > 0
    known = (own >= 0) & voted[np.maximum(own, 0)]
    nodes, hidden = nodes[known], hidden[known]
    predicted = classes[votes.argmax(axis=1)][evidence.labels[nodes]]
    return nodes, predicted == held.labels[hidden]


def _some(n: int, rng: np.random.Generator) -> Ints:
    """All, or so many of them at random."""
    return np.arange(n) if n <= _MOST else np.sort(rng.choice(n, _MOST, replace=False))


def _logs(chance: Floats) -> Floats:
    return np.asarray(np.log(np.clip(chance, _SURE, 1.0 - _SURE)))
