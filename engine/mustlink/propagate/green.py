"""Labels by the graph's Green's function (Ding et al. 2007; AB09 §3.6): f = L⁺y.

Labels as electric charges, the answer their potential; LLGC in the limit of strong smoothing, with
the constant removed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mustlink.operators.laplacian import Block
from mustlink.propagate.propagator import Propagator
from mustlink.propagate.solution import Solution
from mustlink.propagate.task import Task


@dataclass(eq=False, repr=False)
class GreenFunction(Propagator):
    """f = L⁺ŷ, L = D − W, its zero mode left out in every component (AB09 §3.6).

    * `normalized=True` takes L̄: the limit α → 1 of LLGC without its constant.

    The same equation as `Poisson`, whose charges are balanced by the mean label instead of a
    uniform background. Cost: about 15 multigrid cycles.
    """

    normalized: bool = False

    def _are_masses(self) -> bool:
        return False

    def _minimises(self) -> bool:
        return False

    def _solve(self, task: Task) -> Solution:
        root, copies = task.laplacian.root_degree[:, None], task.copies[:, None]
        charges: Block = task.labels_held[:, None] * task.Y  # of all copies of a node
        if self.normalized:
            U, convergence = task.potential(charges / np.sqrt(copies))
            return Solution(U / np.sqrt(copies), convergence, {"normalized": True})
        # L⁺ = P D^-½ L̄⁺ D^-½ P with P the projection that takes the component's mean away.
        charges = charges - copies * task.mean_over_components(charges)
        F, convergence = task.potential(charges / root)
        F = F / root
        centred = F - task.mean_over_components(copies * F)
        return Solution(centred, convergence, {"normalized": False})
