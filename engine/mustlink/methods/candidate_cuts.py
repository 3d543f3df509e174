"""Several ways to the same clusters, and which of them keeps most constraints."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from mustlink.constraints import Constraints
from mustlink.eigen.solver import laplacian_of
from mustlink.graph import Graph
from mustlink.methods.normalized_cut import Cut
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.scores import mncut, satisfaction
from mustlink.workspace import Workspace


class Tried(NamedTuple):
    """A candidate as the report lists it: share of the constraints kept, MNCut."""

    power: float
    variant: str
    kept: float
    mncut: float


@dataclass(frozen=True, eq=False)
class Candidate:
    """A cut of an adjusted graph; `place` tells that graph's nodes and holds none of its edges."""

    place: NormalizedLaplacian
    cut: Cut
    power: float
    variant: str


@dataclass(eq=False)
class CandidateCuts:
    """Cuts one after the other; only the best is held.

    It keeps most constraints; of equals it has the least MNCut in the graph as given, then it is
    the first.
    """

    graph: Graph
    known: Constraints
    tried: list[Tried] = field(default_factory=list)
    _best: Candidate | None = None

    @property
    def best(self) -> Candidate:
        """The best so far."""
        assert self._best is not None
        return self._best

    def add(self, one: Candidate) -> None:
        """Compare another."""
        labels = np.full(one.place.n_nodes, -1, dtype=np.int64)
        labels[one.place.nodes] = one.cut.clusters
        known, rows = self.known.as_given, self.graph.spread(labels)
        kept = 1.0 if self.known.is_empty else _kept(satisfaction(rows, known))
        cost = mncut(self.graph, labels)
        if all((kept, -cost) > (other.kept, -other.mncut) for other in self.tried):
            self._best = one
        self.tried.append(Tried(one.power, one.variant, kept, cost))

    @property
    def why(self) -> str:
        """Why the best was taken."""
        if self.known.is_empty:
            return "no constraints"
        if len(self.tried) == 1:
            return "given"
        equal = sum(one.kept == max(other.kept for other in self.tried) for one in self.tried)
        if equal == 1:
            return f"keeps most constraints of {len(self.tried)} candidates"
        return f"least normalised cut of {equal} candidates that keep most constraints"


def _kept(told: dict[str, float]) -> float:
    """Share kept by weight, where to lose nodes of pairs breaks these: adjusted graphs may."""
    counted = told["n_must"] + told["n_cannot"]
    return told["kept_weighted"] * counted / max(counted + told["n_unclustered"], 1.0)


def place_of(adjusted: Workspace, laplacian: NormalizedLaplacian) -> NormalizedLaplacian:
    """The adjusted graph's nodes among those of the graph as given."""
    inner = laplacian_of(adjusted).without_edges()
    return replace(inner, nodes=laplacian.nodes[inner.nodes], n_nodes=laplacian.n_nodes)
