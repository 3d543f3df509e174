"""L̄ of a graph, its grids, its smallest pairs: one rule for the solver, all kept per graph."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mustlink.context.workspace import SolutionKey, Workspace
from mustlink.core.result import Convergence, EigenResult
from mustlink.core.stopping import MAX_ITER, STAGNATED, TIME_LIMIT
from mustlink.eigen.arpack import OutOfTimeError
from mustlink.eigen.nested_iteration import n_guard_vectors
from mustlink.eigen.plain_solve import (
    WITHOUT_GRIDS,
    asked_tolerance,
    choose,
    first_pairs,
    plain_solve,
    tell_end,
)
from mustlink.eigen.smooth_subspace import SmoothBasis, carried_basis, smooth_basis
from mustlink.errors import NumericalError, OutOfMemoryError
from mustlink.graph.graph import Graph, Key
from mustlink.graph.structure import cuthill_mckee
from mustlink.linear.laplacian_solve import FEW, DirectInverse
from mustlink.linear.multigrid.hierarchy import Hierarchy, build_hierarchy, without_coarse_grids
from mustlink.operators.grounded_laplacian import regularized
from mustlink.operators.laplacian import NormalizedLaplacian, normalized_laplacian

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

    def _steps_suit(self, asked: BasisKey, value: SmoothBasis) -> bool:
        sharp = self.limit == math.inf or bool((value.residuals <= self.tol).all())
        return sharp or asked.limit <= self.limit


@dataclass(frozen=True)
class CarriedKey(BasisKey):
    """The span of the smoothest vectors of L̄_τ: of just so many, as L̄ sorts them anew."""

    def serves(self, asked: CarriedKey, value: SmoothBasis) -> bool:
        """As all solutions, but a longer basis does not begin with the shorter one."""
        return self.count == asked.count and super().serves(asked, value)


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
    tol = asked_tolerance(tol, laplacian.size, work.tau, single=work.single)
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
    work: Workspace,
    p: int,
    *,
    solver: str = "auto",
    tol: float | None = None,
    seed: int = 0,
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
