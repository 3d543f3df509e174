"""Clusters of a network moved on to likelier ones of the degree-corrected block model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.solver import laplacian_of
from mustlink.rounding.block_model import BlockModel, refine
from mustlink.workspace import Workspace

Ints = NDArray[np.int64]


def refined_clusters(work: Workspace, clusters: Ints, held: Ints, seed: int) -> Ints:
    """Clusters (n,) of the nodes of a graph, -1 for none, from those given; nodes `held` stay."""
    laplacian = laplacian_of(work)
    stays = np.zeros(clusters.size, dtype=np.bool_)
    stays[held] = True
    nodes, found = laplacian.nodes, clusters.copy()
    start = BlockModel.of(laplacian, clusters[nodes], int(clusters.max()) + 1)
    until = work.recorder.deadline
    found[nodes] = refine(start, stays[nodes], seed, until=until).blocks
    return found
