"""Links as terms of a Laplacian or in the graph: SSSC, SL, AP and FAST-GE.

Each states its eigenproblem in `_formulation`. The steps of WHC11's Algorithm 1, SSSC:

1, 2  similarities S with S_ii = 0                 `Graph`
3  Q: −β/|ML| for must-links, α/|CL| for cannot-links (eq. 11; signs: see `SSSC`)
4, 5  Q̄ = (Q − λ_min)/(λ_max − λ_min)              `PenalizedProblem(normalized=True)`
6, 7  D, L̄ = I − D^-½SD^-½                         `NormalizedLaplacian`, built once a graph
8  Z: the K lowest eigenvectors of (1 − γ)L̄ + γQ̄
9  rows of Z on the unit sphere                 rounding "sphere", then k-means
§3.4  K = 2: the first vector with both signs   rounding "sign"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.check import check_choice, check_number, check_positive
from mustlink.constraints import Constraints
from mustlink.constraints.links import (
    NodeMatrix,
    acting,
    balanced,
    cannot_links,
    capped_links,
    diagonal,
    difference_form,
    must_links,
    sum_form,
    unbalanced,
)
from mustlink.eigen.penalized import PenalizedProblem, PosteriorProblem, lost_variance
from mustlink.eigen.work import MEMORY
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.graph.structure import fold
from mustlink.methods.informed_clusterer import ConstrainedSpectral
from mustlink.operators.constraint_operator import local_operator
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.operators.protocol import PlacedLaplacian
from mustlink.selection.constrained_fit import (
    Formulation,
    Grid,
    KnownGraph,
    all_rows,
    of_copies,
    per_root,
    row_scale,
)

_GAMMAS = Grid(
    smooth=(0.3, 0.5, 0.1),
    exact=(0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    rivals=(0.1, 0.5),
)
_STEPS = 100  # values tried by a search (WHC11 §4.1)


@dataclass(eq=False, repr=False)
class SSSC(ConstrainedSpectral):
    """K clusters from the K lowest eigenvectors of (1 − γ)L̄ + γQ̄ (WHC11 eq. 16).

    Q_ij = −βb_ij/|ML| for must-links and +αb_ij/|CL| for cannot-links of belief b_ij, and
    Q̄ = Q/(λ_max − λ_min): the paper's eq. 11 has these signs reversed, which would reward broken
    constraints; its shift by λ_min moves all eigenvalues alike and is left out. Rows are set on the
    unit sphere.

    * `gamma`: 0 <= γ < 1, how much the constraints weigh; "auto" decides on evidence, "search"
      takes the best of 100 values by criterion E (§4.1), each solve starting from the last.
      In a subspace Q̄ is scaled by its own range there.
    * `balanced`: True divides the kinds by |ML| and |CL| as eq. 11 does, so that a few links of one
      kind weigh as much as many of the other; with False all links weigh alike. "auto" is eq. 11
      with `subspace="exact"`, `gamma="search"` or weights of one's own, else False.
    * `must_weight`, `cannot_weight`: β and α, at least 0; the paper takes 1 and 1, and what
      counts is their ratio.
    * `assign`: "sphere" (Alg. 1), "kmeans", for K = 2 "sign": vectors of one sign are rejected, the
      next one is cut at 0 (§3.4), or "split", at the value that keeps most constraints; "auto".
    * `subspace`, `solver`, `tol`, `max_iter`: as in `ConstrainedSpectral`.

    After `fit`: `labels_` (n,), `embedding_` Z (n, K) with orthonormal columns, `eigenvalues_`
    (K,), `graph_`, `report_`.
    """

    gamma: float | str = "auto"
    balanced: bool | str = "auto"
    must_weight: float = 1.0
    cannot_weight: float = 1.0

    _parameter: ClassVar[str | None] = "gamma"
    _assignments: ClassVar[tuple[str, ...]] = ("auto", "sign", "split", "kmeans", "sphere")

    def _formulation(
        self, graph: KnownGraph, laplacian: PlacedLaplacian, known: Constraints, k: int
    ) -> Formulation:
        by_kind = self.balanced
        if isinstance(by_kind, str):
            asked = (self.must_weight, self.cannot_weight) != (1.0, 1.0) or self.subspace == "exact"
            by_kind = asked or self._by_criterion
        must, cannot = (balanced if by_kind else unbalanced)(known, laplacian.nodes)
        change = cannot.times(self.cannot_weight) + must.times(-self.must_weight)
        if graph.weights is not None:
            change = change.between(row_scale(graph))
        Q = local_operator(change, laplacian, known.nodes, scaled=False)
        problem = PenalizedProblem(
            laplacian, Q, columns=k, weights=lambda gamma: (1.0 - gamma, gamma), normalized=True
        )
        roundings = ("sphere", "sign", "split") if k == 2 else ("sphere",)
        weighing = "balanced" if by_kind else "alike"
        return Formulation(problem, of_copies(graph, laplacian), roundings, self._grid(), weighing)

    def _grid(self) -> Grid:
        """The values of γ to choose from; one if the caller gave it."""
        if self.gamma == "auto":
            return _GAMMAS
        if isinstance(self.gamma, str):
            return Grid.of(*np.linspace(0, 1, _STEPS + 2)[1:-1].tolist())
        return Grid.of(float(self.gamma))

    def _check_parameter(self) -> None:
        if isinstance(self.gamma, str):
            check_choice(self.gamma, ("auto", "search"), "gamma")
        elif not 0 <= check_number(self.gamma, "gamma", "0 <= gamma < 1") < 1:
            raise InputError(f"gamma: {self.gamma} is out of range; give 0 <= gamma < 1")
        if not isinstance(self.balanced, bool | np.bool_) and self.balanced != "auto":
            raise InputError(f'balanced: {self.balanced!r} given; give True, False or "auto"')
        for name in ("must_weight", "cannot_weight"):
            weight = check_number(getattr(self, name), name, "at least 0")
            if weight < 0:
                raise InputError(f"{name}: {weight:g} given; it must be at least 0")

    def _in_memory_only(self) -> dict[str, bool]:
        return {**super()._in_memory_only(), "gamma": self.gamma == "search"}

    @property
    def _by_criterion(self) -> bool:
        return self.gamma == "search"


# --- Spectral learning, SL (Kamvar, Klein & Manning 2003), and WHC11's SL-L̄


_KEPT = 1e-8  # share of its degree that a node keeps which lost all its edges


@dataclass(eq=False, repr=False)
class SpectralLearning(ConstrainedSpectral):
    """K clusters of a graph whose weights were overwritten by the constraints (WHC11 §2.2.2).

    W'_ij = 1 for must-links and 0 for cannot-links (a belief b < 1 goes the share b of the way;
    where weights exceed 1 the largest weight stands for 1). Then

    * SL: the K largest eigenvectors of (W' + d_max·I − D')/d_max, which are the K smallest of the
      Laplacian D' − W'
    * SL-L̄ (`normalized`): the K smallest of I − D'^-½W'D'^-½

    and rows are set on the unit sphere. Cliques of labelled nodes stay low rank. Neither has a
    parameter; `subspace`, `assign`, `solver`, `tol`, `max_iter` as in `ConstrainedSpectral`.

    After `fit`: `labels_` (n,), `embedding_` the eigenvectors (n, K), orthonormal, `eigenvalues_`
    of D' − W', or of the normalised Laplacian, `graph_` the graph as given, `report_`.
    """

    normalized: bool = False

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY})  # it looks up weights of the graph

    def _formulation(
        self, graph: Graph, laplacian: NormalizedLaplacian, known: Constraints, k: int
    ) -> Formulation:
        d = graph.degrees
        change = overwritten(graph, known)
        degrees = change.sums()
        lost = d + degrees < _KEPT * d
        kept = np.where(lost, _KEPT * d, 0.0)
        nodes = known.nodes
        # D' − W' on top of D − W. A node that lost its edges keeps M definite, with eigenvalue 1 in
        # SL-L̄; in SL it is next to a null vector, as an isolated node should be.
        delta = diagonal(degrees + kept) + change.times(-1.0)
        penalty = local_operator(delta, laplacian, nodes, scaled=True)
        root = laplacian.root_degree
        if self.normalized:
            moved = local_operator(diagonal(degrees + kept), laplacian, nodes, scaled=True)
            problem = PenalizedProblem(laplacian, penalty, k, mass_update=moved, positive=True)
            # Of the modified graph: the rows of every copy, C^-½D'^½D^-½v.
            scale = np.sqrt(laplacian.enter(d + degrees + kept)) / root
            scale = scale * laplacian.enter(row_scale(graph))
        else:
            mass = laplacian.copies / root**2
            problem = PenalizedProblem(laplacian, penalty, k, mass=mass, positive=True)
            scale = 1.0 / root
        return Formulation(problem, scale, ("sphere",), Grid(rivals=(1.0,)))


def overwritten(graph: Graph, known: Constraints) -> NodeMatrix:
    """W' − W: what the constraints change in the affinity; the diagonal stays as it is."""
    W = graph.affinity
    single = row_scale(graph) ** 2
    copy = W if graph.weights is None else fold(W, single)  # between two copies
    full = max(1.0, float(copy.data.max(initial=0.0)))
    must, cannot = capped_links(known, graph.degrees)
    touched = _among(W, known.nodes)
    both = must + cannot
    share = (both if graph.weights is None else both.between(single)).on_pattern(touched)
    share.data = np.clip(share.data, 0.0, 1.0)
    return must.times(full) + NodeMatrix(touched.multiply(share).tocsr() * -1.0)


def _among(W: sp.csr_matrix, nodes: NDArray[np.int64]) -> sp.csr_matrix:
    """Entries of W between two of the nodes, off the diagonal, at their places in (n, n)."""
    found = W[nodes][:, nodes].tocoo()
    off = found.row != found.col
    place = (nodes[found.row[off]], nodes[found.col[off]])
    return sp.csr_matrix((found.data[off].astype(np.float64), place), shape=W.shape)


# --- Constrained affinity propagation, AP (Lu & Carreira-Perpiñán 2008)


_NOISES = (0.1, 0.3, 1.0)


@dataclass(eq=False, repr=False)
class ConstrainedAP(ConstrainedSpectral):
    """K clusters from the posterior covariance of a Gaussian process given the constraints.

    A must-link is an observation x_i − x_j = 0, a cannot-link x_i + x_j = 0, of variance s² divided
    by the belief. The rows F of all observations propagate over the graph by

        K' = K − KFᵀ(s²I + FKFᵀ)⁻¹FK,

    which replaces the affinity: its K leading eigenvectors, rows on the unit sphere, are clustered.
    x_i = −x_j says "other side": made for two clusters, a heuristic for more.

    * `prior="affinity"`: K = W + D, the affinity itself, as in the paper; the loops D, ours,
      make it semidefinite and leave the normalised cut as it is. s² = noise²·(mean degree).
      D^-½K'D^-½ = I + S − R, so its leading vectors are the K smallest of L̄ + R, R of low rank. A
      pair is heard as far as its nodes' neighbours. Up to c = 3,000 constrained nodes: O(c³).
    * `prior="laplacian"`: K = (L̄ + εI)⁻¹, whose nodes are alike along paths of any length, and
      x = D^-½v, s² = noise²/(mean degree). K' = (L̄ + εI + FᵀF/s²)⁻¹, whose leading vectors are the
      K smallest of L̄ + FᵀF/s², whatever ε is; cliques of labelled nodes stay low rank. The
      default: on FLI11's four sets with n/4 to 2n pairs mean ARI .77 against .64 at σ = 1, .83
      against .80 with local scaling, and more pairs do not spoil three clusters.
    * `noise`: how loosely constraints hold; at 1 one of them counts as all edges of an average
      node, or is as unsure as its node was. "auto" decides on evidence.
    * `subspace`, `assign`, `solver`, `tol`, `max_iter`: as in `ConstrainedSpectral`.

    After `fit`: `labels_` (n,), `embedding_` (n, K) orthonormal eigenvectors, `eigenvalues_` (K,)
    of L̄ + R or L̄ + FᵀF/s², `graph_`, `report_`.
    """

    noise: float | str = "auto"
    prior: str = "laplacian"

    _parameter: ClassVar[str | None] = "noise"

    def _formulation(
        self, graph: KnownGraph, laplacian: PlacedLaplacian, known: Constraints, k: int
    ) -> Formulation:
        must = acting(must_links(known), graph.degrees)
        cannot = acting(cannot_links(known), graph.degrees)
        observed = difference_form(must) + sum_form(cannot)
        problem = _PRIORS[self.prior](laplacian, observed, known, k, laplacian.mean_degree)
        grid = Grid.of(*(_NOISES if isinstance(self.noise, str) else (float(self.noise),)))
        return Formulation(problem, of_copies(graph, laplacian), ("sphere",), grid)

    def _in_memory_only(self) -> dict[str, bool]:
        return {**super()._in_memory_only(), "prior": self.prior == "affinity"}

    def _check_parameter(self) -> None:
        check_choice(self.prior, tuple(_PRIORS), "prior")
        if isinstance(self.noise, str):
            check_choice(self.noise, ("auto",), "noise")
        else:
            check_positive(self.noise, "noise")


def _of_laplacian(
    laplacian: PlacedLaplacian, observed: NodeMatrix, known: Constraints, k: int, degree: float
) -> PenalizedProblem:
    return PenalizedProblem(
        laplacian,
        local_operator(observed, laplacian, known.nodes, scaled=True),
        columns=k,
        weights=lambda noise: (1.0, degree / noise**2),
        positive=True,
    )


def _of_affinity(
    laplacian: PlacedLaplacian, observed: NodeMatrix, known: Constraints, k: int, degree: float
) -> PosteriorProblem:
    assert isinstance(laplacian, NormalizedLaplacian)  # asked for their neighbours
    lost = lost_variance(laplacian, observed, known.nodes)
    return PosteriorProblem(laplacian, lost.at(degree), columns=k, lost=lost, variance=degree)


_PRIORS = {"affinity": _of_affinity, "laplacian": _of_laplacian}


# --- FAST-GE, a pencil of two Laplacians (Cucuringu et al. 2016; Jiang, Xie & Bai 2017)


@dataclass(eq=False, repr=False)
class FastGE(ConstrainedSpectral):
    """K clusters that cut few must-links and many cannot-links: min xᵀL_Gx / xᵀL_Hx.

    L_G is the Laplacian of the graph and the must-links, L_H that of the cannot-links and, 1/n
    strong, of the demand graph d_id_j/vol; a pair weighs d_id_j/(d_min d_max), times its belief.
    Without constraints this is the normalised cut. The K − 1 smallest vectors are found as those of

        −L_H x = σ(L_G + μL_H + ZSZᵀ)x,   σ = −1/(ρ + μ),  ρ the quotient,

    the constant vector Z being left out instead of shifted. Cliques of labelled nodes stay low
    rank. K = 2 is cut at 0 or where most constraints are kept, otherwise rows are set on the unit
    sphere.

    * `mu`: > 0, keeps the right side definite on disconnected graphs; changes no vector.
    * `subspace`, `assign`, `solver`, `tol`, `max_iter`: as in `ConstrainedSpectral`. `tol` is
      relative here: ‖left x − σ right x‖ / ‖σ right x‖.

    After `fit`: `labels_` (n,), `embedding_` x = D^-½v (n, K−1) with vᵀv = vol, `eigenvalues_` σ
    (K−1,) ascending, `graph_`, `report_`.
    """

    mu: float = 1e-3

    _assignments: ClassVar[tuple[str, ...]] = ("auto", "sign", "split", "kmeans", "sphere")

    def _formulation(
        self, graph: KnownGraph, laplacian: PlacedLaplacian, known: Constraints, k: int
    ) -> Formulation:
        d, (least, most) = graph.degrees, graph.degree_range
        copies = np.ones_like(d) if graph.weights is None else np.maximum(graph.weights, 1e-300)
        scale = d / copies / np.sqrt(least * most)
        must = difference_form(acting(must_links(known), d).between(scale))
        cannot = difference_form(acting(cannot_links(known), d).between(scale))
        problem = PenalizedProblem(
            laplacian,
            local_operator(must, laplacian, known.nodes, scaled=True),
            columns=k - 1,
            mass=all_rows(laplacian, 1.0 / graph.count),
            mass_update=local_operator(cannot, laplacian, known.nodes, scaled=True),
            without_constant=True,
            positive=True,
            turned=float(self.mu),
            linked=True,
            to_volume=True,
        )
        roundings = ("sign", "split", "kmeans") if k == 2 else ("sphere", "kmeans")
        grid = Grid(rivals=(1.0,))
        return Formulation(problem, per_root(laplacian), roundings, grid)

    def _check_parameter(self) -> None:
        check_positive(self.mu, "mu")
