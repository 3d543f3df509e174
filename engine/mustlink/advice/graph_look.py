"""What a graph looks like: components, degrees, of what kind it is; its spectrum."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.advice.observations import Count, Links
from mustlink.eigen.solver import smallest_pairs
from mustlink.graph import Graph
from mustlink.workspace import Workspace

MOST_CLUSTERS = 20  # that are looked for in the spectrum
SPECTRUM_NODES = 30_000  # a graph of more is not decomposed for a guess
DEFAULT_CLUSTERS = 8  # of the estimators
_PART = 0.01  # share of the nodes from which a component is no crumb
_OFFSETS = 40  # steps between neighbours that a grid of pixels has at most, both ways
_GRID = 0.5  # share of the edges that they make
_GRID_NODES = 400
_EVEN = 0.6  # low degree by the median one from which every node chose as many neighbours
_FLOOR = 0.02  # eigenvalues below this are as good as 0
_ROUGH = 1e-2


def look_at_graph(graph: Graph) -> Links:
    """Components and degrees. Cost O(n + nnz)."""
    n, W = graph.n_nodes, graph.affinity
    degree = np.diff(W.indptr)
    sizes = np.bincount(graph.components)
    parts = sizes >= max(2, _PART * n)
    crumbs = sizes[~parts & (sizes > 1)].sum() / n
    return Links(
        nodes=n,
        edges=graph.n_edges,
        parts=int(np.count_nonzero(parts)),
        crumbs=float(crumbs),
        isolated=int(np.count_nonzero(degree == 0)),
        low_degree=float(np.quantile(degree[degree > 0], 0.01)),
        median_degree=float(np.median(degree)),
        largest_degree=int(degree.max()),
    )


def kind_of_graph(graph: Graph, links: Links) -> str:
    """Return pixels, network or graph; see `Seen`."""
    if is_pixels(graph):
        return "pixels"
    even = links.low_degree >= _EVEN * links.median_degree
    return "graph" if even or graph.info.get("kind") in ("knn", "rbf") else "network"


def is_pixels(graph: Graph) -> bool:
    """Whether the nodes are the pixels of a picture, row by row: few steps make most edges."""
    if graph.info.get("kind") == "image":
        return True
    W = graph.affinity
    if graph.n_nodes < _GRID_NODES or W.nnz > 100 * graph.n_nodes:
        return False
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(W.indptr))
    steps = np.unique(rows - W.indices, return_counts=True)[1]
    if steps.size <= 4:
        return False  # a path or a ring
    common = np.sort(steps)[::-1][:_OFFSETS]
    return bool(common.sum() >= _GRID * W.nnz)


def count_clusters(graph: Graph, seed: int) -> Count:
    """K by the widest gap among the smoothest eigenvalues of the graph's larger components.

    The gap behind λ_K is (λ_{K+1} − λ_K)/(λ_{K+1} + 0.02), K from 2 to 20 (von Luxburg 2007 §8.3
    compares plain differences, which prefer large K). Up to 30,000 nodes; above, 8 and no gap.
    """
    if graph.n_nodes > SPECTRUM_NODES:
        return Count(min(DEFAULT_CLUSTERS, graph.n_nodes), "default")
    sizes = np.bincount(graph.components)
    large = sizes >= max(2, _PART * graph.n_nodes)
    nodes = np.flatnonzero(large[graph.components])
    if nodes.size < 4:
        return Count(min(2, graph.n_nodes), "default")
    own = graph
    if nodes.size < graph.n_nodes:
        own = Graph(sp.csr_matrix(graph.affinity[nodes][:, nodes]))
    zeros = int(np.count_nonzero(large))
    wanted = min(MOST_CLUSTERS + 1, nodes.size - 1)
    values = np.zeros(zeros)
    if wanted > zeros:
        found = smallest_pairs(Workspace(own), wanted - zeros, tol=_ROUGH, seed=seed)
        values = np.concatenate([values, np.maximum(found.values, 0.0)])
    gaps = eigengaps(values[: MOST_CLUSTERS + 1])
    if gaps.size == 0:
        return Count(min(max(zeros, 2), graph.n_nodes), "default")
    best = int(np.argmax(gaps))
    return Count(best + 2, "gap", float(gaps[best]))


def eigengaps(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gaps behind λ_2, λ_3 …, from ascending eigenvalues λ_1 …, each in [0, 1]."""
    return (values[2:] - values[1:-1]) / (values[2:] + _FLOOR)
