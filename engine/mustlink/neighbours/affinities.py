"""The graph that `affinity` of an estimator names: of points, or of a matrix that is one."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from mustlink.check import check_choice
from mustlink.errors import InputError
from mustlink.graph.graph import Graph
from mustlink.graph.rbf import rbf_graph
from mustlink.graph.scikit_graphs import graph_of_connectivity, graph_of_distances, is_connectivity
from mustlink.neighbours.knn import WEIGHTS, knn_graph
from mustlink.observe import Recorder

PRECOMPUTED = ("precomputed", "precomputed_nearest_neighbors")  # scikit-learn's names
AFFINITIES = ("knn", "rbf", *PRECOMPUTED)


def affinity_graph(
    X: Any,
    recorder: Recorder,
    *,
    affinity: str,
    n_neighbors: int,
    metric: str,
    weights: str,
    **search: Any,
) -> Graph:
    """Points (n, d) or a matrix (n, n) as a graph, see `GraphEstimator`; raises InputError.

    `search` is for `knn_graph`, where equal rows are one node.
    """
    if affinity == "precomputed":
        return _matrix_graph(X, recorder)
    if affinity == "precomputed_nearest_neighbors":
        check_choice(weights, WEIGHTS, "weights")
        with recorder.stage("weights"):
            return graph_of_distances(X, weights)
    if sp.issparse(X):
        raise InputError(
            'affinity: X is a sparse matrix; say affinity="precomputed" if it is a graph, '
            "or give points as a dense array"
        )
    if affinity == "rbf":
        with recorder.stage("rbf graph"):
            return rbf_graph(X)
    return knn_graph(
        X,
        n_neighbors,
        metric=metric,
        weights=weights,
        observer=recorder,
        duplicates="merge",
        **search,
    )


def _matrix_graph(X: Any, recorder: Recorder) -> Graph:
    """An affinity (n, n), or scikit-learn's neighbours of ones, with a note."""
    with recorder.stage("checking the graph"):
        directed = is_connectivity(X)
        graph = graph_of_connectivity(X) if directed else Graph.from_affinity(X)
    if directed:
        recorder.note(
            f"affinity: {graph.info['n_neighbors']} neighbours in every row and not "
            "symmetric, taken for a kneighbors_graph A: (A + A.T) / 2 is clustered"
        )
    return graph
