"""Constrained affinity propagation, AP (Lu & Carreira-Perpiñán 2008)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mustlink.check import check_choice, check_positive
from mustlink.constraints import Constraints
from mustlink.constraints.links import (
    acting,
    cannot_links,
    difference_form,
    must_links,
    sum_form,
)
from mustlink.eigen.penalized import PenalizedProblem
from mustlink.graph import Graph
from mustlink.methods.constrained_spectral import ConstrainedSpectral, row_scale
from mustlink.operators.constraint_operator import local_operator
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.selection.formulation import Formulation, Grid

_NOISES = (0.1, 0.3, 1.0)


@dataclass(eq=False, repr=False)
class ConstrainedAP(ConstrainedSpectral):
    """K clusters from the posterior covariance of a Gaussian process given the constraints.

    Prior v ~ N(0, K), K = (L̄ + εI)⁻¹. In u = D^-½v a must-link is an observation u_i − u_j = 0, a
    cannot-link u_i + u_j = 0, of variance s² = noise²/(mean degree), divided by the belief. The
    rows F of all observations propagate over the graph by the posterior covariance

        K' = K − KFᵀ(s²I + FKFᵀ)⁻¹FK = (L̄ + εI + FᵀF/s²)⁻¹,

    which replaces the affinity. Its K leading eigenvectors are the K smallest of L̄ + FᵀF/s²,
    whatever ε is: nothing is formed or inverted, and cliques of labelled nodes stay low rank.
    Rows are set on the unit sphere. u_i = −u_j says "other side": made for two clusters, a
    heuristic for more.

    * `noise`: how loosely constraints hold; at 1 one of them pulls like all edges of an average
      node. "auto" decides on evidence.
    * `subspace`, `assign`, `solver`, `tol`, `max_iter`: as in `ConstrainedSpectral`.

    After `fit`: `labels_` (n,), `embedding_` (n, K) orthonormal eigenvectors, `eigenvalues_` of
    L̄ + FᵀF/s² (K,), `graph_`, `report_`.
    """

    noise: float | str = "auto"

    _parameter: ClassVar[str | None] = "noise"

    def _formulation(
        self, graph: Graph, laplacian: NormalizedLaplacian, known: Constraints, k: int
    ) -> Formulation:
        must = acting(must_links(known), graph.degrees)
        cannot = acting(cannot_links(known), graph.degrees)
        observed = difference_form(must) + sum_form(cannot)
        penalty = local_operator(observed, laplacian, known.nodes, scaled=True)
        degree = laplacian.volume / laplacian.copies.sum()
        problem = PenalizedProblem(
            laplacian,
            penalty,
            columns=k,
            weights=lambda noise: (1.0, degree / noise**2),
            positive=True,
        )
        grid = Grid.of(*(_NOISES if isinstance(self.noise, str) else (float(self.noise),)))
        return Formulation(problem, laplacian.enter(row_scale(graph)), ("sphere",), grid)

    def _check_parameter(self) -> None:
        if isinstance(self.noise, str):
            check_choice(self.noise, ("auto",), "noise")
        else:
            check_positive(self.noise, "noise")
