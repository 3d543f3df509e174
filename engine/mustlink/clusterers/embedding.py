"""Embeddings: points or nodes to a few coordinates; label propagation without labels."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.method_cost import Cost, eigenvectors, n_guard_vectors
from mustlink.context.stage_cache import Workspace
from mustlink.core import dense_algebra
from mustlink.core.check import (
    as_integer,
    check_answer,
    check_choice,
    check_positive,
    check_tolerance,
)
from mustlink.core.observe import Observer, Recorder, recorded
from mustlink.core.result import TIME_LIMIT, Convergence, EigenResult, Report
from mustlink.core.state import GraphTransformer, fits
from mustlink.eigen.arpack import OutOfTimeError, factor_bytes, smallest_by_factors
from mustlink.eigen.lobpcg import Lobpcg, lobpcg, orthonormal, rayleigh_ritz
from mustlink.eigen.memory_work import laplacian_of, smallest_pairs, smoothest
from mustlink.eigen.plain_solve import DENSE_BELOW, PLAIN_SOLVERS
from mustlink.errors import InputError
from mustlink.estimators.graph_estimator import GraphEstimator
from mustlink.linear.multigrid.cycle import largest_eigenvalue
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.propagation.generalized import Energy
from mustlink.propagation.label_embeddings import (
    alignment_energy,
    check_directions,
    reconstruction_energy,
)
from mustlink.propagation.lnp import located
from mustlink.space import NullSpace


@dataclass(eq=False, repr=False)
class GraphEmbedding(GraphTransformer, GraphEstimator):
    """Base of the embeddings: `n_components` coordinates f that make fᵀMf least.

    * `n_components` d: number of coordinates; `solver`, `tol` and `max_iter`: how they are found.

    After `fit`: `embedding_` (n, d), `eigenvalues_` (d,) ascending, `graph_`, `report_`.
    """

    n_components: int = 2
    _: KW_ONLY
    solver: str = "auto"
    tol: float | None = None
    max_iter: int = 300

    _needs_points: ClassVar[bool] = True
    _solvers: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def _embed(
        self, work: Workspace, laplacian: NormalizedLaplacian, points: Any, seed: int
    ) -> EigenResult:
        """Pairs (m, d) in working order, scaled; `points` (m, D), None where only a graph is."""

    def _check(self) -> None:
        """Raise InputError for parameters that make no sense."""
        as_integer(self.n_components, "n_components", 1)
        as_integer(self.max_iter, "max_iter", 1)
        check_choice(self.solver, self._solvers, "solver")
        check_tolerance(self.tol)

    def cost(self, n_classes: int | None = None) -> Cost:
        """As many eigenvectors as coordinates; see `GraphEstimator.cost`."""
        wanted = self.n_components
        return eigenvectors(wanted if isinstance(wanted, int) and wanted > 0 else 1)

    @fits
    def fit(
        self,
        X: Any,
        y: Any = None,
        graph: Any = None,
        observer: Observer | Recorder | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Embed points (n, D); `y` is ignored. Raises InputError.

        `graph` is a neighbour graph of the points that was made before. `sample_weight` (n,) >= 0
        tells how often every row counts. Nodes without an edge are at 0.
        """
        self._check()
        recorder = recorded(observer)
        with self._running(recorder):
            X = self._prepared(X, recorder)
            seed, needs = self._seed(), self._needs_points
            how: Any = {"sample_weight": sample_weight, "cost": self.cost(), "needs_points": needs}
            points, work = self._points_and_view(X, graph, recorder, seed, **how)
            graph = work.graph
            if graph.info.get("all_equal"):
                raise InputError(
                    f"points: all {graph.n_rows} are equal, one point has no coordinates to find; "
                    "check that the right columns were read"
                )
            laplacian = laplacian_of(work)
            room, d = laplacian.size - laplacian.null.n_components, int(self.n_components)
            if d > room:
                raise InputError(
                    f"n_components: {d} coordinates asked of {laplacian.size} distinct nodes with "
                    f"an edge, which have {room} beside what is constant; ask for fewer"
                )
            inside = points[graph.first_rows[laplacian.nodes]] if needs else None
            found = self._embed(work, laplacian, inside, seed)
        check_answer(found.vectors, "the embedding")
        self._doubt(laplacian, found, recorder)
        self.embedding_: NDArray[np.float64] = graph.spread(
            laplacian.from_working_order(found.vectors)
        )
        self.eigenvalues_ = found.values
        self.graph_ = graph
        self.report_ = Report(
            method=type(self).__name__,
            n_nodes=graph.n_rows,
            n_clusters=0,
            choices={"solver": found.convergence.solver, "graph": dict(graph.info)},
            convergence=found.convergence,
            satisfaction=None,
            **recorder.report_parts(),
            extra={"n_components": graph.n_components, "eigenvalues": found.values.tolist()},
        )
        return self

    def _doubt(
        self, laplacian: NormalizedLaplacian, found: EigenResult, recorder: Recorder
    ) -> None:
        """Tell of parts that are laid over each other, of nodes at 0, and of what did not end."""
        parts, alone = laplacian.null.n_components, laplacian.n_nodes - laplacian.size
        if parts > 1:
            recorder.warn(
                f"the graph has {parts} components, which the coordinates lay over each other, "
                "and most vary in one component alone; embed them one by one, or connect the graph"
            )
        if alone:
            noun = "node has" if alone == 1 else "nodes have"
            recorder.note(f"{alone} {noun} no edge and cannot be embedded: at 0")
        if found.convergence.reason == TIME_LIMIT:
            recorder.skip_for_time(found.convergence.status)
        elif not found.convergence.converged.all():
            recorder.warn(found.convergence.status)


def signed(laplacian: NormalizedLaplacian, V: Block) -> Block:
    """Columns (m, d) with signs that do not depend on the solver."""
    found = laplacian.space.copy(V)
    laplacian.space.blend(found, laplacian.space.signs(found))
    return found


# --- Laplacian eigenmaps, LE (Belkin & Niyogi 2003; AB09 §5.1): what LELP is without labels


@dataclass(eq=False, repr=False)
class LaplacianEigenmaps(GraphEmbedding):
    """min fᵀ(D − W)f, f ⟂ D1, fᵀDf = 1ᵀD1 (AB09 eq. 33): (D − W)f = λDf, λ > 0 the least.

    Near nodes are kept near. The columns are scikit-learn's `SpectralEmbedding` on the same graph,
    but for their length: weighted by degrees, their mean square is 1.

    * `tol` bounds ‖L̄g − λg‖ of g = D^½f; None takes 1e-8, and 1e-4 / 1e-3 from 20,000 / 200,000
      nodes on. `solver` as in `NCut`: auto, dense, lobpcg, shift-invert or chebyshev.

    Takes points, an affinity or a Graph. Cost: a few tens of products with a block of d + 3
    columns; the vectors are kept with the graph.
    """

    _needs_points: ClassVar[bool] = False
    _solvers: ClassVar[tuple[str, ...]] = PLAIN_SOLVERS

    def _embed(
        self, work: Workspace, laplacian: NormalizedLaplacian, points: Any, seed: int
    ) -> EigenResult:
        how: Any = {"solver": self.solver, "tol": self.tol, "max_iter": int(self.max_iter)}
        found = smallest_pairs(work, int(self.n_components), seed=seed, **how)
        G = signed(laplacian, np.asarray(found.vectors, dtype=np.float64))
        F = G / laplacian.root_degree[:, None] * np.sqrt(laplacian.volume)
        return replace(found, vectors=F)


class FormedEnergy(Energy, Protocol):
    """An energy that can be written down."""

    def matrix(self) -> sp.csr_matrix:
        """M (m, m)."""


class EmbeddingOfFits(GraphEmbedding):
    """Base of embeddings by local fits: eigenvectors of the form M that the fits make."""

    _solvers: ClassVar[tuple[str, ...]] = ("auto", "dense", "shift-invert", "lobpcg")

    @abstractmethod
    def _energy(
        self, points: Any, laplacian: NormalizedLaplacian, recorder: Recorder
    ) -> FormedEnergy:
        """M of the fits of points (m, D) in working order."""

    def _embed(
        self, work: Workspace, laplacian: NormalizedLaplacian, points: Any, seed: int
    ) -> EigenResult:
        points = located(points, self.metric)
        energy = self._energy(points, laplacian, work.recorder)
        return smoothest_of_fits(work, laplacian, energy, points, self, seed)


# --- Locally linear embedding, LLE (Roweis & Saul 2000; AB09 §5.1): what LLELP is without labels


@dataclass(eq=False, repr=False)
class LLE(EmbeddingOfFits):
    """min ‖(I − W)f‖², f ⟂ 1, ‖f‖² = n (AB09 eq. 31, 32): eigenvectors of M = (I − W)ᵀ(I − W).

    W reconstructs every point from its neighbours with the least error, rows summing to 1. The
    columns are scikit-learn's `LocallyLinearEmbedding` with the same neighbours, but for their
    length: their mean square is 1.

    * `reg` > 0: ridge of the local fits, as a share of the squared distances.
    * `n_neighbors`: neighbours in a fit.
    * `solver`: "dense" (LAPACK), "shift-invert" (sparse factors of M), "lobpcg" (products and
      multigrid), "auto": dense up to 1,000 nodes, factors where they are foretold to fit in
      `memory`, 2 GB if none is given, else lobpcg. `tol`: of factors the relative error of λ, 1e-8
      if None; of lobpcg ‖Mf − λf‖ as a share of ‖M‖‖f‖, 1e-6 if None. Eigenvalues of M may be 10⁻⁹
      of ‖M‖: coordinates that lobpcg cannot tell from others are a warning.

    Needs points. Cost: O(n k²(D + k)) for the fits; factors of points near a surface have some 100
    entries a row, and take seconds for 10⁵.
    """

    _: KW_ONLY
    reg: float = 1e-3

    def _check(self) -> None:
        super()._check()
        check_positive(self.reg, "reg")

    def _energy(
        self, points: Any, laplacian: NormalizedLaplacian, recorder: Recorder
    ) -> FormedEnergy:
        k, ridge = int(self.n_neighbors), float(self.reg)
        return reconstruction_energy(points, laplacian, k, ridge, recorder)


# --- Local tangent space alignment, LTSA (Zhang & Zha 2004; AB09 §5.1): LTSALP without labels


@dataclass(eq=False, repr=False)
class LTSA(EmbeddingOfFits):
    """min Σ_i ‖(I − G_iG_iᵀ)f_i‖², f ⟂ 1, ‖f‖² = n (AB09 eq. 35): the least that bends tangents.

    f_i are the values on point i and its neighbours, G_i = [1/√(k+1), g_1 … g_d] the constant and
    the d leading directions of their centred coordinates. Coordinates that are linear on every
    neighbourhood cost nothing: flat surfaces are unrolled up to a linear map.

    * `n_components` d: coordinates, and directions in a fit; less than `n_neighbors`.
    * `n_neighbors`, `solver`, `tol`: as in `LLE`.

    A neighbourhood holds the point itself, as in the paper by Zhang & Zha; scikit-learn's
    `method="ltsa"` leaves it out. Needs points. Cost as of `LLE`.
    """

    def _check(self) -> None:
        super()._check()
        check_directions(self.n_components, self.n_neighbors)

    def _energy(
        self, points: Any, laplacian: NormalizedLaplacian, recorder: Recorder
    ) -> FormedEnergy:
        k, d = int(self.n_neighbors), int(self.n_components)
        return alignment_energy(points, laplacian, k, d, recorder)


# --- The smoothest vectors of a form that fits neighbourhoods: eigenvectors of LLE's and LTSA's


_ROOM = 2e9  # bytes that factors may take without a memory limit
_SMOOTH, _AXES = 20, 20  # vectors of the graph, and axes of the points, that lobpcg starts from
_WIDE = 1000  # columns of points from which no axes are looked for
_STEPS = 20  # of the power method, for ‖M‖


def smoothest_of_fits(
    work: Workspace,
    laplacian: NormalizedLaplacian,
    energy: FormedEnergy,
    points: NDArray[np.floating[Any]],
    how: GraphEmbedding,
    seed: int,
) -> EigenResult:
    """Coordinates F (m, d), least fᵀMf, Σ c_i f_i = 0 on every component, Σ c_i f_i² = Σ c_i.

    c_i copies of node i: with u = C^½f these are eigenvectors of C^-½MC^-½.
    """
    root = np.sqrt(laplacian.copies)
    part = laplacian.null.component
    null = NullSpace(part, root / np.sqrt(np.bincount(part, root**2)[part]), part.max() + 1)
    solver = how.solver
    dense = solver == "dense" or (solver == "auto" and energy.size <= DENSE_BELOW)
    found: EigenResult | None = None
    if dense or solver != "lobpcg":
        by = sp.diags_array(1.0 / root)
        matrix = sp.csr_matrix(by @ energy.matrix() @ by)
        with work.recorder.stage("eigenvectors of the fits"), suppress(OutOfTimeError):
            if dense:
                found = _dense(matrix, null, int(how.n_components))
            elif solver == "shift-invert" or _fits(work, matrix):
                more: Any = {"tol": 1e-8 if how.tol is None else how.tol, "seed": seed}
                more |= {"max_iter": int(how.max_iter), "deadline": work.recorder.deadline}
                found = smallest_by_factors(matrix, null, int(how.n_components), **more)
    if found is None:
        found = _iterated(work, laplacian, energy, points, null, how, seed)
    U = signed(laplacian, found.vectors)
    return replace(found, vectors=U / root[:, None] * np.sqrt(laplacian.copies.sum()))


def _dense(matrix: sp.csr_matrix, null: NullSpace, count: int) -> EigenResult:
    """By LAPACK, what is constant moved beyond the largest eigenvalue."""
    A = matrix.toarray()
    Z = null.columns(np.arange(null.n_components))
    size = max(float(np.abs(A).sum(axis=1).max()), 1e-300)
    values, V = dense_algebra.eigh(A + 2 * size * Z @ Z.T, subset=(0, count - 1))
    residuals = np.linalg.norm(A @ V - V * values, axis=0) / size
    direct = Convergence("LAPACK", "direct", 0, residuals, max(1e-8, float(residuals.max())))
    return EigenResult(np.maximum(values, 0.0), V, direct)


def _fits(work: Workspace, matrix: sp.csr_matrix) -> bool:
    """Whether the factors are foretold to fit; tells how large where they do not."""
    budget = work.recorder.budget
    room = _ROOM if budget.limit is None else max(0.0, budget.limit - budget.taken())
    wanted = factor_bytes(matrix)
    if wanted > room:
        work.recorder.note(
            f"solver: factors of the fits would take about {wanted / 1e9:.1f} GB of "
            f"{room / 1e9:.1f}; lobpcg instead"
        )
    return wanted <= room


def _iterated(
    work: Workspace,
    laplacian: NormalizedLaplacian,
    energy: Energy,
    points: NDArray[np.floating[Any]],
    null: NullSpace,
    how: GraphEmbedding,
    seed: int,
) -> EigenResult:
    """By LOBPCG, from the best in the span of the smoothest vectors and the points' axes."""
    recorder, m, d = work.recorder, energy.size, int(how.n_components)
    space, tol = null.space, 1e-6 if how.tol is None else how.tol
    scale = 1.0 / np.sqrt(laplacian.copies)[:, None]
    width = min(d + n_guard_vectors(d), m - null.n_components)

    def product(X: Block) -> Block:
        found: Block = scale * energy.apply(scale * X)
        return found

    basis = smoothest(work, min(max(_SMOOTH, width), m - null.n_components), seed=seed)
    with recorder.stage("multigrid set-up"):
        cycle = energy.system(np.arange(m), np.zeros(m)).precondition
    smooth = np.asarray(basis.vectors, dtype=np.float64) / laplacian.root_degree[:, None]
    start = orthonormal(space, null.project(np.hstack([smooth, _axes(points)]) / scale), None)
    _, C = rayleigh_ritz(space, start, product(start), count=min(width, start.shape[1]))
    norm = largest_eigenvalue(product, space, _STEPS)
    rule = Lobpcg(d, tol, int(how.max_iter), norm_A=norm, deadline=recorder.deadline)
    with recorder.stage("eigenvectors of the fits"):
        found = lobpcg(
            product,
            start @ C,
            rule,
            precondition=None if cycle is None else (lambda R: cycle(R / scale) / scale),
            project=null.project,
            space=space,
        )
    reached = float(found.convergence.residuals.max(initial=0.0)) * norm
    if reached > found.values[-1]:
        recorder.warn(
            f"eigenvalues of the fits, {found.values[-1]:.1e}, are below the residual, "
            f"{reached:.1e}: the coordinates are mixed with others that are as smooth; give more "
            "memory for factors, or a smaller tol"
        )
    return found


def _axes(points: NDArray[np.floating[Any]]) -> Block:
    """Points (m, D) along principal axes, mean square 1: fits hardly see what is linear."""
    m, d = points.shape
    if d > _WIDE:
        return np.zeros((m, 0))
    centred = points.astype(np.float64) - points.mean(axis=0, dtype=np.float64)
    values, axes = dense_algebra.eigh(centred.T @ centred)
    there = np.flatnonzero(values > 1e-12 * values[-1])[::-1][:_AXES]
    found: Block = centred @ (axes[:, there] / np.sqrt(values[there] / m))
    return found
