"""Local tangent space alignment, LTSA (Zhang & Zha 2004; AB09 §5.1): LTSALP without labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mustlink.embedding.graph_embedding import GraphEmbedding
from mustlink.embedding.smoothest_of_fits import SOLVERS, Finding, smoothest_of_fits
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.propagate.ltsalp import alignment_energy, check_directions
from mustlink.propagate.neighborhoods import located
from mustlink.result import EigenResult
from mustlink.workspace import Workspace


@dataclass(eq=False, repr=False)
class LTSA(GraphEmbedding):
    """min Σ_i ‖(I − G_iG_iᵀ)f_i‖², f ⟂ 1, ‖f‖² = n (AB09 eq. 35): the least that bends tangents.

    f_i are the values on point i and its neighbours, G_i = [1/√(k+1), g_1 … g_d] the constant and
    the d leading directions of their centred coordinates. Coordinates that are linear on every
    neighbourhood cost nothing: flat surfaces are unrolled up to a linear map.

    * `n_components` d: coordinates, and directions in a fit; less than `n_neighbors`.
    * `n_neighbors`, `solver`, `tol`: as in `LLE`.

    A neighbourhood holds the point itself, as in the paper by Zhang & Zha; scikit-learn's
    `method="ltsa"` leaves it out. Needs points. Cost as of `LLE`.
    """

    _solvers: ClassVar[tuple[str, ...]] = SOLVERS

    def _check(self) -> None:
        super()._check()
        check_directions(self.n_components, self.n_neighbors)

    def _embed(
        self, work: Workspace, laplacian: NormalizedLaplacian, points: Any, seed: int
    ) -> EigenResult:
        points, k = located(points, self.metric), int(self.n_neighbors)
        d = int(self.n_components)
        energy = alignment_energy(points, laplacian, k, d, work.recorder)
        finding = Finding(d, self.solver, self.tol, int(self.max_iter), seed)
        return smoothest_of_fits(work, laplacian, energy, points, finding)
