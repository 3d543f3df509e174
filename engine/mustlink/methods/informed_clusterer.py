"""Clusterers that are told something: how they are fitted, and doubts about what they are told."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mustlink.constraints import Constraints
from mustlink.errors import InputError
from mustlink.estimator import threads
from mustlink.labels import as_labels, encoded
from mustlink.methods.clusterer import GraphClusterer, Ints
from mustlink.observe import Observer, Recorder, recorded
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.scores import satisfaction
from mustlink.workspace import Workspace

_LOW = 0.7  # share of constraints kept that a person should hear about


@dataclass(eq=False, repr=False)
class InformedClusterer(GraphClusterer):
    """Base of the clusterers that take labels and constraints."""

    @abstractmethod
    def _check(self) -> None:
        """Raise InputError for parameters that make no sense."""

    @abstractmethod
    def _run(self, work: Workspace, known: Constraints, seed: int) -> None:
        """Cluster a graph with what is known and set the results."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        constraints: Constraints | None = None,
        observer: Observer | Recorder | None = None,
    ) -> Self:
        """Cluster points (n, d), an affinity (n, n) or a Graph with what is known.

        `y` (n,) are labels of some nodes, numbers with -1 for unknown or text with "": all their
        pairs are constraints; `constraints` anything else, or more.
        """
        self._check()
        recorder = recorded(observer)
        with threads(self.n_jobs):
            seed = self._seed()
            work = self._work(X, recorder, seed)
            known = side_information(work.graph.n_nodes, y, constraints, recorder)
            self._run(work, known, seed)
        return self


def side_information(
    n: int, y: Any, constraints: Constraints | None, recorder: Recorder
) -> Constraints:
    """Labels `y` (n,) and constraints together; raises InputError."""
    found = Constraints.none(n)
    if isinstance(y, Constraints):
        raise InputError("y: Constraints given; pass them as constraints=")
    if y is not None:
        found = found + Constraints.from_labels(as_labels(encoded(y, "y")[0], n))
        if found.is_empty and constraints is None:
            recorder.warn(f"labels: none of the {n} nodes has one; the graph alone was clustered")
    if constraints is not None:
        if not isinstance(constraints, Constraints):
            raise InputError(
                f"constraints: {type(constraints).__name__} given; make them by "
                "Constraints.from_pairs, from_labels, from_graph or from_matrix"
            )
        constraints.require_nodes(n)
        found = constraints if found.is_empty else found + constraints
    return found


def note_doubts(known: Constraints, laplacian: NormalizedLaplacian, recorder: Recorder) -> None:
    """Tell of constraints that contradict each other, and of nodes without an edge."""
    against = known.contradictions()
    if against:
        noun = "contradiction" if len(against) == 1 else "contradictions"
        more = f" and {len(against) - 3} more" if len(against) > 3 else ""
        named = "; ".join(str(one) for one in against[:3])
        recorder.warn(
            f"{len(against)} {noun} in the constraints, kept as soft; opposite "
            f"beliefs in one pair cancel: {named}{more}"
        )
    lost = int(np.count_nonzero(laplacian.positions[known.nodes] < 0))
    if lost:
        nodes = "node has" if lost == 1 else "nodes have"
        recorder.warn(f"{lost} constrained {nodes} no edge: their constraints cannot act")


def warn_if_broken(
    labels: Ints, known: Constraints, recorder: Recorder, instead: str = "another method"
) -> dict[str, float] | None:
    """Shares of the constraints that are kept, None without any; a warning where they are few."""
    if known.is_empty:
        return None
    kept = satisfaction(labels, known)
    if kept["kept_weighted"] < _LOW:
        recorder.warn(
            f"only {kept['kept_weighted']:.0%} of the constraints are kept: the graph says "
            f"otherwise, or they contradict each other; try {instead}"
        )
    return kept
