"""Local and global consistency, LGC or LLGC (Zhou et al. 2003; AB09 §3.4; WD12 Alg. 2).

Every node may change its label: f = (1 − α)(I − αS)⁻¹y, the limit of f ← αSf + (1 − α)y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mustlink.check import check_share
from mustlink.propagate.glp import LaplacianEnergy
from mustlink.propagate.propagator import Propagator
from mustlink.propagate.task import Solution, Task


@dataclass(eq=False, repr=False)
class LLGC(Propagator):
    """Soft labels on the normalised Laplacian: min fᵀL̄f + μ‖f − y‖², μ = (1 − α)/α (AB09 eq. 14).

    * `alpha` in (0, 1): how far labels travel; 0.99 (scikit-learn's LabelSpreading takes 0.2).

    y is 0 on unlabelled nodes, which are drawn to 0 too. Cost: some √(1/(1 − α)) products, or a few
    multigrid cycles for α close to 1. See `Propagator` for the rest.
    """

    alpha: float = 0.99

    def _check_parameters(self) -> None:
        check_share(self.alpha, "alpha")

    def _solve(self, task: Task) -> Solution:
        alpha, root = float(self.alpha), np.sqrt(task.copies)[:, None]
        U, convergence = task.minimise(  # of u = C^½f
            LaplacianEnergy(task.laplacian, normalized=True),
            task.labels_held[:, None] / root * task.Y,
            weight=np.full(task.size, (1.0 - alpha) / alpha),
        )
        return Solution(U / root, convergence, {"alpha": alpha})
