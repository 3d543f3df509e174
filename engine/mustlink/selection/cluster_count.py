"""How many clusters a graph has where nobody says: of networks by three counts, else by the gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from mustlink.cost.method_cost import MOST_COUNTED
from mustlink.eigen.solver import smallest_pairs
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.graph.derived import Key
from mustlink.graph.even_degrees import has_even_degrees
from mustlink.selection.network_counts import ROUGH, NetworkCounts, count_of_network, eigengaps
from mustlink.stopping import TIME_LIMIT
from mustlink.workspace import Workspace

_PART = 0.01  # share of the nodes from which a component is no crumb
_UNCLEAR, _CLEAR = 0.3, 0.6  # gap


@dataclass(frozen=True)
class ClusterCount:
    """K, how it was counted, and why it may be another; None where it is clear.

    `gap` is the widest among the eigenvalues, at most 1, see `eigengaps`.
    """

    k: int
    reason: str
    doubt: str | None
    gap: float


@dataclass(frozen=True)
class CountKey(Key[ClusterCount]):
    """K of a graph."""

    seed: int
    budget: int | None
    limit: float
    types: ClassVar[tuple[type, ...]] = (ClusterCount,)


def count_clusters(work: Workspace, seed: int) -> ClusterCount:
    """K of a graph, from 2; raises InputError where there is nothing to count.

    Networks are counted in three ways, see `count_of_network`; graphs of points, and those with
    weights in which all nodes have about as many edges, by the gap, see `count_by_gap`.
    """

    def counted() -> ClusterCount:
        if is_counted_as_network(work.graph):
            return _of_network(count_of_network(work, seed))
        return count_by_gap(work, seed)

    key = CountKey(work.single, seed, work.memory, work.recorder.deadline.limit)
    return work.derive("number of clusters", key, counted)


def is_counted_as_network(graph: Graph) -> bool:
    """Whether edges were given, and are equal or far more at some nodes than at others."""
    edges = np.diff(graph.affinity.indptr)
    edges = edges[edges > 0]
    if not graph.is_network or edges.size < 4:
        return False
    weights = graph.affinity.data
    return not has_even_degrees(edges) or float(weights.min()) == float(weights.max())


def _of_network(counts: NetworkCounts) -> ClusterCount:
    doubt = None
    if counts.in_time and counts.is_one:
        doubt = (
            f"perhaps there are no clusters at all: {counts.in_words}; edges of a network without "
            "clusters would look like that: do not rely on these"
        )
    elif not counts.is_clear:
        differ = "counts differ" if counts.in_time else "counts are guesses"
        doubt = (
            f"{differ}: {counts.in_words}; networks have structure at every scale, and "
            f"{counts.k} is one answer of several: name the number if you know it"
        )
    return ClusterCount(counts.k, counts.in_words, doubt, counts.gap)


def count_by_gap(work: Workspace, seed: int) -> ClusterCount:
    """K by the widest gap among the smoothest eigenvalues of the graph's larger components.

    The gap behind λ_K is (λ_{K+1} − λ_K)/(λ_{K+1} + 0.02), K from 2 to 20, or as many as there are
    components (von Luxburg 2007 §8.3 compares plain differences, which prefer large K). Raises
    InputError for graphs without gaps.
    """
    graph = work.graph
    sizes = np.bincount(graph.components)
    large = sizes >= max(2, _PART * graph.n_nodes)
    nodes = np.flatnonzero(large[graph.components])
    zeros = int(np.count_nonzero(large))
    most = max(MOST_COUNTED, zeros)
    wanted, values = min(most + 1, nodes.size - 1), np.zeros(zeros)
    in_time = True
    if wanted > zeros:
        if nodes.size < graph.n_nodes:
            work = work.on(Graph(sp.csr_matrix(graph.affinity[nodes][:, nodes])))
        found = smallest_pairs(work, wanted - zeros, tol=ROUGH, seed=seed)
        values = np.concatenate([values, np.maximum(found.values, 0.0)])
        in_time = found.convergence.reason != TIME_LIMIT
    gaps = eigengaps(values[: most + 1])
    if nodes.size < 4 or gaps.size == 0:
        raise InputError(
            f'n_clusters: "auto" has nothing to count in {nodes.size} nodes with edges; give a '
            "number"
        )
    k, gap = int(np.argmax(gaps)) + 2, float(gaps.max())
    reason = (
        f"the widest gap among the smallest eigenvalues is behind number {k} ({gap:.2f} of at most "
        "1)"
    )
    doubt = None
    if not in_time:
        doubt = f"there was no time for eigenvalues to converge: {k} is a guess, name the number"
    elif values[1] > _of_random(float(np.diff(graph.affinity.indptr)[nodes].mean())):
        doubt = (
            f"perhaps there are no clusters at all: the second eigenvalue, {values[1]:.2f}, is as "
            "large as in random graphs of as many edges: do not rely on these"
        )
    elif gap < _CLEAR:
        how = "no clear" if gap < _UNCLEAR else "only a moderate"
        doubt = (
            f"the eigenvalues have {how} gap behind {k} ({gap:.2f} of at most 1): name the number "
            "if you know it"
        )
    return ClusterCount(k, reason, doubt, gap)


def _of_random(degree: float) -> float:
    """The second eigenvalue of a random graph in which all nodes have `degree` edges (Friedman)."""
    return 1.0 - 2.0 * np.sqrt(degree - 1.0) / degree if degree > 2.0 else 2.0
