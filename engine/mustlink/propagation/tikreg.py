"""Labels fitted, smooth, balanced: TIKREG (AB09 §3.3) and the relaxed normalised cut (eq. 30)."""

from __future__ import annotations

from dataclasses import dataclass

from mustlink.core.check import check_positive
from mustlink.propagation.problem import PropagationProblem, Solution
from mustlink.propagation.propagator import Propagator


@dataclass(eq=False, repr=False)
class TikReg(Propagator):
    """min γfᵀ(D − W)f + (1/ℓ)Σ_labelled (f_i − y_i)², f ⟂ 1, ℓ the number of labels (AB09 eq. 10).

    f = (ℓγ(D − W) + I_k)⁻¹(ŷ + μ1), μ such that f ⟂ 1 (eq. 11 and 12; Belkin et al. 2004, §3.1).

    * `gamma` > 0: weight of smoothness against the mean square of what labels miss. Labels are held
      as it goes to 0; from 0.1 on f hardly changes but in size. Degrees count: weights 10 times as
      large want a tenth of it.

    ℓ counts every copy of a node that has a label. The orthogonality makes the classes' scores sum
    to zero over the nodes; it is also the relaxed ratio cut with soft labels (AB09 eq. 26). Cost:
    about 15 multigrid cycles on K + 1 columns.
    """

    gamma: float = 0.001

    _are_masses = False

    def _check_parameters(self) -> None:
        check_positive(self.gamma, "gamma")

    def _solve(self, problem: PropagationProblem) -> Solution:
        gamma, count = float(self.gamma), problem.class_counts.sum()
        F, convergence = problem.minimise(
            factor=gamma,
            weight=problem.space.rowwise(lambda held: held / count, problem.labels_held),
            balance=problem.copies,
        )
        return Solution(F, convergence, {"gamma": gamma})


# --- The normalised cut, relaxed, with some labels (AB09 eq. 30, which the paper leaves unexplored)


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
