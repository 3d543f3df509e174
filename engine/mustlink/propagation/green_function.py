"""Label propagation by the graph's Green's function (Ding et al. 2007; AB09 §3.6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mustlink.propagation.problem import PropagationProblem, Solution, over
from mustlink.propagation.propagator import Propagator


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
