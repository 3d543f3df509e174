"""Tikhonov regularisation on graphs, TIKREG (Belkin, Matveeva & Niyogi 2004; AB09 §3.3).

A regression of the labels that is smooth on the graph and balanced: f ⟂ 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from mustlink.check import check_positive
from mustlink.propagate.glp import LaplacianEnergy
from mustlink.propagate.propagator import Propagator
from mustlink.propagate.task import Solution, Task


@dataclass(eq=False, repr=False)
class TikReg(Propagator):
    """min γfᵀ(D − W)f + Σ_labelled (f_i − y_i)², f ⟂ 1: f = (γL + I_k)⁻¹(ŷ + μ1) (AB09 eq. 10-12).

    * `gamma` > 0: weight of smoothness against the labels.

    The orthogonality makes the classes' scores sum to zero over the nodes; it is also the relaxed
    ratio cut with soft labels (AB09 eq. 26). Cost: about 15 multigrid cycles on K + 1 columns.
    """

    gamma: float = 0.01

    def _are_masses(self) -> bool:
        return False

    def _check_parameters(self) -> None:
        check_positive(self.gamma, "gamma")

    def _solve(self, task: Task) -> Solution:
        F, convergence = task.minimise(
            LaplacianEnergy(task.laplacian, factor=float(self.gamma)),
            weight=task.labels_held,
            balance=task.copies,
        )
        return Solution(F, convergence, {"gamma": float(self.gamma)})
