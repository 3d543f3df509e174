"""Labels as charges: Poisson learning (Calder et al., ICML 2020).

Labels are sources and sinks instead of boundary values, and values are their potential. Harmonic
values of a handful of labels are nearly constant with spikes at the labels; the potential is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mustlink.core.check import check_choice
from mustlink.propagation.answers import class_shares
from mustlink.propagation.problem import Array, PropagationProblem, Solution, over
from mustlink.propagation.propagator import Propagator

CENTERS = ("auto", "rows", "degrees")
_OF_POINTS = ("knn", "kneighbors", "rbf", "representatives")  # kinds of graphs


@dataclass(eq=False, repr=False)
class Poisson(Propagator):
    """(D − W)f = Σ_labelled (y_j − ȳ)δ_j with Σ_i c_i f_i = 0, ȳ the mean label (Calder eq. 2.6).

    * `center`: the weights c_i, by which 0 decides between the classes. "rows": c_i is 1, or the
      number of rows of a node. "degrees": c_i = d_i, Calder's; of points with many equal rows, 1 %
      of the nodes may have 90 % of the degrees, and 0 is where they are. "auto": rows where the
      graph is one of points, degrees where the input is a graph.
    * `class_mass`: shares (K,) of the classes, "equal" or "smoothed": values are multiplied by
      share/ȳ_c (Calder §2.3). False and True take the shares of the labels for those of the
      classes, which Calder's equations without a share do.

    In every component the mean is that of its own labels, so that the charges sum to zero. Cost:
    about 15 multigrid cycles, or 40 products with 24 smooth vectors of the graph, which keeps them
    (`eigen.memory_work`): with those the residual may be larger for the same bound on the error.
    """

    # Labels drawn at random, 18 sets, ARI with equal shares beside the labels' own: letter .28 for
    # .01, Statlog-like soils .69 for .44, dermatology .94 for .46, digits .89 for .85, two classes
    # the same; a network of five very uneven classes .72 for .79, glass .26 for .33.
    class_mass: Any = "equal"
    center: str = "auto"

    _counts_labels: ClassVar[bool] = True
    _are_masses = False
    _scales_classes = True
    _minimises = False

    def _check_parameters(self) -> None:
        check_choice(self.center, CENTERS, "center")

    def _solve(self, problem: PropagationProblem) -> Solution:
        space, table = problem.space, problem.labels_in_parts
        mean = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)  # of every component

        def charges(Y: Array, held: Array, part: Array, root: Array) -> Array:
            B, at = np.zeros(Y.shape), np.flatnonzero(held > 0)  # few: most rows have no charge
            B[at] = over((Y[at] - mean[part[at]]) * held[at, None], root[at])
            return B

        where = problem.laplacian.null.component, problem.laplacian.root_degree
        X, convergence = problem.potential(
            space.rowwise(charges, problem.Y, problem.labels_held, *where)
        )
        F, center = problem.to_embedding(X), self.center
        if center == "auto":
            center = "rows" if problem.work.info.get("kind") in _OF_POINTS else "degrees"
        if center == "rows":
            F = problem.centred(F)
        counts = problem.class_counts
        shares = class_shares(self.class_mass, counts)
        if shares is not None and self.class_mass is not True:
            space.blend(F, shares / (counts / counts.sum()))
        return Solution(F, convergence, {"center": center})


# --- Label propagation by the graph's Green's function (Ding et al. 2007; AB09 §3.6)


@dataclass(eq=False, repr=False)
class GreenFunction(Propagator):
    """f = L⁺ŷ, L = D − W, its zero mode left out in every component (AB09 §3.6).

    * `normalized=True` takes the normalised Laplacian L̄: the limit α → 1 of LLGC without its
      constant.

    The same equation as `Poisson`, whose charges are balanced by the mean label instead of a
    uniform background. Cost: about 15 multigrid cycles.
    """

    normalized: bool = False

    _are_masses = False
    _minimises = False

    def _solve(self, problem: PropagationProblem) -> Solution:
        space, root = problem.space, problem.space.rowwise(np.sqrt, problem.copies)
        charges = space.scaled(problem.Y, problem.labels_held)  # of all copies of a node
        if self.normalized:
            U, convergence = problem.potential(space.rowwise(over, charges, root))
            return Solution(space.rowwise(over, U, root), convergence, {"normalized": True})
        # L⁺ = P D^-½ L̄⁺ D^-½ P with P the projection that takes the component's mean away.
        mean = problem.mean_over_parts(charges)
        space.blend(charges, 1.0, (space.scaled(mean, problem.copies), -1.0))
        U, convergence = problem.potential(problem.to_embedding(charges))
        return Solution(
            problem.centred(problem.to_embedding(U)), convergence, {"normalized": False}
        )
