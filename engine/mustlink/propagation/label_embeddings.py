"""Label propagation as an embedding, LELP, LLELP, LTSALP and their variants …C (AB09 §5).

The one-dimensional embedding in which labelled nodes sit at their labels: of Laplacian eigenmaps,
of locally linear embedding, or as linear as possible on every neighbourhood's tangent space.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.context.method_cost import Cost, clamped_propagation
from mustlink.core.check import as_integer, check_positive
from mustlink.core.observe import Recorder
from mustlink.eigen.plain_solve import default_tolerance
from mustlink.eigen.work import MEMORY
from mustlink.errors import InputError
from mustlink.kernels.local_fits import Alignment, reconstruction_weights, tangent_frames
from mustlink.kernels.spmm import spmm, spmm_axpby
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.operators.protocol import Edges
from mustlink.propagation.generalized import (
    Energy,
    Floats,
    Ints,
    System,
    fit_system,
    in_single,
    minimised,
)
from mustlink.propagation.gfhf import harmonic
from mustlink.propagation.lnp import as_matrix, located, neighbourhoods
from mustlink.propagation.problem import PropagationProblem, Solution
from mustlink.propagation.propagator import Propagator

_LARGE = 20_000  # nodes from which a looser residual is asked for
_NOTHING = 1e-12  # share of a node's memberships below which a diagonal entry is rounding


# --- of the graph


@dataclass(eq=False, repr=False)
class LELP(Propagator):
    """min fᵀ(D − W)f with f = y on labelled nodes (AB09 eq. 36): the same as GFHF.

    * `orthogonal=True` balances the classes by a side condition, LELPC (AB09 eq. 39-41): min fᵀL̄f
      + αΣ_labelled (f_i − y_i)², f ⟂ D^½1.
    * `alpha` > 0: weight of the labels in LELPC; LELP has none.

    Cost: about 15 multigrid cycles.
    """

    orthogonal: bool = False
    alpha: float = 1.0

    def cost(self, n_classes: int | None = None) -> Cost:
        """One equation for each class, of LELP among the nodes without a label."""
        usual = super().cost(n_classes)
        return usual if self.orthogonal else clamped_propagation(usual.columns)

    @property
    def _are_masses(self) -> bool:
        return not self.orthogonal

    def _check_parameters(self) -> None:
        check_positive(self.alpha, "alpha")

    def _solve(self, problem: PropagationProblem) -> Solution:
        if not self.orthogonal:
            return Solution(*harmonic(problem), {"orthogonal": False})
        alpha = float(self.alpha)
        F, convergence = problem.minimise(
            normalized=True,
            weight=problem.share_labelled(alpha),
            balance=problem.laplacian.root_degree,
            scale=problem.space.rowwise(np.sqrt, problem.copies),
        )
        return Solution(F, convergence, {"orthogonal": True, "alpha": alpha})


# --- of points, by local fits


@dataclass(eq=False, repr=False)
class EmbeddingPropagator(Propagator):
    """Base of LLELP and LTSALP: an embedding of points in which labels sit (AB09 §5.2).

    Labels are held, or with `orthogonal=True` weighted by α, and f ⟂ 1. Without `tol` graphs of
    more than 20,000 nodes are solved to 1e-4, and of more than 200,000 to 1e-3: with a smaller
    residual less than one label in a thousand was measured to change.
    """

    orthogonal: bool = False
    alpha: float = 1.0

    homes: ClassVar[frozenset[str]] = frozenset({MEMORY})
    _needs_points: ClassVar[bool] = True

    def cost(self, n_classes: int | None = None) -> Cost:
        """One equation for each class; its condition, so its steps, depend on the points."""
        return replace(super().cost(n_classes), most_steps=int(self.max_iter))

    _are_masses = False

    def _check_parameters(self) -> None:
        check_positive(self.alpha, "alpha")

    def _placed(
        self, problem: PropagationProblem, energy: Energy, choices: dict[str, Any]
    ) -> Solution:
        """The embedding of least energy, with the choices."""
        recorder, solving, size = problem.recorder, problem.solving, problem.size
        orthogonal, alpha = bool(self.orthogonal), float(self.alpha)
        if solving.tol is None and size > _LARGE:
            solving = replace(solving, tol=default_tolerance(size))
        Y, weight = problem.believed(problem.Y, alpha * problem.labels_held if orthogonal else None)
        if orthogonal:
            none, delta = np.empty(0, dtype=np.int64), problem.copies[:, None]
            F, convergence = minimised(energy, Y, none, weight, delta, recorder, solving)
            return Solution(F, convergence, {"orthogonal": True, "alpha": alpha, **choices})
        # M1 = 0: labels less their mean need no steps for constants, and rows sum to 1 even where
        # the solution is not unique.
        mean, held = 1.0 / problem.n_classes, np.flatnonzero(problem.labelled)
        F, convergence = minimised(energy, Y - mean, held, weight, None, recorder, solving)
        return Solution(F + mean, convergence, {"orthogonal": False, **choices})


# --- locally linear embedding (AB09 §5.1)


@dataclass(eq=False, repr=False)
class LLELP(EmbeddingPropagator):
    """min ‖(I − W)f‖² with f = y on labelled nodes: f_u = −M_uu⁻¹M_ul y (AB09 eq. 32, 38).

    W reconstructs every point from its neighbours with the least error, rows summing to 1
    (eq. 31); M = (I − W)ᵀ(I − W).

    * `orthogonal=True` balances the classes by a side condition, LLELPC (eq. 39-41): min fᵀMf +
      αΣ_labelled (f_i − y_i)², f ⟂ 1.
    * `alpha` > 0: weight of the labels in LLELPC; LLELP has none.
    * `reg` > 0: ridge of the local fits, as a share of the squared distances.
    * `n_neighbors`: neighbours in a fit, the nearest of the graph.

    Needs points. M is never formed. Cost: O(n k²(d + k)) for the fits, then multigrid steps of
    ten sparse products each. M hardly sees whatever is locally linear in the coordinates, at any
    scale, and some hundred steps are common. Default `tol`: 1e-10 up to 20,000 nodes, 1e-4 up
    to 200,000, 1e-3 above. See `Propagator`.
    """

    reg: float = 1e-3

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive(self.reg, "reg")

    def _solve(self, problem: PropagationProblem) -> Solution:
        points, k = located(problem.work.points, self.metric), int(self.n_neighbors)
        reg, laplacian = float(self.reg), problem.work.laplacian
        energy = reconstruction_energy(points, laplacian, k, reg, problem.recorder)
        return self._placed(problem, energy, {"reg": reg})


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

    `copies` (m,) are the diagonal of C; None: 1 each.
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
        A32, T32 = in_single(A), in_single(T)

        def galerkin(P: sp.csr_matrix) -> sp.csr_matrix:
            Z = sp.csr_matrix(A @ P)
            return sp.csr_matrix(Z.T.tocsr() @ Z)

        return fit_system(
            lambda X: spmm(T, spmm(A, X)),
            lambda X: spmm(T32, spmm(A32, X)),
            galerkin,
            np.bincount(A.indices, weights=A.data**2, minlength=free.size).astype(np.float64),
            self.edges.among(free),
            weight,
        )


# --- local tangent space alignment (AB09 §5.1)


@dataclass(eq=False, repr=False)
class LTSALP(EmbeddingPropagator):
    """min Σ_i ‖(I − G_iG_iᵀ)f_i‖² with f = y on labelled nodes: f_u = −M_uu⁻¹M_ul y (AB09 eq. 38).

    f_i are the values on point i and its neighbours, G_i = [1/√(k+1), g_1 … g_d] the constant and
    the d leading directions of their centred coordinates (Zhang & Zha 2004).

    * `n_components`: directions d of a neighbourhood, at most `n_neighbors` − 1; what depends
      linearly on d coordinates of a neighbourhood costs nothing.
    * `orthogonal=True` balances the classes by a side condition, LTSALPC (eq. 39-41): min fᵀMf +
      αΣ_labelled (f_i − y_i)², f ⟂ 1.
    * `alpha` > 0: weight of the labels in LTSALPC; LTSALP has none.
    * `n_neighbors`: neighbours in a fit, the nearest of the graph.

    With few labels on many points values are nearly constant and one class may take all, as with
    `GFHF`: LTSALPC balances them (MNIST, 5 labels a class: 48 % right, LTSALPC 93 %).

    Needs points. M is never formed. Cost: O(n k²(D + k)) for the frames, then some 20 multigrid
    steps of five products of 4n(k+1)(d+1) operations a column. Default `tol` as in `LLELP`. See
    `Propagator`.
    """

    n_components: int = 2

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_directions(self.n_components, self.n_neighbors)

    def _solve(self, problem: PropagationProblem) -> Solution:
        points, k = located(problem.work.points, self.metric), int(self.n_neighbors)
        d, laplacian = int(self.n_components), problem.work.laplacian
        energy = alignment_energy(points, laplacian, k, d, problem.recorder)
        return self._placed(problem, energy, {"n_components": d})


def check_directions(n_components: Any, n_neighbors: Any) -> None:
    """Raise InputError where so many tangents explain all of a neighbourhood."""
    d = as_integer(n_components, "n_components", 1)
    if d >= as_integer(n_neighbors, "n_neighbors", 1):
        raise InputError(
            f"n_components: {d} directions explain all of {n_neighbors} neighbours; give "
            "fewer, or more n_neighbors"
        )


def alignment_energy(
    points: NDArray[np.floating[Any]],
    laplacian: NormalizedLaplacian,
    k: int,
    d: int,
    recorder: Recorder,
) -> AlignmentEnergy:
    """LTSA's M of points (m, D): d tangents on every one and its k nearest graph neighbours."""
    with recorder.stage("local fits"):
        lists = neighbourhoods(points, laplacian, k, recorder)
        own = np.arange(laplacian.size, dtype=np.int32)[:, None]
        frames = tangent_frames(points, lists, d)
        M = Alignment(np.hstack([own, lists]), frames, laplacian.size, laplacian.weights)
    return AlignmentEnergy(M, laplacian.pattern)


@dataclass(frozen=True, eq=False)
class AlignmentEnergy:
    """M = Σ_i c_i E_i (I − G_iG_iᵀ) E_iᵀ, c_i copies of node i; `edges` join near nodes."""

    alignment: Alignment
    edges: Edges

    @property
    def size(self) -> int:
        """Number of nodes m."""
        return self.alignment.size

    def apply(self, X: Block) -> Block:
        """MX for a block (m, b)."""
        return self.alignment.apply(X)

    def matrix(self) -> sp.csr_matrix:
        """M, of some k² entries a row."""
        return self.alignment.galerkin(sp.identity(self.size, format="csr"))

    def system(self, free: Ints, weight: Floats) -> System:
        """Rows and columns `free` of M + diag(weight).

        A node that every tangent space explains, as among few neighbours, has a zero row in M, and
        gets 0.
        """
        M = self.alignment.restricted(free)
        weight = weight + np.where(M.diagonal > _NOTHING * M.total, 0.0, M.total)
        near = self.edges.among(free)
        return fit_system(M.apply, M.single.apply, M.galerkin, M.diagonal, near, weight)
