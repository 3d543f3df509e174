"""What a constrained method states, and how its fit is carried out once all about it is decided.

The eigenproblem, the rows that are clustered, roundings and parameters; the same in every home.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from mustlink.constraints import Constraints
from mustlink.context.method_cost import Size, eigenvectors, smooth_seconds
from mustlink.core.observe import Recorder
from mustlink.core.result import TIME_LIMIT
from mustlink.discretize.assign import (
    assign,
    clusters_of,
    cut_profile,
    cut_vector,
    label_centers,
    splitting_value,
    transform,
)
from mustlink.discretize.cuts import ClusterSums, e_of
from mustlink.eigen.memory_work import MemoryWork
from mustlink.eigen.plain_solve import DENSE_BELOW, default_tolerance, regularized_tolerance
from mustlink.eigen.smooth_subspace import (
    BASIS_TOL,
    EigenOptions,
    EigenSolution,
    Problem,
    SmoothBasis,
)
from mustlink.eigen.work import MEMORY, Work
from mustlink.operators.protocol import PlacedLaplacian
from mustlink.selection.held_out import NONE, SelectedModel, sampled_rows, starting_centers
from mustlink.space import Block, Small, Space, Vector

Floats = NDArray[np.float64]
SHARP_BELOW = 20_000  # nodes up to which a given subspace is computed to 1e-8
FACTORS = (1, 2, 4, 8, 12)  # p as multiples of K; with K the graph decides nearly everything
USUAL = 4  # times K: what is tried first, and at most on disk and on ranks
_SHARE = 6  # nodes there for each vector of a subspace that is chosen
_ROUGH = 1e-2  # residual of a trial
_ROUGH_STEPS = 60
_TAKEN = 1e-3  # of a rival that won


@dataclass(frozen=True)
class ParameterValues:
    """Values of the parameter to choose from: in a subspace, of the full problem, as its rivals.

    Of `smooth` the last one is taken where nothing can be tried; `rivals` are those with which the
    full problem is tried against a subspace that predicts badly; with `neutral` K − 1 directions
    are clustered as if nothing was known.
    """

    smooth: tuple[float, ...] = (1.0,)
    exact: tuple[float, ...] = (1.0,)
    rivals: tuple[float, ...] = ()
    neutral: float | None = None

    @classmethod
    def of(cls, *values: float, neutral: float | None = None) -> Self:
        """The same values everywhere."""
        return cls(values, values, values, neutral)

    @property
    def as_if_unknown(self) -> float:
        """`neutral`, or the last value."""
        return self.smooth[-1] if self.neutral is None else self.neutral


@dataclass(frozen=True, eq=False)
class Formulation:
    """One method on one graph with one set of constraints.

    `row_scale` (m,) turns vectors into the embedding that is clustered and returned; `roundings`
    are discretisations in order of preference. `weighing` says how links are weighed, for a report.
    """

    problem: Problem
    row_scale: Vector
    roundings: tuple[str, ...]
    grid: ParameterValues = ParameterValues()
    weighing: str = ""


FormulationOf = Callable[[Constraints], Formulation]


class KnownGraph(Protocol):
    """What a formulation asks of a graph: at home `Graph`, elsewhere of the known nodes alone."""

    @property
    def degrees(self) -> Floats:
        """Of the nodes, in the order of the constraints."""
        ...

    @property
    def weights(self) -> Floats | None:
        """How many a node stands for, None: 1 each."""
        ...

    @property
    def count(self) -> float:
        """Nodes of the whole graph, each counted as often as its weight says."""
        ...

    @property
    def degree_range(self) -> tuple[float, float]:
        """The least degree > 0 of one copy of a node of the whole graph, and the largest."""
        ...


@dataclass(frozen=True, eq=False)
class Placed:
    """What is known, of nodes as a formulation sees them: those of `graph` and of `laplacian`.

    In memory these are all nodes. Elsewhere they are those that something is known of, numbered by
    themselves: few, so that matrices of constraints are small, and known to all ranks.
    """

    graph: KnownGraph
    laplacian: PlacedLaplacian
    known: Constraints

    @classmethod
    def of(cls, work: Work, known: Constraints) -> Placed:
        """Of a home, and what is known of the nodes of its graph."""
        if isinstance(work, MemoryWork):
            return cls(work.graph, work.laplacian, known)
        nodes = known.nodes if known.nodes.size else np.zeros(1, dtype=np.int64)
        positions = np.asarray(work.places(nodes), dtype=np.int64)
        space, laplacian = work.space, work.laplacian
        root = laplacian.root_degree
        placed = PlacedNodes(
            positions,
            space,
            space.weights,
            work.n_entries,
            root,
            laplacian.volume,
            laplacian.volume / work.look.n_linked,
        )
        own = space.take(space.column(root), np.maximum(positions, 0))[:, 0]
        degrees = np.where(positions >= 0, own**2, 0.0)
        inverse, most = (space.peaks(space.column(v))[0] for v in (per_root(placed), root))
        span = float(inverse) ** -2, float(most) ** 2
        return cls(KnownNodes(degrees, float(work.n_nodes), span), placed, known[nodes])


@dataclass(frozen=True, eq=False)
class PlacedNodes:
    """L̄ of a work with the places of s nodes in its order, -1 for isolated ones.

    See `PlacedLaplacian`; rows of all nodes are nowhere together.
    """

    positions: NDArray[np.int64]
    space: Space
    weights: Vector | None
    n_entries: int
    root_degree: Vector
    volume: float
    mean_degree: float

    @property
    def size(self) -> int:
        """Rows of blocks."""
        return self.space.size

    @property
    def nodes(self) -> NDArray[np.int64]:
        """Those of the s nodes that have an edge."""
        return np.flatnonzero(self.positions >= 0)

    def to_working_order(self, X: NDArray[Any]) -> NDArray[Any]:
        """For graphs in memory."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class KnownNodes:
    """Values of a graph and of s nodes of it, see `KnownGraph`."""

    degrees: Floats
    count: float
    degree_range: tuple[float, float]
    weights: Floats | None = None


def row_scale(graph: KnownGraph) -> Floats:
    """C^-½ (n,) of a graph whose nodes stand for C: v = C^-½u on every copy; 1 otherwise.

    0 for a node that counts nothing.
    """
    if graph.weights is None:
        return np.ones(graph.degrees.size)
    root = np.sqrt(graph.weights)
    return np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)


def of_copies(graph: KnownGraph, laplacian: PlacedLaplacian) -> Vector:
    """The same in working order, (m,)."""
    if graph.weights is None:
        return all_rows(laplacian, 1.0)
    return laplacian.to_working_order(row_scale(graph))


def all_rows(laplacian: PlacedLaplacian, value: float) -> Vector:
    """The value for every row, (m,)."""
    return laplacian.space.rowwise(lambda root: np.full(root.shape, value), laplacian.root_degree)


def per_root(laplacian: PlacedLaplacian) -> Vector:
    """D^-½1, (m,), 0 for rows without an edge."""

    def inverse(root: Floats) -> Floats:
        return np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)

    return laplacian.space.rowwise(inverse, laplacian.root_degree)


# --- A fit, once everything about it is decided


@dataclass(frozen=True, eq=False)
class FitSpec:
    """A fit to be made: graph, K, constraints, the method's formulation, and what is left open.

    `placed` has the constraints of nodes as the formulation sees them. `by_criterion` chooses the
    parameter by WHC11's E instead of constraints held out; `init` is where the last k-means starts;
    `regularization` what is added to the degrees where the subspace is looked for; `left` are words
    for what would be tried in memory and cannot be elsewhere; `most_folds` splits hold out
    constraints, None: as many as their number asks for.
    """

    work: Work
    k: int
    placed: Placed
    formulation: Formulation
    formulation_of: FormulationOf
    subspace: int | str
    roundings: tuple[str, ...]
    solving: EigenOptions
    by_criterion: bool = False
    init: str = "auto"
    regularization: float | str = "auto"
    left: list[str] = field(default_factory=list)
    most_folds: int | None = None

    @property
    def known(self) -> Constraints:
        """The constraints, of nodes as the formulation sees them."""
        return self.placed.known

    @property
    def in_memory(self) -> bool:
        """Whether the graph is: elsewhere the full problem is not solved."""
        return self.work.home == MEMORY

    @property
    def directions(self) -> int:
        """Smooth vectors that the graph has."""
        return self.work.look.n_linked - 1

    @property
    def stated(self) -> tuple[bool, Size]:
        """Whether vectors are in single precision, and the size of the graph."""
        work = self.work
        return work.laplacian.dtype == np.float32, Size(work.look.n_linked, work.n_entries)

    def most_directions(self) -> int:
        """Smooth vectors that the graph has and the memory holds; on disk memory holds few."""
        work: Any = self.work
        k, memory = self.k, work.view.room if self.in_memory else None
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
        """The sizes whose vectors take about half the time that is left, the first in any case.

        On disk and on ranks up to 4K, of which the graph has many more: the vectors of larger ones
        would be computed anew.
        """
        recorder, (_, size) = self.recorder, self.stated
        if not self.in_memory:
            most = max(self.k, min(self.directions // _SHARE, USUAL * self.k))
            if sizes[-1] > most:
                self.left.append(f"subspaces of more than {most} smooth vectors")
            return tuple(p for p in sizes if p <= most) or (min(self.k, self.directions),)
        if not recorder.deadline.is_set or self.work.is_small:
            return sizes
        share = recorder.deadline.share(0.5).remaining()
        fit = tuple(p for p in sizes[1:] if smooth_seconds(size, p) <= share)
        if len(fit) < len(sizes) - 1:
            left = sizes[len(fit) + 1]
            recorder.skip_for_time(f"subspaces of {left} and more smooth vectors are not tried")
        return (sizes[0], *fit)

    @property
    def recorder(self) -> Recorder:
        """Who hears of stages and choices."""
        return self.work.recorder

    def basis(self, p: int, tau: float = 0.0, *, sharp: bool = False) -> SmoothBasis:
        """At least p smooth directions; sharp ones of a given p on a small graph."""
        tol, n = self.solving.tol, self.work.look.n_linked
        below = SHARP_BELOW if isinstance(self.subspace, int) else 0
        below = below if self.in_memory else max(below, DENSE_BELOW)
        if tol is None and (sharp or n <= below):
            tol = default_tolerance(n, single=self.stated[0])
            tol = max(tol, regularized_tolerance(n)) if tau and self.in_memory else tol
        how: dict[str, Any] = {"tol": tol, "seed": self.solving.seed, "solver": self._solver(tol)}
        found = self.work.smoothest(p, tau=tau, **how)
        placed = self.placed.laplacian
        return found if found.laplacian is placed else replace(found, laplacian=placed)

    def _solver(self, tol: float | None) -> str:
        """Of the smooth vectors: on networks Chebyshev filters, unless they shall be sharp.

        The span needs but a few (co-authors, 60 vectors of 18,000 nodes: 0.5 CPU seconds where
        LOBPCG takes 2.5).
        """
        solver = self.solving.solver
        sharp = tol is not None and tol < BASIS_TOL
        if not self.in_memory or solver != "auto" or sharp or self.work.is_small:
            return solver
        look = self.work.look
        even = look.plain_of_points or look.even[0]
        return solver if even else "chebyshev"

    @property
    def rough(self) -> EigenOptions:
        """How a trial is solved: it need not be sharp."""
        return replace(self.solving, tol=_ROUGH, max_iter=_ROUGH_STEPS)

    def solved(self, choice: SelectedModel, start: Block | None = None) -> EigenSolution:
        """The vectors for one choice; sharp ones where the graph alone decides elsewhere.

        Of a full problem that was chosen k-means needs a few digits: 8 of them on 20,000
        nodes take 5 times as many steps as 3.
        """
        problem = self.formulation.problem
        if choice.p is None:
            how, work = self.solving, cast(MemoryWork, self.work)
            if self.subspace != "exact" and how.tol is None:
                how = replace(how, tol=_TAKEN)
            found = problem.solve(choice.value, how, work.view, start)
            if found.convergence.reason == TIME_LIMIT:
                self.recorder.skip_for_time(found.convergence.status)
            return found
        alone = choice.reason == NONE
        basis = self.basis(choice.p, choice.tau, sharp=alone).first(choice.p)
        with self.recorder.stage("constrained vectors"):
            return problem.inside(basis, choice.value)

    def rows(self, found: EigenSolution) -> Block:
        """What is clustered, of vectors."""
        return self.work.space.scaled(found.vectors, self.formulation.row_scale)

    def criterion(
        self, choice: SelectedModel, found: EigenSolution, weight: float
    ) -> tuple[bool, float]:
        """Whether the clusters of a choice are K, and their E (WHC11 eq. 17); a pass over W."""
        work, space, where = self.work, self.work.space, self.placed.laplacian.positions
        with self.recorder.stage("criterion E"):
            clusters = cluster(self, choice, found)
            sums = ClusterSums(*work.cluster_sums(clusters, self.k))
            own = space.take(space.column(clusters), np.maximum(where, 0))[:, 0]
        labels = np.where(where >= 0, own, -1).astype(np.int64)
        used = int(np.count_nonzero(sums.sizes))
        return used == self.k, e_of(sums.mncut / max(used, 1), labels, self.known, weight)


def cluster(
    request: FitSpec, choice: SelectedModel, solution: EigenSolution, rows: Block | None = None
) -> Vector:
    """Clusters (m,) in working order, -1 for rows of isolated nodes.

    The constraints choose where k-means starts. `rows` are `request.rows(solution)`.
    """
    k, way, seed, known = request.k, choice.way, request.solving.seed, request.known
    space, placed = request.work.space, request.placed.laplacian
    rows = request.rows(solution) if rows is None else rows
    if way == "split":
        return _split(request, cut_vector(rows)[:, 0])
    if way == "sign":
        clusters = assign(cut_vector(rows, space), k, way, seed, space=space).labels
        if space.weights is None:
            return clusters
        # rows that count nothing are isolated nodes
        return space.rowwise(lambda own, w: np.where(w > 0, own, -1), clusters, space.weights)
    seen = space.rowwise(lambda E: transform(E, way, solution.cost), rows)
    centers: Small | None = None
    if request.init == "labels" and known.labels is not None:
        given = known.labels[placed.nodes]
        centers = label_centers(seen, given, k, seed, placed.weights)
    elif request.init == "auto" and not known.is_empty:
        sample = sampled_rows(placed, known.nodes, seed)
        if sample.nodes.size:
            some = space.take(seen, sample.rows)
            centers = starting_centers(some, sample, known, k, seed)
    return clusters_of(space, seen, k, seed, centers=centers)


def _split(request: FitSpec, vector: NDArray[np.float64]) -> NDArray[np.int64]:
    """Two sides of one vector in memory: most constraints are kept there, then NCut is least."""
    work: Any = request.work
    nodes = request.known.nodes
    position = work.laplacian.positions[nodes]
    nodes, position = nodes[position >= 0], position[position >= 0]
    profile = cut_profile(work.graph.affinity, work.laplacian.from_working_order(vector))
    value = splitting_value(vector[position], nodes, request.known, profile)
    return (vector > value).astype(np.int64)
