"""Which solver for the smallest pairs of L̄: one entry point, one rule, results kept per graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mustlink.eigen.arpack import lanczos, shift_invert
from mustlink.eigen.lapack import dense_smallest
from mustlink.eigen.nested_iteration import nested
from mustlink.eigen.smooth_subspace import SmoothBasis, smooth_basis
from mustlink.graph.graph import Graph
from mustlink.linear.multigrid.hierarchy import Hierarchy, build_hierarchy
from mustlink.linear.multigrid.smoothed_aggregation import build_smoothed, has_wide_weights
from mustlink.observe import Recorder
from mustlink.operators.laplacian import NormalizedLaplacian, normalized_laplacian
from mustlink.result import Convergence, EigenResult

SOLVERS = ("auto", "dense", "lobpcg", "shift-invert", "lanczos")
DENSE_BELOW = 1000  # nodes: below, LAPACK takes about a second and is exact
_DENSE_COMPLETE = 4000
BASIS_TOL = 1e-2  # a smooth subspace need not be sharper: what is clustered is its whole span


def default_tolerance(n: int) -> float:
    """Residual asked for when the caller names none: 1e-8, 1e-4 from 20,000, 1e-3 from 200,000.

    Measured on well and badly separated graphs: the labels do not change below these.
    """
    return 1e-8 if n <= 20_000 else 1e-4 if n <= 200_000 else 1e-3


def laplacian_of(graph: Graph, recorder: Recorder) -> NormalizedLaplacian:
    """The graph's Laplacian, built at the first call."""
    if "laplacian" in graph.memo:
        return normalized_laplacian(graph)

    def ordered() -> Any:
        with recorder.stage("order of the nodes"):
            return graph.order

    graph.memo["order"] = recorder.kept("order", recorder.name_of("order", graph.name), ordered)
    with recorder.stage("Laplacian"):
        return normalized_laplacian(graph, np.float32 if graph.memo.get("single") else np.float64)


def grids_of(graph: Graph, recorder: Recorder) -> Hierarchy:
    """The graph's multigrid hierarchy, built at the first call.

    A memo "wide weights" (bool) says beforehand whether it needs grids by strength of connection:
    who added faint edges to a graph knows that they do not make it one that does.
    """
    laplacian = laplacian_of(graph, recorder)
    if "hierarchy" not in graph.memo:
        with recorder.stage("multigrid set-up"):
            grids = build_hierarchy(laplacian)
            told = graph.memo.get("wide weights")
            if has_wide_weights(laplacian) if told is None else told:
                grids = replace(grids, stronger=build_smoothed(laplacian))
            graph.memo["hierarchy"] = grids
    found: Hierarchy = graph.memo["hierarchy"]
    return found


def is_small(laplacian: NormalizedLaplacian) -> bool:
    """Whether LAPACK is the solver of choice: few nodes, or a complete graph of some more."""
    n = laplacian.size
    return n <= DENSE_BELOW or (n <= _DENSE_COMPLETE and 10 * laplacian.S.nnz > n * n)


def smallest_pairs(
    graph: Graph,
    k: int,
    recorder: Recorder,
    *,
    solver: str = "auto",
    tol: float | None = None,
    max_iter: int = 200,
    seed: int = 0,
) -> EigenResult:
    """The k smallest pairs of L̄ beyond its null space, in working order.

    Fewer if the graph has not so many. A result kept from an earlier call with at least as many
    pairs, at least as sharp, by the same solver, is used again.
    """
    laplacian = laplacian_of(graph, recorder)
    tol = default_tolerance(laplacian.size) if tol is None else tol
    chosen = choose(laplacian, k, solver)
    kept: tuple[EigenResult, float, str, int] | None = graph.memo.get("pairs")
    k = min(k, laplacian.size - laplacian.null.n_components)
    if kept is not None:
        result, sharpness, by, at = kept
        if result.values.size >= k and sharpness <= tol and by == chosen and at == seed:
            return _first(result, k)
    result = _compute(graph, k, recorder, chosen, tol, max_iter, seed)
    graph.memo["pairs"] = (result, tol, chosen, seed)
    return result


def _compute(
    graph: Graph, k: int, recorder: Recorder, chosen: str, tol: float, max_iter: int, seed: int
) -> EigenResult:
    laplacian = laplacian_of(graph, recorder)

    def solved() -> EigenResult:
        grids = None if chosen in ("dense", "lanczos") else grids_of(graph, recorder)
        with recorder.stage("eigenvectors") as advance:
            return _solve(laplacian, grids, k, chosen, tol, max_iter, seed, advance)

    precision = laplacian.S.dtype.name
    name = recorder.name_of("eigenvectors", graph.name, k, chosen, tol, max_iter, seed, precision)
    return recorder.kept("eigenvectors", name, solved, (EigenResult, Convergence))


def choose(laplacian: NormalizedLaplacian, k: int, solver: str) -> str:
    """The rule behind `solver="auto"`: LAPACK for small graphs, nested LOBPCG otherwise.

    ARPACK needs a basis of more than 2k vectors; where that is most of the space, LAPACK it is.
    """
    n = laplacian.size
    if solver == "auto":
        return "dense" if is_small(laplacian) or 5 * k >= n else "lobpcg"
    return "dense" if solver in ("shift-invert", "lanczos") and 3 * k >= n - 20 else solver


def _solve(
    laplacian: NormalizedLaplacian,
    grids: Hierarchy | None,
    k: int,
    solver: str,
    tol: float,
    max_iter: int,
    seed: int,
    advance: Any,
) -> EigenResult:
    if k == 0:
        empty = np.empty((laplacian.size, 0))
        return EigenResult(np.empty(0), empty, Convergence(solver, "direct", 0, np.empty(0), tol))
    if solver == "dense":
        return dense_smallest(laplacian, k)
    if solver == "lanczos":
        return lanczos(laplacian, k, tol=tol, max_iter=10 * max_iter, seed=seed)
    assert grids is not None
    if solver == "shift-invert":
        return shift_invert(laplacian, grids, k, tol=tol, max_iter=10 * max_iter, seed=seed)
    first: list[float] = []

    def on_step(step: int, residuals: Any) -> bool:
        worst = float(residuals.max())
        first.append(worst)
        if worst > 0 and first[0] > tol:  # residuals fall geometrically
            advance(min(1.0, np.log(first[0] / worst) / np.log(first[0] / tol)))
        return False

    return nested(laplacian, grids, k, tol=tol, max_iter=max_iter, seed=seed, on_step=on_step)


def smoothest(
    graph: Graph,
    p: int,
    recorder: Recorder,
    *,
    solver: str = "auto",
    tol: float | None = None,
    seed: int = 0,
) -> SmoothBasis:
    """Basis of at least p smooth directions, computed once and kept with the graph."""
    laplacian = laplacian_of(graph, recorder)
    key = f"smooth {seed}"
    tol = BASIS_TOL if tol is None else tol
    kept: tuple[SmoothBasis, float] | None = graph.memo.get(key)
    available = laplacian.size - 1
    if kept is not None and kept[0].p >= min(p, available) and kept[1] <= tol:
        return kept[0]
    graph.memo.pop(key, None)  # both at once would double the memory
    del kept
    count = min(p, laplacian.size - laplacian.null.n_components)
    chosen = choose(laplacian, count, solver)
    found = _compute(graph, count, recorder, chosen, tol, 200, seed)
    basis = smooth_basis(laplacian, found.values, found.vectors, found.convergence.residuals)
    graph.memo[key] = (basis, tol)
    return basis


def _first(result: EigenResult, k: int) -> EigenResult:
    conv = result.convergence
    cut = Convergence(conv.solver, conv.reason, conv.iterations, conv.residuals[:k], conv.tolerance)
    beyond = float(result.values[k]) if k < result.values.size else result.beyond
    return EigenResult(result.values[:k], result.vectors[:, :k], cut, beyond)
