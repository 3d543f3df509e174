"""Laplacian eigenmaps, LE (Belkin & Niyogi 2003; AB09 §5.1): what LELP is without labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mustlink.eigen.plain_solve import PLAIN_SOLVERS
from mustlink.eigen.solver import smallest_pairs
from mustlink.embedding.graph_embedding import GraphEmbedding, signed
from mustlink.operators.laplacian import NormalizedLaplacian
from mustlink.result import EigenResult
from mustlink.workspace import Workspace


@dataclass(eq=False, repr=False)
class LaplacianEigenmaps(GraphEmbedding):
    """min fᵀ(D − W)f, f ⟂ D1, fᵀDf = 1ᵀD1 (AB09 eq. 33): (D − W)f = λDf, λ > 0 the least.

    Near nodes are kept near. The columns are scikit-learn's `SpectralEmbedding` on the same graph,
    but for their length: weighted by degrees, their mean square is 1.

    * `tol` bounds ‖L̄g − λg‖ of g = D^½f; None takes 1e-8, and 1e-4 / 1e-3 from 20,000 / 200,000
      nodes on. `solver` as in `NCut`: auto, dense, lobpcg, shift-invert, lanczos or chebyshev.

    Takes points, an affinity or a Graph. Cost: a few tens of products with a block of d + 3
    columns; the vectors are kept with the graph.
    """

    _needs_points: ClassVar[bool] = False
    _solvers: ClassVar[tuple[str, ...]] = PLAIN_SOLVERS

    def _embed(
        self, work: Workspace, laplacian: NormalizedLaplacian, points: Any, seed: int
    ) -> EigenResult:
        how: Any = {"solver": self.solver, "tol": self.tol, "max_iter": int(self.max_iter)}
        found = smallest_pairs(work, int(self.n_components), seed=seed, **how)
        G = signed(laplacian, np.asarray(found.vectors, dtype=np.float64))
        F = G / laplacian.root_degree[:, None] * np.sqrt(laplacian.volume)
        return replace(found, vectors=F)
