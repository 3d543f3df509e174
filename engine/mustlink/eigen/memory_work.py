"""The home in memory: L̄ of a graph, its grids, its smallest pairs, all kept with the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar, Unpack

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.method_cost import n_guard_vectors
from mustlink.context.stage_cache import Workspace
from mustlink.core.observe import Recorder
from mustlink.core.result import MAX_ITER, STAGNATED, TIME_LIMIT, Convergence, EigenResult, tell_end
from mustlink.eigen.arpack import OutOfTimeError
from mustlink.eigen.lobpcg import rayleigh_ritz
from mustlink.eigen.plain_solve import (
    DENSE_BELOW,
    WITHOUT_GRIDS,
    PairsKey,
    first_pairs,
    nested,
    plain_solve,
    tolerance_for,
)
from mustlink.eigen.smooth_subspace import (
    BASIS_STEPS,
    BASIS_TOL,
    BasisKey,
    CarriedKey,
    SmoothBasis,
    carried_basis,
    smooth_basis,
)
from mustlink.eigen.work import MEMORY, BasisOptions, PairOptions
from mustlink.errors import NumericalError, OutOfMemoryError
from mustlink.graph.graph import Graph, GraphLook, Key, cuthill_mckee, fold
from mustlink.linear.laplacian_solve import (
    FEW,
    DeflatedPolynomial,
    DirectInverse,
    usual_preconditioner,
)
from mustlink.linear.multigrid.hierarchy import Hierarchy, build_hierarchy, without_coarse_grids
from mustlink.operators.laplacian import (
    Block,
    NormalizedLaplacian,
    normalized_laplacian,
    regularized,
)
from mustlink.operators.protocol import Preconditioner
from mustlink.space import LocalSpace
from mustlink.space.verbs import Ints

Array = NDArray[Any]
Value = TypeVar("Value")
_DENSE_COMPLETE = 4000  # nodes of a complete graph, up to which LAPACK it is
_TELLING = 100  # steps of LOBPCG within which grids that fit the weights let it converge
_LEAST_BLOCKS = 6  # of LOBPCG, at least: X, P, W and their products


@dataclass(frozen=True, eq=False)
class MemoryWork:
    """A graph whose nodes are all in memory; `view` keeps what is derived from it. See `Work`."""

    view: Workspace

    home: ClassVar[str] = MEMORY

    @property
    def graph(self) -> Graph:
        return self.view.graph

    @property
    def info(self) -> Mapping[str, Any]:
        return self.graph.info

    @property
    def recorder(self) -> Recorder:
        return self.view.recorder

    @property
    def n_nodes(self) -> int:
        return self.graph.n_nodes

    @property
    def isolated(self) -> int:
        return self.n_nodes - self.laplacian.size

    @property
    def n_components(self) -> int:
        return self.graph.n_components

    @property
    def n_entries(self) -> int:
        return self.laplacian.n_entries

    @property
    def space(self) -> LocalSpace:
        return self.laplacian.space

    @property
    def laplacian(self) -> NormalizedLaplacian:
        return laplacian_of(self.view.regularized(0.0))

    def regularized(self, tau: float) -> NormalizedLaplacian:
        return laplacian_of(self.view.regularized(tau))

    @property
    def is_small(self) -> bool:
        return is_small(self.laplacian)

    @property
    def look(self) -> GraphLook:
        return self.graph.look

    @property
    def grids(self) -> Hierarchy:
        return grids_of(self.view)

    def grounded(self, ground: Array, kept: Array) -> Any:
        return self.laplacian.in_double.grounded(ground, kept)

    def with_cycle(self, laplacian: Any) -> tuple[Any, Preconditioner | None]:
        """The Laplacian, and a factor of few nodes or a multigrid cycle of more."""
        with self.recorder.stage("multigrid set-up"):
            return laplacian, usual_preconditioner(laplacian)

    def smallest_pairs(self, k: int, **how: Unpack[PairOptions]) -> EigenResult:
        given: dict[str, Any] = {**how}
        return smallest_pairs(self.view.regularized(given.pop("tau", 0.0)), k, **given)

    def smoothest(self, p: int, **how: Unpack[BasisOptions]) -> SmoothBasis:
        """At least p smooth directions; those of L̄_τ are let go before more of L̄ are computed."""
        given: dict[str, Any] = {**how}
        if not (tau := given.pop("tau", 0.0)):
            self.view.let_go_of_regularized()
        return smoothest(self.view.regularized(tau), p, **given)

    def cached(
        self, stage: str, depends: Any, compute: Callable[[], Value], types: tuple[type, ...] = ()
    ) -> Value:
        name = self.view.name(stage, depends, self.view.memory)
        return self.view.cache.cached(stage, name, compute, types)

    def cluster_sizes(self, clusters: Array, k: int) -> NDArray[np.float64]:
        return np.bincount(clusters, self.space.weights, k).astype(np.float64)

    def cluster_sums(self, clusters: Array, k: int) -> tuple[Array, Array, Array]:
        weights, edges = self.graph.cluster_weights(self._of_nodes(clusters), k)
        return weights, edges, self.cluster_sizes(clusters, k)

    def _of_nodes(self, clusters: Array) -> NDArray[np.int64]:
        """Clusters (m,) of working nodes as those of the graph's nodes, -1 without an edge."""
        labels = np.full(self.n_nodes, -1, dtype=np.int64)
        labels[self.laplacian.nodes] = clusters
        return labels

    def map_rows(
        self, f: Callable[[sp.csr_matrix, int], sp.csr_matrix], depends: Any = None
    ) -> MemoryWork:
        """Nodes are this graph's in working order, and need no other one."""
        laplacian, counts = self.laplacian, self.laplacian.weights
        W = laplacian.graph_weights
        # Of nodes that stand for several, f gets the weights between two copies.
        rows = f(W, 0) if counts is None else fold(f(fold(W, 1.0 / counts), 0), counts)
        made = Graph(rows, {"kind": "adjusted"}, counts)
        if np.diff(made.affinity.indptr).all():
            own = NormalizedLaplacian.of_weights(made.affinity, counts, laplacian.nodes)
            made.derived.put(LaplacianKey(own.dtype == np.float32), own)
        made.derived.origin = self.view.name("adjusted graph", depends)
        return MemoryWork(self.view.on(made))

    def from_mapped(self, made: MemoryWork, X: Array, fill: float = 0) -> Array:
        nodes, m = made.laplacian.nodes, self.laplacian.size
        if nodes.size == m and (nodes[1:] > nodes[:-1]).all():
            return X
        result = np.full((m, *X.shape[1:]), fill, dtype=X.dtype)
        result[nodes] = X
        return result

    def positions(self, nodes: Ints) -> Ints:
        return self.laplacian.positions[nodes]

    def places(self, nodes: Ints) -> Ints:
        rows = self.graph.rows
        return self.positions(nodes if rows is None else rows[nodes])

    def to_working_order(self, values: Array) -> Array:
        return self.laplacian.to_working_order(values)

    def to_embedding(self, X: Array) -> Array:
        root = self.laplacian.root_degree
        return self.space.rowwise(lambda rows, r: rows / r[:, None], X, root)

    def labels_of_rows(self, clusters: Array) -> NDArray[np.int64]:
        of_nodes, own = self._of_nodes(clusters), self.graph.shares
        if own is None:
            found: NDArray[np.int64] = self.graph.spread(of_nodes)
            return found
        with self.recorder.stage("labels of rows") as advance:
            return own.vote(of_nodes, advance)

    def from_working_order(self, X: Array) -> Array:
        return self.graph.spread(self.laplacian.from_working_order(X))

    def with_recorder(self, recorder: Recorder) -> MemoryWork:
        """The same for a later fit."""
        return MemoryWork(replace(self.view, recorder=recorder))


# --- What of a graph is derived once, by the view of a fit


@dataclass(frozen=True)
class OrderKey(Key[NDArray[np.int64]]):
    """Reverse Cuthill-McKee order of the nodes."""


@dataclass(frozen=True)
class LaplacianKey(Key[NormalizedLaplacian]):
    """L̄ in working order."""


@dataclass(frozen=True)
class GridsKey(Key[Hierarchy]):
    """Multigrid of L̄."""


@dataclass(frozen=True)
class DirectKey(Key[DirectInverse]):
    """L̄ of few nodes, factored."""


@dataclass(frozen=True)
class SpanKey(Key[str]):
    """The solver of a rough basis, which grids choose that a file does not keep."""


def is_small(laplacian: NormalizedLaplacian) -> bool:
    """Whether LAPACK is the solver of choice: few nodes, or a complete graph of some more."""
    n = laplacian.size
    return n <= DENSE_BELOW or (n <= _DENSE_COMPLETE and 10 * laplacian.n_entries > n * n)


def choose(laplacian: NormalizedLaplacian, k: int, solver: str) -> str:
    """The rule behind `solver="auto"`: LAPACK for small graphs, nested LOBPCG otherwise.

    With regularised degrees Chebyshev filters: no eigenvalue is near 0, and on networks coarse
    grids are no smaller than the fine one (DBLP, K = 20, CPU seconds: 4 where LOBPCG takes 26).
    ARPACK needs a basis of more than 2k vectors; where that is most of the space, LAPACK it is.
    """
    n = laplacian.size
    if solver == "auto":
        large = "lobpcg" if laplacian.null.n_components else "chebyshev"
        return "dense" if is_small(laplacian) or 5 * k >= n else large
    return "dense" if solver == "shift-invert" and 3 * k >= n - 20 else solver


def laplacian_of(work: Workspace) -> NormalizedLaplacian:
    """The graph's Laplacian in the precision of the fit, built at the first call."""
    graph, recorder = work.graph, work.recorder
    if work.tau > 0.0:
        plain = laplacian_of(work.regularized(0.0))
        return work.remember(LaplacianKey(work.single), lambda: regularized(plain, work.tau))

    def ordered() -> NDArray[np.int64]:
        with recorder.stage("order of the nodes"):
            return cuthill_mckee(graph.affinity)

    def built() -> NormalizedLaplacian:
        order = work.derive("order", OrderKey(None), ordered)
        with recorder.stage("Laplacian"):
            return normalized_laplacian(graph, np.float32 if work.single else np.float64, order)

    return work.remember(LaplacianKey(work.single), built)


def grids_of(work: Workspace) -> Hierarchy:
    """The graph's multigrid hierarchy, built at the first call."""
    laplacian = laplacian_of(work)

    def built() -> Hierarchy:
        with work.recorder.stage("multigrid set-up"):
            return build_hierarchy(laplacian)

    return work.remember(GridsKey(work.single), built)


def smallest_pairs(
    work: Workspace,
    k: int,
    *,
    solver: str = "auto",
    tol: float | None = None,
    max_iter: int = 200,
    seed: int = 0,
    extra: int = 0,
) -> EigenResult:
    """The k smallest pairs of L̄ beyond its null space, in working order, and `extra` ones.

    These are guard vectors, at most `n_guard_vectors(k)`, with residuals of √tol.
    Fewer if the graph has not so many. A result of an earlier call is used again where a fresh
    one would be the same, see `SolutionKey`.
    """
    laplacian = laplacian_of(work)
    tol = tolerance_for(tol, laplacian.size, work.tau, single=work.single)
    solver = choose(laplacian, k, solver)
    room = laplacian.size - laplacian.null.n_components
    k, extra = min(k, room), min(extra, max(0, room - k))
    limit = work.recorder.deadline.limit
    spec = (work.single, solver, tol, max_iter, seed, work.memory, k)
    key = PairsKey(*spec, limit=limit, extra=extra)
    found = work.derive("eigenvectors", key, lambda: _compute(work, key))
    return first_pairs(laplacian.space, found, k, extra)


def _compute(work: Workspace, key: PairsKey) -> EigenResult:
    laplacian = laplacian_of(work)
    # A few steps that the caller allows say nothing about the preconditioner.
    signs = (STAGNATED, MAX_ITER) if key.max_iter >= _TELLING else (STAGNATED,)
    if key.solver == "lobpcg" and laplacian.size in FEW:
        directly = _directly(work, key)
        if directly is not None and directly.convergence.reason not in (*signs, TIME_LIMIT):
            return directly
    grids = None if key.solver in WITHOUT_GRIDS else grids_of(work)
    if key.solver == "lobpcg":
        number, width = laplacian.dtype.itemsize, key.count + n_guard_vectors(key.count)
        blocks = _LEAST_BLOCKS * number * laplacian.size * width
        work.recorder.budget.ask(blocks, f"{width} vectors of {laplacian.size} nodes")
    deadline = work.recorder.deadline
    try:
        with work.recorder.stage("eigenvectors") as advance:
            found = plain_solve(laplacian, grids, key, advance, deadline)
    except OutOfTimeError:  # the start from coarse grids is better than nothing
        grids, key = grids or grids_of(work), replace(key, solver="lobpcg")
        with work.recorder.stage("eigenvectors") as advance:
            found = plain_solve(laplacian, grids, key, advance, deadline)
    tell_end(work.recorder, found.convergence, single=work.single)
    return found


def _directly(work: Workspace, key: PairsKey) -> EigenResult | None:
    """The pairs of few nodes, with L̄ factored in the place of grids; None where it cannot be."""
    laplacian, recorder = laplacian_of(work), work.recorder
    try:
        recorder.budget.ask(4 * laplacian.size**2, "the factored Laplacian")
        inverse = work.remember(DirectKey(work.single), lambda: DirectInverse(laplacian))
        alone = without_coarse_grids(laplacian, inverse)
        with recorder.stage("eigenvectors") as advance:
            return plain_solve(laplacian, alone, key, advance, recorder.deadline)
    except (NumericalError, OutOfMemoryError):
        return None


def smoothest(
    work: Workspace, p: int, *, solver: str = "auto", tol: float | None = None, seed: int = 0
) -> SmoothBasis:
    """Basis of at least p smooth directions, computed once and kept with the graph.

    With regularised degrees the span of the p smoothest vectors of L̄_τ, see `carried_basis`.
    """
    laplacian = laplacian_of(work)
    count = min(p, laplacian.size - laplacian.null.n_components)
    sharpness = BASIS_TOL if tol is None else tol
    solver = _spanning(work, count, solver, sharpness)
    spec = (work.single, solver, sharpness, BASIS_STEPS, seed, work.memory, count)
    limit = work.recorder.deadline.limit
    if laplacian.ground is not None:
        plain = laplacian_of(work.regularized(0.0))
        steps = {"max_iter": BASIS_STEPS, "seed": seed}
        found = smallest_pairs(work, count, solver=solver, tol=sharpness, **steps)
        return work.remember(
            CarriedKey(*spec, limit=limit), lambda: carried_basis(plain, laplacian, found)
        )

    def made() -> SmoothBasis:
        key = PairsKey(*spec, limit=limit)
        found = work.store("eigenvectors", key, lambda: _compute(work, key))
        return smooth_basis(laplacian, found.values, found.vectors, found.convergence.residuals)

    return work.remember(BasisKey(*spec, limit=limit), made)


def _spanning(work: Workspace, p: int, solver: str, tol: float) -> str:
    """As `choose`, for a span that need not be sharp: filters where coarse grids are no smaller.

    CSP on a block model of 10⁶ nodes: 60 CPU seconds and 2.9 GB; by LOBPCG more than 130 and 5.7.
    """
    found = choose(laplacian_of(work), p, solver)
    rough = solver == "auto" and found == "lobpcg" and tol >= BASIS_TOL
    if not rough or laplacian_of(work).size in FEW:
        return found
    if "added" in work.graph.info:  # its basis is that of the graph before, extended
        for key, _ in work.derived.of(BasisKey):
            return key.solver
    span = SpanKey(work.single)
    return work.remember(span, lambda: "chebyshev" if grids_of(work).is_wide else found)


def known_spectrum(graph: Graph) -> NDArray[np.float64] | None:
    """The longest run of smallest eigenvalues beyond the zeros that fits came by, if any."""
    found: list[NDArray[np.float64]] = []
    for _, pairs in graph.derived.of(PairsKey):
        found.append(
            pairs.values if pairs.beyond is None else np.append(pairs.values, pairs.beyond)
        )
    found += [basis.values[basis.n_ties :] for _, basis in graph.derived.of(BasisKey)]
    return max(found, key=lambda values: int(values.size)) if found else None


# --- Preconditioners of systems with L̄, cached with the graph: grids, or its smoothest vectors
#
# Vectors take longer than one solve by grids. Where coarse grids resolve clear clusters badly they
# pay from the first solve on, and every later one takes a third: they do not depend on labels.

_MANY = 200_000  # nodes from which vectors are worth their time
_VECTORS = 24  # as many as questions are chosen by
_CLOSE = 0.9  # of the largest of their values: vectors that are not sharp leave something below
_CLEAR = 0.0125  # which must be above: with less, the polynomial takes as many products as grids


@dataclass(frozen=True)
class DeflationKey(Key[DeflatedPolynomial]):
    """The inverse with the smoothest vectors, by the seed that they are found with."""

    seed: int


def cached_inverse(work: Workspace, seed: int) -> Preconditioner:
    """≈L̄⁻¹ on all nodes that have an edge; project where there is a null space.

    Where memory or time is limited, what takes the least of both.
    """
    laplacian = laplacian_of(work)
    if laplacian.size in FEW or work.memory is not None:
        return usual_preconditioner(laplacian)
    known = smooth_vectors(work, seed)
    if known is not None:
        basis, low = known
        try:
            key = DeflationKey(work.single, seed)
            Z = basis.vectors[:, 1 + basis.n_ties :]
            return work.remember(key, lambda: DeflatedPolynomial(laplacian, Z, low))
        except NumericalError:
            pass
    return grids_of(work).cycle()


def smooth_vectors(work: Workspace, seed: int) -> tuple[SmoothBasis, float] | None:
    """The smoothest vectors of L̄, its null vectors among them, and from which value on others are.

    Those below that value: a polynomial does the rest as well, for less. None where grids do
    better: small coarse ones, or nothing but networks' large ones.
    """
    small = laplacian_of(work).size < _MANY
    if small or work.memory is not None or work.recorder.deadline.is_set:
        return None
    grids = grids_of(work)
    if grids.is_cheap() or grids.is_wide:
        return None
    basis = smoothest(work, _VECTORS, seed=seed).first(_VECTORS)
    low = _CLOSE * float(basis.values[-1])
    few = int(np.count_nonzero(basis.values < low))
    return (basis.first(max(few, basis.n_ties + 1)), low) if low >= _CLEAR else None


# --- Smooth vectors of a graph that has grown: those of the graph before, extended and sharpened
#
# A new node gets the mean of its neighbours' values: u_i = Σ_j W_ij u_j / ((1 − λ) d_i), which is
# L̄v = λv solved for its row (Nyström), v = D^½u, v_i = Σ_j S_ij v_j / (1 − λ). Vectors that are
# smooth on the old graph then are nearly so on the new one; a few filters and Rayleigh-Ritz in
# their span make them as sharp as clusters need, and LOBPCG from there where they do not.


Floats = NDArray[np.float64]
FEWEST = 20_000  # nodes below which vectors are computed anew: that is quick, and sharp
_FILTERS, _SWEEPS = 2, 4  # products of a sweep, and sweeps at most
_STEPS = 40  # of LOBPCG, where sweeps did not do


def extend_vectors(before: Graph, work: Workspace) -> None:
    """Put the vectors of the graph `before`, extended, into the cache of the grown graph of `work`.

    The first nodes are those before. Vectors of few nodes, of several components, or of regularised
    degrees are computed anew when they are needed.
    """
    graph = work.graph
    if graph.n_nodes < FEWEST or before.n_components != 1 or graph.n_components != 1:
        return
    plain = Workspace(before, single=work.single)
    for key, pairs in before.derived.of(PairsKey):
        if key.single == work.single:
            result = _extended(laplacian_of(plain), pairs.values, pairs.vectors, work, key)
            graph.derived.put(key, result)
    for basis_key, basis in before.derived.of(BasisKey):
        if basis_key.single == work.single and type(basis_key) is BasisKey:
            graph.derived.put(basis_key, _basis(laplacian_of(plain), basis, work, basis_key))


def _basis(
    old: NormalizedLaplacian, basis: SmoothBasis, work: Workspace, key: BasisKey
) -> SmoothBasis:
    wanted = PairsKey(
        key.single, key.solver, key.tol, key.max_iter, key.seed, key.budget, key.count,
        limit=key.limit,
    )  # fmt: skip
    vectors = basis.vectors[:, 1 + basis.n_ties :]
    result = _extended(old, basis.values[basis.n_ties :], vectors, work, wanted)
    residuals = result.convergence.residuals
    return smooth_basis(laplacian_of(work), result.values, result.vectors, residuals)


def _extended(
    old: NormalizedLaplacian, values: Floats, vectors: Block, work: Workspace, key: PairsKey
) -> EigenResult:
    """Pairs of the grown graph from those (m, k) of the graph before, in working order."""
    laplacian, tol = laplacian_of(work), max(key.tol, BASIS_TOL)
    with work.recorder.stage("vectors of the new nodes"):
        result = _filtered(laplacian, _nystrom(old, values, vectors, laplacian), tol)
    if result.convergence.converged.all():
        return result
    grids = grids_of(work)
    with work.recorder.stage("eigenvectors"):
        X, k = result.vectors, values.size
        return nested(laplacian, grids, k, tol=tol, max_iter=_STEPS, seed=key.seed, start=X)


def _filtered(laplacian: NormalizedLaplacian, X: Block, tol: float) -> EigenResult:
    """Ritz pairs in the span of X (m, k), filtered till residuals are within tol, or some times."""
    space, steps = laplacian.space, 0
    for _ in range(_SWEEPS):
        X = laplacian.null.project(laplacian.smooth(X, _FILTERS))
        AX = laplacian.apply(X)
        theta, C = rayleigh_ritz(space, X, AX)
        squares = np.einsum("ij,ij->j", C, space.gram(AX, AX) @ C)  # of L̄x, x of length 1
        residuals = np.sqrt(np.maximum(squares - theta**2, 0.0))
        X, steps = space.combine(X, C), steps + _FILTERS
        if (residuals <= tol).all():
            break
    return EigenResult(theta, X, Convergence("filters", "tolerance", steps, residuals, tol))


def _nystrom(
    old: NormalizedLaplacian, values: Floats, vectors: Block, laplacian: NormalizedLaplacian
) -> Block:
    """D^½u on all nodes, in the new working order: u of old nodes, and means for new ones."""
    there = laplacian.positions[old.nodes]
    V: Any = np.zeros((laplacian.size, values.size), dtype=np.float32)  # as it is filtered
    V[there] = vectors
    ratio = np.ones(laplacian.size, dtype=np.float32)
    ratio[there] = laplacian.root_degree[there] / old.root_degree
    V *= ratio[:, None]
    new = np.flatnonzero(np.bincount(there, minlength=laplacian.size) == 0)
    ones, at = np.ones(new.size, dtype=np.float32), np.arange(new.size + 1)
    rows = sp.csr_matrix((ones, new, at), shape=(new.size, laplacian.size))
    S = laplacian.of_few(rows).astype(np.float32)
    shrunk = np.maximum(1.0 - values, 0.1).astype(np.float32)
    for _ in range(2):  # the second time with the values of new neighbours
        V[new] = (S @ V) / shrunk
    return V
