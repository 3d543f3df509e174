"""Symmetric graph regularised constraint propagation, SRCP: Algorithm 1 of FLI11 with its eq. 5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mustlink.clusterers.propagated_constraints import PropagatedConstraints
from mustlink.core.check import check_positive
from mustlink.lyapunov.fields import LyapunovProblem, Problem
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
