"""The normalised cut, relaxed, with some labels (AB09 eq. 30, which the paper leaves unexplored).

The smoothest g = D^½f that is balanced, g ⟂ D^½1, and close to the known labels D^½y.
"""

from __future__ import annotations

from dataclasses import dataclass

from mustlink.core.check import check_positive
from mustlink.propagation.problem import PropagationProblem, Solution
from mustlink.propagation.propagator import Propagator


@dataclass(eq=False, repr=False)
class NCutPropagation(Propagator):
    """min gᵀL̄g + αΣ_labelled (g_i − √d_i y_i)², g ⟂ D^½1 (AB09 eq. 30); the answer is f = D^-½g.

    * `alpha` > 0: weight of the labels against the cut.

    (L̄ + αI_k)g = αD^½ŷ + μD^½1, with μ such that g ⟂ D^½1: the classes' scores, weighted by
    degrees, sum to zero. Cost: about 15 multigrid cycles on K + 1 columns.
    """

    alpha: float = 10.0

    _are_masses = False

    def _check_parameters(self) -> None:
        check_positive(self.alpha, "alpha")

    def _solve(self, problem: PropagationProblem) -> Solution:
        alpha, root = float(self.alpha), problem.laplacian.root_degree
        weight = problem.share_labelled(alpha)
        F, convergence = problem.minimise(normalized=True, weight=weight, balance=root, scale=root)
        return Solution(F, convergence, {"alpha": alpha})
