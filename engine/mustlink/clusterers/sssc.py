"""Penalised spectral clustering, SSSC (WHC11, Algorithm 1).

1, 2  similarities S with S_ii = 0                 `Graph`
3  Q: −β/|ML| for must-links, α/|CL| for cannot-links (eq. 11; signs: see `SSSC`): weights by
   `constraints.links.balanced`, put together in `SSSC._formulation`
4, 5  Q̄ = Q/(λ_max − λ_min), without the shift     `PenalizedProblem(normalized=True)`
6, 7  D, L̄ = I − D^-½SD^-½                         `NormalizedLaplacian`, built once a graph
8  Z: the K lowest eigenvectors of (1 − γ)L̄ + γQ̄  `PenalizedProblem.solve`
9  rows of Z on the unit sphere                 rounding "sphere", then k-means
§3.4  K = 2: the first vector with both signs   rounding "sign"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mustlink.clusterers.informed_clusterer import ConstrainedSpectral
from mustlink.constraints import Constraints
from mustlink.constraints.links import balanced, unbalanced
from mustlink.core.check import check_choice, check_number
from mustlink.eigen.penalized import PenalizedProblem
from mustlink.errors import InputError
from mustlink.operators.constraint_operator import local_operator
from mustlink.operators.protocol import PlacedLaplacian
from mustlink.selection.constrained_fit import (
    Formulation,
    KnownGraph,
    ParameterValues,
    of_copies,
    row_scale,
)

_GAMMAS = ParameterValues(
    smooth=(0.3, 0.5, 0.1),
    exact=(0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    rivals=(0.1, 0.5),
)
_STEPS = 100  # values tried by a search (WHC11 §4.1)


@dataclass(eq=False, repr=False)
class SSSC(ConstrainedSpectral):
    """K clusters from the K lowest eigenvectors of (1 − γ)L̄ + γQ̄ (WHC11 eq. 16).

    Q_ij = −b_ij/|ML| for must-links and +b_ij/|CL| for cannot-links of belief b_ij, and
    Q̄ = Q/(λ_max − λ_min): the paper's eq. 11 has these signs reversed, which would reward broken
    constraints; its shift by λ_min moves all eigenvalues alike and is left out. Rows are set on the
    unit sphere.

    * `gamma`: how much the constraints weigh, 0 <= γ < 1; "auto" decides on evidence, "search"
      takes the best of 100 values by criterion E (§4.1), each solve starting from the last.
      In a subspace Q̄ is scaled by its own range there.
    * `balanced`: True divides weights by |ML| and |CL| (eq. 11): a few links of one kind weigh
      as much as many of the other; with False all links weigh alike. "auto" is eq. 11
      with `subspace="exact"` or `gamma="search"`, else False. The paper's weights β of must-links
      and α of cannot-links are `Constraints.weighted(must=β, cannot=α)`; their ratio counts.
    * `assign`: how vectors become clusters: "sphere" (Alg. 1), "kmeans", for K = 2 "sign": vectors
      of one sign are rejected, the next one is cut at 0 (§3.4), or "split", at the value that keeps
      most constraints; "auto".
    * `subspace`, `solver`, `tol`, `max_iter`: as in `ConstrainedSpectral`.

    After `fit`: `labels_` (n,), `embedding_` Z (n, K) with orthonormal columns, `eigenvalues_`
    (K,), `graph_`, `report_`.
    """

    gamma: float | str = "auto"
    balanced: bool | str = "auto"

    _parameter: ClassVar[str | None] = "gamma"
    _assignments: ClassVar[tuple[str, ...]] = ("auto", "sign", "split", "kmeans", "sphere")

    def _formulation(
        self, graph: KnownGraph, laplacian: PlacedLaplacian, known: Constraints, k: int
    ) -> Formulation:
        by_kind = self.balanced
        if isinstance(by_kind, str):
            by_kind = self.subspace == "exact" or self._by_criterion
        must, cannot = (balanced if by_kind else unbalanced)(known, laplacian.nodes)
        change = cannot + must.times(-1.0)
        if graph.weights is not None:
            change = change.between(row_scale(graph))
        Q = local_operator(change, laplacian, known.nodes, scaled=False)
        problem = PenalizedProblem(
            laplacian, Q, columns=k, weights=lambda gamma: (1.0 - gamma, gamma), normalized=True
        )
        roundings = ("sphere", "sign", "split") if k == 2 else ("sphere",)
        weighing = "balanced" if by_kind else "alike"
        return Formulation(problem, of_copies(graph, laplacian), roundings, self._grid(), weighing)

    def _grid(self) -> ParameterValues:
        """The values of γ to choose from; one if the caller gave it."""
        if self.gamma == "auto":
            return _GAMMAS
        if isinstance(self.gamma, str):
            return ParameterValues.of(*np.linspace(0, 1, _STEPS + 2)[1:-1].tolist())
        return ParameterValues.of(float(self.gamma))

    def _check_parameter(self) -> None:
        if isinstance(self.gamma, str):
            check_choice(self.gamma, ("auto", "search"), "gamma")
        elif not 0 <= check_number(self.gamma, "gamma", "0 <= gamma < 1") < 1:
            raise InputError(f"gamma: {self.gamma} is out of range; give 0 <= gamma < 1")
        if not isinstance(self.balanced, bool | np.bool_) and self.balanced != "auto":
            raise InputError(f'balanced: {self.balanced!r} given; give True, False or "auto"')

    def _in_memory_only(self) -> dict[str, bool]:
        return {**super()._in_memory_only(), "gamma": self.gamma == "search"}

    @property
    def _by_criterion(self) -> bool:
        return self.gamma == "search"
