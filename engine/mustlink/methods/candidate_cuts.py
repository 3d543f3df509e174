"""Several ways to the same clusters, and which of them keeps most constraints."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.eigen.solver import laplacian_of
from mustlink.graph import Graph
from mustlink.methods.normalized_cut import Cut
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.scores import mncut, satisfaction
from mustlink.workspace import Workspace

CutOf = TypeVar("CutOf")
Ints = NDArray[np.int64]
_DIGITS = 10  # of MNCut: the same clusters under other numbers differ by rounding


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
class BestCut(Generic[CutOf]):
    """Cuts one after the other; only the best is held.

    It keeps most constraints; of equals it has the least MNCut in the graph as given, then it is
    the first.
    """

    known: Constraints
    tried: list[Tried] = field(default_factory=list)
    _best: CutOf | None = None

    @property
    def best(self) -> CutOf:
        """The best so far."""
        assert self._best is not None
        return self._best

    def offer(self, one: CutOf, power: float, variant: str, rows: Ints, cost: float) -> None:
        """Compare another, by its clusters of all rows and its MNCut."""
        kept = 1.0 if self.known.is_empty else _kept(satisfaction(rows, self.known.as_given))
        found = kept, -round(cost, _DIGITS)
        if all(found > (other.kept, -round(other.mncut, _DIGITS)) for other in self.tried):
            self._best = one
        self.tried.append(Tried(power, variant, kept, cost))

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


@dataclass(eq=False)
class CandidateCuts(BestCut[Candidate]):
    """Cuts of a graph at home."""

    graph: Graph = field(kw_only=True)

    def add(self, one: Candidate) -> None:
        """Compare another."""
        labels = np.full(one.place.n_nodes, -1, dtype=np.int64)
        labels[one.place.nodes] = one.cut.clusters
        cost = mncut(self.graph, labels)
        self.offer(one, one.power, one.variant, self.graph.spread(labels), cost)


def _kept(told: dict[str, float]) -> float:
    """Share kept by weight, where to lose nodes of pairs breaks these: adjusted graphs may."""
    counted = told["n_must"] + told["n_cannot"]
    return told["kept_weighted"] * counted / max(counted + told["n_unclustered"], 1.0)


def place_of(adjusted: Workspace, laplacian: NormalizedLaplacian) -> NormalizedLaplacian:
    """The adjusted graph's nodes among those of the graph as given."""
    inner = laplacian_of(adjusted).without_edges()
    return replace(inner, nodes=laplacian.nodes[inner.nodes], n_nodes=laplacian.n_nodes)
