"""How much edges and embedding count in soft memberships: by what was held out, else as usual.

A fit to a part of the side information is right or wrong about the rest. α and β of
`discretize.memberships` are those that make the likeliest what was seen of it,

    max Σ_i log(p_i if right else 1 − p_i) + Σ_ij |b_ij| log(s_ij if b_ij > 0 else 1 − s_ij)

over labels held out, p_i the share of the node's own cluster, and pairs, s_ij = Σ_c p_ic p_jc the
chance that both are in one cluster; with a penalty for leaving the usual values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.discretize.memberships import (
    Evidence,
    MembershipExponents,
    Reliability,
    own_share,
    softened,
)
from mustlink.graph import Graph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
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
class HeldOut:
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
    def of(cls, evidence: Evidence, kept: Constraints, held: Constraints, seed: int) -> HeldOut:
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


def calibrated(usually: Calibration, parts: list[HeldOut]) -> Calibration:
    """α and β by how several fits predict what was held out of them."""
    n_labels = sum(part.right.size for part in parts)
    n_pairs = sum(part.belief.size for part in parts)
    if n_labels + n_pairs == 0:
        return usually
    trust = _likeliest(usually.trust, parts)
    return Calibration(trust, n_labels, n_pairs, _reliability(usually.trust, parts, trust))


def _likeliest(usual: MembershipExponents, parts: list[HeldOut]) -> MembershipExponents:
    start = np.log(np.maximum(usual, np.finfo(np.float64).tiny))
    free = np.array(usual) > 0  # what counts for nothing stays so

    def loss(step: Floats) -> float:
        trust = MembershipExponents(*np.where(free, np.exp(start + step), 0.0))
        return sum(part.loss(trust) for part in parts) + _STIFF * float(step @ step)

    bounds = [(-_RANGE, _RANGE)] * 2
    found = scipy.optimize.minimize(loss, np.zeros(2), method="Nelder-Mead", bounds=bounds)
    return MembershipExponents(*np.where(free, np.exp(start + found.x), 0.0).tolist())


def _reliability(
    usual: MembershipExponents, parts: list[HeldOut], of_all: MembershipExponents
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
