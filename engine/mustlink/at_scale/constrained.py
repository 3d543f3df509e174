"""Constrained eigenvector methods in the smooth subspace, of a graph on disk or on ranks.

What is projected is p by p, and constraints are rows of a few nodes: candidates are compared as at
home, by constraints held out, on a sample of nodes. The full problem is not solved here: a
preconditioner for it would need the edges of the graph and the constraints in one matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mustlink.at_scale.known_nodes import KnownNodes, PlacedNodes
from mustlink.at_scale.smooth_vectors import SmoothVectors
from mustlink.constraints import Constraints
from mustlink.eigen.problem import Solution
from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.eigen.work import Work
from mustlink.rounding.assign import DUST, assign, transform
from mustlink.rounding.sampled_kmeans import clusters_of
from mustlink.selection.formulation import Formulation
from mustlink.selection.held_out import sampled_rows, starting_centers
from mustlink.selection.held_out_choice import Candidates, Choice, choose_smooth, subspace_sizes
from mustlink.space import Block, Small, Space, Vector

USUAL = 4  # times K: a larger subspace is not tried, its vectors would be computed anew
_SHARE = 6  # nodes for each vector of a subspace that is not asked for


@dataclass(frozen=True, eq=False)
class Asked:
    """A method with what its caller asks for: K clusters by `known` of all nodes of the graph.

    `formulation(graph, laplacian, known, k)` is the method's; `subspace` is p or "auto", `assign`
    a way or "auto", `init` where k-means starts.
    """

    formulation: Callable[[Any, Any, Constraints, int], Formulation]
    k: int
    known: Constraints
    subspace: int | str = "auto"
    assign: str = "auto"
    init: str = "auto"
    seed: int = 0


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
class _Fit:
    """The s known nodes numbered by themselves, and what was said of them."""

    work: Work
    asked: Asked
    known: Constraints
    placed: PlacedNodes
    graph: KnownNodes
    vectors: SmoothVectors

    @classmethod
    def of(cls, work: Work, asked: Asked, vectors: SmoothVectors) -> _Fit:
        known = asked.known
        nodes = known.nodes if known.nodes.size else np.zeros(1, dtype=np.int64)
        placed = PlacedNodes(work, np.asarray(work.places(nodes), dtype=np.int64))
        return cls(work, asked, known[nodes], placed, KnownNodes(placed), vectors)

    def formulation(self, known: Constraints) -> Formulation:
        """The method with a part of what is known."""
        return self.asked.formulation(self.graph, self.placed, known, self.asked.k)

    def basis(self, p: int, tau: float = 0.0) -> SmoothBasis:
        """At least p smooth directions, of the degrees as they are."""
        assert tau == 0.0
        return replace(self.vectors.at_least(p), laplacian=self.placed)


def constrained(asked: Asked, vectors: SmoothVectors, fixed: Choice | None = None) -> Found:
    """Cluster a graph with constraints; the choice is made unless it is `fixed`. InputError."""
    work = vectors.work
    fit = _Fit.of(work, asked, vectors)
    formulation = fit.formulation(fit.known)
    choice = _choice(fit, formulation) if fixed is None else fixed
    assert choice.p is not None
    basis = fit.basis(choice.p).first(choice.p)
    problem = formulation.of(choice.form).problem
    with work.recorder.stage("constrained vectors"):
        solution = problem.inside(basis, choice.value)
    rows = work.space.scaled(solution.vectors, formulation.row_scale)
    with work.recorder.stage("clusters"):
        clusters = _clusters(fit, choice, solution, rows)
    return Found(choice, solution, rows, clusters, problem.acts)


def _choice(fit: _Fit, formulation: Formulation) -> Choice:
    """Subspace, parameter and discretisation, as `selection.resolve` decides them at home."""
    asked, recorder, grid = fit.asked, fit.work.recorder, formulation.grid
    k, room = asked.k, fit.vectors.room
    ways = tuple(way for way in formulation.roundings if way != "split")
    ways = ways if asked.assign == "auto" else (asked.assign,)
    if isinstance(asked.subspace, str):
        most = max(k, min(room // _SHARE, USUAL * k))
        sizes = tuple(p for p in subspace_sizes(k, room) if p <= most) or (min(k, room),)
    else:
        sizes = (min(asked.subspace, room),)
    if fit.known.is_empty or not formulation.problem.acts:
        recorder.note("no constraints act: the smoothest vectors of the graph alone are clustered")
        way = "kmeans" if ways[0] == "sign" and k > 2 else ways[0]
        return Choice(sizes[0], grid.smooth[-1], way, "no constraints")
    candidates = Candidates(sizes, grid.smooth, ways, forms=formulation.forms)
    fit.basis(sizes[-1])
    known, seed = fit.known, asked.seed
    choice = choose_smooth(known, k, candidates, fit.basis, fit.formulation, seed, recorder)
    recorder.note(f"{choice.where}, parameter {choice.value:g}, {choice.way}: {choice.reason}")
    return choice


def _clusters(fit: _Fit, choice: Choice, solution: Solution, rows: Block) -> Vector:
    """Clusters of the rows; the constraints choose where k-means starts."""
    k, way, seed, space = fit.asked.k, choice.way, fit.asked.seed, fit.work.space
    if way == "sign":
        clusters = assign(_cut_column(space, rows), k, way, seed, space=space).labels
        if space.weights is None:
            return clusters
        return space.rowwise(lambda own, w: np.where(w > 0, own, -1), clusters, space.weights)
    seen = space.rowwise(lambda E: transform(E, way, solution.cost), rows)
    centers: Small | None = None
    if fit.asked.init != "k-means++" and not fit.known.is_empty:
        sample = sampled_rows(fit.placed, fit.known.nodes, seed)
        if sample.nodes.size:
            some = space.take(seen, sample.rows)
            centers = starting_centers(some, sample, fit.known, k, seed)
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
