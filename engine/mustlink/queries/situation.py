"""What questions are chosen by: who is known, how sure the fit is, and smooth vectors.

Everything is in working order (`operators.laplacian`): the m nodes that have an edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.eigen.solver import laplacian_of
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.kernels.blocks import row_slices
from mustlink.labels import encoded
from mustlink.observe import Recorder, Unheard
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.queries.gaussian_model import GaussianModel
from mustlink.queries.smooth_rows import smooth_rows
from mustlink.selection.calibration import usual
from mustlink.workspace import Workspace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Situation:
    """A fitted estimator, its graph's `laplacian` and `rows` (m,): a row of the caller a node.

    `told` (m,) whether a label is known, `given` the constraints of rows.
    """

    estimator: Any
    work: Workspace
    laplacian: NormalizedLaplacian
    rows: Ints
    told: NDArray[np.bool_]
    given: Constraints

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """Of a fitted estimator; raises InputError where it is none that can be told something."""
        given, graph = given_of(estimator), estimator.graph_
        recorder = Recorder(Unheard())
        work = estimator._view(
            graph, recorder, row_weights=getattr(estimator, "_row_weights", None)
        )
        laplacian = laplacian_of(work)
        told = nodes_of(graph, _labelled(given), laplacian)
        rows = graph.first_rows[laplacian.nodes]
        return cls(estimator, work, laplacian, rows, told, given)

    @property
    def m(self) -> int:
        """Nodes that have an edge."""
        return self.laplacian.size

    @cached_property
    def _basis(self) -> tuple[Floats, Floats]:
        return smooth_rows(self.estimator, self.work, self.laplacian)

    @property
    def U(self) -> Floats:
        """Smooth vectors (m, p), see `smooth_rows`."""
        return self._basis[0]

    @property
    def values(self) -> Floats:
        """Those of L̄ (p,) that the columns of U have."""
        return self._basis[1]

    def at(self, rows: Any) -> Ints:
        """Working numbers of rows, -1 for those without an edge."""
        graph, rows = self.estimator.graph_, np.asarray(rows, dtype=np.int64)
        nodes = rows if graph.rows is None else graph.rows[rows]
        found: Ints = self.laplacian.positions[nodes]
        return found

    def alone(self, avoid: Ints) -> Ints:
        """Rows without an edge that have no label and are not to be avoided, one of equal ones."""
        graph = self.estimator.graph_
        shut = np.zeros(graph.n_nodes, dtype=np.bool_)
        shut[self.laplacian.nodes] = True
        rows = np.concatenate([_labelled(self.given), avoid])
        shut[rows if graph.rows is None else graph.rows[rows]] = True
        found: Ints = graph.first_rows[~shut]
        return found

    def model(self) -> GaussianModel:
        """What the labels that are known tell of the others."""
        return GaussianModel.of(self.U, self.values, np.flatnonzero(self.told))

    @property
    def labels(self) -> Ints:
        """Number of every node's cluster or class (m,), -1 for none."""
        codes, _ = encoded(self.estimator.labels_, "labels_")
        found: Ints = np.asarray(codes, dtype=np.int64)[self.rows]
        return found

    def memberships(self, some: Any) -> Floats:
        """Shares (b, K) of the clusters or classes in nodes; rows sum to 1, or are 0."""
        distributions = getattr(self.estimator, "label_distributions_", None)
        if distributions is not None:
            return np.asarray(distributions[self.rows[some]], dtype=np.float64)
        trust = usual(self.estimator.graph_).trust
        found: Floats = self._evidence.memberships(self.laplacian.nodes[some], trust)
        return found

    @property
    def _evidence(self) -> Any:
        return self.estimator._evidence()


def doubts(situation: Situation) -> tuple[Floats, Floats]:
    """1 less the lead of the likeliest class before the next, and the entropy over log K, (m,).

    Both 1 where nothing is known of a node. Cost O(mK), by blocks.
    """
    margin, entropy = np.ones(situation.m), np.ones(situation.m)
    trust, evidence = usual(situation.estimator.graph_).trust, None
    if not hasattr(situation.estimator, "label_distributions_"):
        evidence = situation._evidence
    laplacian = situation.laplacian
    order = laplacian.positions[np.sort(laplacian.nodes)]  # rows of W as they lie in memory
    for block in row_slices(situation.m, 64):
        some = order[block]
        if evidence is None:
            P = situation.memberships(some)
        else:
            P = evidence.memberships(laplacian.nodes[some], trust)
        if P.shape[1] < 2:
            margin[some] = entropy[some] = 1.0 - P.sum(axis=1)
            continue
        first = np.partition(P, P.shape[1] - 2, axis=1)[:, -2:]
        margin[some] = 1.0 - (first[:, 1] - first[:, 0])
        told = P.any(axis=1)
        spread = -(P * np.log(np.maximum(P, 1e-300))).sum(axis=1) / np.log(P.shape[1])
        entropy[some] = np.where(told, spread, 1.0)
    return np.clip(margin, 0.0, 1.0), np.clip(entropy, 0.0, 1.0)


def nodes_of(graph: Graph, rows: Ints, laplacian: NormalizedLaplacian) -> NDArray[np.bool_]:
    """Mark (m,) of the nodes that these rows are."""
    nodes = rows if graph.rows is None else graph.rows[rows]
    marked = np.zeros(graph.n_nodes, dtype=np.bool_)
    marked[nodes] = True
    found: NDArray[np.bool_] = marked[laplacian.nodes]
    return found


def given_of(estimator: Any) -> Constraints:
    """What the last fit was told of rows; labels of a propagator as constraints.

    Raises InputError for what is no fitted estimator that can be told something.
    """
    graph, name = getattr(estimator, "graph_", None), type(estimator).__name__
    told = hasattr(estimator, "given_labels_") or hasattr(estimator, "constraints_")
    if graph is None or not told or not hasattr(estimator, "refit"):
        raise InputError(
            f"{name}: nothing can be asked about it; give a fitted estimator that has refit, such "
            "as CSP or Poisson"
        )
    if not isinstance(graph, Graph):
        raise InputError(f"{name}: its graph is on disk, where nothing is asked; fit in memory")
    if hasattr(estimator, "given_labels_"):
        codes = encoded(estimator.given_labels_, "given_labels_")[0]
        return Constraints.from_labels(codes)
    found: Constraints = estimator.constraints_
    return found


def _labelled(given: Constraints) -> Ints:
    """Rows that have a label."""
    return np.empty(0, np.int64) if given.labels is None else np.flatnonzero(given.labels >= 0)


def unit_rows(Z: Floats) -> Floats:
    """Rows of length 1; zero rows stay."""
    found: Floats = Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-300)
    return found
