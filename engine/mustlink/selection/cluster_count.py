"""How many clusters a graph has where nobody says.

By pairs, where some are known; else of networks by three counts, and of points by the gap among the
smallest eigenvalues, or by the step where all of them are small: clusters that are long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.cost.method_cost import MOST_COUNTED
from mustlink.eigen.solver import smallest_pairs
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.graph.derived import Key
from mustlink.graph.even_degrees import has_even_degrees
from mustlink.selection.network_counts import (
    FLOOR,
    MOST,
    ROUGH,
    NetworkCounts,
    count_of_network,
    counting_view,
    eigengaps,
)
from mustlink.selection.pair_count import PairCount, can_count_by_pairs, count_by_pairs
from mustlink.stopping import TIME_LIMIT
from mustlink.workspace import Workspace

_PART = 0.01  # share of the nodes from which a component is no crumb
# Gaps, and steps. Of one piece (intervals, rings, rolls, squares, cubes, spheres, clouds; 80 to
# 3,000 points, eight draws) gaps are at most .67, .45 from 200 points on; steps .8 behind 2 and 3
# but for few draws, where they are .9, and behind larger numbers .67.
_UNCLEAR, _LIKELY, _CLEAR = 0.45, 0.6, 0.68
_FEW = 3  # an interval's eigenvalues 0, 1, 4, 9 … and a ring's 0, 1, 1, 4, 4 … have .75 so early
_STEP, _CLEAR_STEP = (0.8, 0.7), (0.91, 0.75)  # up to so few, and beyond; several strands: .75 anew
_SHARP = 1e-4  # residual of eigenvalues of which some are small
_NONE = 1e-5  # eigenvalues below this are as good as 0 beside other small ones
_TOLD, _RIVAL = 3, 0.4  # other numbers that a reason names, of at least so much of the widest gap
_WIDE = 2  # numbers that keep pairs as well, beyond which K is not clear


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


def count_clusters(work: Workspace, seed: int, known: Constraints | None = None) -> ClusterCount:
    """K of a graph, from 2; raises InputError where there is nothing to count.

    Networks are counted in three ways, see `count_of_network`; graphs of points, and those with
    weights in which all nodes have about as many edges, by the gap, see `count_by_gap`. Where
    `known` are 30 pairs or more of both kinds, they decide, see `count_by_pairs`.
    """

    def counted() -> ClusterCount:
        if is_counted_as_network(work.graph):
            return _of_network(count_of_network(work, seed))
        return count_by_gap(work, seed)

    key = CountKey(work.single, seed, work.memory, work.recorder.deadline.limit)
    found = work.derive("number of clusters", key, counted)
    if known is None or not can_count_by_pairs(known):
        return found
    network = is_counted_as_network(work.graph)
    most = min(MOST, max(MOST_COUNTED, 2 * found.k)) if network else MOST_COUNTED
    view = counting_view(work)[0] if network else work
    pairs = count_by_pairs(view, known, most, seed)
    return found if pairs is None else _with_pairs(found, pairs)


def _with_pairs(graph: ClusterCount, pairs: PairCount) -> ClusterCount:
    doubt = None
    if pairs.high - pairs.low > _WIDE:
        doubt = (
            f"{pairs.in_words}: give more pairs, or name the number if you know it ({graph.reason})"
        )
    return ClusterCount(pairs.k, f"{pairs.in_words}; {graph.reason}", doubt, graph.gap)


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
    components (von Luxburg 2007 §8.3 compares plain differences, which prefer large K). Within long
    clusters eigenvalues are below 0.02, too: where no gap is wide, K is before the last step
    (λ_{K+1} − λ_K)/λ_{K+1} of at least 0.8, which one piece does not have. Raises InputError for
    graphs without gaps.
    """
    graph = work.graph
    sizes = np.bincount(graph.components)
    large = sizes >= max(2, _PART * graph.n_nodes)
    nodes = np.flatnonzero(large[graph.components])
    zeros = int(np.count_nonzero(large))
    most = max(MOST_COUNTED, zeros)
    if nodes.size < graph.n_nodes:
        work = work.on(Graph(sp.csr_matrix(graph.affinity[nodes][:, nodes])))
    wanted = min(most + 1, nodes.size - 1)
    values, in_time = _values(work, zeros, wanted, ROUGH, seed)
    gaps = eigengaps(values[: most + 1])
    if nodes.size < 4 or gaps.size == 0:
        raise InputError(
            f'n_clusters: "auto" has nothing to count in {nodes.size} nodes with edges; give a '
            "number"
        )
    k, gap, steps = int(np.argmax(gaps)) + 2, float(gaps.max()), np.zeros(0)
    if gap < _LIKELY and values[1] < FLOOR and in_time:
        values, in_time = _values(work, zeros, wanted, _SHARP, seed)
        steps = eigengaps(values[: most + 1], _NONE)
    stepped = last_step(steps)
    by_step = stepped is not None
    if stepped is not None:
        k = stepped
        reason = (
            f"the last step among the smallest eigenvalues is behind number {k}, from "
            f"{values[k - 1]:.2g} to {values[k]:.2g}"
        )
    else:
        reason = (
            f"the widest gap among the smallest eigenvalues is behind number {k} ({gap:.2f} of at "
            "most 1)"
        )
    reason += _others(gaps, k)
    doubt = None
    if not in_time:
        doubt = f"there was no time for eigenvalues to converge: {k} is a guess, name the number"
    elif values[1] > _of_random(float(np.diff(graph.affinity.indptr)[nodes].mean())):
        doubt = (
            f"perhaps there are no clusters at all: the second eigenvalue, {values[1]:.2f}, is as "
            "large as in random graphs of as many edges: do not rely on these"
        )
    elif by_step and steps[k - 2] < _CLEAR_STEP[k > _FEW]:
        doubt = f"{reason}: only a moderate step; name the number if you know it"
    elif not by_step and gap < _UNCLEAR:
        doubt = (
            f"no clear number of clusters: {reason}, and data of one piece have such gaps; name "
            "the number if you know it"
        )
    elif not by_step and gap < _CLEAR:
        doubt = f"{reason}: only a moderate gap; name the number if you know it"
    return ClusterCount(k, reason, doubt, gap)


def _values(
    work: Workspace, zeros: int, wanted: int, tol: float, seed: int
) -> tuple[NDArray[np.float64], bool]:
    """The smallest `wanted` eigenvalues, of which as many are 0 as told, and if there was time."""
    if wanted <= zeros:
        return np.zeros(zeros), True
    found = smallest_pairs(work, wanted - zeros, tol=tol, seed=seed)
    values = np.concatenate([np.zeros(zeros), np.maximum(found.values, 0.0)])
    return values, found.convergence.reason != TIME_LIMIT


def last_step(steps: NDArray[np.float64]) -> int | None:
    """K before the last high step, or where there is none before the last of more than three."""
    high = np.flatnonzero(steps >= _STEP[0])
    if not high.size:
        high = np.flatnonzero(steps >= _STEP[1])
        high = high[high + 2 > _FEW]
    return int(high[-1]) + 2 if high.size else None


def _others(gaps: NDArray[np.float64], k: int) -> str:
    """The candidates beside K, by their gaps."""
    wide = [int(at) + 2 for at in np.argsort(-gaps, kind="stable") if at + 2 != k]
    others = [one for one in wide[:_TOLD] if gaps[one - 2] >= _RIVAL * gaps.max()]
    named = ", ".join(f"{other} ({gaps[other - 2]:.2f})" for other in others)
    return f"; others: {named}" if named else ""


def _of_random(degree: float) -> float:
    """The second eigenvalue of a random graph in which all nodes have `degree` edges (Friedman)."""
    return 1.0 - 2.0 * np.sqrt(degree - 1.0) / degree if degree > 2.0 else 2.0
