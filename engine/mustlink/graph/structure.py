"""What is read off an affinity alone: components, a node order, even degrees; nodes folded.

A node that stands for several: let P (n, m) say which node every one of n copies is, and C = PᵀP
count them. The repeated graph PWPᵀ, restricted to vectors Pg that are equal on copies of one node,
is the graph

    W' = CWC,   w'_ij the sum of the weights between all copies of i and all copies of j.

Its degrees, volume, cuts and normalised cut are those of the repeated graph; with v = PC^-½u the
form vᵀL̄v is uᵀL̄'u, and the rows D^-½V are D'^-½U. Counts need not be whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from mustlink.core.check import numeric_array
from mustlink.errors import InputError

Floats = NDArray[np.float64]
_FEW_ENTRIES = 1 << 18  # entries up to which scipy, a fifteenth as fast, need not load a compiler


def component_labels(affinity: sp.csr_matrix) -> NDArray[np.int32]:
    """Component of every node, (n,) int32: 0 is the largest, ties go by the smallest node.

    An isolated node is a component of its own. Cost O(n + nnz), for a few large components O(n).
    """
    if affinity.nnz < _FEW_ENTRIES:
        # On a symmetric matrix strong components are the components, found without a transpose.
        # Its entries are not looked at: a single 1 stands for all, or scipy would copy float32.
        ones = np.broadcast_to(np.float64(1.0), affinity.indices.shape)
        pattern = sp.csr_matrix((ones, affinity.indices, affinity.indptr), shape=affinity.shape)
        _, raw = connected_components(pattern, directed=True, connection="strong")
        return renumber_by_size(raw)
    from mustlink.kernels.graph_walk import smallest_members

    return renumber_by_size(smallest_members(affinity.indptr, affinity.indices))


def renumber_by_size(labels: NDArray[np.integer]) -> NDArray[np.int32]:
    """Labels from 0 renumbered by falling size, ties by first occurrence."""
    sizes, n = np.bincount(labels), labels.size
    first = np.empty(sizes.size, dtype=np.int64)
    first[labels[::-1]] = np.arange(n - 1, -1, -1)  # of several nodes the last written stays
    found = np.flatnonzero(sizes)
    rank = np.empty(sizes.size, dtype=np.int32)
    rank[found[np.lexsort((first[found], -sizes[found]))]] = np.arange(found.size, dtype=np.int32)
    return rank[labels]


_FEW_ORDERED = 1 << 22  # entries up to which scipy is done before a kernel is loaded


def cuthill_mckee(affinity: sp.csr_matrix) -> NDArray[np.int64]:
    """Return the reverse Cuthill-McKee order, (n,): node `order[i]` comes i-th.

    `W[order][:, order]` has its entries near the diagonal, which makes block products 3 to 4
    times faster. Cost O(nnz), about 0.4 s for 25 M entries.
    """
    if affinity.nnz < _FEW_ORDERED:
        order = reverse_cuthill_mckee(affinity, symmetric_mode=True)
    else:
        from mustlink.kernels.graph_walk import level_order

        order = level_order(affinity.indptr, affinity.indices)[::-1]
    return np.ascontiguousarray(order, dtype=np.int64)


# --- Whether all nodes have about as many edges, as where every node chose as many neighbours


SEEN = 1 << 20  # rows, at least, that tell of a graph that is not in memory
_EVEN = 0.6  # of the median number of edges
_EVEN_WEIGHT = 0.1  # of the median degree: neighbours in a Gaussian without a floor weigh 1e-60


@dataclass(frozen=True, eq=False)
class GraphLook:
    """What of a graph decides whether anything is added to its degrees, wherever it is.

    How it was made, the nodes with an edge, whether edges were given (`graph.is_network`), and
    `seen()`, numbers of edges and degrees of all of these, or of as many as suffice.
    """

    info: Mapping[str, Any]
    n_linked: int
    is_network: bool
    seen: Callable[[], tuple[NDArray[Any], NDArray[np.float64]]]

    @cached_property
    def even(self) -> tuple[bool, bool]:
        """Whether nodes have about as many edges, and whether about the same degree."""
        edges, degrees = self.seen()
        return has_even_degrees(edges), has_even_weights(degrees)


def has_even_degrees(edges: NDArray[Any]) -> bool:
    """Whether all but 1 % have 0.6 of the median or more; numbers of edges, (nodes with any,)."""
    return bool(np.quantile(edges, 0.01) >= _EVEN * np.median(edges))


def has_even_weights(degrees: NDArray[np.float64]) -> bool:
    """Whether all but 1 % have a tenth of the median or more; degrees, (nodes with an edge,)."""
    return bool(np.quantile(degrees, 0.01) >= _EVEN_WEIGHT * np.median(degrees))


# --- Nodes that stand for several


_FAR = 2.0**20


def fold(affinity: sp.csr_matrix, by: Floats) -> sp.csr_matrix:
    """CWC with C = diag(by), in W's precision; nodes that count nothing lose their edges.

    A matrix of its own: `affinity` is not changed. Cost O(nnz).
    """
    from mustlink.kernels.spmm import scaled

    W = affinity
    found = sp.csr_matrix((scaled(W, by), W.indices, W.indptr), shape=W.shape)
    if not by.all():
        found = found.copy()  # the pattern is W's
        found.eliminate_zeros()
    return found


def as_sample_weight(sample_weight: Any, n: int) -> Floats | None:
    """Weights (n,) of rows, finite and >= 0; None where they are all 1. Raises InputError.

    Clusters do not depend on their unit: where the largest is beyond 2²⁰ or below 2⁻²⁰ all are
    multiplied by a power of two, so that no product of two leaves the range of a graph's weights.
    """
    if sample_weight is None:
        return None
    where = "sample_weight"
    found = np.asarray(numeric_array(sample_weight, where), dtype=np.float64)
    if found.ndim == 0:
        found = np.full(n, float(found))
    if found.shape != (n,):
        raise InputError(f"{where}: shape {found.shape} for {n} rows; give one weight per row")
    bad = np.flatnonzero(~np.isfinite(found) | (found < 0))
    if bad.size:
        row = int(bad[0])
        raise InputError(
            f"{where}: row {row} has weight {found[row]:g}; weights are finite and not negative"
        )
    if not found.any():
        raise InputError(f"{where}: all {n} weights are zero; nothing to cluster")
    largest = float(found.max())
    if not 1 / _FAR <= largest <= _FAR:
        scaled = np.ldexp(found, -int(np.floor(np.log2(largest))))
        # One that becomes 0 would be no node; so its edges are lost, with a note.
        found = np.where(found > 0, np.maximum(scaled, np.finfo(np.float64).tiny), 0.0)
    return None if (found == 1.0).all() else found
