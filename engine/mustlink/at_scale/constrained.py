"""Constrained eigenvector methods in the smooth subspace, of a graph on disk or on ranks.

What is projected is p by p, and constraints are rows of a few nodes: `selection.resolve` decides as
at home, by constraints held out on a sample of nodes, or by criterion E. The full problem is not
solved here: its preconditioner would need the edges of the graph and the constraints in one matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from mustlink.at_scale.known_nodes import KnownNodes, PlacedNodes
from mustlink.at_scale.smooth_vectors import SmoothVectors
from mustlink.constraints import Constraints
from mustlink.eigen.plain_solve import DENSE_BELOW
from mustlink.eigen.problem import Solution, Solving
from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.graph.even_degrees import GraphLook
from mustlink.rounding.assign import DUST, assign, transform
from mustlink.rounding.sampled_kmeans import clusters_of
from mustlink.scores.cuts import ClusterSums, e_of
from mustlink.selection.constrained_fit import Request
from mustlink.selection.formulation import Formulation
from mustlink.selection.held_out import sampled_rows, starting_centers
from mustlink.selection.held_out_choice import NONE, Choice
from mustlink.selection.resolve import resolve
from mustlink.space import Block, Small, Space, Vector

USUAL = 4  # times K: a larger subspace is not tried, its vectors would be computed anew
_SHARE = 6  # nodes for each vector of a subspace that is not asked for


@dataclass(frozen=True, eq=False)
class Asked:
    """A method with what its caller asks for: K clusters by `known` of all nodes of the graph.

    `formulation(graph, laplacian, known, k)` is the method's; `subspace` is p or "auto", `assign`
    a way or "auto", `init` where k-means starts; `where` is the home in words.
    """

    formulation: Callable[[Any, Any, Constraints, int], Formulation]
    k: int
    known: Constraints
    subspace: int | str = "auto"
    assign: str = "auto"
    init: str = "auto"
    seed: int = 0
    regularization: float | str = "auto"
    where: str = ""


@dataclass(frozen=True, eq=False)
class Found:
    """What was chosen, the vectors, rows (m, r) that were clustered and clusters (m,) of them.

    `acts`: whether any constraint touches a node that can be clustered.
    """

    choice: Choice
    solution: Solution
    embedding: Block
    clusters: Vector
    acts: bool


@dataclass(frozen=True, eq=False)
class RowRequest(Request):
    """A `Request` of a graph on disk or on ranks: what `resolve` decides, it decides here as well.

    `work` is a `Work`, `known` about the s known nodes numbered by themselves, `placed`.
    """

    vectors: SmoothVectors = field(kw_only=True)
    placed: PlacedNodes = field(kw_only=True)

    solves_whole: ClassVar[bool] = False

    @classmethod
    def of(cls, asked: Asked, vectors: SmoothVectors) -> RowRequest:
        """From what is known of all nodes of the graph."""
        known, work, k = asked.known, vectors.work, asked.k
        nodes = known.nodes if known.nodes.size else np.zeros(1, dtype=np.int64)
        placed = PlacedNodes(work, np.asarray(work.places(nodes), dtype=np.int64))
        graph = KnownNodes(placed)

        def formulation(part: Constraints) -> Formulation:
            return asked.formulation(graph, placed, part, k)

        whole = formulation(known[nodes])
        ways = tuple(way for way in whole.roundings if way != "split")
        left = ["cuts of one vector where most constraints are kept"] * ("split" in whole.roundings)
        chosen = asked.assign != "auto"
        solving = Solving(seed=asked.seed, deadline=work.recorder.deadline)
        how: dict[str, Any] = {"init": asked.init, "regularization": asked.regularization}
        how |= {"left": [] if chosen else left, "vectors": vectors, "placed": placed}
        ways = (asked.assign,) if chosen else ways
        given: Any = work, k, known[nodes], whole, formulation, asked.subspace, ways, solving
        return cls(*given, **how)

    @property
    def look(self) -> GraphLook:
        """What is seen of the graph before any eigenvector."""
        return self.vectors.work.look

    @property
    def is_small(self) -> bool:
        """Whether one process would solve the full problem in no time."""
        return self.look.n_linked <= DENSE_BELOW

    @property
    def directions(self) -> int:
        """Smooth vectors that the graph has."""
        return self.vectors.room

    @property
    def unconstrained(self) -> int | None:  # type: ignore[override]
        """K smooth vectors are those of a fit without constraints."""
        asked = self.subspace
        return min(self.k if isinstance(asked, str) else asked, self.directions)

    def most_directions(self) -> int:
        """All: those that are tried are few, and on disk."""
        return self.directions

    def within(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Up to 4K, of which the graph has many more; larger ones would be computed anew."""
        most = max(self.k, min(self.directions // _SHARE, USUAL * self.k))
        if sizes[-1] > most:
            self.left.append(f"subspaces of more than {most} smooth vectors")
        return tuple(p for p in sizes if p <= most) or (min(self.k, self.directions),)

    def basis(self, p: int, tau: float = 0.0) -> SmoothBasis:
        """At least p smooth directions, with τ at most."""
        return replace(self.vectors.at_least(p, tau), laplacian=self.placed)

    def solved(self, choice: Choice, start: Block | None = None) -> Solution:
        """The vectors for one choice; sharp ones where the graph alone decides."""
        assert choice.p is not None
        request = self
        if choice.reason == NONE:
            request = replace(self, vectors=self.vectors.sharp())
        basis = request.basis(choice.p, choice.tau).first(choice.p)
        with self.recorder.stage("constrained vectors"):
            return self.formulation.of(choice.form).problem.inside(basis, choice.value)

    def criterion(self, choice: Choice, found: Solution, weight: float) -> tuple[bool, float]:
        """Whether the clusters of a choice are K, and their E; a pass over the graph."""
        work, space, where = self.vectors.work, self.placed.space, self.placed.positions
        with self.recorder.stage("criterion E"):
            clusters = _clusters(self, choice, found, self.rows(found))
            sums = ClusterSums(*work.cluster_sums(clusters, self.k))
            own = space.take(space.column(clusters), np.maximum(where, 0))[:, 0]
        labels = np.where(where >= 0, own, -1).astype(np.int64)
        used = int(np.count_nonzero(sums.sizes))
        return used == self.k, e_of(sums.mncut / max(used, 1), labels, self.known, weight)

    def rows(self, found: Solution) -> Block:
        """What is clustered, of vectors."""
        return self.placed.space.scaled(found.vectors, self.formulation.row_scale)


def constrained(asked: Asked, vectors: SmoothVectors, fixed: Choice | None = None) -> Found:
    """Cluster a graph with constraints; the choice is made unless it is `fixed`. InputError."""
    request, recorder = RowRequest.of(asked, vectors), vectors.work.recorder
    choice = resolve(request) if fixed is None else fixed
    if fixed is None and choice.reason != NONE and request.left:
        left = "; ".join(dict.fromkeys(request.left))
        recorder.note(f"not tried {asked.where}, as one process with enough memory does: {left}")
    solution = request.solved(choice)
    rows = request.rows(solution)
    with recorder.stage("clusters"):
        clusters = _clusters(request, choice, solution, rows)
    return Found(choice, solution, rows, clusters, request.formulation.problem.acts)


def _clusters(request: RowRequest, choice: Choice, solution: Solution, rows: Block) -> Vector:
    """Clusters of the rows; the constraints choose where k-means starts."""
    k, way, seed, placed = request.k, choice.way, request.seed, request.placed
    space, known = placed.space, request.known
    if way == "sign":
        clusters = assign(_cut_column(space, rows), k, way, seed, space=space).labels
        if space.weights is None:
            return clusters
        return space.rowwise(lambda own, w: np.where(w > 0, own, -1), clusters, space.weights)
    seen = space.rowwise(lambda E: transform(E, way, solution.cost), rows)
    centers: Small | None = None
    if request.init != "k-means++" and not known.is_empty:
        sample = sampled_rows(placed, known.nodes, seed)
        if sample.nodes.size:
            some = space.take(seen, sample.rows)
            centers = starting_centers(some, sample, known, k, seed)
    return clusters_of(space, seen, k, seed, centers=centers)


def _cut_column(space: Space, rows: Block) -> Block:
    """As `rounding.assign.cut_vector`, wherever the rows are."""
    high, low = (
        np.abs(space.peaks(space.rowwise(side, rows)))
        for side in (lambda E: np.maximum(E, 0.0), lambda E: np.minimum(E, 0.0))
    )
    dust = DUST * np.maximum(high, low)
    both = np.append((high > dust) & (low > dust), True)
    first = min(int(both.argmax()), rows.shape[1] - 1)
    return space.columns(rows, slice(first, first + 1))
