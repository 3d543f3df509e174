"""Laplacian-eigenmaps label propagation, LELP and LELPC (AB09 §5.2).

The one-dimensional embedding of the graph in which labelled nodes sit at their labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mustlink.check import check_positive
from mustlink.cost.method_cost import Cost, clamped_propagation
from mustlink.propagate.gfhf import harmonic
from mustlink.propagate.problem import PropagationProblem, Solution, over
from mustlink.propagate.propagator import Propagator


@dataclass(eq=False, repr=False)
class LELP(Propagator):
    """min fᵀ(D − W)f with f = y on labelled nodes (AB09 eq. 36): the same as GFHF.

    * `orthogonal=True` is LELPC (AB09 eq. 39-41): min fᵀL̄f + αΣ_labelled (f_i − y_i)², f ⟂ D^½1.
    * `alpha` > 0: weight of the labels in LELPC; LELP has none.

    Cost: about 15 multigrid cycles.
    """

    orthogonal: bool = False
    alpha: float = 1.0

    def cost(self, n_classes: int | None = None) -> Cost:
        """One equation for each class, of LELP among the nodes without a label."""
        usual = super().cost(n_classes)
        return usual if self.orthogonal else clamped_propagation(usual.columns)

    def _are_masses(self) -> bool:
        return not self.orthogonal

    def _check_parameters(self) -> None:
        check_positive(self.alpha, "alpha")

    def _solve(self, problem: PropagationProblem) -> Solution:
        if not self.orthogonal:
            return Solution(*harmonic(problem), {"orthogonal": False})
        space, alpha = problem.space, float(self.alpha)
        root = space.rowwise(np.sqrt, problem.copies)
        U, convergence = problem.minimise(  # of u = C^½f
            space.scaled(problem.Y, root),
            normalized=True,
            weight=problem.share_labelled(alpha),
            balance=problem.laplacian.root_degree,
            scale=root,
        )
        F = space.rowwise(over, U, root)
        return Solution(F, convergence, {"orthogonal": True, "alpha": alpha})
