"""The contract of homes: what a fit asks of a graph, in memory, on disk or on ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mustlink.eigen.nested_iteration import Grids
from mustlink.eigen.smooth_subspace import SmoothBasis, carried_basis, smooth_basis
from mustlink.eigen.solver import BASIS_STEPS, BASIS_TOL
from mustlink.graph.structure import GraphLook
from mustlink.observe import Recorder
from mustlink.operators.protocol import Laplacian, Preconditioner
from mustlink.result import EigenResult
from mustlink.space import Block, Small, Space, Vector
from mustlink.space.verbs import Ints

Value = TypeVar("Value")
MEMORY, DISK, RANKS = "memory", "disk", "ranks"


class Work(Protocol):
    """A graph at home in memory, on disk or on ranks, and one fit's view of it.

    Each thing is made once. Blocks are in working order, which is the home's own: on disk that of
    the graph, isolated nodes being rows of zeros, in memory and on ranks one of the nodes with an
    edge alone. Methods that are written by this and by the verbs of its space run everywhere.
    """

    home: ClassVar[str]  # MEMORY, DISK or RANKS

    @property
    def graph(self) -> Any:
        """The graph as its home has it, for what runs there alone and for `graph_`."""
        ...

    @property
    def info(self) -> Mapping[str, Any]:
        """How the graph was made."""
        ...

    @property
    def recorder(self) -> Recorder:
        """Who hears of stages, and keeps the budget."""
        ...

    @property
    def n_nodes(self) -> int:
        """Nodes of the graph."""
        ...

    @property
    def isolated(self) -> int:
        """Those of them that have no edge."""
        ...

    @property
    def n_entries(self) -> int:
        """Stored weights, two an edge."""
        ...

    @property
    def space(self) -> Space:
        """Where blocks live; its weights are 0 for isolated nodes that have rows."""
        ...

    @property
    def laplacian(self) -> Laplacian:
        """L̄."""
        ...

    @property
    def grids(self) -> Grids | None:
        """Multigrid of L̄, None where grids would hardly be smaller; InputError where it must be."""
        ...

    def grounded(self, ground: Vector, kept: Vector) -> Laplacian:
        """I − T^-½WT^-½, T = D + diag(ground), on nodes `kept`, see `grounded_degrees`."""
        ...

    def with_cycle(self, laplacian: Any) -> tuple[Laplacian, Preconditioner | None]:
        """L̄, or a grounded one, as it is to be applied, and a multigrid cycle if grids pay."""
        ...

    def enter(self, values: NDArray[Any]) -> Vector:
        """Values (n, …) of the graph's nodes that everyone has, in working order."""
        ...

    def smallest_pairs(
        self,
        k: int,
        *,
        tol: float | None = None,
        max_iter: int = 200,
        seed: int = 0,
        tau: float = 0.0,
        solver: str = "auto",
    ) -> EigenResult:
        """The k smallest pairs of L̄_τ beyond its null space; raises InputError.

        `solver` is as in `NCut`; elsewhere than in memory there is one.
        """
        ...

    def smoothest(
        self,
        p: int,
        *,
        tau: float = 0.0,
        tol: float | None = None,
        seed: int = 0,
        solver: str = "auto",
    ) -> SmoothBasis:
        """Basis of at least p smooth directions, or all there are, kept for later calls.

        With τ > 0 the span of the p smoothest vectors of L̄_τ, see `carried_basis`. InputError.
        """
        ...

    def kept(
        self,
        stage: str,
        depends: Any,
        compute: Callable[[], Value],
        types: tuple[type, ...] = (),
    ) -> Value:
        """The result of a stage, or what an earlier run kept of it; see `Shelf.kept`."""
        ...

    @property
    def look(self) -> GraphLook:
        """What decides whether anything is added to the degrees."""
        ...

    def regularized(self, tau: float) -> Laplacian:
        """L̄_τ: τ times the mean degree is added to every degree."""
        ...

    @property
    def is_small(self) -> bool:
        """Whether LAPACK is the solver of choice, or would be if the graph were in memory."""
        ...

    @property
    def n_components(self) -> int:
        """Connected components; an isolated node is one."""
        ...

    def cluster_sizes(self, clusters: Vector, k: int) -> Small:
        """Nodes in each of k clusters, (k,), counted as often as they stand for rows."""
        ...

    def cluster_sums(self, clusters: Vector, k: int) -> tuple[Small, Small, Small]:
        """Weights between clusters, entries that have them, (k, k), and nodes in each, (k,)."""
        ...

    def map_rows(self, f: Callable[[Any, int], Any], depends: Any = None) -> Any:
        """The home of the graph whose rows are f(W, first) of rows W (r, m) of this from `first`.

        Working numbers, CSR in double precision, columns rising; W is f's own. `depends` tells all
        that f follows from, for who keeps results.
        """
        ...

    def from_mapped(self, made: Any, X: Block, fill: float = 0) -> Block:
        """Rows of X of a graph that `map_rows` made, by this one's nodes; `fill` of lost ones."""
        ...

    def positions(self, nodes: Ints) -> Ints:
        """Working numbers of nodes of the graph, -1 for those that have none."""
        ...

    def places(self, nodes: Ints) -> Ints:
        """Working numbers of rows of the caller, -1 for those without an edge."""
        ...

    def by_root(self, X: Block) -> Block:
        """D^-½X, 0 for isolated nodes."""
        ...

    def labels_of_rows(self, clusters: Vector) -> NDArray[np.int64]:
        """Clusters of the caller's rows, -1 for those without an edge; everyone has them."""
        ...

    def leave(self, X: Block) -> Any:
        """Rows in the caller's order, (n, …), 0 for isolated nodes.

        In memory an array, on disk a block there, on ranks an array on rank 0 and None elsewhere.
        """
        ...


# --- The smoothest directions of a graph on disk or on ranks, kept for other constraints


@dataclass(eq=False)
class RowBasis:
    """What `eigen.solver.smoothest` keeps with a graph in memory: the longest basis so far.

    And of regularised degrees the latest, of just so many vectors. `how` is the tolerance and the
    seed that both are of. Vectors are where the work's blocks are.
    """

    how: tuple[float, int] = (BASIS_TOL, 0)
    _held: SmoothBasis | None = field(default=None, repr=False)
    _carried: tuple[float, EigenResult, SmoothBasis] | None = field(default=None, repr=False)

    def smoothest(
        self, work: Work, p: int, *, tau: float, tol: float | None, seed: int
    ) -> SmoothBasis:
        """At least p directions, or all there are, with τ p at most; raises InputError."""
        how = BASIS_TOL if tol is None else tol, seed
        if how != self.how:
            self.how, self._held, self._carried = how, None, None
        room = work.look.n_linked - 1
        if tau:
            return self._with(work, tau, min(p, room + 1))
        self._carried = None  # of vectors that others may soon be as many as
        if self._held is None or self._held.p < min(p, room):
            laplacian = work.laplacian
            count = min(p, room + 1 - laplacian.null.n_components)
            self._held = None  # vectors that are about to be computed anew
            found = self._pairs(work, count, 0.0)
            had = found.convergence.residuals
            self._held = smooth_basis(laplacian, found.values, found.vectors, had)
        return self._held

    def _pairs(self, work: Work, count: int, tau: float) -> EigenResult:
        tol, seed = self.how
        return work.smallest_pairs(count, tol=tol, max_iter=BASIS_STEPS, seed=seed, tau=tau)

    def _with(self, work: Work, tau: float, p: int) -> SmoothBasis:
        """The span of the p smoothest vectors of L̄_τ, see `carried_basis`."""
        held = self._carried
        if held is not None and held[0] == tau and held[2].p == p:
            return held[2]
        if held is not None and held[0] == tau and held[1].values.size >= p:
            found = held[1]
        else:
            self._carried = None
            found = self._pairs(work, p, tau)
        vectors: Any = found.vectors
        if found.values.size > p:
            vectors = work.space.columns(vectors, slice(0, p))
        few = replace(found, values=found.values[:p], vectors=vectors)
        basis = carried_basis(work.laplacian, work.regularized(tau), few)
        self._carried = tau, found, basis
        return basis
