"""Laplacian-eigenmaps label propagation, LELP and LELPC (AB09 §5.2).

The one-dimensional embedding of the graph in which labelled nodes sit at their labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mustlink.check import check_positive
from mustlink.cost.method_cost import Cost, clamped_propagation
from mustlink.propagate.energies import LaplacianEnergy
from mustlink.propagate.gfhf import harmonic
from mustlink.propagate.propagator import Propagator
from mustlink.propagate.solution import Solution
from mustlink.propagate.task import Task


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

    def _solve(self, task: Task) -> Solution:
        if not self.orthogonal:
            return Solution(*harmonic(task), {"orthogonal": False})
        root = np.sqrt(task.copies)[:, None]
        U, convergence = task.minimise(  # of u = C^½f
            LaplacianEnergy(task.laplacian, normalized=True),
            root * task.Y,
            weight=float(self.alpha) * (task.labels_held / task.copies),
            balance=task.laplacian.root_degree,
            scale=root[:, 0],
        )
        return Solution(U / root, convergence, {"orthogonal": True, "alpha": float(self.alpha)})
