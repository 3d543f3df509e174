"""FAST-GE: a pencil of two Laplacians (Cucuringu et al. 2016; Jiang, Xie & Bai 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mustlink.clusterers.informed_clusterer import ConstrainedSpectral
from mustlink.constraints import Constraints
from mustlink.constraints.links import acting, cannot_links, difference_form, must_links
from mustlink.core.check import check_positive
from mustlink.eigen.penalized import PenalizedProblem
from mustlink.operators.constraint_operator import local_operator
from mustlink.operators.protocol import PlacedLaplacian
from mustlink.selection.constrained_fit import (
    Formulation,
    KnownGraph,
    ParameterValues,
    all_rows,
    per_root,
)


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

    * `mu`: weight of L_G on the right, which keeps that definite on disconnected graphs; changes no
      vector.
    * `subspace`, `assign`, `solver`, `tol`, `max_iter`: as in `ConstrainedSpectral`. `tol`: the
      relative residual to reach: ‖left x − σ right x‖ / ‖σ right x‖.

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
        grid = ParameterValues(rivals=(1.0,))
        return Formulation(problem, per_root(laplacian), roundings, grid)

    def _check_parameter(self) -> None:
        check_positive(self.mu, "mu")
