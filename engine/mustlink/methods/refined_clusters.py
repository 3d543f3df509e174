"""Clusters of a network moved on to likelier ones of the degree-corrected block model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.solver import laplacian_of
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.rounding.block_model import BlockModel, refine
from mustlink.workspace import Workspace

Ints = NDArray[np.int64]


def refined_clusters(
    work: Workspace, place: NormalizedLaplacian, clusters: Ints, k: int, held: Ints, seed: int
) -> Ints:
    """Likelier clusters (m,) of k than those of the working nodes of `place`; nodes `held` stay.

    Likely by the edges of `work`: an adjusted graph may have nodes with edges elsewhere.
    """
    laplacian = laplacian_of(work.regularized(0.0))
    found = np.full(laplacian.n_nodes, -1, dtype=np.int64)
    stays = np.zeros(laplacian.n_nodes, dtype=np.bool_)
    found[place.nodes], stays[held] = clusters, True
    nodes = laplacian.nodes
    start = BlockModel.of(laplacian, found[nodes], k)
    found[nodes] = refine(start, stays[nodes], seed, recorder=work.recorder).blocks
    return found[place.nodes]
