"""Neighbourhoods of points, which LNP, LLELP, LTSALP and embeddings without labels fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from mustlink.core.observe import Recorder
from mustlink.kernels.local_fits import nearest_listed
from mustlink.operators.laplacian import NormalizedLaplacian

Lists = NDArray[np.int32]
_FAR = 1e15  # sizes of coordinates whose sums of squares fit single precision, and their inverse


def located(points: NDArray[np.floating[Any]], metric: str) -> NDArray[np.floating[Any]]:
    """The points (m, d) as neighbours are near: of unit length for the cosine metric.

    Fits do not depend on their unit: a power of two is taken out where squares would not fit.
    """
    size = float(np.abs(points).max(initial=0.0))
    if size and not 1 / _FAR <= size <= _FAR:
        points = np.ldexp(points, -int(np.frexp(size)[1]))
    if metric != "cosine":
        return points
    length = np.linalg.norm(points.astype(np.float64), axis=1, keepdims=True)
    return (points / length).astype(points.dtype)


def neighbourhoods(
    points: NDArray[np.floating[Any]], laplacian: NormalizedLaplacian, k: int, recorder: Recorder
) -> Lists:
    """The k nearest graph neighbours of every node (m, k), -1 where it has fewer.

    Edges that bridge a graph are long, and among the k nearest of nobody. Where the lists fall into
    more parts than the graph, the nearest neighbour in another part is one more column.
    """
    edges, parts, size = laplacian.pattern, laplacian.null.n_components, laplacian.size
    lists = nearest_listed(points, edges.indptr, edges.indices, k)
    while (part := _parts(lists)).max() + 1 > parts:
        ends = edges.rows
        crossing = part[ends] != part[edges.indices]
        counts = np.bincount(ends[crossing], minlength=size)
        indptr = np.append(0, np.cumsum(counts)).astype(edges.indptr.dtype)
        nearest = nearest_listed(points, indptr, edges.indices[crossing], 1)
        recorder.note(
            f"the {k} nearest neighbours leave {int(part.max()) + 1} parts where the graph has "
            f"{parts}; {int((counts > 0).sum())} nodes take their shortest edge across as well"
        )
        lists = np.hstack([lists, nearest])
    return lists


def _parts(lists: Lists) -> NDArray[np.int32]:
    """Part of every node, taking the lists for undirected edges."""
    joined = as_matrix(np.ones(lists.shape), lists)
    return np.asarray(connected_components(joined, directed=False)[1], dtype=np.int32)


def as_matrix(weights: NDArray[np.float64], lists: Lists) -> sp.csr_matrix:
    """Weights (m, k) of the listed neighbours as a CSR matrix (m, m), sorted, without zeros."""
    there = (lists >= 0) & (weights != 0)
    indptr = np.append(0, np.cumsum(there.sum(axis=1))).astype(np.int32)
    m = lists.shape[0]
    found = sp.csr_matrix((weights[there], lists[there], indptr), shape=(m, m))
    found.sort_indices()
    return found
