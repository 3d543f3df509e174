"""How a constrained fit is carried out once everything about it is decided."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.cost.method_cost import Size, eigenvectors
from mustlink.cost.rates import smooth_seconds
from mustlink.eigen.plain_solve import is_small
from mustlink.eigen.problem import Solution, Solving
from mustlink.eigen.sharpness import default_tolerance, regularized_tolerance
from mustlink.eigen.smooth_subspace import SmoothBasis
from mustlink.eigen.solver import laplacian_of, smoothest
from mustlink.graph import Graph
from mustlink.graph.even_degrees import GraphLook
from mustlink.observe import Recorder
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.rounding.assign import assign, cut_vector, kmeans, transform
from mustlink.rounding.seeded import label_centers
from mustlink.rounding.split import cut_profile, splitting_value
from mustlink.scores import criterion_e
from mustlink.selection.formulation import Formulation, FormulationOf
from mustlink.selection.held_out import sampled_rows, starting_centers
from mustlink.selection.held_out_choice import FACTORS, Choice
from mustlink.selection.regularization import if_of_points
from mustlink.stopping import TIME_LIMIT
from mustlink.workspace import Workspace

SHARP_BELOW = 20_000  # nodes up to which a given subspace is computed to 1e-8
_ROUGH = 1e-2  # residual of a trial
_ROUGH_STEPS = 60
_TAKEN = 1e-3  # of a rival that won


@dataclass(frozen=True, eq=False)
class Request:
    """What was asked for: graph, K, constraints, the method's formulation, and what is left open.

    `by_criterion` chooses the parameter by WHC11's E instead of constraints held out; `init` is
    where the last k-means starts; `regularization` what is added to the degrees where the subspace
    is looked for; `left` are words for what would be tried and cannot be here.

    A graph that is elsewhere overrides what is asked of this one, and nothing is decided there.
    """

    work: Workspace
    k: int
    known: Constraints
    formulation: Formulation
    formulation_of: FormulationOf
    subspace: int | str
    roundings: tuple[str, ...]
    solving: Solving
    by_criterion: bool = False
    init: str = "auto"
    regularization: float | str = "auto"
    left: list[str] = field(default_factory=list)

    solves_whole: ClassVar[bool] = True  # the full problem, where it is wanted
    unconstrained: ClassVar[int | None] = None  # the subspace of a fit without constraints

    @property
    def look(self) -> GraphLook:
        """What is seen of the graph before any eigenvector."""
        return self.graph.look

    @property
    def is_small(self) -> bool:
        """Whether the full problem is solved in no time."""
        return is_small(laplacian_of(self.work))

    @property
    def directions(self) -> int:
        """Smooth vectors that the graph has."""
        return laplacian_of(self.work).size - 1

    @property
    def stated(self) -> tuple[bool, Size]:
        """Whether vectors are in single precision, and the size of the graph."""
        laplacian = laplacian_of(self.work)
        return laplacian.dtype == np.float32, Size(laplacian.size, laplacian.n_entries)

    def most_directions(self) -> int:
        """Smooth vectors that the graph has and the memory holds."""
        k, memory = self.k, self.work.room
        if memory is None:
            return self.directions
        single, size = self.stated
        fit = max(k, eigenvectors(k).most_columns(size, memory, single=single))
        if fit < min(self.directions, FACTORS[-1] * k):
            self.recorder.note(
                f"memory: {fit} smooth vectors fit into {memory / 1e9:.2f} GB, larger "
                "subspaces are not tried"
            )
        return min(self.directions, fit)

    def within(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes whose vectors take about half the time that is left, the first in any case."""
        recorder, (_, size) = self.recorder, self.stated
        if not recorder.deadline.is_set or self.is_small:
            return sizes
        share = recorder.deadline.share(0.5).remaining()
        fit = tuple(p for p in sizes[1:] if smooth_seconds(size, p) <= share)
        if len(fit) < len(sizes) - 1:
            left = sizes[len(fit) + 1]
            recorder.leave_out(f"subspaces of {left} and more smooth vectors are not tried")
        return (sizes[0], *fit)

    def solved(self, choice: Choice, start: Block | None = None) -> Solution:
        """See `solve`."""
        return solve(self, choice, start)

    def criterion(self, choice: Choice, found: Solution, weight: float) -> tuple[bool, float]:
        """Whether the clusters of a choice are K, and their E (WHC11 eq. 17)."""
        laplacian = laplacian_of(self.work)
        labels = np.full(laplacian.n_nodes, -1, dtype=np.int64)
        labels[laplacian.nodes] = own = cluster(self, choice, found)
        score = criterion_e(self.graph.affinity, labels, self.known, weight=weight)
        return np.unique(own).size == self.k, score

    @property
    def graph(self) -> Graph:
        """The graph that is clustered."""
        return self.work.graph

    @property
    def recorder(self) -> Recorder:
        """Who hears of stages and choices."""
        return self.work.recorder

    @property
    def solves_exactly(self) -> bool:
        """Whether the full problem is solved, because the caller wants it."""
        return self.subspace == "exact"

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        return self.solving.seed

    def basis(self, p: int, tau: float = 0.0) -> SmoothBasis:
        """At least p smooth directions; sharp ones where p was asked for on a small graph.

        Those of regularised degrees are let go before more of the others are computed.
        """
        tol, n = self.solving.tol, self.formulation.row_scale.size
        if tol is None and isinstance(self.subspace, int) and n <= SHARP_BELOW:
            tol = default_tolerance(n, single=self.work.single)
            tol = max(tol, regularized_tolerance(n)) if tau else tol
        if not tau:
            self.work.let_go_of_regularized()
        return smoothest(
            self.work.regularized(tau), p, solver=self._solver(tol), tol=tol, seed=self.seed
        )

    def _solver(self, tol: float | None) -> str:
        """Of the smooth vectors: on networks Chebyshev filters, unless they shall be sharp.

        The span needs but a few (co-authors, 60 vectors of 18,000 nodes: 0.5 CPU seconds where
        LOBPCG takes 2.5).
        """
        asked = self.solving.solver
        if asked != "auto" or tol is not None or is_small(laplacian_of(self.work)):
            return asked
        made = if_of_points(self.graph.info)
        return asked if made or self.graph.has_even_degrees else "chebyshev"

    @property
    def rough(self) -> Solving:
        """How a trial is solved: it need not be sharp."""
        return replace(self.solving, tol=_ROUGH, max_iter=_ROUGH_STEPS)

    @property
    def taken(self) -> Solving:
        """How the full problem is solved where nobody asked for it: k-means needs a few digits.

        Beyond them most steps would go by: 8 digits on 20,000 nodes take 5 times as many as 3.
        """
        tol = _TAKEN if self.solving.tol is None else self.solving.tol
        return replace(self.solving, tol=tol)


def solve(request: Request, choice: Choice, start: Block | None = None) -> Solution:
    """The vectors for one choice."""
    problem = request.formulation.of(choice.form).problem
    if choice.p is None:
        how = request.solving if request.solves_exactly else request.taken
        found = problem.solve(choice.value, how, request.work, start)
        if found.convergence.reason == TIME_LIMIT:
            request.recorder.leave_out(found.convergence.status)
        return found
    basis = request.basis(choice.p, choice.tau).first(choice.p)
    with request.recorder.stage("constrained vectors"):
        return problem.inside(basis, choice.value)


def cluster(request: Request, choice: Choice, solution: Solution) -> NDArray[np.int64]:
    """Clusters (m,) in working order; the constraints choose where k-means starts."""
    k, way, known = request.k, choice.way, request.known
    rows = solution.vectors * request.formulation.row_scale[:, None]
    if way == "sign":
        return assign(cut_vector(rows), k, way, request.seed).labels
    laplacian = laplacian_of(request.work)
    if way == "split":
        return _split(request, cut_vector(rows)[:, 0], laplacian)
    seen = transform(rows, way, solution.cost)
    centers = None
    if request.init == "labels" and known.labels is not None:
        given = known.labels[laplacian.nodes]
        centers = label_centers(seen, given, k, request.seed, laplacian.weights)
    elif request.init == "auto" and not known.is_empty:
        sample = sampled_rows(laplacian, known.nodes, request.seed)
        if sample.nodes.size:
            centers = starting_centers(seen[sample.rows], sample, known, k, request.seed)
    return kmeans(seen, k, request.seed, centers=centers, space=laplacian.space).labels


def _split(
    request: Request, vector: NDArray[np.float64], laplacian: NormalizedLaplacian
) -> NDArray[np.int64]:
    """Two sides of one vector, cut where most constraints are kept, then where NCut is least."""
    nodes = request.known.nodes
    position = laplacian.positions[nodes]
    nodes, position = nodes[position >= 0], position[position >= 0]
    profile = cut_profile(request.graph.affinity, laplacian.leave(vector))
    value = splitting_value(vector[position], nodes, request.known, profile)
    return (vector > value).astype(np.int64)
