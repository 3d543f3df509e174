"""Locally linear embedding, LLE (Roweis & Saul 2000; AB09 §5.1): what LLELP is without labels."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from mustlink.check import check_positive
from mustlink.embedding.graph_embedding import GraphEmbedding
from mustlink.embedding.smoothest_of_fits import SOLVERS, Finding, smoothest_of_fits
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.propagate.llelp import reconstruction_energy
from mustlink.propagate.neighborhoods import located
from mustlink.result import EigenResult
from mustlink.workspace import Workspace


@dataclass(eq=False, repr=False)
class LLE(GraphEmbedding):
    """min ‖(I − W)f‖², f ⟂ 1, ‖f‖² = n (AB09 eq. 31, 32): eigenvectors of M = (I − W)ᵀ(I − W).

    W reconstructs every point from its neighbours with the least error, rows summing to 1. The
    columns are scikit-learn's `LocallyLinearEmbedding` with the same neighbours, but for their
    length: their mean square is 1.

    * `reg` > 0: ridge of the local fits, as a share of the squared distances.
    * `n_neighbors`: neighbours in a fit.
    * `solver`: "dense" (LAPACK), "shift-invert" (sparse factors of M), "lobpcg" (products and
      multigrid), "auto": dense up to 1,000 nodes, factors where they are foretold to fit in
      `memory`, 2 GB if none is given, else lobpcg. `tol`: of factors the relative error of λ, 1e-8
      if None; of lobpcg ‖Mf − λf‖ as a share of ‖M‖‖f‖, 1e-6 if None. Eigenvalues of M may be 10⁻⁹
      of ‖M‖: coordinates that lobpcg cannot tell from others are a warning.

    Needs points. Cost: O(n k²(D + k)) for the fits; factors of points near a surface have some 100
    entries a row, and take seconds for 10⁵.
    """

    _: KW_ONLY
    reg: float = 1e-3

    _solvers: ClassVar[tuple[str, ...]] = SOLVERS

    def _check(self) -> None:
        super()._check()
        check_positive(self.reg, "reg")

    def _embed(
        self, work: Workspace, laplacian: NormalizedLaplacian, points: Any, seed: int
    ) -> EigenResult:
        points, k = located(points, self.metric), int(self.n_neighbors)
        energy = reconstruction_energy(points, laplacian, k, float(self.reg), work.recorder)
        finding = Finding(int(self.n_components), self.solver, self.tol, int(self.max_iter), seed)
        return smoothest_of_fits(work, laplacian, energy, points, finding)
