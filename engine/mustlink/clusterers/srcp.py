"""Constraints spread over the graph before it is cut: SRCP (FLI11 Algorithm 1, eq. 5) and E2CP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mustlink.clusterers.propagated_constraints import PropagatedConstraints
from mustlink.core.check import check_number, check_positive
from mustlink.errors import InputError
from mustlink.lyapunov.fields import ExhaustiveProblem, LyapunovProblem, Problem
from mustlink.lyapunov.sources import Sources


@dataclass(eq=False, repr=False)
class SRCP(PropagatedConstraints):
    """K clusters of a graph adjusted by constraints that a Lyapunov equation has spread (FLI11).

    Y_ij is the belief in a pair, in [-1, 1]. What it says of all other pairs is

        (μI + L̄)F + F(μI + L̄) = 2μY                                               (eq. 5)

    and F moves the weights, w in [0, 1] (eq. 9):

        w* = 1 − (1 − F)(1 − w) for F >= 0,   (1 + F)w for F < 0.

    * `mu`: how fast constraints fade with distance; 0.2 in the paper. Smaller is farther: a pair
      acts on nodes within some 1/μ steps. Below 0.02 it acts on most of most graphs.
    * `new_edges`, `normalize`, `solver`, `tol`, `memory`, `variant` and the cut's parameters: see
      `PropagatedConstraints`.

    After `fit`: `labels_` (n,), `embedding_` (n, K), `eigenvalues_` (K,) of the adjusted graph,
    `affinity_matrix_` W* (n, n), `graph_` as given, `report_`, which counts the edges that were
    strengthened, weakened and added. Cost: about a millisecond per pair whatever the size of the
    graph, where neighbourhoods are clear (ten times that at tol = 1e-4 on raw pixels, say), then
    one cut as by `NCut` for every power tried.
    """

    mu: float = 0.2

    _parameter: ClassVar[str] = "mu"

    def _check_parameter(self) -> None:
        check_positive(self.mu, "mu")

    def _problem(self, laplacian: Any, Y: Sources) -> Problem:
        return LyapunovProblem(laplacian, float(self.mu), Y)


# --- Exhaustive and efficient constraint propagation, E2CP (Lu & Ip 2010)


@dataclass(eq=False, repr=False)
class E2CP(PropagatedConstraints):
    """K clusters of a graph adjusted by constraints spread by rows, then by columns (Lu & Ip 2010).

    F = (1 − α)²(I − αS)⁻¹Y(I − αS)⁻¹ with S = D^-½WD^-½: rows of Y are spread as labels are by
    `LLGC`, then the columns of the result. Weights are adjusted as in `SRCP`, whose propagation
    takes both steps at once and has μ = (1 − α)/α.

    * `alpha` in (0, 1): the share that a node takes from its neighbours; larger is farther. 0.8
      lies next to SRCP's default; the choice is ours.
    * `new_edges`, `normalize`, `solver` ("dense", "diffusion", "auto"), `tol`, `variant` and the
      cut's parameters: see `PropagatedConstraints`. Attributes and cost as for `SRCP`.
    """

    alpha: float = 0.8

    _parameter: ClassVar[str] = "alpha"

    def _check_parameter(self) -> None:
        if not 0.0 < check_number(self.alpha, "alpha", "a number between 0 and 1") < 1.0:
            raise InputError(f"alpha: {self.alpha} is not between 0 and 1; give one such as 0.8")
        if self.solver == "krylov":
            raise InputError('solver: "krylov" is for SRCP; use "diffusion" or "dense" for E2CP')

    def _problem(self, laplacian: Any, Y: Sources) -> Problem:
        return ExhaustiveProblem(laplacian, float(self.alpha), Y)
