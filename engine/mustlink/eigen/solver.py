"""L̄ of a graph, its grids, its smallest pairs: one rule for the solver, all kept per graph."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.stage_cache import SolutionKey, Workspace
from mustlink.core.result import MAX_ITER, STAGNATED, TIME_LIMIT, Convergence, EigenResult
from mustlink.eigen.arpack import OutOfTimeError
from mustlink.eigen.lobpcg import rayleigh_ritz
from mustlink.eigen.plain_solve import (
    WITHOUT_GRIDS,
    choose,
    first_pairs,
    n_guard_vectors,
    nested,
    plain_solve,
    tell_end,
    tolerance_for,
)
from mustlink.eigen.smooth_subspace import SmoothBasis, carried_basis, smooth_basis
from mustlink.errors import NumericalError, OutOfMemoryError
from mustlink.graph.graph import Graph, Key, cuthill_mckee
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

BASIS_STEPS = 200
_TELLING = 100  # steps of LOBPCG within which grids that fit the weights let it converge
_LEAST_BLOCKS = 6  # of LOBPCG, at least: X, P, W and their products
BASIS_TOL = 1e-2  # a smooth subspace need not be sharper: what is clustered is its whole span


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
class PairsKey(SolutionKey[EigenResult]):
    """Smallest pairs of L̄ beyond its null space."""

    types: ClassVar[tuple[type, ...]] = (EigenResult, Convergence)


@dataclass(frozen=True)
class BasisKey(SolutionKey[SmoothBasis]):
    """Smoothest directions, see `smoothest`: all with the same steps allowed."""

    def _steps_suit(self, wanted: BasisKey, value: SmoothBasis) -> bool:
        sharp = self.limit == math.inf or bool((value.residuals <= self.tol).all())
        return sharp or wanted.limit <= self.limit


@dataclass(frozen=True)
class CarriedKey(BasisKey):
    """The span of the smoothest vectors of L̄_τ: of just so many, as L̄ sorts them anew."""

    def serves(self, wanted: CarriedKey, value: SmoothBasis) -> bool:
        """As all solutions, but a longer basis does not begin with the shorter one."""
        return self.count == wanted.count and super().serves(wanted, value)


@dataclass(frozen=True)
class SpanKey(Key[str]):
    """The solver of a basis that was read from a file: grids that chose it are not."""


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
    rough = rough and laplacian_of(work).size not in FEW
    if rough and "added" in work.graph.info:  # its basis is that of the graph before, extended
        for key, _ in work.derived.of(BasisKey):
            return key.solver
    if rough:
        for _, chosen in work.derived.of(SpanKey):
            return str(chosen)
    return "chebyshev" if rough and grids_of(work).is_wide else found


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
    basis = smooth_vectors(work, seed)
    if basis is not None:
        try:
            key = DeflationKey(work.single, seed)
            Z = basis.vectors[:, 1 + basis.n_ties :]
            return work.remember(key, lambda: DeflatedPolynomial(laplacian, Z, next_value(basis)))
        except NumericalError:
            pass
    return grids_of(work).cycle()


def smooth_vectors(work: Workspace, seed: int) -> SmoothBasis | None:
    """The smoothest vectors of L̄, those of its null space among them, where they pay.

    None where grids do better: small coarse ones, or nothing but networks' large ones.
    """
    small = laplacian_of(work).size < _MANY
    if small or work.memory is not None or work.recorder.deadline.is_set:
        return None
    grids = grids_of(work)
    if grids.is_cheap() or grids.is_wide:
        return None
    basis = smoothest(work, _VECTORS, seed=seed).first(_VECTORS)
    return basis if next_value(basis) >= _CLEAR else None


def next_value(basis: SmoothBasis) -> float:
    """From which eigenvalue on there are others."""
    return _CLOSE * float(basis.values[-1])


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
