"""From propagated constraints to clusters: the graph adjusted and cut in several ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mustlink.constraints import Constraints
from mustlink.eigen.solver import LaplacianKey, WideWeightsKey, laplacian_of
from mustlink.graph import Graph
from mustlink.linear.multigrid.smoothed_aggregation import has_wide_weights
from mustlink.lyapunov.adjustment import Adjustment
from mustlink.methods.ncut import Cut, normalized_cut
from mustlink.observe import Recorder
from mustlink.operators.laplacian import NormalizedLaplacian, scaled
from mustlink.scores import mncut, satisfaction
from mustlink.workspace import Workspace

_ROUNDING = 1e-6  # weights in single precision may exceed 1 by as much


@dataclass(frozen=True)
class Ways:
    """What to try: powers of F times variants of the cut; how F is shaped, and how to cut."""

    powers: tuple[float, ...]
    shaped: Callable[[float], Adjustment]
    variants: tuple[str, ...]
    k: int
    cutting: dict[str, Any]


class Tried(NamedTuple):
    """A candidate as the report lists it: share of the constraints kept, MNCut."""

    power: float
    variant: str
    kept: float
    mncut: float


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way from F to clusters. `place` tells the nodes of the adjusted graph, without its S.

    `worth` is the share of the constraints kept and minus the MNCut in the graph as given.
    """

    place: NormalizedLaplacian
    cut: Cut
    power: float
    variant: str
    worth: tuple[float, float]
    tried: tuple[Tried, ...] = ()


def best_cut(
    work: Workspace,
    known: Constraints,
    ways: Ways,
    spread: str | None = None,
) -> Candidate:
    """The clusters that keep most constraints; of equals those of least MNCut, then the first.

    `spread` names the propagation, see `Shelf.name_of`.

    Cost: one eigenproblem per power; one adjusted graph and its multigrid are held at a time.
    """
    graph, recorder, laplacian = work.graph, work.recorder, laplacian_of(work)
    best: Candidate | None = None
    tried = []
    for power in ways.powers:
        with recorder.stage("adjusted graph"):
            adjusted = adjusted_graph(laplacian, ways.shaped(power), recorder)
        adjusted.derived.origin = work.shelf.name_of("adjusted graph", spread, power)
        cutting = work.on(adjusted)
        inner = laplacian_of(cutting)
        place = replace(
            inner,
            S=sp.csr_matrix(inner.S.shape),
            nodes=laplacian.nodes[inner.nodes],
            n_nodes=graph.n_nodes,
        )
        del inner
        for variant in ways.variants:
            cut = normalized_cut(cutting, ways.k, variant=variant, **ways.cutting)
            worth = _worth(graph, place, cut, known)
            tried.append(Tried(power, variant, worth[0], -worth[1]))
            if best is None or worth > best.worth:
                best = Candidate(place, cut, power, variant, worth)
            del cut
        del adjusted, cutting  # before the next is made
    assert best is not None
    return replace(best, tried=tuple(tried))


def adjusted_graph(laplacian: NormalizedLaplacian, change: Adjustment, recorder: Recorder) -> Graph:
    """W* (m, m) in working order; its Laplacian is made without another renumbering."""
    S, root = laplacian.S, laplacian.root_degree
    weights = scaled(S, root)
    largest = float(weights.max(initial=0.0))
    if largest > 1.0 + _ROUNDING:
        recorder.note(f"the graph's weights were divided by {largest:.4g}, the largest of them")
        weights /= largest
    np.minimum(weights, 1.0, out=weights)
    W = sp.csr_matrix((weights, S.indices, S.indptr), shape=S.shape)
    del weights
    adjusted = Graph(change.apply(W), {"kind": "adjusted"})
    adjusted.derived.put(WideWeightsKey(None), has_wide_weights(laplacian))
    if np.diff(adjusted.affinity.indptr).all():
        own = NormalizedLaplacian.of_weights(adjusted.affinity)
        adjusted.derived.put(LaplacianKey(own.S.dtype == np.float32), own)
    return adjusted


def _worth(
    graph: Graph, place: NormalizedLaplacian, cut: Cut, known: Constraints
) -> tuple[float, float]:
    labels = np.full(place.n_nodes, -1, dtype=np.int64)
    labels[place.nodes] = cut.clusters
    kept = 1.0 if known.is_empty else satisfaction(labels, known)["kept_weighted"]
    return kept, -mncut(graph, labels)
