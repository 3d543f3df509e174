"""Local tangent space alignment label propagation, LTSALP and LTSALPC (AB09 §5.1, §5.2).

The one-dimensional embedding that is as linear as possible on every neighbourhood's tangent space,
and in which labelled points sit at their labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mustlink.check import as_integer, check_positive
from mustlink.cost.method_cost import Cost
from mustlink.eigen.work import MEMORY
from mustlink.errors import InputError
from mustlink.kernels.alignment import Alignment
from mustlink.kernels.local_fits import tangent_frames
from mustlink.observe import Recorder
from mustlink.operators.edges import Edges
from mustlink.operators.laplacian import Block, NormalizedLaplacian
from mustlink.propagate.generalized import Fit, Floats, Ints, System
from mustlink.propagate.neighborhoods import embed, located, neighbourhoods
from mustlink.propagate.problem import PropagationProblem, Solution
from mustlink.propagate.propagator import Propagator

_NOTHING = 1e-12  # share of a node's memberships below which a diagonal entry is rounding


@dataclass(eq=False, repr=False)
class LTSALP(Propagator):
    """min Σ_i ‖(I − G_iG_iᵀ)f_i‖² with f = y on labelled nodes: f_u = −M_uu⁻¹M_ul y (AB09 eq. 38).

    f_i are the values on point i and its neighbours, G_i = [1/√(k+1), g_1 … g_d] the constant and
    the d leading directions of their centred coordinates (Zhang & Zha 2004).

    * `n_components`: d, at most `n_neighbors` − 1; what depends linearly on d coordinates of a
      neighbourhood costs nothing.
    * `orthogonal=True` is LTSALPC (eq. 39-41): min fᵀMf + αΣ_labelled (f_i − y_i)², f ⟂ 1.
    * `alpha` > 0: weight of the labels in LTSALPC; LTSALP has none.
    * `n_neighbors`: neighbours in a fit, the nearest of the graph.

    With few labels on many points values are nearly constant and one class may take all, as with
    `GFHF`: LTSALPC balances them (MNIST, 5 labels a class: 48 % right, LTSALPC 93 %).

    Needs points. M is never formed. Cost: O(n k²(D + k)) for the frames, then some 20 multigrid
    steps of five products of 4n(k+1)(d+1) operations a column. Default `tol` as in `LLELP`. See
    `Propagator`.
    """

    n_components: int = 2
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
        check_directions(self.n_components, self.n_neighbors)

    def _solve(self, problem: PropagationProblem) -> Solution:
        points, k = located(problem.coordinates, self.metric), int(self.n_neighbors)
        d, recorder = int(self.n_components), problem.recorder
        energy = alignment_energy(points, problem.work.laplacian, k, d, recorder)
        solution = embed(problem, energy, bool(self.orthogonal), float(self.alpha))
        solution.choices["n_components"] = d
        return solution


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

        A node that every tangent space explains, as among few neighbours, has a zero row in M:
        any value will do, and it gets 0.
        """
        M = self.alignment.restricted(free)
        weight = weight + np.where(M.diagonal > _NOTHING * M.total, 0.0, M.total)
        fit = Fit(M.apply, M.single.apply, M.galerkin, M.diagonal)
        return fit.system(self.edges.among(free), weight)
