"""The contract of homes: what a fit asks of a graph, in memory, on disk or on ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from mustlink.context.stage_cache import RegularizedKey, of_regularized, remember
from mustlink.core.observe import Recorder
from mustlink.core.result import Convergence, EigenResult, tell_end
from mustlink.eigen.plain_solve import DENSE_BELOW, PairsKey, first_pairs, no_pairs, tolerance_for
from mustlink.eigen.smooth_subspace import (
    BASIS_STEPS,
    BASIS_TOL,
    BasisKey,
    CarriedKey,
    SmoothBasis,
    carried_basis,
    smooth_basis,
)
from mustlink.graph.graph import GraphLook
from mustlink.linear.multigrid.hierarchy import Hierarchy
from mustlink.operators.protocol import Laplacian, Preconditioner
from mustlink.space import Block, Small, Space, Vector
from mustlink.space.verbs import Ints

Value = TypeVar("Value")
MEMORY, DISK, RANKS = "memory", "disk", "ranks"


class BasisOptions(TypedDict, total=False):
    """How a basis is found; `solver` is as in `NCut`, elsewhere than in memory there is one."""

    tau: float
    tol: float | None
    seed: int
    solver: str


class PairOptions(BasisOptions, total=False):
    """How pairs are found; `extra` are guard vectors, see `eigen.memory_work.smallest_pairs`."""

    max_iter: int
    extra: int


class Work(Protocol):
    """A graph in memory, on disk or on ranks, and one fit's view of it.

    Each thing is made once. Blocks are in working order, which is the home's own: on disk that of
    the graph, isolated nodes being rows of zeros, in memory and on ranks one of the nodes with an
    edge alone. Methods that are written by this and by the verbs of its space run everywhere.
    """

    home: ClassVar[str]  # MEMORY, DISK or RANKS

    @property
    def graph(self) -> Any:
        """The graph as its home has it, for what runs there alone and for `graph_`."""

    @property
    def info(self) -> Mapping[str, Any]:
        """How the graph was made."""

    @property
    def recorder(self) -> Recorder:
        """Records stages and holds the budget."""

    @property
    def n_nodes(self) -> int:
        """Nodes of the graph."""

    @property
    def isolated(self) -> int:
        """Those of them that have no edge."""

    @property
    def n_entries(self) -> int:
        """Stored weights, two an edge."""

    @property
    def space(self) -> Space:
        """Where blocks live; its weights are 0 for isolated nodes that have rows."""

    @property
    def laplacian(self) -> Laplacian:
        """L̄."""

    @property
    def grids(self) -> Hierarchy | None:
        """Multigrid of L̄, None where grids would hardly be smaller; InputError where it must be."""

    def grounded(self, ground: Vector, kept: Vector) -> Laplacian:
        """I − T^-½WT^-½, T = D + diag(ground), on nodes `kept`, see `grounded_degrees`."""

    def with_cycle(self, laplacian: Any) -> tuple[Laplacian, Preconditioner | None]:
        """L̄, or a grounded one, as it is to be applied, and a multigrid cycle if grids pay."""

    def to_working_order(self, values: NDArray[Any]) -> Vector:
        """Values (n, …) of the graph's nodes that everyone has, in working order."""

    def smallest_pairs(self, k: int, **how: Unpack[PairOptions]) -> EigenResult:
        """The k smallest pairs of L̄_τ beyond its null space; raises InputError."""

    def smoothest(self, p: int, **how: Unpack[BasisOptions]) -> SmoothBasis:
        """Basis of at least p smooth directions, or all there are, kept for later calls.

        With τ > 0 the span of the p smoothest vectors of L̄_τ, see `carried_basis`. InputError.
        """

    def cached(
        self, stage: str, depends: Any, compute: Callable[[], Value], types: tuple[type, ...] = ()
    ) -> Value:
        """The result of a stage, or what an earlier run kept of it; see `StageCache.cached`."""

    @property
    def look(self) -> GraphLook:
        """What decides whether anything is added to the degrees."""

    def regularized(self, tau: float) -> Laplacian:
        """L̄_τ: τ times the mean degree is added to every degree."""

    @property
    def is_small(self) -> bool:
        """Whether LAPACK is the solver of choice, or would be if the graph were in memory."""

    @property
    def n_components(self) -> int:
        """Connected components; an isolated node is one."""

    def cluster_sizes(self, clusters: Vector, k: int) -> Small:
        """Nodes in each of k clusters, (k,), counted as often as they stand for rows."""

    def cluster_sums(self, clusters: Vector, k: int) -> tuple[Small, Small, Small]:
        """Weights between clusters, entries that have them, (k, k), and nodes in each, (k,)."""

    def map_rows(self, f: Callable[[Any, int], Any], depends: Any = None) -> Any:
        """The home of the graph whose rows are f(W, first) of rows W (r, m) of this from `first`.

        Working numbers, CSR in double precision, columns rising; W is f's own. `depends` is all
        that f follows from, for the cache of results.
        """

    def from_mapped(self, made: Any, X: Block, fill: float = 0) -> Block:
        """Rows of X of a graph that `map_rows` made, by this one's nodes; `fill` of lost ones."""

    def positions(self, nodes: Ints) -> Ints:
        """Working numbers of nodes of the graph, -1 for those that have none."""

    def places(self, nodes: Ints) -> Ints:
        """Working numbers of rows of the caller, -1 for those without an edge."""

    def to_embedding(self, X: Block) -> Block:
        """D^-½X, 0 for isolated nodes."""

    def labels_of_rows(self, clusters: Vector) -> NDArray[np.int64]:
        """Clusters of the caller's rows, -1 for those without an edge; everyone has them."""

    def from_working_order(self, X: Block) -> Any:
        """Rows in the caller's order, (n, …), 0 for isolated nodes.

        In memory an array, on disk a block there, on ranks an array on rank 0 and None elsewhere.
        """


class RowWork:
    """What graphs on disk and on ranks have in common: the steps of a fit, but for the iteration.

    `_iterated(grids, key, tau, advance)` computes the pairs of the key with `grids`, or without.
    """

    single: ClassVar[bool] = False  # whether vectors are in single precision

    @property
    def n_nodes(self: Any) -> int:
        return int(self.graph.n_nodes)

    @property
    def is_small(self: Any) -> bool:
        return bool(self.look.n_linked <= DENSE_BELOW)

    def smallest_pairs(self: Any, k: int, **how: Unpack[PairOptions]) -> EigenResult:
        options = {"tol": None, "max_iter": 200, "seed": 0, "tau": 0.0, "extra": 0, **how}
        options.pop("solver", None)
        types = EigenResult, Convergence
        stage, depends = "eigenvectors on disk", (k, options)
        return self.cached(stage, depends, lambda: self._pairs(k, **options), types)

    def _pairs(
        self: Any, k: int, tau: float, *, tol: float | None, max_iter: int, seed: int, extra: int
    ) -> EigenResult:
        laplacian = self.laplacian
        tol = tolerance_for(tol, laplacian.size, tau, single=self.single)
        if k == 0:
            return no_pairs(laplacian, tol)
        grids = None if tau else self.grids
        solver = "chebyshev" if grids is None else "lobpcg"
        key = PairsKey(False, solver, tol, max_iter, seed, None, k, extra=extra)
        with self.recorder.stage("eigenvectors") as advance:
            result: EigenResult = self._iterated(grids, key, tau, advance)
        tell_end(self.recorder, result.convergence)
        return result

    def smoothest(self: Any, p: int, **how: Unpack[BasisOptions]) -> SmoothBasis:
        """Kept in memory as that of a graph in memory is, see `eigen.memory_work.smoothest`."""
        tau, seed, tol = how.get("tau", 0.0), how.get("seed", 0), how.get("tol")
        laplacian, recorder = self.regularized(tau), self.recorder
        count = min(p, self.look.n_linked - laplacian.null.n_components)
        tol = BASIS_TOL if tol is None else tol
        spec = (None, "rows", tol, BASIS_STEPS, seed, None, count)
        limit = recorder.deadline.limit

        def pairs() -> EigenResult:
            return self.smallest_pairs(count, tol=tol, max_iter=BASIS_STEPS, seed=seed, tau=tau)

        def plain() -> SmoothBasis:
            result = pairs()
            had = result.convergence.residuals
            return smooth_basis(laplacian, result.values, result.vectors, had)

        if not tau:
            self.derived.drop(RegularizedKey)  # its vectors are as many as those to come
            return remember(self.derived, recorder, BasisKey(*spec, limit=limit), plain)
        derived = of_regularized(self.derived, tau)

        def carried() -> SmoothBasis:
            result = remember(derived, recorder, PairsKey(*spec, limit=limit), pairs)
            few = first_pairs(laplacian.space, result, count)
            return carried_basis(self.laplacian, laplacian, few)

        return remember(derived, recorder, CarriedKey(*spec, limit=limit), carried)
