"""Constrained spectral clustering, CSP (WD14 Algorithms 1 and 2), and WHC11's variants of it, FCSC.

min vᵀL̄v subject to vᵀQ̄v >= α, ‖v‖² = vol leads to the pencil L̄v = λ(Q̄ − β/vol·I)v (eq. 13);
of its vectors with λ > 0 the K − 1 of least cost vᵀL̄v are clustered. β says how much
satisfaction of the constraints is demanded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mustlink.check import check_choice, check_number
from mustlink.constraints import Constraints
from mustlink.constraints.links import NodeMatrix, balanced
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.methods.constrained_spectral import ConstrainedSpectral
from mustlink.operators.constraint_operator import ConstraintOperator, local_operator
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.rounding.assign import ASSIGNMENTS
from mustlink.selection.family import Family
from mustlink.selection.feasible import FeasibleFamily

_SMOOTH_BETAS = (0.5, 0.1)
_EXACT_BETAS = (0.5, 0.1, 0.01)
_RIVAL_BETAS = (0.01,)
_STEPS = 100  # values tried by a search (WHC11 §4.1)
_WIDER = 100.0


@dataclass(eq=False, repr=False)
class CSP(ConstrainedSpectral):
    """K clusters that cut little of the graph and keep the constraints (WD14).

    * `beta`: a fraction b < 1 of λ_{K−1}(Q̄), so that WD14's β is b·λ_{K−1}·vol; the larger, the
      more the constraints weigh; b < 0 is allowed. "auto" decides on evidence; "paper" takes WD14
      eq. 19; "tight" leaves just K − 1 feasible vectors (WD14 §7.3): 0.99, or more if λ_K is near.
      WHC11 §4.1: "search" takes the best of 100 values in (λ_min, λ_max) by criterion E (FCSC-θ),
      "wide" of 100 values from −100 max|λ| to λ_max/vol (FCSC-θ2, as printed).
    * `balanced`: must-links count 1/|ML| and cannot-links 1/|CL| (WHC11 Alg. 1 step 3).
    * `subspace`: "exact" is the paper's full problem, p solves it in the span of the graph's p
      smoothest eigenvectors, which few constraints on many nodes need and which makes new
      constraints a matter of seconds (`refit`); "auto" chooses by constraints held out of the fit.
    * `assign`: "kmeans" (Alg. 2), "sign" (K = 2), "split" (K = 2, at the value that keeps most
      constraints), "sign-kmeans" (eq. 15), "cost-weighted" (eq. 16), "sphere" (rows of length 1,
      FCSC-SP), "auto".
    * `solver`: auto, dense, lobpcg, shift-invert (of the pencil and of L̄).

    A second graph as `Constraints.from_graph` is transfer learning (WD14 §6.3): its largest
    eigenvector is a trivial cut, so that β left open is a fraction of λ_K instead (eq. 18).

    After `fit`: `labels_` (n,), `embedding_` D^-½V (n, K−1) with vᵀv = vol in order of cost,
    `eigenvalues_` λ (K−1,), `costs_` vᵀL̄v, `graph_`, `report_`. Fewer columns if fewer vectors
    are feasible; the report says so. Raises InfeasibleError where none is.
    """

    beta: float | str = "auto"
    balanced: bool = False

    _parameter: ClassVar[str | None] = "beta"
    _assignments: ClassVar[tuple[str, ...]] = ASSIGNMENTS

    def _family(
        self, graph: Graph, laplacian: NormalizedLaplacian, known: Constraints, k: int
    ) -> FeasibleFamily:
        Q = _operator(known, laplacian, self.balanced)
        free = isinstance(self.beta, str)
        transfer = free and known.kind == "graph"
        family = FeasibleFamily(
            graph,
            k,
            1.0 / laplacian.root_degree,
            ("sign", "split", "kmeans") if k == 2 else ("sphere", "kmeans"),
            Q=Q,
            rank=min(k if transfer else k - 1, max(Q.size - 1, 1)),
            tight=self.beta == "tight",
            yields=self.beta == "auto",
            free=free,
        )
        return self._with_betas(family, known)

    def _with_betas(self, family: FeasibleFamily, known: Constraints) -> FeasibleFamily:
        """The family with the fractions to choose from; one if the caller gave it."""
        if self.beta == "auto":
            return replace(
                family, values=_SMOOTH_BETAS, exact_values=_EXACT_BETAS, rivals=_RIVAL_BETAS
            )
        given = (
            _named_betas(self.beta, family, known)
            if isinstance(self.beta, str)
            else (float(self.beta),)
        )
        return replace(family, values=given, exact_values=given, rivals=given)

    def _check_parameter(self) -> None:
        if isinstance(self.beta, str):
            check_choice(self.beta, ("auto", "paper", "tight", "search", "wide"), "beta")
        else:
            check_number(self.beta, "beta", "a fraction below 1")
        if self.solver == "lanczos" and self.subspace == "exact":
            raise InputError(
                'solver: "lanczos" has no form for the exact pencil; use "shift-invert"'
            )

    def _before_work(self, family: Family) -> None:
        if not isinstance(self.beta, str) and self.beta >= 1 and family.acts:
            assert isinstance(family, FeasibleFamily)
            family.check(self.beta)

    @property
    def _by_criterion(self) -> bool:
        return self.beta in ("search", "wide")


def _operator(
    known: Constraints, laplacian: NormalizedLaplacian, is_balanced: bool
) -> ConstraintOperator:
    """Q̄ = D^-½QD^-½ in working order."""
    Q = NodeMatrix(known.matrix, known.factor, known.core)
    if is_balanced:
        must, cannot = balanced(known, laplacian.nodes)
        Q = must + cannot.times(-1.0)
    return local_operator(Q, laplacian, known.nodes, scaled=True)


def _named_betas(name: str, family: FeasibleFamily, known: Constraints) -> tuple[float, ...]:
    """The values behind a name, as fractions of the unit λ_{K−1}(Q̄)."""
    if name == "paper":
        # WD14 eq. 19, with Q's entries counted: both (i, j) and (j, i).
        share = 2.0 * known.n_constraints / float(known.n_nodes) ** 2
        return (0.5 + 0.4 * min(share, 1.0),)
    unit = family.unit
    if unit <= 0 or name == "tight":
        return (0.5,)
    largest = family.Q.kth_largest(1)
    least = largest - family.Q.spread
    low, high = least, largest
    if name == "wide":  # as printed: the upper end is λ_max, not λ_max·vol, hence next to nothing
        low, high = -_WIDER * max(abs(least), abs(largest)), largest / family.graph.volume
    inside = np.linspace(low, high, _STEPS + 2)[1:-1]
    return tuple(float(value) for value in inside / unit)
