"""Exhaustive and efficient constraint propagation, E2CP (Lu & Ip 2010)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mustlink.clusterers.propagated_constraints import PropagatedConstraints
from mustlink.core.check import check_number
from mustlink.errors import InputError
from mustlink.lyapunov.fields import ExhaustiveProblem, Problem
from mustlink.lyapunov.sources import Sources


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
