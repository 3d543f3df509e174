"""Constrained affinity propagation, AP (Lu & Carreira-Perpiñán 2008)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

from mustlink.clusterers.informed_clusterer import ConstrainedSpectral
from mustlink.constraints import Constraints
from mustlink.constraints.links import acting, cannot_links, difference_form, must_links, sum_form
from mustlink.core.check import check_choice, check_positive
from mustlink.eigen.penalized import PenalizedProblem, PosteriorProblem, lost_variance
from mustlink.eigen.smooth_subspace import Problem
from mustlink.operators.constraint_operator import local_operator
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.operators.protocol import PlacedLaplacian
from mustlink.selection.constrained_fit import Formulation, KnownGraph, ParameterValues, of_copies

_NOISES = (0.1, 0.3, 1.0)


@dataclass(eq=False, repr=False)
class ConstrainedAP(ConstrainedSpectral):
    """K clusters from the posterior covariance of a Gaussian process given the constraints.

    A must-link is an observation x_i − x_j = 0, a cannot-link x_i + x_j = 0, of variance s² divided
    by the belief. The rows F of all observations propagate over the graph by

        K' = K − KFᵀ(s²I + FKFᵀ)⁻¹FK,

    which replaces the affinity: its K leading eigenvectors, rows on the unit sphere, are clustered.
    x_i = −x_j says "other side": made for two clusters, a heuristic for more.

    * `prior`: the covariance K without constraints.
      "affinity": K = W + D, the affinity itself, as in the paper; the loops D, ours, make it
      semidefinite and leave the normalised cut as it is. s² = noise²·(mean degree).
      D^-½K'D^-½ = I + S − R, so its leading vectors are the K smallest of L̄ + R, R of low rank. A
      pair acts as far as its nodes' neighbours. Up to c = 3,000 constrained nodes: O(c³).
      "laplacian": K = (L̄ + εI)⁻¹, whose nodes are alike along paths of any length, and
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
        degree = laplacian.mean_degree
        problem: Problem
        if self.prior == "laplacian":
            problem = PenalizedProblem(
                laplacian,
                local_operator(observed, laplacian, known.nodes, scaled=True),
                columns=k,
                weights=lambda noise: (1.0, degree / noise**2),
                positive=True,
            )
        else:
            lost = lost_variance(cast(NormalizedLaplacian, laplacian), observed, known.nodes)
            R = lost.at(degree)
            problem = PosteriorProblem(laplacian, R, columns=k, lost=lost, variance=degree)
        noises = _NOISES if isinstance(self.noise, str) else (float(self.noise),)
        grid = ParameterValues.of(*noises)
        return Formulation(problem, of_copies(graph, laplacian), ("sphere",), grid)

    def _in_memory_only(self) -> dict[str, bool]:
        return {**super()._in_memory_only(), "prior": self.prior == "affinity"}

    def _check_parameter(self) -> None:
        check_choice(self.prior, ("affinity", "laplacian"), "prior")
        if isinstance(self.noise, str):
            check_choice(self.noise, ("auto",), "noise")
        else:
            check_positive(self.noise, "noise")
