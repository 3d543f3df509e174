"""Semi-supervised K-way spectral clustering, SSSC (WHC11 Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mustlink.check import check_choice, check_number
from mustlink.constraints import Constraints
from mustlink.constraints.links import balanced
from mustlink.eigen.penalized import PenalizedProblem
from mustlink.errors import InputError
from mustlink.graph import Graph
from mustlink.methods.constrained_spectral import ConstrainedSpectral
from mustlink.operators.constraint_operator import local_operator
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.selection.penalized_family import PenalizedFamily

_SMOOTH_GAMMAS = (0.3, 0.5, 0.1)
_EXACT_GAMMAS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_RIVAL_GAMMAS = (0.1, 0.5)
_STEPS = 100  # values tried by a search (WHC11 §4.1)


@dataclass(eq=False, repr=False)
class SSSC(ConstrainedSpectral):
    """K clusters from the K lowest eigenvectors of (1 − γ)L̄ + γQ̄ (WHC11 eq. 16).

    Q_ij = −1/|ML| for must-links and +1/|CL| for cannot-links, and Q̄ = Q/(λ_max − λ_min): the
    paper's eq. 11 has these signs reversed, which would reward broken constraints; its shift by
    λ_min moves all eigenvalues alike and is left out. Rows are set on the unit sphere.

    * `gamma`: 0 <= γ < 1, how much the constraints weigh; "auto" decides on evidence, "search"
      takes the best of 100 values by criterion E (§4.1), each solve starting from the last.
      In a subspace Q̄ is scaled by its own range there.
    * `subspace`, `assign`, `solver`, `tol`, `max_iter`: as in `ConstrainedSpectral`.

    After `fit`: `labels_` (n,), `embedding_` Z (n, K) with orthonormal columns, `eigenvalues_`
    (K,), `graph_`, `report_`.
    """

    gamma: float | str = "auto"

    _parameter: ClassVar[str | None] = "gamma"

    def _family(
        self, graph: Graph, laplacian: NormalizedLaplacian, known: Constraints, k: int
    ) -> PenalizedFamily:
        must, cannot = balanced(known, laplacian.nodes)
        penalty = local_operator(cannot + must.times(-1.0), laplacian, known.nodes, scaled=False)
        if isinstance(self.gamma, str):
            steps = tuple(np.linspace(0, 1, _STEPS + 2)[1:-1].tolist())
            grids = (_SMOOTH_GAMMAS, _EXACT_GAMMAS, _RIVAL_GAMMAS)
            values = grids if self.gamma == "auto" else (steps, steps, steps)
        else:
            values = ((float(self.gamma),),) * 3
        return PenalizedFamily(
            graph,
            k,
            np.ones(laplacian.size),
            ("sphere",),
            *values,
            free=isinstance(self.gamma, str),
            problem=PenalizedProblem(laplacian, penalty),
            columns=k,
            weights=lambda gamma: (1.0 - gamma, gamma),
            normalized=True,
        )

    def _check_parameter(self) -> None:
        if isinstance(self.gamma, str):
            check_choice(self.gamma, ("auto", "search"), "gamma")
        elif not 0 <= check_number(self.gamma, "gamma", "0 <= gamma < 1") < 1:
            raise InputError(f"gamma: {self.gamma} is out of range; give 0 <= gamma < 1")

    @property
    def _by_criterion(self) -> bool:
        return self.gamma == "search"
