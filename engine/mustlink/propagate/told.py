"""What a caller tells of nodes: labels, and beliefs in a prior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mustlink.graph.bipartite import on_both_sides
from mustlink.labels import as_labels, check_two_classes, labels_of_nodes
from mustlink.propagate.glp import Floats, Ints
from mustlink.propagate.prior import Prior
from mustlink.workspace import Workspace


@dataclass(frozen=True, eq=False)
class Told:
    """Labels of rows (n,) as given, of nodes (m,), and how many copies of a node have its label.

    `counts` (m,) is None where every row is a node. `prior` is what is believed of nodes.
    """

    rows: Ints
    nodes: Ints
    counts: Floats | None
    prior: Prior | None = None

    @classmethod
    def of(cls, labels: Ints, work: Workspace, prior: Any = None, belief: Any = None) -> Told:
        """What labels of rows (n,) say of the nodes that they are; tells of contradictions.

        `prior` and `belief` are as in `Prior.of`, where something is believed.
        """
        graph = work.graph
        labels = as_labels(on_both_sides(labels, graph), graph.n_rows, "y")
        found = cls._of_nodes(labels, work)
        if prior is None:
            return found
        return replace(found, prior=Prior.of(prior, belief, found.classes.size, work))

    @classmethod
    def _of_nodes(cls, labels: Ints, work: Workspace) -> Told:
        graph = work.graph
        if graph.rows is None and graph.weights is None:
            return cls(labels, labels, None)
        rows = np.arange(graph.n_nodes) if graph.rows is None else graph.rows
        weights = work.weight_of_rows
        nodes, doubt = labels_of_nodes(labels, rows, weights, graph.n_nodes)
        if doubt:
            work.recorder.warn(doubt)
        check_two_classes(nodes, "y")
        agree = (labels >= 0) & (labels == nodes[rows])
        counts = np.bincount(rows[agree], weights[agree], graph.n_nodes).astype(np.float64)
        return cls(labels, nodes, counts)

    @property
    def classes(self) -> Ints:
        """Classes (K,) of which a node has the label."""
        return np.unique(self.nodes[self.nodes >= 0])

    @property
    def all(self) -> tuple[Floats | Ints | None, ...]:
        """What answers depend on."""
        believed = () if self.prior is None else (self.prior.values, self.prior.belief)
        return self.nodes, self.counts, *believed

    def without(self, held: Ints) -> Told:
        """The same with the labels of the nodes `held` kept back."""
        nodes = self.nodes.copy()
        nodes[held] = -1
        return replace(self, nodes=nodes)
