"""What all clusterers share: side information, labels back to the caller's nodes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClusterMixin

from mustlink.check import as_labels, check_choice, check_n_clusters
from mustlink.constraints import Constraints
from mustlink.errors import InputError
from mustlink.estimator import GraphEstimator
from mustlink.graph import Graph
from mustlink.observe import Recorder
from mustlink.operators.laplacian import NormalizedLaplacian

Ints = NDArray[np.int64]
_GIANT = 0.95  # share of the nodes in one cluster that a person should look at
ISOLATED = ("drop", "assign")


@dataclass(eq=False, repr=False)
class GraphClusterer(ClusterMixin, GraphEstimator):
    """Base of the clusterers: K, and what every fit begins and ends with."""

    n_clusters: int = 8
    _: KW_ONLY
    isolated: str = "drop"

    def fit(self, X: Any, y: Any = None) -> GraphClusterer:
        """Set `labels_`; subclasses do."""
        raise NotImplementedError

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Ints:
        """`fit(X, y, ...)`, then `labels_`; scikit-learn's own would leave the labels `y` out."""
        self.fit(X, y, **options)
        found: Ints = self.labels_
        return found

    def _graph(self, X: Any, recorder: Recorder, seed: int) -> Graph:
        check_choice(self.isolated, ISOLATED, "isolated")
        return super()._graph(X, recorder, seed)

    def _columns(self) -> int:
        wanted = self.n_clusters  # what is no number is told later
        return wanted if isinstance(wanted, int) and wanted > 0 else super()._columns()

    def _side_information(self, n: int, y: Any, constraints: Constraints | None) -> Constraints:
        """Labels `y` (-1 = unknown) and constraints together."""
        found = Constraints.none(n)
        if isinstance(y, Constraints):
            raise InputError("y: Constraints given; pass them as constraints=")
        if y is not None:
            found = found + Constraints.from_labels(as_labels(y, n))
        if constraints is not None:
            if not isinstance(constraints, Constraints):
                raise InputError(
                    f"constraints: {type(constraints).__name__} given; make them by "
                    "Constraints.from_pairs, from_labels, from_graph or from_matrix"
                )
            constraints.require_nodes(n)
            found = constraints if found.is_empty else found + constraints
        return found

    def _check_clusters(self, graph: Graph) -> int:
        """K, checked against the nodes that can be clustered at all."""
        k = check_n_clusters(self.n_clusters, graph.n_nodes)
        linked = int(np.count_nonzero(graph.degrees))
        if k > linked:
            raise InputError(
                f"n_clusters: {k} clusters asked for, but only {linked} of {graph.n_nodes} nodes "
                "have an edge; ask for fewer"
            )
        return k

    def _labels(self, laplacian: NormalizedLaplacian, found: Ints, recorder: Recorder) -> Ints:
        """Labels in the caller's order; isolated nodes -1, or in the largest cluster."""
        labels = np.full(laplacian.n_nodes, -1, dtype=np.int64)
        labels[laplacian.nodes] = found
        largest = np.bincount(found).max() / found.size
        if largest > _GIANT and self.n_clusters < 1 / (1 - _GIANT):
            recorder.note(
                f"one cluster holds {largest:.1%} of the nodes, the others are small groups on its "
                "rim; look before relying on it"
            )
        count = np.unique(found).size
        if count < self.n_clusters:
            recorder.note(
                f"only {count} of {self.n_clusters} clusters have nodes: the vectors tell no more "
                "groups apart; ask for fewer clusters or give more constraints"
            )
        alone = laplacian.n_nodes - laplacian.size
        if alone:
            if self.isolated == "assign":
                labels[labels < 0] = int(np.bincount(found).argmax())
            done = "put in the largest cluster" if self.isolated == "assign" else "labelled -1"
            noun = "node has" if alone == 1 else "nodes have"
            recorder.note(f"{alone} {noun} no edge and cannot be clustered: {done}")
        return labels


def note_doubts(known: Constraints, laplacian: NormalizedLaplacian, recorder: Recorder) -> None:
    """Tell of constraints that contradict each other, and of nodes without an edge."""
    against = known.contradictions()
    if against:
        noun = "contradiction" if len(against) == 1 else "contradictions"
        more = f" and {len(against) - 3} more" if len(against) > 3 else ""
        named = "; ".join(str(one) for one in against[:3])
        recorder.note(
            f"{len(against)} {noun} in the constraints, kept as soft; opposite "
            f"beliefs in one pair cancel: {named}{more}"
        )
    lost = int(np.count_nonzero(laplacian.positions[known.nodes] < 0))
    if lost:
        nodes = "node has" if lost == 1 else "nodes have"
        recorder.note(f"{lost} constrained {nodes} no edge: their constraints cannot act")
