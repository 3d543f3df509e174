"""What a graph looks like: components, degrees, of what kind it is; its spectrum."""

from __future__ import annotations

import numpy as np

from mustlink.advice.observations import Count, Links
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.graph.even_degrees import is_even
from mustlink.selection.cluster_count import count_clusters, is_counted_as_network
from mustlink.workspace import Workspace

SPECTRUM_NODES = 30_000  # a graph of more is not decomposed for a guess
NETWORK_NODES = 50_000  # whose vectors need no sharpness
DEFAULT_CLUSTERS = 8  # of the estimators
_PART = 0.01  # share of the nodes from which a component is no crumb
_OFFSETS = 40  # steps between neighbours that a grid of pixels has at most, both ways
_GRID = 0.5  # share of the edges that they make
_GRID_NODES = 400


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
    even = is_even(links.low_degree, links.median_degree)
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


def count_of_graph(graph: Graph, seed: int) -> Count:
    """K as clusterers count it; 2 of next to nothing, and where counting takes longer than a look
    8 for the bill alone, while the fit is to count.

    Cost: a few seconds; ten or more for networks of 50,000 nodes.
    """
    network = is_counted_as_network(graph)
    if graph.n_nodes > (NETWORK_NODES if network else SPECTRUM_NODES):
        return Count(DEFAULT_CLUSTERS, "later")
    try:
        found = count_clusters(Workspace(graph), seed)
    except InputError:  # nothing to count
        return Count(min(2, graph.n_nodes), "default")
    source = "network" if network else "gap"
    return Count(found.k, source, found.gap, found.reason, found.doubt)
