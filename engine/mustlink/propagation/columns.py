"""What the columns of points say of their classes: a classifier on columns and smooth vectors.

Distances take all columns alike; trees take those that tell the classes apart. With the smoothest
eigenvectors of the neighbour graph as columns, they learn from points without a label, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mustlink.context.stage_cache import Workspace
from mustlink.eigen.solver import laplacian_of, smoothest
from mustlink.kernels.blocks import row_slices
from mustlink.kernels.threads import in_threads

Ints = NDArray[np.int64]
Block = NDArray[np.float64]
TREES = 200
_WIDTH = 256  # columns for which blocks of rows are made


@dataclass(frozen=True, eq=False)
class Columns:
    """Points (n, d) and rows (m, p) of smooth vectors of their nodes, `nodes` (n,) of the points.

    Memory: the vectors; rows of both are put together by blocks.
    """

    points: NDArray[np.floating]
    vectors: Block
    nodes: NDArray[np.integer[Any]]

    @classmethod
    def of(
        cls, points: NDArray[np.floating], work: Workspace, p: int, computed: int, seed: int
    ) -> Self:
        """With the p smoothest vectors D^-½v of the graph of the points, 0 without an edge.

        They are the first of so many `computed`, which others take as well; of p = 0 none is.
        """
        graph = work.graph
        nodes = np.arange(graph.n_nodes) if graph.rows is None else graph.rows
        if p == 0:
            return cls(points, np.empty((graph.n_nodes, 0)), nodes)
        laplacian, basis = laplacian_of(work), smoothest(work, max(p, computed), seed=seed)
        rows = np.zeros((graph.n_nodes, min(p, basis.p)))
        rows[laplacian.nodes] = (basis.vectors / laplacian.root_degree[:, None])[:, : rows.shape[1]]
        return cls(points, rows, nodes)

    def rows(self, some: Any) -> Block:
        """Columns and vectors of some points."""
        return np.column_stack([self.points[some], self.vectors[self.nodes[some]]])

    def chances(self, labels: Ints, classes: Ints, seed: int, n_trees: int = TREES) -> Block:
        """Chances (n, K) of classes by extra trees on the labelled points (Geurts et al. 2006).

        `labels` (n,) are -1 where unknown. The same for any number of threads.
        """
        from sklearn.ensemble import ExtraTreesClassifier

        known = np.flatnonzero(labels >= 0)
        model = ExtraTreesClassifier(n_trees, random_state=seed)
        model.fit(self.rows(known), labels[known])
        found = np.zeros((labels.size, classes.size))
        at = np.searchsorted(classes, model.classes_)

        def fill(block: slice) -> None:
            part = np.zeros((block.stop - block.start, classes.size))
            part[:, at] = model.predict_proba(self.rows(block))
            found[block] = part

        in_threads(fill, row_slices(labels.size, _WIDTH))
        return found
