"""Locally linear embedding label propagation, LLELP and LLELPC (AB09 §5.1, §5.2).

The one-dimensional locally linear embedding in which labelled points sit at their labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.check import check_positive
from mustlink.cost.method_cost import Cost
from mustlink.eigen.work import MEMORY
from mustlink.kernels.local_fits import reconstruction_weights
from mustlink.kernels.spmm import spmm, spmm_axpby
from mustlink.observe import Recorder
from mustlink.operators.edges import Edges
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.propagate.generalized import Fit, Floats, Ints, System
from mustlink.propagate.neighborhoods import as_matrix, embed, located, neighbourhoods
from mustlink.propagate.problem import PropagationProblem, Solution
from mustlink.propagate.propagator import Propagator


@dataclass(eq=False, repr=False)
class LLELP(Propagator):
    """min ‖(I − W)f‖² with f = y on labelled nodes: f_u = −M_uu⁻¹M_ul y (AB09 eq. 32, 38).

    W reconstructs every point from its neighbours with the least error, rows summing to 1
    (eq. 31); M = (I − W)ᵀ(I − W).

    * `orthogonal=True` is LLELPC (eq. 39-41): min fᵀMf + αΣ_labelled (f_i − y_i)², f ⟂ 1.
    * `alpha` > 0: weight of the labels in LLELPC; LLELP has none.
    * `reg` > 0: ridge of the local fits, as a share of the squared distances.
    * `n_neighbors`: neighbours in a fit, the nearest of the graph.

    Needs points. M is never formed. Cost: O(n k²(d + k)) for the fits, then multigrid steps of
    ten sparse products each. M hardly sees whatever is locally linear in the coordinates, at any
    scale, and some hundred steps are common. Default `tol`: 1e-10 up to 20,000 nodes, 1e-4 up
    to 200,000, 1e-3 above. See `Propagator`.
    """

    reg: float = 1e-3
    orthogonal: bool = False
    alpha: float = 1.0

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY})
    _needs_points: ClassVar[bool] = True

    def cost(self, n_classes: int | None = None) -> Cost:
        """One equation for each class; its condition, so its steps, depend on the points."""
        return replace(super().cost(n_classes), most_steps=int(self.max_iter))

    def _are_masses(self) -> bool:
        return False

    def _check_parameters(self) -> None:
        check_positive(self.alpha, "alpha")
        check_positive(self.reg, "reg")

    def _solve(self, problem: PropagationProblem) -> Solution:
        points, k = located(problem.coordinates, self.metric), int(self.n_neighbors)
        reg, recorder = float(self.reg), problem.recorder
        energy = reconstruction_energy(points, problem.work.laplacian, k, reg, recorder)
        solution = embed(problem, energy, bool(self.orthogonal), float(self.alpha))
        solution.choices["reg"] = reg
        return solution


def reconstruction_energy(
    points: NDArray[np.floating[Any]],
    laplacian: NormalizedLaplacian,
    k: int,
    reg: float,
    recorder: Recorder,
) -> ReconstructionEnergy:
    """LLE's M of points (m, d), fitted on the k nearest neighbours in their graph."""
    with recorder.stage("local fits"):
        lists = neighbourhoods(points, laplacian, k, recorder)
        W = as_matrix(reconstruction_weights(points, lists, reg), lists)
    return ReconstructionEnergy(W, laplacian.pattern, laplacian.weights)


@dataclass(frozen=True, eq=False)
class ReconstructionEnergy:
    """M = (I − W)ᵀC(I − W) for W (m, m) with rows that sum to 1; `edges` join near nodes.

    `copies` (m,), the diagonal of C, are how many every node stands for; None: 1 each.
    """

    W: sp.csr_matrix
    edges: Edges
    copies: Floats | None = None

    @cached_property
    def _transposed(self) -> sp.csr_matrix:
        return self.W.T.tocsr()

    @property
    def size(self) -> int:
        """Number of nodes m."""
        return int(self.W.shape[0])

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b)."""
        R = spmm_axpby(self.W, X, X, -1.0, 1.0)
        if self.copies is not None:
            R *= self.copies[:, None]
        return spmm_axpby(self._transposed, R, R, -1.0, 1.0)

    def matrix(self) -> sp.csr_matrix:
        """M, of some k² entries a row."""
        A: Any = sp.identity(self.size, format="csr") - self.W
        B = A if self.copies is None else sp.diags_array(self.copies) @ A
        return sp.csr_matrix(A.T @ B)

    def system(self, free: Ints, weight: Floats) -> System:
        """AᵀA + diag(weight), A the columns `free` of C^½(I − W)."""
        A: Any = sp.identity(self.size, format="csr") - self.W
        if self.copies is not None:
            A = sp.csr_matrix(sp.diags_array(np.sqrt(self.copies)) @ A)
        A = sp.csr_matrix(A[:, free])
        A.sort_indices()
        T = A.T.tocsr()
        A32, T32 = (_single(V) for V in (A, T))

        def galerkin(P: sp.csr_matrix) -> sp.csr_matrix:
            Z = sp.csr_matrix(A @ P)
            return sp.csr_matrix(Z.T.tocsr() @ Z)

        fit = Fit(
            lambda X: spmm(T, spmm(A, X)),
            lambda X: spmm(T32, spmm(A32, X)),
            galerkin,
            np.bincount(A.indices, weights=A.data**2, minlength=free.size).astype(np.float64),
        )
        return fit.system(self.edges.among(free), weight)


def _single(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Values in single precision, indices shared."""
    data: NDArray[np.float32] = matrix.data.astype(np.float32)
    return sp.csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)
