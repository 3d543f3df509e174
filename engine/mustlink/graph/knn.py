"""Nearest-neighbour graphs of points."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.check import (
    as_integer,
    as_points,
    as_random_state,
    check_choice,
    check_n_jobs,
    check_positive,
)
from mustlink.errors import InputError
from mustlink.graph import descent
from mustlink.graph.components import bridging_edges, component_labels
from mustlink.graph.exact import exact_neighbours, measured_recall
from mustlink.graph.graph import Graph
from mustlink.graph.weights import edge_weights, local_scales, mean_distance, neighbour_affinity
from mustlink.observe import Observer, Recorder

# n²(d + 130) up to which comparing all pairs, some 4 s, beats compiling the other way for 16 s. A
# fixed rule, not one that asks what is compiled: the same seed must give the same graph.
BRUTE_WORK = 8e10
_LOW_RECALL = 0.9


def knn_graph(
    points: Any,
    n_neighbors: int = 15,
    *,
    metric: str = "euclidean",
    weights: str = "local",
    sigma: float | None = None,
    connect: bool = True,
    random_state: Any = None,
    n_jobs: int | None = None,
    observer: Observer | Recorder | None = None,
    recall_sample: int = 500,
) -> Graph:
    """Symmetric graph that joins every point (n, d) with its nearest neighbours, itself excluded.

    W = (A + Aᵀ)/2 with A_ij = w(d_ij) for the `n_neighbors` nearest j of i, n - 1 when n is
    smaller. `weights`: "local" exp(-d²/(s_i s_j)), s_i the distance to the 7th neighbour
    (Zelnik-Manor & Perona 2004); "gaussian" exp(-d²/(2σ²)), σ the mean neighbour distance
    unless given (WD14, WHC11); "connectivity" 1. w is at least 1e-8. metric "cosine":
    rows are scaled to length 1 and d is the chord, d² = 2(1 - cos).

    Up to about 22,000 points of 32 coordinates all pairs are compared; above, NN-descent
    (approximate): the recall on `recall_sample` random points is measured and kept in `info`.
    With `connect`, components are joined by their shortest bridging edges and the number is kept
    and noted. Distances are single precision. The same `random_state` gives the same graph for
    any `n_jobs`.
    Raises InputError. Cost about O(n log n) and 1.2 GB for 10⁶ x 32.
    """
    recorder = observer if isinstance(observer, Recorder) else Recorder(observer)
    check_choice(metric, ("euclidean", "cosine"), "metric")
    check_choice(weights, ("local", "gaussian", "connectivity"), "weights")
    if sigma is not None:
        sigma = check_positive(sigma, "sigma")
    n_jobs = check_n_jobs(n_jobs)
    X = _prepare(as_points(points), metric)
    n = X.shape[0]
    k = as_integer(n_neighbors, "n_neighbors", low=1)
    if k > n - 1:
        recorder.note(f"n_neighbors: {k} asked of {n} points, {n - 1} used")
        k = n - 1
    rng = as_random_state(random_state)
    indices, distances, info = _neighbours(X, k, rng, n_jobs, recorder, recall_sample)

    with recorder.stage("weights"):
        scale: NDArray[np.float64] | float = 1.0
        if weights == "local":
            scale = local_scales(distances)
        elif weights == "gaussian":
            scale = sigma if sigma is not None else mean_distance(distances)
        W = neighbour_affinity(indices, distances, weights, scale)
        del indices, distances
    with recorder.stage("components"):
        labels = component_labels(W)
        n_parts = int(labels.max()) + 1
        n_bridges = 0
        if connect and n_parts > 1:
            W, n_bridges = _connect(W, X, labels, weights, scale, rng)
            recorder.note(
                f"kNN graph: {n_parts} components joined by {n_bridges} shortest bridging edges "
                "(connect=False keeps them apart)"
            )
    info |= {
        "n_neighbors": k,
        "metric": metric,
        "weights": weights,
        "sigma": scale if isinstance(scale, float) and weights == "gaussian" else None,
        "n_bridges": n_bridges,
        "components_before": n_parts,
    }
    return Graph(W, {"kind": "knn", **info})


def prepared_pair(
    X: NDArray[np.floating], Y: NDArray[np.floating], metric: str
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Two sets of points in single precision, comparable with each other as in `knn_graph`."""
    both = _prepare(np.concatenate([X, Y]), metric)
    return both[: X.shape[0]], both[X.shape[0] :]


def _prepare(X: NDArray[np.floating], metric: str) -> NDArray[np.float32]:
    """Single precision without losing digits: centred (Euclidean) or of unit length (cosine)."""
    n = X.shape[0]
    if n < 2:
        raise InputError(f"points: {n} row given; a graph needs at least 2")
    if metric == "cosine":
        largest = np.abs(X).max(axis=1, keepdims=True).astype(np.float64)
        zero = np.flatnonzero(largest[:, 0] == 0)
        if zero.size:
            raise InputError(
                f"points: row {zero[0]} is all zeros ({zero.size} such rows), it has no direction; "
                "remove it or use metric='euclidean'"
            )
        unit = X / largest
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        return np.ascontiguousarray(unit, dtype=np.float32)
    if X.dtype == np.float64:
        X = X - X.mean(axis=0)
    size = float(np.abs(X).max())
    if size > 1e18 or 0 < size < 1e-18:
        raise InputError(
            f"points: values of size {size:g} do not fit single precision; rescale the features"
        )
    return np.ascontiguousarray(X, dtype=np.float32)


def _neighbours(
    X: NDArray[np.float32],
    k: int,
    rng: np.random.Generator,
    n_jobs: int | None,
    recorder: Recorder,
    sample: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32], dict[str, Any]]:
    """Neighbour lists without the point itself, and how they were found."""
    n = X.shape[0]
    seed = int(rng.integers(2**31 - 1))  # drawn on both paths: later draws do not shift
    if n * n * (X.shape[1] + 130.0) <= BRUTE_WORK or k >= n // 4:
        with recorder.stage("kNN graph") as advance:
            indices, distances = exact_neighbours(X, np.arange(n), k, advance)
        return indices, distances, {"method": "brute", "recall": 1.0, "recall_sample": n}
    if not descent.is_compiled():
        with recorder.stage("compiling kNN kernels"):
            descent.compile_kernels()
    with recorder.stage("kNN graph") as advance:
        found, lengths = descent.neighbour_lists(X, k + 1, seed, n_jobs, advance)
        indices, distances = drop_self(found, lengths)
        del found, lengths
    with recorder.stage("kNN recall"):
        nodes = np.sort(rng.choice(n, size=min(n, max(1, sample)), replace=False))
        recall = measured_recall(X, nodes, distances[nodes])
    if recall < _LOW_RECALL:
        recorder.note(
            f"kNN graph: only {recall:.3f} of the true neighbours found (sample of "
            f"{nodes.size}); raise n_neighbors or reduce the dimension"
        )
    return (
        indices,
        distances,
        {
            "method": "pynndescent",
            "recall": recall,
            "recall_sample": int(nodes.size),
        },
    )


def drop_self(
    indices: NDArray[np.int32], distances: NDArray[np.float32]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Take the own index out of lists (n, k+1); where it is absent the farthest goes.

    Among duplicates the own index may stand anywhere in its list or be missing from it.
    """
    n, wide = indices.shape
    own = indices == np.arange(n, dtype=indices.dtype)[:, None]
    at = np.where(own.any(axis=1), own.argmax(axis=1), wide - 1)
    keep = np.ones((n, wide), dtype=bool)
    keep[np.arange(n), at] = False
    return indices[keep].reshape(n, wide - 1), distances[keep].reshape(n, wide - 1)


def _connect(
    W: sp.csr_matrix,
    X: NDArray[np.float32],
    labels: NDArray[np.int32],
    weights: str,
    scale: NDArray[np.float64] | float,
    rng: np.random.Generator,
) -> tuple[sp.csr_matrix, int]:
    """Add bridges between the components of W: weighted as its edges, at least as the least."""
    pairs, lengths = bridging_edges(X, labels, rng)
    i, j = pairs[:, 0], pairs[:, 1]
    value = np.maximum(edge_weights(lengths, i, j, weights, scale), float(W.data.min()))
    ends = (np.concatenate([i, j]), np.concatenate([j, i]))
    bridges = sp.csr_matrix((np.tile(value, 2), ends), shape=W.shape)
    return sp.csr_matrix(W + bridges), int(pairs.shape[0])
