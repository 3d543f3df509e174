"""What questions are chosen by: labelled nodes, uncertainty, and reach of a label by random walks.

Everything is in working order (`operators.laplacian`): the m nodes that have an edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.core.check import encoded
from mustlink.core.observe import Recorder, Unheard
from mustlink.core.state import chosen
from mustlink.discretize.memberships import usual
from mustlink.eigen.memory_work import laplacian_of
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.kernels.blocks import row_slices
from mustlink.kernels.threads import in_threads
from mustlink.operators.laplacian import NormalizedLaplacian

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Situation:
    """A fitted estimator, its graph's `laplacian`, and `rows` (m,): an input row of every node.

    `labelled` (m,) is whether a node has a label, `known` are the constraints of rows.
    """

    estimator: Any
    laplacian: NormalizedLaplacian
    rows: Ints
    labelled: NDArray[np.bool_]
    known: Constraints

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """Of a fitted estimator; raises InputError where it takes no labels and no constraints."""
        estimator = chosen(estimator)
        known, graph = constraints_of_fit(estimator), estimator.graph_
        weights = getattr(estimator, "_row_weights", None)
        laplacian = laplacian_of(estimator._view(graph, Recorder(Unheard()), row_weights=weights))
        labelled = np.zeros(laplacian.size, dtype=np.bool_)
        found = cls(estimator, laplacian, graph.first_rows[laplacian.nodes], labelled, known)
        at = found.at(_labelled_rows(known))
        labelled[at[at >= 0]] = True
        return found

    @property
    def m(self) -> int:
        """Nodes that have an edge."""
        return self.laplacian.size

    def at(self, rows: Any) -> Ints:
        """Working numbers of rows, -1 for those without an edge."""
        graph, rows = self.estimator.graph_, np.asarray(rows, dtype=np.int64)
        nodes = rows if graph.rows is None else graph.rows[rows]
        return self.laplacian.positions[nodes]

    def alone(self, avoid: Ints) -> Ints:
        """Rows without an edge, without a label and not in `avoid`, one of equal ones."""
        graph = self.estimator.graph_
        shut = np.zeros(graph.n_nodes, dtype=np.bool_)
        shut[self.laplacian.nodes] = True
        rows = np.concatenate([_labelled_rows(self.known), avoid])
        shut[rows if graph.rows is None else graph.rows[rows]] = True
        return graph.first_rows[~shut]

    @property
    def labels(self) -> Ints:
        """Number of every node's cluster or class (m,), -1 for none."""
        codes, _ = encoded(self.estimator.labels_, "labels_")
        return np.asarray(codes, dtype=np.int64)[self.rows]


def uncertainties(situation: Situation) -> Floats:
    """1 less the lead of the likeliest cluster or class before the next, (m,); 1 without any.

    By `label_distributions_`, of clusterers by memberships of the usual α and β. Cost O(mK), by
    blocks.
    """
    estimator, laplacian = situation.estimator, situation.laplacian
    shares: Any = getattr(estimator, "label_distributions_", None)
    trust = usual(estimator.graph_).trust
    evidence = estimator._evidence() if shares is None else None
    found = np.ones(situation.m)
    order = laplacian.positions[np.sort(laplacian.nodes)]  # rows of W as they lie in memory

    def fill(block: slice) -> None:
        some = order[block]
        if evidence is None:
            P = np.asarray(shares[situation.rows[some]], dtype=np.float64)
        else:
            P = evidence.memberships(laplacian.nodes[some], trust)
        if P.shape[1] < 2:
            found[some] = 1.0 - P.sum(axis=1)
            return
        first = np.partition(P, P.shape[1] - 2, axis=1)[:, -2:]
        found[some] = 1.0 - (first[:, 1] - first[:, 0])

    in_threads(fill, row_slices(situation.m, 64))
    return np.clip(found, 0.0, 1.0)


def constraints_of_fit(estimator: Any) -> Constraints:
    """The side information of the last fit; labels of a propagator as constraints.

    Raises InputError unless it is a fitted estimator with labels or constraints.
    """
    graph, name = getattr(estimator, "graph_", None), type(estimator).__name__
    informed = hasattr(estimator, "given_labels_") or hasattr(estimator, "constraints_")
    if graph is None or not informed or not hasattr(estimator, "refit"):
        raise InputError(
            f"{name}: nothing can be asked about it; give a fitted estimator that has refit, such "
            "as CSP or Poisson"
        )
    if not isinstance(graph, Graph):
        raise InputError(f"{name}: its graph is on disk, where nothing is asked; fit in memory")
    if hasattr(estimator, "given_labels_"):
        codes = encoded(estimator.given_labels_, "given_labels_")[0]
        return Constraints.from_labels(codes)
    return estimator.constraints_


def _labelled_rows(known: Constraints) -> Ints:
    return np.empty(0, np.int64) if known.labels is None else np.flatnonzero(known.labels >= 0)


# --- What a question is worth


MOST_STEPS = 8
_FEWER, _MANY = 4, 200_000  # steps on so many nodes, where they would cost most of the time
_WITHIN = 4  # of an answer's share: nodes of little reach count, too
_WALKS_FROM = 16  # nodes by which 1/(Pᵗ)_ii is estimated


@dataclass(eq=False)
class Walks:
    """Value of asking about a node: how many uncertain nodes its label reaches first.

    P = D⁻¹W, h_j = Σ_known (Pᵗ)_jk is how far labels reach node j, s how far a node reaches itself,
    d_j the uncertainty 1 − (p₁ − p₂), or 1 with fewer labels than clusters:

        value(k) = Σ_j d_j exp(−h_j/s) (Pᵗ)_jk.

    Coverage with a soft radius (Yehuda et al., *Active learning through a covering lens*, NeurIPS
    2022, with walks in place of balls) weighed by uncertainty (explore, then exploit: Miller &
    Calder, SIAM J. Math. Data Sci. 2023, whose decay also comes from a graph). Uncertainty alone
    asks about outliers between two classes, which say nothing about others.

    A walk of t steps is spread over about 1/(Pᵗ)_ii nodes, at most a quarter of m over the number
    of answers or clusters. The more labels, the shorter the walks, down to nearly uncertainty
    alone, and in networks, where a few steps reach all, they are short from the beginning. It takes
    no eigenvectors, and finds small groups that smooth vectors do not show.

    `uncertainty` (m,), times the copies of a node; `reached` h (m,), in units of s `own`; `values`
    (m,). Cost: 2t products with W once; a question changes values within 2t steps of its node only.
    """

    laplacian: NormalizedLaplacian
    uncertainty: Floats
    steps: int
    own: float
    reached: Floats
    values: Floats

    @classmethod
    def of(cls, situation: Situation) -> Self:
        """By the labels, and by uncertainties once there is a label for every cluster."""
        laplacian, m = situation.laplacian, situation.m
        k, known = int(situation.estimator.report_.n_clusters), int(situation.labelled.sum())
        uncertainty = uncertainties(situation) if known >= k else np.ones(m)
        uncertainty = uncertainty * laplacian.copies
        steps, own = fitting_steps(laplacian, m / (_WITHIN * max(k, known)))
        root, reached = laplacian.root_degree, np.zeros(m)
        if known:
            reached = _walked(laplacian, root * situation.labelled, steps) / root / own
        values = root * _walked(laplacian, uncertainty * np.exp(-reached) / root, steps)
        return cls(laplacian, uncertainty, steps, own, reached, values)

    def answered(self, node: int) -> None:
        """Update values for a question about the node."""
        root = self.laplacian.root_degree
        at, walk = self._from(np.array([node], dtype=np.int64), root[[node]])
        before = self.uncertainty[at] * np.exp(-self.reached[at])
        self.reached[at] += walk / root[at] / self.own
        change = self.uncertainty[at] * np.exp(-self.reached[at]) - before
        at, back = self._from(at, change / root[at])
        self.values[at] += root[at] * back

    def _from(self, nodes: Ints, x: Floats) -> tuple[Ints, Floats]:
        """Sᵗx of an x on few nodes: where it is, and its values there."""
        for _ in range(self.steps):
            nodes, x = self.laplacian.from_few(nodes, x)
        return nodes, x


def _walked(laplacian: NormalizedLaplacian, x: Floats, steps: int) -> Floats:
    """Sᵗx of x (m,)."""
    X = x[:, None]
    for _ in range(steps):
        X = laplacian.neighbours(X)
    return X[:, 0]


def fitting_steps(laplacian: NormalizedLaplacian, share: float) -> tuple[int, float]:
    """Most steps t of walks that are spread over `share` nodes or fewer, and (Pᵗ)_ii.

    t <= 8, on more than 200,000 nodes 4. (Sᵃ⁺ᵇ)_ii = ⟨Sᵃe_i, Sᵇe_i⟩, the median of a few nodes. One
    step never comes back, and counts as fitting.
    """
    m = laplacian.size
    sample = np.unique(np.linspace(0, m - 1, min(_WALKS_FROM, m)).astype(np.int64))
    ones = np.ones(sample.size)
    last = sp.csr_matrix((ones, (np.arange(sample.size), sample)), shape=(sample.size, m))
    steps, back = 1, 1.0
    most = MOST_STEPS if m <= _MANY else _FEWER
    for t in range(2, most + 1):
        if t % 2 == 0:
            last = laplacian.of_few(last)
            both = last.multiply(last)
        else:
            both = last.multiply(laplacian.of_few(last))
        found = float(np.median(np.asarray(both.sum(axis=1))))
        if found * share < 1.0:
            break
        steps, back = t, found
    return steps, back
